"""The ends of the range are the worst pair of the blanket: the lemma's conditions on grids."""

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.cases import each_case

from rase import BudgetAware, Duchi, Hybrid, Laplace, Optimal, Piecewise, Precision, Range
from rase.accounting.blanket import Blanket, Channel, Covered, channel_of
from rase.laws.parts import HYBRID_FROM, Parts, bit_alone, mixed_up, window_alone

Floats = NDArray[np.float64]
STEPS = 4096
BUDGETS = (0.1, 0.5, 1.0, 3.0, 8.0)
# Sums of twelve thousand probabilities, and differences of distribution functions at epsilon 8.
ROUNDING = 1e-11
DIGITS = 1e-5


def mechanism(kind: str, budget: float, steps: int = STEPS) -> Covered:
    """Return a mechanism on a grid; the paper's randomizer clamps at these budgets."""
    public = Range(0, 1, steps=steps)
    if kind == "budget-aware":
        return BudgetAware(budget, public, Precision(beta=0.1, rho=0.95))
    kinds: dict[str, type[Laplace | Duchi | Piecewise | Hybrid]] = {
        "laplace": Laplace,
        "duchi": Duchi,
        "piecewise": Piecewise,
        "hybrid": Hybrid,
    }
    return kinds[kind](budget, public)


def rows_of(randomizer: Covered, places: Floats) -> Floats:
    """Return the law of the report (columns) of the readings at some grid places (rows)."""
    public = randomizer.domain
    # Reports beyond half a range outside are pooled, as channel_of pools them.
    margin = public.steps // 2 + 2
    inner = np.arange(1 - margin, public.steps + margin + 1) - 0.5
    edges = np.concatenate(([-np.inf], public.low + public.step * inner, [np.inf]))
    return randomizer.report_probabilities(public.low + public.step * places, edges)


def breaches(low: Floats, high: Floats, rows: Floats) -> list[str]:
    """Return which conditions of the lemma in docs/explain/shuffling.md these laws break.

    Args:
        low: The law of the report of the low end.
        high: That of the high end.
        rows: The laws of other readings.
    """
    found = []
    blanket = np.minimum(low, high)
    occurs = blanket > 0
    if rows[:, ~occurs].sum() > ROUNDING:
        found.append("a report lies outside the blanket")
    low, high, rows, blanket = low[occurs], high[occurs], rows[:, occurs], blanket[occurs]
    if (rows < blanket * (1 - DIGITS)).any():
        found.append("a reading lies below the blanket")
    falling, rising = low / blanket, high / blanket
    if (np.diff(falling) > DIGITS * falling[1:]).any() or (
        np.diff(rising) < -DIGITS * rising[1:]
    ).any():
        found.append("the ends disagree on the best reports")
    masses, best = best_of(low, blanket)
    for row in rows:
        at, most = best_of(row, blanket)
        if (most > np.interp(at, masses, best) + ROUNDING).any():
            found.append("a reading stands out more than an end")
            break
    return found


def best_of(row: Floats, blanket: Floats) -> tuple[Floats, Floats]:
    """Return corners of G: blanket masses, and the most probability of reports of such a mass."""
    ranking = np.argsort(-row / blanket, kind="stable")
    return (
        np.concatenate(([0.0], np.cumsum(blanket[ranking]))),
        np.concatenate(([0.0], np.cumsum(row[ranking]))),
    )


