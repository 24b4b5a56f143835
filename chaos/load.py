"""How much the intake holds: its highest steady rate, and what twice that and a stalled disk do.

The rate is that of one intake on SQLite, each report a request of its own and answered when it is
on the disk. Intake opens nothing, so these reports are not sealed.
"""

import json
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from benchmarks.loading.cost import resident_bytes
from benchmarks.loading.intakes import HOURS, Served, prepared, serving
from benchmarks.loading.setting import CAMPAIGN, Fleet

from chaos.evidence import INTAKE
from chaos.pressure import Pressed, Pressure
from rase.clock import SystemClock
from rase.lab.provenance import Measurement
from rase.shuffler.settings import LimitSettings

_P99_S: Final = 0.25
_CONNECTIONS: Final = 256
# More than reports may wait, so that the queue, not the senders, is what bounds them.
_CROWD: Final = 4096
# Whatever else runs may disturb one look.
_TRIES: Final = 3
_OVERLOADS: Final = ("overload", "stalled")


@click.command()
@click.option("--first", type=float, default=400.0, show_default=True, help="First rate tried.")
@click.option("--step", type=float, default=4.0, show_default=True, help="Seconds at each rate.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Where the result goes.")
def main(*, first: float, step: float, file: Path | None) -> None:
    """Find the highest steady rate of the intake, press it with twice that, and stall its disk."""
    measurement = Measurement(INTAKE)
    figures = _loaded(first, step)
    command = f"python -m chaos.load --first {first:g} --step {step:g}"
    document: dict[str, Any] = {
        "schema": "rase.load/1",
        **measurement.header(command, seed=None),
        **figures,
    }
    document["failures"] = list(_failures(document))
    click.echo(json.dumps(document, indent=1))
    if file is not None:
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if document["failures"]:
        sys.exit(1)


def _loaded(first: float, step: float) -> dict[str, Any]:
    fleet = Fleet(replace(CAMPAIGN, grace_s=2 * HOURS * 3600))
    with tempfile.TemporaryDirectory() as name, Pressure() as pressure:
        folder = Path(name)
        credentials = prepared(folder, fleet, devices=10_000, address=folder / "shuffler.db")
        database = folder / "shuffler.db"
        with serving(folder, credentials) as served:
            target = _Target(served, fleet, pressure)
            rate, calm = target.confirmed(target.highest(first, step), seconds=2 * step)
            over = target.overload(rate, seconds=2 * step)
            # The same with another writer that holds the database for half of the time.
            with _stalled(database, seconds=step):
                stalled = target.overload(rate, seconds=2 * step)
        with closing(sqlite3.connect(database)) as connection:
            ((stored,),) = connection.execute("SELECT count(*) FROM report").fetchall()
    return {
        "rate_a_second": round(rate),
        "steady": _told(calm),
        "connections": _CROWD,
        "max_waiting": LimitSettings().max_waiting,
        "overload": over,
        "stalled": {"stalled_s": step, **stalled},
        "accepted": target.accepted,
        "stored": stored,
    }


@contextmanager
def _stalled(path: Path, *, seconds: float) -> Iterator[None]:
    """Hold a database for a while, from now on, in the background."""
    held = threading.Event()

    def hold() -> None:
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            held.set()
            threading.Event().wait(seconds)
            database.execute("ROLLBACK")

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    yield
    thread.join()


