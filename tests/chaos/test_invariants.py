"""The judge of a run must see a report that is lost or doubled, and an estimate that is wrong."""

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.loading.setting import CAMPAIGN
from chaos.invariants import Growth, Rows, check, check_logs, is_settled
from chaos.probes import Report

from rase.counts.registry import estimator_named
from rase.fusion.mechanism import counts_of, randomizer_of
from rase.storage.sqlite import SqliteDatabase, open_sqlite
from rase.wire.keys import Role

PLACES = list(range(100, 100 + CAMPAIGN.k_min))


class Kept:
    """Two databases with one round in them, in the place of an installation."""

    def __init__(self, folder: Path) -> None:
        self._paths = {role: folder / f"{role}.db" for role in (Role.SHUFFLER, Role.FUSION)}
        for role, path in self._paths.items():
            open_sqlite(path, migrations=role).close()
        self.agents: list[Any] = []
        self.log = folder / "fusion.log"
        self.log.write_text("fusion listening\n")
        self.held = (10 << 20, 10)

    def all_programs(self) -> dict[str, Any]:
        """Return one process that holds what it is told to."""
        process = SimpleNamespace(pid=1)
        return {"fusion": SimpleNamespace(log=self.log, held=lambda: self.held, process=process)}

    def rows(self, role: Role, query: str) -> list[tuple[Any, ...]]:
        """Return what is in a database."""
        with closing(SqliteDatabase(self._paths[role])) as db, db.snapshot() as transaction:
            return transaction.execute(query)

    def erase(self) -> None:
        """Forget the reports of all rounds."""
        path = self._paths[Role.FUSION]
        with closing(SqliteDatabase(path)) as db, db.transaction() as transaction:
            transaction.execute("DELETE FROM opened")

    def keep(self, places: list[int], *, shift: float = 0.0) -> None:
        """Write a final round with these places, and their estimate."""
        held = np.array(sorted(places), dtype="<i8")
        classes = np.zeros(len(places), np.uint8)
        counts = counts_of(CAMPAIGN, held.astype(np.int64), classes)
        made = [
            estimator_named(name)(counts, randomizer=randomizer_of(CAMPAIGN))
            for name in CAMPAIGN.estimators
        ]
        path = self._paths[Role.FUSION]
        with closing(SqliteDatabase(path)) as db, db.transaction() as transaction:
            transaction.execute(
                "INSERT INTO rounds (campaign, round, version, state, batches, settles_s) "
                "VALUES ('bench', 7, 1, 'final', 1, 0)"
            )
            transaction.execute(
                "INSERT INTO opened (batch, campaign, round, places, classes) "
                "VALUES (?, 'bench', 7, ?, ?)",
                (b"b", held.tobytes(), classes.tobytes()),
            )
            for one in made:
                transaction.execute(
                    "INSERT INTO answers (campaign, round, method, target, value, n) "
                    "VALUES ('bench', 7, ?, 'reporters', ?, ?)",
                    (one.method, one.value + shift, one.n),
                )


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """Empty databases."""
    return Kept(tmp_path)


def probes(places: list[int], *, fate: str = "acknowledged") -> Any:
    """Return devices that were told the same of all their reports."""
    reports = [Report(7, place, number, b"", b"", fate) for number, place in enumerate(places)]
    return SimpleNamespace(campaign=CAMPAIGN, reports=reports)


def judged(kept: Kept, devices: Any) -> tuple[int, int, int]:
    """Return how many reports were lost and doubled, and how many estimates were wrong."""
    verdict = check(kept, devices, is_over=True)  # type: ignore[arg-type]
    assert bool(verdict.notes) == bool(verdict.lost or verdict.doubled or verdict.wrong)
    return verdict.lost, verdict.doubled, verdict.wrong


def test_what_is_right_is_found_right(kept: Kept) -> None:
    """All acknowledged reports, each once, and their estimate."""
    kept.keep(PLACES)
    assert judged(kept, probes(PLACES)) == (0, 0, 0)
    assert is_settled(kept, {7})  # type: ignore[arg-type]
    assert not is_settled(kept, {7, 8})  # type: ignore[arg-type]


def test_a_lost_report_is_seen(kept: Kept) -> None:
    """One that was acknowledged and is not there, even if another is in its place."""
    kept.keep([*PLACES[:-1], 4000])
    assert judged(kept, probes(PLACES)) == (1, 0, 0)


def test_a_doubled_report_is_seen(kept: Kept) -> None:
    """One more than were sent."""
    kept.keep([*PLACES, PLACES[0]])
    assert judged(kept, probes(PLACES)) == (0, 1, 0)


def test_a_wrong_estimate_is_seen(kept: Kept) -> None:
    """A mean that is not that of its reports."""
    kept.keep(PLACES, shift=0.001)
    assert judged(kept, probes(PLACES)) == (0, 0, 1)


def test_a_round_without_an_estimate_must_have_had_too_few(kept: Kept) -> None:
    """Fewer than k_min may be withheld; k_min or more are lost."""
    assert judged(kept, probes(PLACES[:-1])) == (0, 0, 0)
    assert judged(kept, probes(PLACES)) == (len(PLACES), 0, 0)


def test_a_device_that_pays_twice_is_seen(kept: Kept) -> None:
    """Two entries of a ledger for one round."""
    kept.keep(PLACES)
    program = SimpleNamespace(name="device-0")
    kept.agents.append(SimpleNamespace(program=program, paid=lambda: [7, 7], sent=set[int]))
    assert check(kept, probes(PLACES), is_over=True).repaid == 1  # type: ignore[arg-type]


def test_growth_and_tracebacks_are_seen(kept: Kept) -> None:
    """Far more memory or files than at first, and lines that no program should write."""
    growth = Growth()
    growth.look(kept)  # type: ignore[arg-type]
    kept.held = (60 << 20, 20)
    growth.look(kept)  # type: ignore[arg-type]
    assert growth.notes == []
    kept.held = (60 << 20, 500)
    growth.look(kept)  # type: ignore[arg-type]
    assert len(growth.notes) == 1
    assert growth.most == {"fusion": (60 << 20, 500)}
    assert check_logs(kept) == []  # type: ignore[arg-type]
    kept.log.write_text("Traceback (most recent call last):\n")
    assert len(check_logs(kept)) == 1  # type: ignore[arg-type]


def test_an_estimate_whose_reports_are_gone_must_count_as_many(kept: Kept) -> None:
    """Where a clock jumped, reports may be erased early; then the number is looked at."""
    kept.keep(PLACES)
    kept.erase()
    devices = probes(PLACES)
    verdict = check(kept, devices, is_over=True)  # type: ignore[arg-type]
    assert (verdict.unchecked, verdict.lost, verdict.doubled) == (1, 0, 0)
    devices.reports.append(Report(7, 5, 99, b"", b"", "acknowledged"))
    assert judged(kept, devices) == (1, 0, 0)
    assert judged(kept, probes(PLACES[:-1])) == (0, 1, 0)


@pytest.mark.parametrize("shift", [0.0, 0.001])
def test_reports_that_were_seen_before_they_went_are_looked_at(kept: Kept, shift: float) -> None:
    """What an earlier look found stands for them: nothing is unchecked, what is wrong is seen."""
    kept.keep(PLACES, shift=shift)
    seen: dict[int, Rows] = {}
    for is_over in (False, True):
        verdict = check(kept, probes(PLACES), is_over=is_over, seen=seen)  # type: ignore[arg-type]
        assert (verdict.unchecked, verdict.lost, verdict.wrong) == (0, 0, int(shift > 0))
        kept.erase()
