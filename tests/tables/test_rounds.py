"""Drawing: readings in, counts of noisy reports out, the same however often and wherever."""

import pickle
from typing import Any

import numpy as np
import pytest
from tests.tables.tables import BR, PUBLIC, columns_of, skewed

from rase import Laplace, Range, RunPlan, SquareWave
from rase.kernels.keyed import RunKey
from rase.tables.budgets import BudgetClasses
from rase.tables.groups import GraphSettings
from rase.tables.readings import KeyedRows
from rase.tables.rounds import Collected, Drawn, draw
from rase.tables.source import open_source

KEY = RunKey(bytes(range(32)))
TABLE = skewed(crowd=10)


def plan_of(**changes: Any) -> RunPlan:
    """Return a plan for rounds of five minutes."""
    settings: dict[str, Any] = {"randomizer": BR, "every": "5min"}
    return RunPlan(**(settings | changes))


def rows_of(plan: RunPlan, table: Any = TABLE, key: RunKey = KEY) -> KeyedRows:
    """Return the rows of a table under the run's key."""
    return KeyedRows.joined(
        [chunk.keyed(key, plan) for chunk in open_source(columns_of(table)).chunks()]
    )


def drawn(plan: RunPlan, rows: KeyedRows, **changes: Any) -> Drawn:
    """Return what is drawn of rows."""
    return draw(plan, Collected.of(plan, rows), key=KEY, **changes)


def same(one: Drawn, other: Drawn) -> bool:
    """Tell whether two draws are the same in all that leaves them."""
    pairs = [
        (one.rounds, other.rounds),
        (one.group, other.group),
        (one.counts.places, other.counts.places),
        (one.counts.counts, other.counts.counts),
        (one.devices.device, other.devices.device),
        (one.devices.reports, other.devices.reports),
    ]
    return one.tally == other.tally and all(np.array_equal(*pair) for pair in pairs)


def test_drawing_is_a_pure_function() -> None:
    """Pickled and drawn again, it is the same; with another key it is not."""
    plan = plan_of()
    rows = rows_of(plan)
    first = drawn(plan, rows)
    plan, key = pickle.loads(pickle.dumps((plan, KEY)))  # noqa: S301 - our own bytes
    assert same(draw(plan, Collected.of(plan, rows), key=key), first)
    other = RunKey(bytes(32))
    again = draw(plan, Collected.of(plan, rows_of(plan, key=other)), key=other)
    assert not np.array_equal(again.counts.places, first.counts.places)


@pytest.mark.parametrize("slices", [2, 5])
@pytest.mark.parametrize("budgets", [None, BudgetClasses({"meter-00003": 0.5}, 1.0)])
def test_slices_of_devices_are_joined(slices: int, budgets: BudgetClasses | None) -> None:
    """Drawn device by device and joined, a round has the counts of one drawn at once."""
    graph = None if budgets else GraphSettings((("meter-00001", "meter-00002"),), 1.0, 2)
    plan = plan_of(budgets=budgets, graph=graph, truth=True)
    rows = rows_of(plan)
    whole = drawn(plan, rows)
    parts = [drawn(plan, rows.sliced(number, slices)) for number in range(slices)]
    joined = Drawn.joined(parts[::-1])
    assert same(joined, whole)
    assert whole.truth is not None
    assert joined.truth is not None
    assert joined.truth.means(PUBLIC) == whole.truth.means(PUBLIC)
    if budgets is not None:
        pairs = (joined.counts.epsilon, whole.counts.epsilon)
        spent = (joined.devices.spent, whole.devices.spent)
        for one, other in (pairs, spent):
            assert one is not None
            assert other is not None
            assert one.tolist() == other.tolist()
    else:
        assert joined.reporting is not None
        both = zip(joined.reporting, whole.reporting or (), strict=True)
        assert all(np.array_equal(*pair) for pair in both)


def test_rounds_come_apart_again() -> None:
    """Each round has its own counts, which add up to its devices."""
    plan = plan_of()
    found = drawn(plan, rows_of(plan))
    sizes = [counts.n for counts in found.each_round()]
    assert sum(sizes) == found.tally.reports == int(found.devices.reports.sum())
    assert len(sizes) == len(found.rounds) == 40
    assert all((np.diff(counts.places) > 0).all() for counts in found.each_round())


def test_only_noisy_reports_leave() -> None:
    """No reading is among what is handed on, and nothing is shown by repr."""
    # Noise of a thousand times the range: a report equal to its reading is a reading.
    law = Laplace(1e-3, Range(0, 100, 1 << 16))
    plan = plan_of(randomizer=law, every=None)
    rows = rows_of(plan)
    found = drawn(plan, rows)
    reports = law.values_of(found.counts.places)
    readings = TABLE["value"].drop_null().to_numpy()
    assert np.isin(np.round(reports, 2), readings).mean() < 0.01
    assert "quanta" not in repr(rows)
    assert str(int(found.counts.places[0])) not in repr(found)


def test_each_round_may_have_its_own_randomizer() -> None:
    """Where a range is learnt, rounds are drawn and clipped by the one they were given."""
    plan = plan_of(randomizer=SquareWave(1.0, Range(0, 100)))
    rows = rows_of(plan)
    narrow, wide = SquareWave(1.0, Range(40, 60)), SquareWave(1.0, Range(0, 100))
    found = drawn(plan, rows, randomizer_of=lambda number: narrow if number % 2 else wide)
    plain = drawn(plan, rows)
    for number, counts, other in zip(
        found.rounds.tolist(), found.each_round(), plain.each_round(), strict=True
    ):
        is_same = np.array_equal(counts.places, other.places)
        assert is_same == (number % 2 == 0)
    # Nearly four of five readings lie outside the narrow range.
    assert found.tally.clipped > 0.3 * found.tally.reports > 3 * plain.tally.clipped


def test_budgets_decide_on_the_noise() -> None:
    """A device with less budget draws wider noise, and spends less."""
    names = sorted(set(TABLE["device"].to_pylist()))
    budgets = BudgetClasses(dict.fromkeys(names[:20], 1 / 64), 8.0)
    law = Laplace(8.0, PUBLIC)
    found = drawn(plan_of(randomizer=law, budgets=budgets), rows_of(plan_of(budgets=budgets)))
    spreads = {
        epsilon: float(
            np.sqrt(np.average((law.values_of(part.places) - 50) ** 2, weights=part.counts))
        )
        for epsilon, part in found.counts.classes()
    }
    # The scale of Laplace noise is the width of the range over epsilon.
    assert spreads[1 / 64] > 20 * spreads[8.0]
    assert found.devices.spent is not None
    assert set(found.devices.spent / found.devices.reports) == {1 / 64, 8.0}


def test_nothing_is_drawn_of_nothing() -> None:
    """A part without a reading has no round and no count."""
    plan = plan_of()
    rows = rows_of(plan).sliced(0, 1)
    none = KeyedRows(rows.time_ms[:0], rows.device[:0], rows.quanta[:0], rows.devices, rows.null_ms)
    found = drawn(plan, none)
    assert (len(found.rounds), found.counts.n, found.tally.reports) == (0, 0, 0)
    assert found.tally.rows == found.tally.nulls == len(rows.null_ms) > 0
    assert list(found.each_round()) == []