class _Target:
    """An intake that is pressed with fresh reports: each device sends one for each past round."""

    def __init__(self, served: Served, fleet: Fleet, pressure: Pressure) -> None:
        self._served = served
        self._fleet = fleet
        self._pressure = pressure
        self._hour = int(SystemClock().now_s()) // 3600
        self._requests: list[bytes] = []
        self._rounds_used = 0
        self.accepted = 0

    def at(self, rate: float, *, seconds: float, connections: int) -> Pressed:
        """Press it for a while."""
        count = int(rate * seconds)
        while len(self._requests) < count:
            self._rounds_used += 1
            if self._rounds_used > HOURS - 4:
                raise click.ClickException("there are no more rounds to report for: shorten --step")
            self._requests += self._served.requests(self._fleet, self._hour - 1 - self._rounds_used)
        now, self._requests = self._requests[:count], self._requests[count:]
        pressed = self._pressure.press(
            self._served.ports[0], now, a_second=rate, connections=connections
        )
        self.accepted += pressed.statuses[201]
        _tell(f"{rate:.0f} a second: {_told(pressed)}")
        return pressed

    def highest(self, rate: float, step: float) -> float:
        """Return the highest rate that was held: doubled until it is not, then halved between."""
        held, missed = 0.0, 0.0
        while not missed or not held or missed / held > 1.1:
            pressed = self.at(rate, seconds=step, connections=_CONNECTIONS)
            held, missed = (rate, missed) if _is_held(pressed) else (held, rate)
            if not held and rate < 20:
                raise click.ClickException("not even 20 reports a second are held here")
            rate = (held + missed) / 2 if missed else 2 * rate
        return held

    def confirmed(self, rate: float, *, seconds: float) -> tuple[float, Pressed]:
        """Return the rate, or the highest of ever smaller ones, that is held for longer too."""
        while not _is_held(pressed := self.at(rate, seconds=seconds, connections=_CONNECTIONS)):
            rate *= 0.8
        return rate, pressed

    def overload(self, rate: float, *, seconds: float) -> dict[str, Any]:
        """Press with twice a rate, then with a half; return both, and what the server held."""
        pid = self._served.pids[0]
        before = resident_bytes(pid)
        most = _Most(pid)
        try:
            pressed = self.at(2 * rate, seconds=seconds, connections=_CROWD)
        finally:
            # Also where there are no more rounds: the process that is watched ends then.
            peak, files = most.stop()
        tries, after = 0, None
        while after is None or (tries < _TRIES and not _is_held(after)):
            tries += 1
            after = self.at(rate / 2, seconds=seconds / 2, connections=_CONNECTIONS)
        return {
            "asked_a_second": round(2 * rate),
            **_told(pressed),
            "refusals_without_retry_after": pressed.without_retry,
            "memory_mb": {
                "before": _mb(before),
                "most": _mb(peak),
                "after": _mb(resident_bytes(pid)),
            },
            "most_files": files,
            "files_after": _files(pid),
            "recovery": {"tries": tries, **_told(after)},
        }


class _Most:
    """Watch a process's memory and files until told to stop."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._is_over = threading.Event()
        self._found: list[tuple[int, int]] = []
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> tuple[int, int]:
        self._is_over.set()
        self._thread.join()
        return max(one[0] for one in self._found), max(one[1] for one in self._found)

    def _watch(self) -> None:
        while True:
            self._found.append((resident_bytes(self._pid), _files(self._pid)))
            if self._is_over.wait(0.1):
                return


def _is_held(pressed: Pressed) -> bool:
    is_taken = pressed.statuses.keys() == {201} and not pressed.behind
    return is_taken and pressed.quantile_s(0.99) < _P99_S


def _failures(document: dict[str, Any]) -> Iterator[str]:
    if document["stored"] != document["accepted"]:
        yield f"{document['accepted']} reports were accepted and {document['stored']} are stored"
    if "429" not in document["stalled"]["statuses"]:
        yield "stalled: nobody was refused although nothing could be written"
    for name in _OVERLOADS:
        found = document[name]
        strange = [status for status in found["statuses"] if status not in ("201", "429", "503")]
        if strange:
            yield f"{name}: answered with {', '.join(strange)}"
        if found["refusals_without_retry_after"]:
            yield f"{name}: refusals do not say when to try again"
        if found["memory_mb"]["most"] > 2 * found["memory_mb"]["before"] + 64:
            yield f"{name}: memory grew to {found['memory_mb']['most']} MB"
        if set(found["recovery"]["statuses"]) != {"201"} or found["recovery"]["p99_ms"] > 250:
            yield f"{name}: no recovery at half the rate"


def _told(pressed: Pressed) -> dict[str, Any]:
    answered = sum(pressed.statuses.values())
    return {
        "seconds": round(pressed.seconds, 1),
        "answered_a_second": round(answered / pressed.seconds),
        "statuses": {str(status): count for status, count in sorted(pressed.statuses.items())},
        "never_sent": pressed.behind,
        "p50_ms": round(1000 * median(pressed.took_s)),
        "p99_ms": round(1000 * pressed.quantile_s(0.99)),
        "longest_answer_ms": round(1000 * max(pressed.waited_s)),
    }


def _files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _mb(count: int) -> int:
    return round(count / 2**20)


def _tell(words: str) -> None:
    click.echo(words, err=True)


if __name__ == "__main__":
    main()
