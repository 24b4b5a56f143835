"""Only keys that every running fusion centre holds are published; what is missing is seen."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fusion.conftest import (
    CAMPAIGN,
    KEYS,
    ROUND,
    Centre,
    app_of,
    ask,
    keyset,
    parcel,
    reports,
)
from tests.patience import PATIENCE_S
from tests.registering import modulus

from rase.cli.doctor import examine_work
from rase.clock import FakeClock
from rase.errors import ConfigurationError, UnknownKey
from rase.fusion import held_keys
from rase.fusion.held_keys import KeyNotHeld, check_held, wait_until_held
from rase.fusion.opening import BatchOpener
from rase.service.heartbeat import Heartbeat
from rase.wire.keys import OpeningKey, Role
from rase.wire.private_files import write_private


class Files:
    """Settings that name key files."""

    def __init__(self, folder: Path, *numbers: int) -> None:
        self.opening_key_files = [folder / f"{number}.key" for number in numbers]
        for path, number in zip(self.opening_key_files, numbers, strict=True):
            write_private(path, KEYS[number].to_text())


def beat(centre: Centre, *numbers: int) -> Heartbeat:
    """Let a fusion centre with some keys run."""
    heart = Heartbeat(
        centre.database,
        centre.clock,
        part="fusion",
        keys=lambda: [KEYS[number] for number in numbers],
    )
    heart.beat()
    return heart


def check(centre: Centre, files: Any, *numbers: int) -> None:
    """Compare a keyset of these keys."""
    check_held(centre.database, keyset(*numbers), settings=files, clock=centre.clock)


@pytest.mark.any_store
def test_all_that_run_must_hold_a_key(centre: Centre, tmp_path: Path) -> None:
    """One that has not read the new key is enough to publish nothing, until it ends."""
    first, second = sorted(KEYS)[:2]
    files = Files(tmp_path, first, second)
    beat(centre, first, second)
    check(centre, files, first, second)
    other = beat(centre, first)
    with pytest.raises(KeyNotHeld, match=f"not every one of the 2 .* holds key {second} ") as said:
        check(centre, files, first, second)
    assert said.value.exit_code == 3
    check(centre, files, first)
    other.stop()
    check(centre, files, first, second)


def test_one_that_runs_counts_more_than_files(centre: Centre, tmp_path: Path) -> None:
    """A file that the running process has not read opens nothing."""
    first, second = sorted(KEYS)[:2]
    files = Files(tmp_path, first, second)
    check(centre, files, first, second)
    beat(centre, first)
    with pytest.raises(KeyNotHeld, match=f"running fusion centre does not hold key {second} "):
        check(centre, files, first, second)


def test_where_none_runs_the_files_count(centre: Centre, tmp_path: Path) -> None:
    """They are what a server reads at its start; other bytes under a number are another key."""
    first, second = sorted(KEYS)[:2]
    with pytest.raises(KeyNotHeld, match=f"no file of opening_key_files holds key {second} "):
        check(centre, Files(tmp_path, first), first, second)
    path = tmp_path / f"{first}.key"
    path.unlink()
    files = Files(tmp_path)
    files.opening_key_files = [path]
    with pytest.raises(ConfigurationError):
        check(centre, files, first)
    other = OpeningKey.generate(KEYS[first].role, first, kem=KEYS[first].kem)
    write_private(path, other.to_text())
    with pytest.raises(KeyNotHeld):
        check(centre, files, first)


def test_a_server_that_is_reading_is_waited_for(
    centre: Centre, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For some seconds; then the refusal stands."""
    first, second = sorted(KEYS)[:2]
    files: Any = Files(tmp_path, first, second)
    heart = beat(centre, first)
    monkeypatch.setattr(held_keys, "_AGAIN_S", 0.0)
    asked: list[int] = []

    class Patient(FakeClock):
        def monotonic_s(self) -> float:
            asked.append(1)
            if len(asked) == 4:
                heart.stop()
            return 4.0 * len(asked)

    clock = Patient(centre.clock.now_s())
    wait_until_held(centre.database, keyset(first, second), settings=files, clock=clock)
    assert len(asked) == 4
    asked.clear()
    beat(centre, first)
    heart = beat(centre, first, second)
    with pytest.raises(KeyNotHeld):
        wait_until_held(centre.database, keyset(first, second), settings=files, clock=clock)


