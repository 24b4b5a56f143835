"""The live demonstration: every role over real HTTP, its mishaps, and what its logs may hold."""

import base64
import contextlib
import io
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rase.cli.demo import document_of, line_of, opening_words, summary_words
from rase.cli.demo.gateway import GatewayFailed
from rase.cli.demo.live import HOURS, LiveDemo, LiveRound, LiveSummary, Setting
from rase.errors import PrivacyRefused
from rase.subscriber.answers import FusionUnreachable

SMALL = Setting(homes=700, days=2, high_w=1500.0, shuffled_epsilon=3.0)


@dataclass(frozen=True)
class Lived:
    """What is left of a whole demonstration."""

    rounds: list[LiveRound]
    summary: LiveSummary
    identities: list[str]
    server_logs: str
    screen: str
    k_min: int
    connections: Counter[str]


def counted(connections: Counter[int], patch: pytest.MonkeyPatch) -> None:
    """Count the connections that each server takes, by its port."""
    made = HttpToolsProtocol.connection_made

    def count(protocol: HttpToolsProtocol, transport: Any) -> None:
        connections[transport.get_extra_info("sockname")[1]] += 1
        made(protocol, transport)

    patch.setattr(HttpToolsProtocol, "connection_made", count)


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
    identities = []
    connections: Counter[int] = Counter()
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stderr(shown),
            contextlib.redirect_stdout(shown),
        ):
            counted(connections, patch)
            demo = LiveDemo(SMALL, seed=2026, folder=folder)
            with demo:
                rounds = list(demo.run())
                summary = demo.summary()
                ports = {
                    int(url.rpartition(":")[2]): role
                    for role, url in (
                        ("shuffler", demo.servers.shuffler_url),
                        ("fusion", demo.servers.fusion_url),
                    )
                }
                for credential, key in zip(demo.credentials, demo.device_keys, strict=True):
                    identities += [credential, *_write_out(key)]
                lines = [*opening_words(demo), *(line_of(one, high=700.0) for one in rounds)]
                lines += summary_words(demo, summary)
                shown.write("\n".join(lines))
                shown.write(str(document_of(demo, rounds, summary)))
    finally:
        logging.getLogger().removeHandler(handler)
    logs = [folder / role / "log" for role in ("shuffler", "fusion")]
    return Lived(
        rounds=rounds,
        summary=summary,
        identities=identities,
        server_logs="\n".join(log.read_text() for log in logs),
        screen=shown.getvalue(),
        k_min=demo.campaign.k_min,
        connections=Counter({ports.get(one, ""): count for one, count in connections.items()}),
    )


def _write_out(data: bytes) -> Iterator[str]:
    yield data.hex()
    yield base64.b64encode(data).decode().rstrip("=")
    yield base64.urlsafe_b64encode(data).decode().rstrip("=")


def lines_naming(identities: Iterable[str], text: str) -> list[str]:
    """Return the lines in which an identity stands, or one half of it."""
    known = {part for name in identities for part in name.split(".")}
    words = re.compile(r"[\w+/-]+")
    return [line for line in text.splitlines() if known.intersection(words.findall(line))]


def test_hours_come_in_order_and_one_is_withheld(lived: Lived) -> None:
    """A subscriber gets every hour, in order; the one in which most are offline has no value."""
    times = [one.answer.time[11:16] for one in lived.rounds]
    assert times == [f"{hour % HOURS:02d}:00" for hour in range(2 * HOURS)]
    withheld = [hour for hour, one in enumerate(lived.rounds) if one.answer.value is None]
    assert withheld == [29]
    assert all(one.answer.n >= lived.k_min for one in lived.rounds if one.answer.value is not None)


def test_estimates_are_of_the_fleet_and_near_the_truth(lived: Lived) -> None:
    """Each is within six of its standard errors of the mean of all homes; seeded."""
    for one in lived.rounds:
        if one.answer.value is not None:
            assert one.answer.target == "fleet"
            assert one.answer.standard_error is not None
            assert abs(one.answer.value - one.truth) < 6 * one.answer.standard_error
    assert lived.summary.released == 2 * HOURS - 1
    assert lived.summary.covered >= 0.8 * lived.summary.released
    assert lived.summary.rmse < lived.summary.half_width


