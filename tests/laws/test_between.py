"""Readings between grid points, in whole numbers: every weight of every law, counted."""

import itertools
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import pytest
from tests.cases import each_case

from rase import BudgetAware, Duchi, Hybrid, Optimal, Piecewise, Precision, Range
from rase.kernels.fixed import WORD, clamped_table, log_ratio
from rase.laws.ladder import programme_at
from rase.laws.parts import Parts, bit_alone, mixed_up, window_alone, window_half
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import randomizer_named

PRECISION = Precision(beta=0, rho=0.9)
LAWS = {
    "budget-aware": lambda epsilon, public: BudgetAware(epsilon, public, PRECISION),
    "duchi": Duchi,
    "piecewise": Piecewise,
    "hybrid": Hybrid,
    "optimal": Optimal,
}
SHARES = [1, 1 << 11, WORD // 3, 1 << 63, WORD - 2, WORD - (1 << 11)]


class OneWord:
    """Give one word, and fail where a second is asked for."""

    def __init__(self, word: int) -> None:
        self.left = [word]

    def word(self) -> int:
        """Return the word."""
        return self.left.pop()


def boundaries(mechanism: str, epsilon: float, steps: int, index: int, share: int) -> Iterator[int]:
    """Yield every word at which the place of a report can change."""
    if mechanism == "budget-aware":
        sums = [0, *clamped_table(epsilon, steps).sums, WORD]
        for start, end in itertools.pairwise(sums):
            yield from (start, start + (share * (end - start) >> 64))
    elif mechanism == "optimal" and epsilon >= 0.25:
        programme = programme_at(epsilon)
        below, rest = divmod(((index << 64) + share) * programme.parts, steps << 64)
        yield from itertools.accumulate(programme.mixed_row(below, rest, steps << 64))
    else:
        make = {"piecewise": window_alone, "hybrid": mixed_up}.get(mechanism, bit_alone)
        parts = make(epsilon, steps) if epsilon > 0.62 or mechanism != "hybrid" else None
        parts = parts or bit_alone(epsilon, steps)
        inside = parts.near * parts.width
        yield from (parts.near * place for place in range(parts.width + 1))
        yield share * (parts.near - parts.far) >> 64
        yield from (inside + parts.far * place for place in range(steps + 1))
        high = parts.flip + parts.slope * index + (share * parts.slope >> 64)
        yield parts.window_total + high


def counted(mechanism: str, epsilon: float, steps: int, index: int, share: int) -> Counter[int]:
    """Return how many of the 2^64 words lead to each place."""
    law = randomizer_named(
        mechanism, epsilon, domain=Range(0, steps, steps), precision=PRECISION
    ).law(epsilon)
    ends = sorted({0, WORD, *boundaries(mechanism, epsilon, steps, index, share)} - {WORD + 1})
    found: Counter[int] = Counter()
    for start, end in itertools.pairwise(end for end in ends if end <= WORD):
        first, last = (law.draw(index, share, OneWord(word)) for word in (start, end - 1))
        assert first == last
        found[first] += end - start
    return found


@pytest.mark.uncovered
@each_case("mechanism", LAWS)
@each_case("epsilon", [0.3, 1.0, 4.0])
@each_case("steps", [1, 7, 12])
def test_each_weight_lies_between_those_of_its_neighbours(
    mechanism: str, epsilon: float, steps: int
) -> None:
    """One word a report, 2^64 in all; no reading is told apart better than the grid points are."""
    public = Range(0, steps, steps)
    randomizer: RangeRandomizer = LAWS[mechanism](epsilon, public)
    rows = list(randomizer.table_rows())
    places = sorted(rows[0])
    values = dict(zip(places, map(Fraction, randomizer.decode(places).tolist()), strict=True))
    inputs = range(steps) if mechanism != "optimal" else range(0)
    for index in range(steps):
        assert counted(mechanism, epsilon, steps, index, 0) == rows[index]
        for share in SHARES:
            found = counted(mechanism, epsilon, steps, index, share)
            assert sum(found.values()) == WORD
            mean = sum((found[place] * values[place] for place in places), Fraction(0)) / WORD
            assert abs(mean - index - Fraction(share, WORD)) < Fraction(steps, 10**12)
            if index in inputs:
                for place in places:
                    low, high = sorted((rows[index][place], rows[index + 1][place]))
                    assert low <= found[place] <= high


@each_case("epsilon", [0.3, 1.0, 4.0])
def test_weights_of_the_optimal_channel_lie_between_those_of_its_inputs(epsilon: float) -> None:
    """Wherever a reading stands, each weight is within those of the two inputs beside it."""
    programme = programme_at(epsilon)
    for below in range(programme.parts):
        rows = programme.rows[below], programme.rows[below + 1]
        for share in SHARES:
            mixed = programme.mixed_row(below, share, WORD)
            assert sum(mixed) == WORD
            assert all(
                min(pair) <= weight <= max(pair)
                for weight, pair in zip(mixed, zip(*rows, strict=True), strict=True)
            )
    assert programme.mixed_row(3, 0, 7) == programme.rows[3]


@each_case("epsilon", [1e-4, 0.05, 0.7, 1.0, 3.0, 9.0, 20.0, 30.0])
@each_case("steps", [1, 2, 3, 15, 1000, 3003, 4096, 65535, 65536])
def test_whole_weights_exist_for_every_budget_and_grid(epsilon: float, steps: int) -> None:
    """Totals are 2^64, ratios keep the budget, and hardly anything of it is given away."""
    # Below 0.61 the mixture is the bit alone.
    makes = (bit_alone, window_alone, mixed_up)[: 3 if epsilon > 0.61 else 2]
    for parts in (make(epsilon, steps) for make in makes):
        assert parts.window_total + parts.bit_total == WORD
        ratios = []
        if parts.near:
            ratios.append(log_ratio(parts.near, parts.far))
        if parts.slope:
            ratios.append(log_ratio(parts.bit_total - parts.flip, parts.flip))
        assert max(ratios) <= epsilon
        assert log_ratio(*parts.ratio) == max(ratios)
        if epsilon <= 3:
            assert min(ratios) > epsilon * (1 - 1e-4)


@each_case("epsilon", [0.7, 1.0, 3.0])
@each_case("steps", [3, 15, 4096])
def test_means_are_linear_in_whole_numbers(epsilon: float, steps: int) -> None:
    """The mean place of the window, and that of the bit, move by the same amount at each step."""
    for parts in (
        bit_alone(epsilon, steps),
        window_alone(epsilon, steps),
        mixed_up(epsilon, steps),
    ):
        some = [0, 1, steps // 2, steps]
        means = []
        for index in some:
            weights = parts.weights(index)
            inner = range(-parts.half, steps + parts.half + 1) if parts.near else range(0)
            means.append(
                (
                    sum(place * weights[place] for place in inner),
                    weights.get(steps + parts.margin, 0) if parts.slope else 0,
                )
            )
        for index, mean in zip(some, means, strict=True):
            slope = (parts.near - parts.far) * parts.width, parts.slope
            expected = tuple(at + index * by for at, by in zip(means[0], slope, strict=True))
            assert mean == expected


def test_weights_that_do_not_add_up_are_refused() -> None:
    """A law is 2^64 words or none."""
    with pytest.raises(ValueError, match=r"add up to 2\^64"):
        Parts(steps=3, flip=1, slope=1)


def test_windows_avoid_common_divisors() -> None:
    """On 15 steps a window of 5 places has no whole weights; its neighbour does."""
    assert (2 * window_half(2 * 1.0986, 15) + 1) % 3
    assert all((2 * window_half(e / 10, 105) + 1) % p for e in range(1, 80) for p in (3, 5, 7))