def test_a_batch_for_a_new_key_is_opened_without_a_restart(centre: Centre) -> None:
    """A key that was put there since the start is read when a batch names it."""
    first, second = sorted(KEYS)[:2]
    held = [KEYS[first]]
    opener = BatchOpener(held, processes=0, renewed=lambda: held)
    made = Centre(centre.database, centre.clock, opener=opener)
    sent = parcel(
        reports([5] * CAMPAIGN.k_min, key_id=second, round=ROUND), key_id=second, round=ROUND
    )
    with pytest.raises(UnknownKey, match="not held here") as caught:
        sent.deliver(made.intake)
    assert caught.value.problem == "key-not-held"
    held.append(KEYS[second])
    assert sent.deliver(made.intake).is_new
    assert made.intake.keys == (KEYS[first], KEYS[second])


@pytest.mark.uncovered
def test_new_keys_reach_the_processes_of_a_pool() -> None:
    """The old pool ends, the next batch gets one with the new keys; a closed one is survived."""
    first, second = sorted(KEYS)[:2]
    held = [KEYS[first]]
    from rase.wire.messages import Batch
    from rase.wire.signed import campaign_hash

    def batch(number: int) -> Batch:
        inner = tuple(reports([1, 2, 3], key_id=number))
        return Batch(campaign_hash(CAMPAIGN), ROUND, number, inner)

    with BatchOpener(held, processes=2, many=1, renewed=lambda: held) as opener:
        assert opener.open(batch(first), class_count=1, modulus=modulus()).refused_count == 0
        pool = opener._workers()
        held.append(KEYS[second])
        assert opener.open(batch(second), class_count=1, modulus=modulus()).refused_count == 0
        assert opener._workers() is not pool
        opener._workers().shutdown()
        assert opener.open(batch(second), class_count=1, modulus=modulus()).refused_count == 0


def test_readiness_says_which_key_is_missing(centre: Centre) -> None:
    """One in use sends batches elsewhere; the work of the process and late rounds are told, too."""
    first, second = sorted(KEYS)[:2]
    opener = BatchOpener([KEYS[first]], processes=0)
    made = Centre(centre.database, centre.clock, opener=opener)
    app = app_of(made)
    answer = ask(app, "GET", "/readyz")
    assert (answer.status_code, answer.text.splitlines()[0]) == (200, "ready")
    assert ask(app, "GET", "/readyz/all").status_code == 200
    made.publisher.publish_keyset(keyset(first, second, version=2))
    answer = ask(app, "GET", "/readyz")
    assert answer.status_code == 503
    assert f"key {second} is published and not held here" in answer.text
    assert "\nrase_fusion_keys_missing 1\n" in ask(app, "GET", "/metrics").text


def test_a_campaign_that_is_late_degrades(centre: Centre) -> None:
    """Batches may still be sent here, so a balancer does; monitoring sees it."""
    centre.clock.advance(10 * CAMPAIGN.round_s)
    app = app_of(centre)
    answer = ask(app, "GET", "/readyz")
    assert (answer.status_code, answer.text.splitlines()[0]) == (200, "degraded")
    assert "rounds behind" in answer.text
    assert ask(app, "GET", "/readyz/all").status_code == 503
    app.state.is_working = False
    answer = ask(app, "GET", "/readyz")
    assert answer.status_code == 503
    assert "its work failed the last time" in answer.text
    assert 'rase_fusion_rounds_behind{campaign="' in ask(app, "GET", "/metrics").text


def test_a_running_app_says_so(centre: Centre) -> None:
    """Its heartbeat stands in the database while it works."""
    import httpx
    from tests.fusion.conftest import served

    heart = Heartbeat(centre.database, centre.clock, part="fusion", keys=lambda: centre.opener.keys)
    with served(app_of(centre, heart=heart)) as url:
        assert httpx.get(f"{url}/readyz", timeout=PATIENCE_S).status_code == 200
    assert centre.count("heartbeat") == 1


@pytest.mark.any_store
def test_the_doctor_sees_keys_and_rounds_that_are_missing(centre: Centre) -> None:
    """In the database of a fusion centre, whether this machine runs it or not."""
    first, second = sorted(KEYS)[:2]
    settings = SimpleNamespace(database=centre.address, settle_s=60)
    assert examine_work("here", Role.FUSION, settings, centre.clock) == []
    beat(centre, first)
    (one,) = examine_work("here", Role.FUSION, settings, centre.clock)
    assert (one.level, one.check) == ("ok", "held keys")
    centre.publisher.publish_keyset(keyset(first, second, version=2))
    (one,) = examine_work("here", Role.FUSION, settings, centre.clock)
    assert one.level == "problem"
    assert f"key {second} is published" in one.text
    centre.clock.advance(10 * CAMPAIGN.round_s)
    (one,) = examine_work("here", Role.FUSION, settings, centre.clock)
    assert (one.level, one.check) == ("problem", "rounds")
    assert "rounds behind" in one.text
