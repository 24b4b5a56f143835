"""Real servers whose keys are rotated while they run: nothing is restarted, and nothing waits."""

import json
import signal
from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.live.counted import check_estimates, is_settled
from tests.live.installed import K_MIN, Fleet, Installed
from tests.live.running import rase
from tests.patience import PATIENCE_S, until

from rase.cli import main
from rase.service.keyring import read_keyset
from rase.wire.keys import Role

CACHE_S = 3


def quicken(installed: Installed) -> None:
    """Let keysets be kept for seconds, so that a rotation takes seconds."""
    for name in ("fusion/keyset.json", "fusion/public.json", "shuffler/public.json"):
        path = installed.folder / "installed" / name
        path.write_text(json.dumps(json.loads(path.read_text()) | {"cache_s": CACHE_S}))


def test_a_fusion_key_is_rotated_without_a_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rounds before and after the change become final with every report; none is parked."""
    installed = Installed(tmp_path, capsys)
    try:
        quicken(installed)
        installed.publish()
        place = tmp_path / "installed/fusion"
        config = installed.configs[Role.FUSION]
        keyset = place / "keyset.json"
        fleet = Fleet(installed, 4)
        try:
            until(lambda: bool(fleet.acknowledged()), logs=tmp_path)
            asked = ["keys", "rotate", str(place), "--publish-within", "15s"]
            assert main(asked) == 0
            publish = ["fusion", "publish-keys", str(keyset), "--config", str(config)]
            # On a busy machine the time to publish may be over: then another key takes its place.
            until(lambda: main(publish) == 0 or main([*asked, "--replace-pending"]) != 0)
            fleet.read_keys(installed)
            new = max(
                (one for one in read_keyset(keyset).configs if one.role is Role.FUSION),
                key=lambda one: one.not_before_s,
            )
            assert new.id >= 2
            assert "keys_reloaded count=2" in (tmp_path / "fusion.log").read_text()

            def is_after(round: int) -> bool:
                return fleet.campaign.round_end_s(round) >= new.not_before_s

            def full_after() -> int:
                counts = Counter(report.round for report in fleet.acknowledged())
                return sum(is_after(round) and n >= K_MIN for round, n in counts.items())

            until(lambda: full_after() >= 3, logs=tmp_path)
        finally:
            fleet.stop()
        # While two keys are in use rounds wait for a second batch: nobody sends meanwhile.
        until(lambda: is_settled(installed, fleet), logs=tmp_path)
        done = installed.rows(Role.FUSION, "SELECT round FROM rounds WHERE state = 'final'")
        assert sum(is_after(round) for (round,) in done) >= 3
        assert any(
            fleet.campaign.round_end_s(report.round) < new.not_before_s for report in fleet.reports
        )
        check_estimates(installed, fleet)
        assert installed.rows(Role.SHUFFLER, "SELECT round FROM outbox WHERE refusals > 0") == []
        # Nothing was restarted, and all say that they are well.
        assert all(server.process.poll() is None for server in installed.servers.values())
        urls = (installed.shuffler_url, installed.fusion_url)
        until(
            lambda: (
                {httpx.get(f"{url}/readyz", timeout=PATIENCE_S).text for url in urls} == {"ready\n"}
            ),
            logs=tmp_path,
        )
        assert installed.end() == [0, 0, 0, 0]
    finally:
        installed.kill()


@pytest.mark.slow
def test_both_servers_rotate_by_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each makes its next key, the fusion centre takes the shuffler's and publishes both."""
    installed = Installed(tmp_path, capsys)
    try:
        quicken(installed)
        installed.publish()
        for role, part, more in (
            (Role.SHUFFLER, "closer", ""),
            (Role.FUSION, "fusion", "adopt_shuffler_keys = true\n"),
        ):
            config, section = installed.configs[role], f"[{role}]\n"
            lines = f"{section}rotate_keys_s = {5 * CACHE_S}\n{more}"
            config.write_text(config.read_text().replace(section, lines, 1))
            installed.servers[part].stop()
            installed.servers[part].start()
        fleet = Fleet(installed, 4)
        try:

            def newest(role: Role) -> int:
                fleet.read_keys(installed)
                return max(one.id for one in fleet._keyset.configs if one.role is role)

            until(lambda: newest(Role.SHUFFLER) >= 3 and newest(Role.FUSION) >= 3, logs=tmp_path)
            seen = len(fleet.acknowledged())
            until(lambda: len(fleet.acknowledged()) >= seen + 12, logs=tmp_path)
        finally:
            fleet.stop()
        until(lambda: is_settled(installed, fleet), logs=tmp_path)
        check_estimates(installed, fleet)
        assert "keys_adopted" in (tmp_path / "fusion.log").read_text()
        assert installed.end() == [0, 0, 0, 0]
    finally:
        installed.kill()


def test_a_key_that_the_server_cannot_read_is_not_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says which key is missing; once the file can be read the key is published."""
    installed = Installed(tmp_path, capsys)
    try:
        installed.publish()
        place = tmp_path / "installed/fusion"
        until(
            lambda: bool(installed.rows(Role.FUSION, "SELECT part FROM heartbeat")), logs=tmp_path
        )
        # Stopped meanwhile: a server that looks between the two would read the key.
        fusion = installed.servers["fusion"].process
        fusion.send_signal(signal.SIGSTOP)
        rase(capsys, "keys", "rotate", place)
        (place / "keys/opening-2.key").chmod(0o644)
        fusion.send_signal(signal.SIGCONT)
        keyset, config = place / "keyset.json", installed.configs[Role.FUSION]
        assert main(["fusion", "publish-keys", str(keyset), "--config", str(config)]) == 3
        assert "does not hold key 2 of the keyset" in capsys.readouterr().err
        assert installed.rows(Role.SHUFFLER, "SELECT MAX(version) FROM keyset") == [(1,)]
        (place / "keys/opening-2.key").chmod(0o600)
        assert main(["fusion", "publish-keys", str(keyset), "--config", str(config)]) == 0
    finally:
        installed.kill()
