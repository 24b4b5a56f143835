"""The live demonstration: every role over real HTTP, its mishaps, and what its logs may hold."""

import base64
import contextlib
import io
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from rase.cli.demo.live import LiveDemo, LiveRound, LiveSummary
from rase.cli.demo.words import live_line, opening_words, summary_words
from rase.device.folder import DeviceFolder
from rase.domain import Range
from rase.lab.fleet import SyntheticFleet
from rase.subscriber.answers import FusionUnreachable

DEVICES = 24
ROUNDS = 8
FLEET = SyntheticFleet(devices=DEVICES, days=1)
POWER = Range(0, 1000)


@dataclass(frozen=True)
class Lived:
    """What is left of a whole demonstration."""

    rounds: list[LiveRound]
    summary: LiveSummary
    identities: list[str]
    server_logs: str
    device_log: str
    screen: str
    k_min: int

    @property
    def logs(self) -> str:
        """All that was ever logged or shown."""
        return "\n".join((self.server_logs, self.device_log, self.screen))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that outlives the demonstration, in memory where there is one."""
    shared = Path("/dev/shm")  # noqa: S108 - throw-away folders of random names
    if not shared.is_dir():
        yield tmp_path_factory.mktemp("demo")
        return
    with TemporaryDirectory(dir=shared) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def lived(folder: Path) -> Lived:
    """Run a demonstration, keeping all that it logged and would show."""
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    logging.getLogger().addHandler(handler)
    try:
        with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(shown):
            demo = LiveDemo(
                FLEET, epsilon=2.0, value_range=POWER, rounds=ROUNDS, seed=2026, folder=folder
            )
            with demo:
                rounds = list(demo.run())
                summary = demo.summary()
                identities = [*FLEET.names, *demo.servers.tokens]
                identities += [device.name for device in demo.fleet.devices]
                for line in opening_words(
                    demo.campaign,
                    devices=DEVICES,
                    rounds=ROUNDS,
                    shuffler_url=demo.servers.shuffler_url,
                    fusion_url=demo.servers.fusion_url,
                ):
                    shown.write(f"{line}\n")
                for one in rounds:
                    shown.write(f"{live_line(one)}\n")
                for line in summary_words(summary, unit="W"):
                    shown.write(f"{line}\n")
    finally:
        logging.getLogger().removeHandler(handler)
    for place in range(DEVICES):
        home = DeviceFolder(folder / "devices" / f"{place:04d}")
        identities += [home.credential(), *_written(home.device_secret())]
    logs = [folder / role / "log" for role in ("shuffler", "fusion")]
    return Lived(
        rounds=rounds,
        summary=summary,
        identities=identities,
        server_logs="\n".join(log.read_text() for log in logs),
        device_log=(folder / "devices" / "log").read_text(),
        screen=shown.getvalue(),
        k_min=demo.campaign.k_min,
    )


def _written(secret: bytes) -> Iterator[str]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    for data in (secret, public):
        yield data.hex()
        yield base64.b64encode(data).decode().rstrip("=")
        yield base64.urlsafe_b64encode(data).decode().rstrip("=")


def lines_naming(identities: Iterable[str], text: str) -> list[str]:
    """Return the lines in which an identity stands, whole or without its secret half."""
    known = {part for name in identities for part in (name, name.partition(".")[0])}
    return [line for line in text.splitlines() if any(name in line for name in known)]


def test_rounds_come_one_an_hour(lived: Lived) -> None:
    """A subscriber gets every round, in order, with as many reports as came through."""
    assert [one.answer.time[11:16] for one in lived.rounds] == [f"{h:02d}:00" for h in range(8)]
    counts = [one.answer.n for one in lived.rounds]
    assert counts == [24, 24, 24, 23, 24, 0, 24, 24]
    statuses = [one.answer.status for one in lived.rounds]
    assert statuses == ["ok"] * 5 + ["too_few"] + ["ok"] * 2


def test_estimates_are_near_the_truth(lived: Lived) -> None:
    """Each estimate is within six of its standard errors; false alarms below 1e-7, seeded."""
    errors = []
    for one in lived.rounds:
        if one.answer.value is not None:
            assert one.answer.standard_error is not None
            errors.append(one.answer.value - one.truth)
            assert abs(errors[-1]) < 6 * one.answer.standard_error
    last = lived.rounds[-1].error_so_far
    assert last == pytest.approx(sum(errors) / len(errors))
    assert lived.summary.rmse < 2 * lived.summary.predicted


def test_every_report_is_accounted_for(lived: Lived) -> None:
    """Duplicates, the tampered report, late ones and withheld ones are counted where they went."""
    found = lived.summary
    late = DEVICES - lived.k_min + 1
    assert found.sent == found.accepted + found.repeated + found.late
    assert found.accepted == DEVICES * ROUNDS - late
    assert (found.repeated, found.unopened, found.late) == (3, 1, late)
    assert (found.released, found.withheld) == (ROUNDS - 1, 1)
    assert found.withheld_reports == lived.k_min - 1
    assert found.report_bytes == 143


def test_budgets_are_spent_once_a_round(lived: Lived) -> None:
    """A retry costs nothing, a report that came too late is paid for all the same."""
    assert lived.summary.epsilon_spent == 2.0 * ROUNDS


def test_nothing_is_left_behind(lived: Lived) -> None:
    """The databases hold no sealed and no noisy report at the end."""
    assert (lived.summary.envelopes_left, lived.summary.values_left) == (0, 0)


def test_no_identity_in_any_log(lived: Lived) -> None:
    """No name, token, credential or key of a device is logged or shown, next to a value or not."""
    assert len(lived.identities) > 8 * DEVICES
    assert len(lived.server_logs.splitlines()) > 2 * ROUNDS
    assert len(lived.device_log.splitlines()) > 2 * DEVICES * ROUNDS
    assert lines_naming(lived.identities, lived.logs) == []


def test_the_search_would_find_an_identity(lived: Lived) -> None:
    """The search is not blind: one planted line is found, whole or by its public half."""
    credential = next(name for name in lived.identities if "." in name)
    for planted in (f"n=24 device={credential}", f"{credential.partition('.')[0]} 17.25"):
        assert lines_naming(lived.identities, f"{lived.logs}\n{planted}") == [planted]


def test_no_value_in_any_log(lived: Lived) -> None:
    """Servers log whole numbers alone, devices no fraction but the seconds of a pause."""
    words = lived.server_logs.split()
    assert [word for word in words if re.search(r"\d\.\d", word)] == []
    words = [word for word in lived.device_log.split() if re.search(r"\d\.\d", word)]
    assert {word.partition("=")[0] for word in words} <= {"wait_s"}
    names = {word.partition("=")[0] for word in lived.server_logs.split() if "=" in word}
    known = {"attempt", "batches", "campaign", "n", "part", "round", "state", "host", "port"}
    assert names <= known


def test_a_fleet_too_small_is_never_told(tmp_path: Path) -> None:
    """One device alone gets too_few in every round, and the summary says so without an error."""
    demo = LiveDemo(
        SyntheticFleet(devices=1, days=1),
        epsilon=1.0,
        value_range=POWER,
        rounds=2,
        folder=tmp_path,
    )
    with demo:
        assert [one.answer.status for one in demo.run()] == ["too_few"] * 2
        summary = demo.summary()
    words = "\n".join(summary_words(summary, unit="W"))
    assert "0 released, 2 withheld" in words
    assert "root mean square" not in words


def test_a_round_that_never_becomes_final_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent fusion centre is a named error, also where there is no folder in memory."""
    monkeypatch.setattr("rase.cli.demo.live._IN_MEMORY", "/nowhere")
    fleet = SyntheticFleet(devices=4, days=1)
    with LiveDemo(fleet, epsilon=1.0, value_range=POWER, rounds=1) as demo:
        monkeypatch.setattr(demo.servers.has_final, "wait", lambda timeout: False)
        with pytest.raises(FusionUnreachable, match="did not become final"):
            next(demo.run())


@pytest.mark.uncovered
def test_a_day_of_the_demonstration_has_a_mean(folder: Path) -> None:
    """One hour of every day is withheld; the day answers with the other 23, unless strict."""
    with TemporaryDirectory(dir=folder) as name:
        demo = LiveDemo(
            SyntheticFleet(devices=8, days=1),
            epsilon=2.0,
            value_range=POWER,
            rounds=24,
            seed=2026,
            folder=Path(name),
        )
        with demo:
            rounds = list(demo.run())
            day = demo.servers.subscriber.window("24h")
            strict = demo.servers.subscriber.window("24h", strict=True)
    assert [one.answer.status for one in rounds].count("too_few") == 1
    assert (day.status, day.rounds, day.of_rounds) == ("ok", 23, 24)
    assert day.value is not None
    assert day.low is not None
    assert day.high is not None
    assert day.low <= sum(one.truth for one in rounds) / 24 <= day.high
    assert "23 rounds" in (day.verdict or "")
    assert (strict.status, strict.value) == ("too_few", None)
