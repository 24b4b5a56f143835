"""Counts: whole numbers that add up to the same, however a round is cut."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case

from rase import BudgetAware, Counts, Duchi, Hybrid, Laplace, Precision, Range, SeededRandom
from rase.counts.counts import as_counts, as_reports, check_counts, weighted_values
from rase.laws.randomizer import RangeRandomizer

PUBLIC = Range(0, 100, steps=50)
PLACES = st.integers(-5000, 5000)
REPORTS = st.lists(st.tuples(PLACES, st.sampled_from([0.5, 1.0, 4.0])), min_size=1, max_size=80)

Rows = list[tuple[float | None, int, int]]


def rows_of(counts: Counts) -> Rows:
    """Return the budget, place and count of each row, in the order in which they are held."""
    budgets: list[float | None] = (
        [None] * counts.places.size if counts.epsilon is None else list(counts.epsilon.tolist())
    )
    return list(zip(budgets, counts.places.tolist(), counts.counts.tolist(), strict=True))


def counted(reports: list[tuple[int, float]], *, has_budgets: bool) -> Counts:
    """Count reports, each with its budget or without."""
    budgets = [budget for _, budget in reports] if has_budgets else None
    return Counts.of([place for place, _ in reports], epsilon=budgets)


@given(REPORTS)
def test_counting_is_what_one_would_do_by_hand(reports: list[tuple[int, float]]) -> None:
    """Every place occurs once for each budget, ascending, with the number of its reports."""
    by_hand = Counter((budget, place) for place, budget in reports)
    expected = [(*key, by_hand[key]) for key in sorted(by_hand)]
    assert rows_of(counted(reports, has_budgets=True)) == expected
    alone = Counter(place for place, _ in reports)
    plain = counted(reports, has_budgets=False)
    assert rows_of(plain) == [(None, place, alone[place]) for place in sorted(alone)]
    assert plain.n == len(reports)


@given(REPORTS, st.lists(st.integers(0, 80), max_size=4), st.data())
def test_parts_of_a_round_add_up_in_any_order(
    reports: list[tuple[int, float]], cuts: list[int], data: st.DataObject
) -> None:
    """Cut anywhere, with empty parts too, and joined in any order they are those of the whole."""
    for has_budgets in (False, True):
        bounds = [0, *sorted(cuts), len(reports)]
        pieces = data.draw(st.permutations([reports[low:high] for low, high in pairwise(bounds)]))
        parts = [counted(piece, has_budgets=has_budgets) for piece in pieces]
        whole = counted(reports, has_budgets=has_budgets)
        joined = Counts.join(parts)
        assert rows_of(joined) == rows_of(whole)
        # What was joined before is a part as well.
        again = Counts.join([*parts[2:], Counts.join(parts[:2])])
        assert rows_of(again) == rows_of(whole)


@given(REPORTS, st.integers(-60, 60), st.integers(0, 60))
def test_clamping_counts_is_counting_clamped_reports(
    reports: list[tuple[int, float]], low: int, width: int
) -> None:
    """Places beyond an end are counted at it, each budget on its own."""
    inside = [(min(max(place, low), low + width), budget) for place, budget in reports]
    for has_budgets in (False, True):
        whole = counted(reports, has_budgets=has_budgets)
        expected = counted(inside, has_budgets=has_budgets)
        assert rows_of(whole.clamp(low, low + width)) == rows_of(expected)


@given(REPORTS, st.integers(1, 40))
def test_budgets_are_classes(reports: list[tuple[int, float]], k_min: int) -> None:
    """Each budget has the counts of its own reports, and small classes are left out."""
    whole = counted(reports, has_budgets=True)
    by_budget = dict(whole.classes())
    sizes = Counter(budget for _, budget in reports)
    assert list(by_budget) == sorted(sizes)
    for budget, part in by_budget.items():
        own = [one for one in reports if one[1] == budget]
        assert rows_of(part) == rows_of(counted(own, has_budgets=True))
    large = [one for one in reports if sizes[one[1]] >= k_min]
    kept = whole.of_large_classes(k_min)
    assert kept.epsilon is not None
    assert rows_of(kept) == (rows_of(counted(large, has_budgets=True)) if large else [])


def test_reports_of_one_budget_are_one_class() -> None:
    """Without budgets all reports hide among each other, or are all left out."""
    whole = Counts.of([3, 1, 3])
    assert list(whole.classes()) == [(None, whole)]
    assert rows_of(whole.of_large_classes(3)) == rows_of(whole)
    none = whole.of_large_classes(4)
    assert (none.n, none.epsilon) == (0, None)


def test_places_far_apart_are_counted_as_well() -> None:
    """Few reports of places that no table could list."""
    far = Counts.of([2**61, -(2**61), 2**61])
    assert rows_of(far) == [(None, -(2**61), 1), (None, 2**61, 2)]
    assert rows_of(Counts.of([])) == []


def test_one_budget_may_stand_for_all() -> None:
    """A single number is the budget of every report."""
    assert rows_of(Counts.of([2, 2], epsilon=1.5)) == [(1.5, 2, 2)]


@each_case(
    ("epsilon", "message"),
    [
        ([1.0], "epsilon must hold 2 budgets, one for each report, got 1"),
        ([[1.0, 1.0]], "epsilon must hold 2 budgets"),
        ([1.0, 0.0], "epsilon must hold finite budgets greater than 0"),
        ([1.0, np.nan], "epsilon must hold finite budgets"),
        (np.inf, "epsilon must hold finite budgets"),
    ],
)
def test_unusable_budgets_are_refused(epsilon: object, message: str) -> None:
    """Each report has one budget, a positive number."""
    with pytest.raises(ValueError, match=message):
        Counts.of([1, 2], epsilon=epsilon)  # type: ignore[arg-type]


@each_case(
    "randomizer",
    [
        BudgetAware(1.0, PUBLIC, Precision(0.5, 0.9)),
        Laplace(1.0, PUBLIC),
        Duchi(1.0, PUBLIC),
        Hybrid(2.0, PUBLIC),
    ],
)
def test_reports_become_counts_of_their_places(randomizer: RangeRandomizer) -> None:
    """Reports in the unit of the readings and the places they were drawn at count alike."""
    readings = np.linspace(0, 100, 60)
    reports = randomizer.randomize(readings, rng=SeededRandom(5))
    places = randomizer.draw_many(readings, rng=SeededRandom(5))
    counts = as_counts(reports, randomizer)
    assert rows_of(counts) == rows_of(Counts.of(places))
    assert as_counts(counts, randomizer) is counts
    values, times = weighted_values(reports, None)
    from_counts, times_counted = weighted_values(counts, randomizer)
    assert np.array_equal(from_counts, values)
    assert np.array_equal(times_counted, times)


def test_values_of_several_budgets_are_added_up() -> None:
    """What estimators that read no budgets see: each value once, however many budgets sent it."""
    mixed = Laplace((1.0, 4.0), PUBLIC)
    counts = Counts.of([5, 5, 7], epsilon=[1.0, 4.0, 4.0])
    values, times = weighted_values(counts, mixed)
    assert (values.tolist(), times.tolist()) == ([10.0, 14.0], [2, 1])


@each_case(
    ("reports", "message"),
    [
        ([], "at least one report, got none"),
        ([1.0, np.nan], "finite numbers, got NaN or infinity"),
        ([-np.inf], "finite numbers"),
        ([[1.0]], "one row of numbers, got 2 dimensions"),
        (4.0, "one row of numbers, got 0 dimensions"),
    ],
)
def test_unusable_reports_are_refused(reports: object, message: str) -> None:
    """Neither nothing, nor NaN, nor a table is a round of reports."""
    with pytest.raises(ValueError, match=message):
        as_reports(reports)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        as_counts(reports, Laplace(1.0, PUBLIC))  # type: ignore[arg-type]


def test_what_a_mechanism_cannot_have_drawn_is_refused() -> None:
    """Counts are checked as reports are, by the law of each budget."""
    duchi = Duchi(1.0, PUBLIC)
    with pytest.raises(ValueError, match="must be points of the grid from 0"):
        as_counts([0.5], duchi)
    for strange in ([2.0], Counts.of([1])):
        with pytest.raises(ValueError, match="such as this randomizer can draw"):
            as_counts(strange, duchi)
    with pytest.raises(ValueError, match="at least one report, got none"):
        check_counts(Counts.of([]), duchi)
    mixed = Duchi((1.0, 2.0), PUBLIC)
    with pytest.raises(ValueError, match="epsilon must be given"):
        check_counts(Counts.of([0]), mixed)
    with pytest.raises(ValueError, match="budgets of this randomizer's contributors only"):
        check_counts(Counts.of([0], epsilon=3.0), mixed)
    check_counts(Counts.of([0], epsilon=2.0), mixed)


def test_counts_without_their_mechanism_mean_nothing() -> None:
    """A place is a number of the unit only by the grid of its mechanism."""
    with pytest.raises(ValueError, match="randomizer must be given with counts"):
        weighted_values(Counts.of([1]), None)
