"""``rase shuffler``: settings, tokens, countersigning, and how failures end it."""

import base64
import json
import os
import re
import signal
import socket
import threading
from pathlib import Path
from typing import Any, TextIO

import pytest
from tests.enrolling import enrol
from tests.patience import PATIENCE_S
from tests.registering import REGISTRAR_KEY

from rase.campaign import Campaign
from rase.cli import main
from rase.service.keyring import PublicKeys
from rase.service.settings import load_settings
from rase.service.telemetry import Telemetry
from rase.shuffler.program import run_closer
from rase.shuffler.settings import ShufflerSettings
from rase.storage.sqlite import open_sqlite
from rase.wire import cbor
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.private_files import write_private
from rase.wire.signed import PinnedKeys, SignedCampaign, SignedKeyset, campaign_bytes, signature_of

FUSION = SigningKey.generate(Role.FUSION)
SHUFFLER = SigningKey.generate(Role.SHUFFLER)
NAME = "homes"
CAMPAIGN = Campaign.from_fields(
    {
        "id": NAME,
        "version": 1,
        "quantity": "power",
        "unit": "W",
        "low": 0.0,
        "high": 1.0,
        "steps": 10,
        "mechanism": "budget-aware",
        "beta": 0.5,
        "rho": 0.9,
        "epsilon": (1.0,),
        "window": 10,
        "window_budget": 10.0,
        "round_s": 60,
        "upload_s": 10,
        "grace_s": 20,
        "k_min": 3,
        "not_before": 0,
        "not_after": 10**8,
    }
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A complete settings file with its keys."""
    write_private(tmp_path / "signing.key", SHUFFLER.to_text())
    opener = OpeningKey.generate(Role.SHUFFLER, 1)
    write_private(tmp_path / "opening.key", opener.to_text())
    public = PublicKeys(
        role=Role.SHUFFLER,
        signing_key=SHUFFLER.public_bytes(),
        cache_s=3600,
        configs=(opener.config(not_before_s=0, not_after_s=2**35),),
    )
    (tmp_path / "public.json").write_text(public.to_text())
    path = tmp_path / "rase.toml"
    path.write_text(
        f"""
[shuffler]
database = "shuffler.db"
signing_key_file = "signing.key"
opening_key_files = ["opening.key"]
fusion_key = "{FUSION.public_bytes().hex()}"
registrar_key = "{REGISTRAR_KEY.hex()}"
fusion_url = "http://127.0.0.1:1"
[shuffler.policy]
max_epsilon = 2.0
max_window_budget = 20.0
min_k_min = 3
"""
    )
    return path


def rase(*arguments: object) -> int:
    """Run a command."""
    return main([str(argument) for argument in arguments])


def test_tokens_are_printed_once_each(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many lines as asked for, all different, and not in the database."""
    assert rase("shuffler", "enrol", "--config", config, "--count", 3, "--group", "north") == 0
    tokens = capsys.readouterr().out.split()
    assert len(set(tokens)) == 3
    stored = b"".join(path.read_bytes() for path in config.parent.iterdir())
    assert not any(token.partition(".")[2].encode() in stored for token in tokens)
    assert rase("shuffler", "enrol", "--config", config, "--valid", "soon") == 2
    assert "--valid: a duration must look like" in capsys.readouterr().err


def enrolled(config: Path, capsys: pytest.CaptureFixture[str], *, group: str, count: int) -> None:
    """Enrol some devices."""
    assert rase("shuffler", "enrol", "--config", config, "--count", count, "--group", group) == 0
    database = open_sqlite(config.parent / "shuffler.db", migrations="shuffler")
    for token in capsys.readouterr().out.split():
        enrol(database, token, number=int.from_bytes(os.urandom(16)), now_s=0.0)
    database.close()


def test_devices_are_listed_and_revoked(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names and groups with counts; a revoked device is gone, by its name in any case."""
    enrolled(config, capsys, group="north", count=2)
    enrolled(config, capsys, group="", count=1)
    assert rase("shuffler", "devices", "--config", config) == 0
    told = capsys.readouterr()
    lines = [line.split() for line in told.out.splitlines()]
    assert sorted(len(line) for line in lines) == [1, 2, 2]
    assert told.err == "3 enrolled; 2 in group north.\n"
    lost = next(line[0] for line in lines if line[1:] == ["north"])
    assert rase("shuffler", "revoke", lost.upper(), lost, "--config", config, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"schema": "rase/revoked/1", "revoked": [lost]}
    assert rase("shuffler", "devices", "--config", config, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "rase/devices/1"
    assert (document["count"], document["groups"]) == (2, {"": 1, "north": 1})
    left = {row["device"] for row in document["devices"]}
    assert left == {line[0] for line in lines} - {lost}
    for name in sorted(left):
        assert rase("shuffler", "revoke", name, "--config", config) == 0
    told = capsys.readouterr()
    assert told.out.split() == sorted(left)
    assert "within 5 seconds" in told.err


def test_members_of_a_campaign_are_listed_added_and_removed(
    config: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """By handle or by group; the list says who is limited, and every mistake is named."""
    (tmp_path / "proposal").write_bytes(
        cbor.encode([campaign_bytes(CAMPAIGN), signature_of(CAMPAIGN, FUSION)])
    )
    assert rase("shuffler", "countersign", tmp_path / "proposal", "--config", config) == 0
    capsys.readouterr()
    enrolled(config, capsys, group="north", count=2)
    enrolled(config, capsys, group="", count=1)

    def listed() -> list[dict[str, Any]]:
        assert rase("shuffler", "members", "list", NAME, "--config", config, "--json") == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["schema"], document["campaign"]) == ("rase/members/1", NAME)
        return list(document["members"])

    plain, one, _ = (row["device"] for row in listed())
    assert not any(row["is_limited"] for row in listed())
    members = ("shuffler", "members")
    assert rase(*members, "remove", NAME, "--group", "north", "--config", config) == 0
    assert "2 devices changed; running intakes notice within 5 seconds." in capsys.readouterr().err
    assert rase(*members, "add", NAME, one, "--only", "--config", config) == 0
    assert "1 device changed" in capsys.readouterr().err
    assert [(row["device"], row["is_limited"]) for row in listed()] == [(plain, False), (one, True)]
    assert rase(*members, "list", NAME, "--config", config) == 0
    told = capsys.readouterr()
    assert told.out.splitlines() == [f"{plain} (every campaign)", f"{one} north"]
    assert "2 may report to" in told.err
    assert rase(*members, "open", "--group", "north", "--config", config) == 0
    assert [row["is_limited"] for row in listed()] == [False, False, False]
    for wrong, words in (
        (("add", NAME), "Name devices by their handles, or by --group"),
        (("add", NAME, one, "--group", "north"), "and not both"),
        (("remove", NAME, "--group", "south"), "no enrolled device is in group 'south'"),
        (("add", "other", one), f"no campaign other here: there are {NAME}"),
        (("list", "other"), f"no campaign other here: there are {NAME}"),
        (("open", "x"), "16 hexadecimal digits"),
    ):
        assert rase(*members, *wrong, "--config", config) == 2
        assert words in capsys.readouterr().err
    assert rase("shuffler", "enrol", "--campaign", "No", "--config", config) == 2
    assert "lower-case letters" in capsys.readouterr().err


def test_revoking_names_what_is_wrong(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is none, one that is unknown, and none at all; nothing is revoked."""
    enrolled(config, capsys, group="", count=1)
    assert rase("shuffler", "devices", "--config", config) == 0
    (known,) = capsys.readouterr().out.split()
    for name, part in (
        ("x", "16 hexadecimal digits, got 'x'"),
        ("f" * 16, "16 hexadecimal digits"),
        ("-0x1".rjust(16, "0"), "16 hexadecimal digits"),
        ("0" * 16, "is not enrolled; nothing was revoked"),
    ):
        assert rase("shuffler", "revoke", known, name, "--config", config) == 2
        assert part in capsys.readouterr().err
    assert rase("shuffler", "revoke", "--config", config) == 2
    assert "DEVICE" in capsys.readouterr().err
    assert rase("shuffler", "devices", "--config", config) == 0
    assert capsys.readouterr().out.split() == [known]


def test_a_campaign_is_countersigned(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The signature is printed, and the signed campaign written where devices could verify it."""
    proposal, out = config.parent / "proposal", config.parent / "signed"
    proposal.write_bytes(cbor.encode([campaign_bytes(CAMPAIGN), signature_of(CAMPAIGN, FUSION)]))
    assert rase("shuffler", "countersign", proposal, "--config", config, "--out", out) == 0
    pinned = PinnedKeys(FUSION.public_bytes(), SHUFFLER.public_bytes(), REGISTRAR_KEY)
    signed = SignedCampaign.from_bytes(out.read_bytes(), pinned)
    printed = base64.urlsafe_b64decode(capsys.readouterr().out.strip() + "==")
    assert printed == signed.shuffler_signature


def test_a_keyset_is_countersigned(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kind of document is found by looking into it."""
    own = OpeningKey.from_text((config.parent / "opening.key").read_text())
    keys = [own, OpeningKey.generate(Role.FUSION, 1)]
    configs = tuple(key.config(not_before_s=0, not_after_s=2**39) for key in keys)
    keyset = Keyset(version=1, cache_s=60, configs=configs)
    proposal, out = config.parent / "proposal", config.parent / "signed"
    proposal.write_bytes(cbor.encode([keyset.to_bytes(), signature_of(keyset, FUSION)]))
    assert rase("shuffler", "countersign", proposal, "--config", config) == 6
    assert "its closer has not run yet" in capsys.readouterr().err
    stop = threading.Event()
    stop.set()
    settings = load_settings(ShufflerSettings, "shuffler", path=config)
    run_closer(settings, stop, telemetry=Telemetry("shuffler"))
    assert rase("shuffler", "countersign", proposal, "--config", config) == 0
    assert rase("shuffler", "countersign", proposal, "--config", config, "--out", out) == 0
    pinned = PinnedKeys(FUSION.public_bytes(), SHUFFLER.public_bytes(), REGISTRAR_KEY)
    assert SignedKeyset.from_bytes(out.read_bytes(), pinned).keyset == keyset
    assert len(capsys.readouterr().out.split()) == 2


def test_a_foreign_proposal_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A campaign that the fusion centre did not sign ends with the code of cryptography."""
    proposal = config.parent / "proposal"
    proposal.write_bytes(cbor.encode([campaign_bytes(CAMPAIGN), bytes(64)]))
    assert rase("shuffler", "countersign", proposal, "--config", config) == 6
    assert "not signed by the pinned key of the fusion" in capsys.readouterr().err


def test_all_mistakes_of_the_settings_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A nearly empty file lists everything that is missing or wrong, with exit code 3."""
    path = tmp_path / "rase.toml"
    path.write_text(
        '[shuffler]\nfusion_key = "x"\nfusion_url = "http://fusion.example"\nport = 99999\n'
        "[shuffler.policy]\nmax_carry_rounds = -1\n"
    )
    assert rase("shuffler", "run", "--config", path) == 3
    told = capsys.readouterr().err
    for part in (
        "shuffler.database must be given",
        "shuffler.policy.min_k_min must be given",
        "shuffler.policy.max_carry_rounds",
        "shuffler.fusion_key: must be the 32 bytes",
        "shuffler.fusion_url: must begin with https://",
        "shuffler.port",
    ):
        assert part in told
    path.write_text('[shuffler]\nfusion_url = "ftp://x"')
    assert rase("shuffler", "run", "--config", path) == 3
    assert "must be an address of http or https" in capsys.readouterr().err


@pytest.mark.uncovered
@pytest.mark.parametrize("part", ["all", "closer"])
def test_bad_keys_end_with_configuration(
    config: Path, part: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing, readable or foreign key file is told before anything is served."""
    monkeypatch.setattr("rase.shuffler.program.stop_with_parent", lambda *_: None)
    folder = config.parent
    (folder / "signing.key").chmod(0o644)
    assert rase("shuffler", "run", "--config", config, "--part", part) == 3
    assert "chmod 600" in capsys.readouterr().err
    (folder / "signing.key").unlink()
    write_private(folder / "signing.key", FUSION.to_text())
    assert rase("shuffler", "run", "--config", config, "--part", part) == 3
    assert "is of the fusion" in capsys.readouterr().err
    (folder / "signing.key").unlink()
    (folder / "opening.key").unlink()
    assert rase("shuffler", "run", "--config", config, "--part", part) == 3
    assert "No such file" in capsys.readouterr().err


@pytest.mark.uncovered
def test_bad_opening_keys_are_all_told(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The closer names every opening key that it cannot use; none is quoted."""
    monkeypatch.setattr("rase.shuffler.program.stop_with_parent", lambda *_: None)
    folder = config.parent
    write_private(folder / "b.key", "no key")
    write_private(folder / "c.key", OpeningKey.generate(Role.FUSION, 1).to_text())
    text = config.read_text().replace('["opening.key"]', '["missing", "b.key", "c.key"]')
    config.write_text(text)
    assert rase("shuffler", "run", "--config", config, "--part", "closer") == 3
    told = capsys.readouterr().err
    assert all(part in told for part in ("missing: No such", "b.key", "c.key is of the fusion"))
    assert rase("shuffler", "run", "--config", config) == 3
    told = capsys.readouterr().err
    assert all(part in told for part in ("missing: No such", "b.key", "c.key is of the fusion"))


def test_one_key_for_both_roles_is_refused(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pinned key of the fusion centre must not be the shuffler's own."""
    own = base64.urlsafe_b64encode(SHUFFLER.public_bytes()).decode()
    config.write_text(config.read_text().replace(FUSION.public_bytes().hex(), own))
    assert rase("shuffler", "run", "--config", config, "--part", "intake") == 3
    assert "different keys" in capsys.readouterr().err


def test_a_corrupt_database_is_told(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A damaged file ends the program at once, with what to do and exit code 3."""
    (config.parent / "shuffler.db").write_bytes(b"not a database" * 1000)
    for command in (["run", "--part", "intake"], ["enrol"]):
        assert rase("shuffler", *command, "--config", config) == 3
        assert "is damaged" in capsys.readouterr().err


def test_the_closer_stops_with_its_parent(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the parent's end of the pipe closes, or a signal comes, the closer ends well."""
    reading, writing = os.pipe()
    os.write(writing, b"x")
    os.close(writing)
    still_open, parent = os.pipe()
    with os.fdopen(reading) as closed, os.fdopen(still_open) as pipe:
        _check_stops(config, monkeypatch, closed=closed, pipe=pipe, parent=parent)
    assert "shuffler stopped" in capsys.readouterr().err


def _check_stops(
    config: Path, monkeypatch: pytest.MonkeyPatch, *, closed: TextIO, pipe: TextIO, parent: int
) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr("sys.stdin", closed)
    try:
        assert rase("shuffler", "run", "--config", config, "--part", "closer") == 0
        from rase.shuffler.program import stop_with_parent

        stop = threading.Event()
        stop_with_parent(stop, pipe)
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stop.wait(PATIENCE_S)
    finally:
        os.close(parent)
        join_watchers()
        for number, handler in before.items():
            signal.signal(number, handler)


def join_watchers() -> None:
    """Wait for the threads that watch a parent, which has ended."""
    for watcher in threading.enumerate():
        if watcher.name == "parent-watch":
            watcher.join(PATIENCE_S)


def test_a_parent_at_a_socket_is_one_too() -> None:
    """The pipes that uvloop gives to a child are sockets."""
    from rase.shuffler.program import stop_with_parent

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    stop = threading.Event()
    ours, parents = socket.socketpair()
    try:
        with ours, os.fdopen(os.dup(ours.fileno())) as pipe:
            stop_with_parent(stop, pipe)
            assert not stop.is_set()
            parents.close()
            assert stop.wait(PATIENCE_S)
    finally:
        join_watchers()
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_closer_without_a_parent_runs_on() -> None:
    """Under a service manager standard input is empty and no pipe; only a signal ends it."""
    from rase.shuffler.program import stop_with_parent

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    stop = threading.Event()
    try:
        with Path("/dev/null").open() as empty:
            stop_with_parent(stop, empty)
        stop_with_parent(stop, empty)
        assert not any(one.name == "parent-watch" for one in threading.enumerate())
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stop.wait(PATIENCE_S)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_password_file_for_the_broker_is_printed(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each enrolled device has a line as mosquitto reads it; no credential is in it."""
    enrolled(config, capsys, group="", count=2)
    assert rase("shuffler", "broker-users", "--config", config) == 0
    lines = capsys.readouterr().out.split()
    assert len(lines) == 2
    for line in lines:
        assert re.fullmatch(r"[0-9a-f]{16}:\$7\$101\$[A-Za-z0-9+/=]{16}\$[A-Za-z0-9+/=]{88}", line)