def test_the_level_shift_is_in_the_truth(lived: Lived) -> None:
    """From noon of the second day every home uses a quarter more."""
    noon, before = lived.rounds[36], lived.rounds[35]
    assert noon.note == "from now on every home uses a quarter more"
    assert noon.truth > 1.15 * before.truth


def test_every_report_is_accounted_for(lived: Lived) -> None:
    """Repeated, tampered and withheld reports are counted where they went."""
    found = lived.summary
    assert found.sent == found.accepted + found.repeated
    # All homes of an hour fit into one request, whose answer was lost.
    assert found.repeated == lived.rounds[3].answer.n
    assert (found.unopened, found.withheld) == (1, 1)
    assert found.withheld_reports == lived.k_min - 1
    assert found.accepted == sum(one.answer.n for one in lived.rounds) + 1 + lived.k_min - 1


def test_gateway_and_closer_keep_their_connections(lived: Lived) -> None:
    """48 rounds take one of each; publishing, the subscriber and the registrar have their own."""
    assert lived.connections["shuffler"] <= 16
    assert lived.connections["fusion"] <= 8


def test_days_are_answered(lived: Lived) -> None:
    """The daily window answers with 24 and with 23 of 24 hours."""
    assert [answer.rounds for answer, _ in lived.summary.days] == [24, 23]
    for answer, truth in lived.summary.days:
        assert answer.value is not None
        assert answer.standard_error is not None
        assert abs(answer.value - truth) < 6 * answer.standard_error


def test_nothing_is_left_behind(lived: Lived) -> None:
    """The databases hold no sealed and no noisy report at the end."""
    assert (lived.summary.envelopes_left, lived.summary.values_left) == (0, 0)


def test_no_identity_in_any_log(lived: Lived) -> None:
    """No credential or key of a home is logged or shown, next to a value or not."""
    assert len(lived.identities) == 4 * SMALL.homes
    assert len(lived.server_logs.splitlines()) > 2 * HOURS
    assert lines_naming(lived.identities, f"{lived.server_logs}\n{lived.screen}") == []


def test_the_search_would_find_an_identity(lived: Lived) -> None:
    """The search is not blind: one planted line is found, whole or by its public half."""
    credential = lived.identities[0]
    for planted in (f"n=24 device={credential}", f"{credential.partition('.')[0]} 17.25"):
        assert lines_naming(lived.identities, f"{lived.server_logs}\n{planted}") == [planted]


def test_no_value_in_any_log(lived: Lived) -> None:
    """Servers log whole numbers alone."""
    words = lived.server_logs.split()
    assert [word for word in words if re.search(r"\d\.\d", word)] == []


def test_both_promises_are_printed(lived: Lived) -> None:
    """What holds towards the fusion centre stands with what is left if both servers collude."""
    assert "guesses which of two values yours was" in lived.screen
    assert "If both servers work together" in lived.screen


def test_too_small_a_crowd_is_refused() -> None:
    """Where no law keeps the promise among so few, nothing is started."""
    tiny = replace(SMALL, homes=60, shuffled_epsilon=1e-7)
    with pytest.raises(PrivacyRefused):
        tiny.campaign()


def test_a_round_that_never_becomes_final_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent fusion centre is a named error, also where there is no folder in memory."""
    monkeypatch.setattr("rase.cli.demo.live._IN_MEMORY", "/nowhere")
    with LiveDemo(replace(SMALL, homes=100, days=1)) as demo:
        monkeypatch.setattr(demo.servers.has_final, "wait", lambda timeout: False)
        with pytest.raises(FusionUnreachable, match="did not become final"):
            next(demo.run())


def test_a_fleet_that_dies_is_an_error() -> None:
    """If the process of the homes ends, the demonstration says so instead of waiting."""
    with LiveDemo(replace(SMALL, homes=100, days=1)) as demo:
        demo.gateway.kill()
        with pytest.raises(GatewayFailed, match="has ended"):
            next(demo.run())