def breaches_of(randomizer: Covered, places: Floats) -> list[str]:
    """Return the breaches of one mechanism at the places given; the upper half mirrors them."""
    high = rows_of(randomizer, np.array([float(randomizer.domain.steps)]))[0]
    found: list[str] = []
    for chunk in np.array_split(places, max(1, places.size // 64)):
        found += breaches(high[::-1], high, rows_of(randomizer, chunk))
    return found


ALL = ["budget-aware", "laplace", "duchi", "piecewise", "hybrid"]


@each_case("kind", ALL)
@each_case("budget", BUDGETS)
def test_the_ends_are_the_worst_pair_on_the_default_grid(kind: str, budget: float) -> None:
    """The lemma's conditions hold for readings all over 4096 steps, next to an end as well."""
    places = np.unique(np.concatenate((np.arange(6.0), np.arange(0.0, STEPS / 2 + 1, 128))))
    assert breaches_of(mechanism(kind, budget), places) == []


@each_case("kind", ALL)
@each_case("steps", [1, 2, 3, 63, 64, 255])
def test_the_ends_are_the_worst_pair_on_odd_and_even_grids(kind: str, steps: int) -> None:
    """The conditions hold for every reading of smaller grids, with and without a middle place."""
    for budget in BUDGETS:
        places = np.arange(float(steps // 2 + 1))
        assert breaches_of(mechanism(kind, budget, steps), places) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("budget", BUDGETS)
def test_the_ends_are_the_worst_pair_at_every_reading(kind: str, budget: float) -> None:
    """The conditions hold at every place of the default grid."""
    assert breaches_of(mechanism(kind, budget), np.arange(STEPS / 2 + 1)) == []


def test_a_reading_with_less_noise_in_the_middle_is_noticed() -> None:
    """A law that is narrower in the middle breaks the second condition, a foreign report all."""
    randomizer = mechanism("laplace", 1.0, 64)
    low, middle, high = rows_of(randomizer, np.array([0.0, 32.0, 64.0]))
    assert breaches(low, high, middle[None, :]) == []
    peak = np.where(np.arange(low.size) == low.size // 2, 1.0, 0.0)
    narrower = 0.3 * middle + 0.7 * peak
    assert breaches(low, high, narrower[None, :]) == [
        "a reading lies below the blanket",
        "a reading stands out more than an end",
    ]
    assert breaches(high, low, middle[None, :]) == ["the ends disagree on the best reports"]
    split = np.array([0.5, 0.5, 0.0])
    assert breaches(split, split[::-1], split[None, :]) == ["a report lies outside the blanket"]


@each_case("budget", [0.25, 1.0, 2.0])
def test_inputs_of_the_optimal_channel_that_share_least_are_its_worst_pair(budget: float) -> None:
    """Every second pair of inputs, in both directions, has a smaller bound than the pair taken."""
    optimal = Optimal(budget, Range(0, 1))
    worst, rows = channel_of(optimal), optimal.channel
    assert rows is not None
    epsilon = 0.2 * budget

    def delta(first: Floats, second: Floats) -> float:
        channel = Channel(low=first, middle=first, high=second, least=worst.least)
        return Blanket(channel, 50, negligible=1e-9).delta(epsilon)

    most = delta(worst.low, worst.high)
    assert most == pytest.approx(delta(worst.high, worst.low), rel=1e-6)
    found = [
        delta(rows[a], rows[b]) for a in range(0, len(rows), 4) for b in range(0, len(rows), 2)
    ]
    assert max(found) <= most * (1 + 1e-6)
    # Between inputs rows are mixed, and tell less.
    assert delta((rows[0] + rows[1]) / 2, (rows[-1] + rows[-2]) / 2) <= most * (1 + 1e-6)
    # A blanket 30 % too large would be noticed: it lies above a row.
    assert (worst.blanket <= rows * (1 + 1e-12)).all()
    assert not (1.3 * worst.blanket <= rows).all()


def test_favoured_outputs_have_the_same_blanket_mass() -> None:
    """Each output has one of two likelihoods, and each input favours the same mass of blanket."""
    rows = Optimal(1.0, Range(0, 1)).channel
    assert rows is not None
    least = rows.min(axis=0)
    is_favoured = rows > 1.5 * least
    assert np.allclose(rows, np.where(is_favoured, np.e, 1.0) * least, rtol=1e-9)
    masses = (is_favoured * least).sum(axis=1)
    assert np.allclose(masses, masses[0], rtol=1e-9)


def test_below_the_ladder_the_optimal_channel_is_covered_as_a_bit() -> None:
    """Its bound is that of Duchi's mechanism, which serves there."""
    public = Range(0, 1)
    bit, optimal = channel_of(Duchi(0.1, public)), channel_of(Optimal(0.1, public))
    assert np.array_equal(bit.low, optimal.low)
    assert np.array_equal(bit.blanket, optimal.blanket)


def worse_pairs(rows: Sequence[Mapping[int, int]], factor: Fraction) -> list[tuple[int, int]]:
    """Return the pairs of rows whose X is not below that of the ends in the convex order.

    Compared in whole numbers: blanket * (X - t)_+ is (first - factor * second - t * blanket)_+, and
    both sides are multiplied by the denominators of the factor and of the level t.

    Args:
        rows: What each report weighs at each grid point.
        factor: e^epsilon.
    """
    table = [[row[code] for code in sorted(row)] for row in rows]
    least = [min(column) for column in zip(*table, strict=True)]
    up, down = factor.as_integer_ratio()
    # The numerators of X over least * down, of every pair.
    above = {
        pair: [down * p - up * q for p, q in zip(table[pair[0]], table[pair[1]], strict=True)]
        for pair in itertools.permutations(range(len(rows)), 2)
    }

    def excess(pair: tuple[int, int], level: tuple[int, int]) -> int:
        over, under = level
        terms = [under * x - over * m for x, m in zip(above[pair], least, strict=True)]
        return sum([term for term in terms if term > 0])

    def levels(pair: tuple[int, int]) -> set[tuple[int, int]]:
        shared = [(x, m, math.gcd(x, m)) for x, m in zip(above[pair], least, strict=True)]
        return {(x // part, m // part) for x, m, part in shared}

    ends = (0, len(rows) - 1)
    own = {level: excess(ends, level) for level in levels(ends)}
    return [
        pair
        for pair in above
        if any(excess(pair, level) > most for level, most in own.items())
        or any(excess(pair, level) > excess(ends, level) for level in levels(pair) - own.keys())
    ]


@pytest.mark.parametrize("kind", ["duchi", "piecewise", "hybrid"])
@each_case("steps", [1, 2, 3, 4, 6, 7])
def test_no_pair_is_worse_than_the_ends_in_whole_numbers(kind: str, steps: int) -> None:
    """All pairs of grid points, on the integers that are drawn with, without any rounding."""
    for budget in (0.02, 0.7, 1.5, 4.0, 9.0):
        rows = list(mechanism(kind, budget, steps).table_rows())
        for factor in (Fraction(1), Fraction(11, 10), Fraction(np.exp(0.9 * budget))):
            assert worse_pairs(rows, factor) == []


def test_a_worse_pair_is_found() -> None:
    """A law that favours more in the middle, or shares more at the ends, is not let through."""
    fair = [{0: 4, 1: 1, 2: 1, 3: 1}, {0: 1, 1: 4, 2: 1, 3: 1}, {0: 1, 1: 1, 2: 4, 3: 1}]
    assert worse_pairs(fair, Fraction(11, 10)) == []
    narrower = [fair[0], {0: 1, 1: 9, 2: 1, 3: 1}, fair[2]]
    assert worse_pairs(narrower, Fraction(11, 10))
    sharing = [fair[0], fair[1], fair[0]]
    assert worse_pairs(sharing, Fraction(11, 10)) == [(0, 1), (1, 0), (1, 2), (2, 1)]


def check_window(parts: Parts) -> None:
    """Assert what the proof says of a window: two levels, and ends that share nothing favoured."""
    assert parts.near > parts.far > 0
    # At most one place is in all windows, so the ends share no other.
    assert parts.width <= parts.steps + 1
    low, high = parts.weights(0), parts.weights(parts.steps)
    window = [code for code in low if -parts.half <= code <= parts.steps + parts.half]
    assert len(window) == parts.steps + parts.width
    shared = [code for code in window if low[code] == high[code] == parts.near]
    assert len(shared) == max(0, parts.width - parts.steps)
    assert {low[code] for code in window} | {high[code] for code in window} == (
        {parts.near, parts.far}
    )


def check_bit(parts: Parts) -> None:
    """Assert what the proof says of a bit: linear, mirrored, and apart from the window."""
    low, high = -parts.margin, parts.steps + parts.margin
    weights = [parts.weights(index) for index in (0, parts.steps // 2, parts.steps)]
    assert weights[0][high] == weights[2][low] == parts.flip
    assert weights[1][high] == parts.flip + parts.slope * (parts.steps // 2)
    assert {row[low] + row[high] for row in weights} == {parts.bit_total}
    assert parts.near == 0 or parts.margin > parts.half


@pytest.mark.uncovered
@given(st.floats(1e-4, 16.0), st.integers(1, 5000))
def test_what_the_proofs_rest_on_holds_on_every_grid(epsilon: float, steps: int) -> None:
    """For grids and budgets at random, in the whole numbers that are drawn with."""
    check_window(window_alone(epsilon, steps))
    check_bit(bit_alone(epsilon, steps))
    if epsilon > HYBRID_FROM:
        mixed = mixed_up(epsilon, steps)
        check_window(mixed)
        check_bit(mixed)


def test_the_page_proves_the_worst_pair_of_every_mechanism_with_a_blanket() -> None:
    """What is served as a theorem has a proof there, and none is called unproven."""
    page = Path(__file__).parents[2].joinpath("docs/explain/shuffling.md").read_text("utf-8")
    proofs = page[page.index("## Why the blanket looks at the ends of the range only") :]
    for mechanism_class in get_args(Covered):
        assert f"`{mechanism_class.__name__}`" in proofs
    assert "not proven" not in proofs
