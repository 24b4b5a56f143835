"""Integer tables in pure Python, against their NumPy twins."""

import math
from array import array
from fractions import Fraction
from itertools import pairwise

import numpy as np
from tests.cases import each_case

from rase.kernels.fixed import (
    WORD,
    _worst_pair,
    clamped_table,
    drawn_from,
    geometric_digits,
    log_ratio,
    word_sums,
)
from rase.kernels.table import IntegerTable
from rase.laws import geometric as noise


@each_case("epsilon", [1e-4, 0.01, 0.5, 1.0, 3.0, 10.0, 30.0])
@each_case("steps", [1, 2, 5, 40, 4096])
def test_clamped_tables_keep_the_budget(epsilon: float, steps: int) -> None:
    """The effective epsilon is never above the asked one; NumPy draws from the same table."""
    table = clamped_table(epsilon, steps)
    law = noise.ClampedLaw(epsilon, steps)
    assert list(table.sums) == law.table.sums.tolist()
    assert table.drawn_epsilon <= epsilon
    assert table.effective_epsilon == law.largest_ratio.effective_epsilon <= epsilon


def test_drawing_is_that_of_numpy() -> None:
    """A word falls into the same weight, at the edges, too."""
    sums = word_sums([1 << 190, 1 << 191, (1 << 192) - 1])
    words = [0, sums[0] - 1, sums[0], sums[0] + 1, sums[1], sums[2], WORD - 1]
    drawn = IntegerTable(sums).indices(np.array(words, dtype=np.uint64))
    assert [drawn_from(sums, word) for word in words] == drawn.tolist()


def test_a_huge_rate_needs_no_digit() -> None:
    """Where even a one is too unlikely for a word, there is no table of a digit."""
    assert geometric_digits(100.0) == []


def test_log_ratio_rounds_up() -> None:
    """The float is never below the logarithm, and the same as in the NumPy room."""
    for numerator in range(1, 60):
        up = log_ratio(numerator, 1)
        assert 0 <= up - math.log(numerator) <= 2 * math.ulp(up)


def test_the_largest_ratio_may_stand_at_any_end() -> None:
    """A table that favours one end shows its ratio."""
    pair = _worst_pair(array("Q", [1 << 62, WORD - 1]), 1)
    assert pair == ((1, 0), 1, WORD - (1 << 62), 1)


@each_case("epsilon", [1e-4, 1.0, 10.0, 30.0])
@each_case("steps", [1, 2, 5, 40])
def test_the_worst_pair_is_that_of_all_pairs(epsilon: float, steps: int) -> None:
    """Comparing all inputs and reports finds the same ratio, with the weights it names."""
    table = clamped_table(epsilon, steps)
    rows = _rows(table.sums, steps)
    worst = max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True))
    first, second = table.worst.inputs
    assert rows[first][table.worst.report] == table.worst.numerator
    assert rows[second][table.worst.report] == table.worst.denominator
    assert Fraction(table.worst.numerator, table.worst.denominator) == worst


@each_case("seed", range(1, 21))
def test_reports_inside_count_where_rounding_makes_them_worst(seed: int) -> None:
    """In tables of any weights, too, the worst pair is that of all pairs."""
    generator = np.random.default_rng(seed)
    steps = int(generator.integers(2, 9))
    cuts = generator.choice(10**6, size=2 * steps, replace=False)
    sums = array("Q", sorted((cuts.astype(object) + 1) * (WORD // (10**6 + 1))))
    rows = _rows(sums, steps)
    worst = max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True))
    pair = _worst_pair(sums, steps)
    assert Fraction(pair.numerator, pair.denominator) == worst
    assert rows[pair.inputs[0]][pair.report] == pair.numerator
    assert rows[pair.inputs[1]][pair.report] == pair.denominator


def _rows(sums: "array[int]", steps: int) -> list[list[int]]:
    """Return the weight of each report (column) for each input, noise beyond the ends folded."""
    noise_weights = [later - sooner for sooner, later in pairwise([0, *sums, WORD])]
    rows = []
    for index in range(steps + 1):
        row = [0] * (steps + 1)
        for place, weight in enumerate(noise_weights):
            row[min(max(index + place - steps, 0), steps)] += weight
        rows.append(row)
    return rows
