"""Errors of one-bit reports hold the binomial limits, also where the bits' chances differ."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.cases import each_case

from rase import Counts, Duchi, Hybrid, Optimal, Range, unbiased_mean
from rase.counts.moments import bit_variance
from rase.kernels.words import SeededRandom
from rase.series.runs import run_means

LEVELS = (0.9, 0.95, 0.99, 0.999)
REACH = Range(0, 3000)


def limits(ones: int, n: int, level: float) -> tuple[float, float]:
    """Return Clopper's and Pearson's limits from the quantiles of beta laws."""
    tail = (1 - level) / 2
    low = float(stats.beta.ppf(tail, ones, n - ones + 1)) if ones else 0.0
    high = float(stats.beta.isf(tail, ones + 1, n - ones)) if ones < n else 1.0
    return low, high


@each_case("n", [1, 2, 3, 7, 16, 17, 50, 500, 10_000])
def test_intervals_contain_clopper_and_pearson(n: int) -> None:
    """At four levels, for few ones and many; and they are longer than needed by little."""
    for ones in sorted({*range(min(n, 20) + 1), n // 3, n // 2, n - 1, n}):
        error = np.sqrt(bit_variance(ones, n) / n)
        slack = []
        for level in LEVELS:
            low, high = limits(ones, n, level)
            reach = stats.norm.ppf((1 + level) / 2) * error
            assert ones / n - reach <= low + 1e-12
            assert ones / n + reach >= high - 1e-12
            slack.append(reach / max(high - ones / n, ones / n - low))
        low, high = limits(ones, n, 0.95)
        variances = [chance * (1 - chance) for chance in np.linspace(low, high, 50)]
        assert bit_variance(ones, n) >= max(variances) - 1e-9
        # Either a level or the variance decides; neither is left far behind.
        assert min(*slack, bit_variance(ones, n) / max(variances)) < 1.02


def test_ones_and_zeros_are_alike() -> None:
    """Turning all bits round changes nothing."""
    for n in (5, 40):
        assert [bit_variance(ones, n) for ones in range(n + 1)] == [
            bit_variance(n - ones, n) for ones in range(n + 1)
        ]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from(LEVELS))
def test_bits_of_different_chances_are_covered(chances: list[float], level: float) -> None:
    """By the exact law of the number of ones, for any chances: what Hoeffding's theorem says."""
    n = len(chances)
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    mean = float(np.mean(chances))
    reach = stats.norm.ppf((1 + level) / 2)
    covered = sum(
        law[ones]
        for ones in range(n + 1)
        if abs(ones / n - mean) <= reach * np.sqrt(bit_variance(ones, n) / n) + 1e-12
    )
    assert covered >= level - 1e-9


@each_case("randomizer", [Duchi(4.0, REACH), Hybrid(0.3, REACH), Optimal(0.2, REACH)])
def test_all_ways_to_a_mean_have_the_same_error(randomizer: Duchi | Hybrid | Optimal) -> None:
    """One round, a round that is counted, many runs at once, and every budget on its own."""
    reports = randomizer.randomize(np.linspace(0, 900, 40), rng=SeededRandom(19))
    one = unbiased_mean(reports, randomizer=randomizer)
    counted = unbiased_mean(Counts.of(randomizer.places_of(reports)), randomizer=randomizer)
    several = run_means(np.array([reports, reports]), [40], randomizer=randomizer)
    assert counted.standard_error == pytest.approx(one.standard_error, rel=1e-12)
    assert np.sqrt(several.variances) == pytest.approx(one.standard_error, rel=1e-12)
    assert one.degrees_of_freedom == counted.degrees_of_freedom == np.inf
    # Twice the square root of the largest variance is the distance of the two values of a bit.
    low, high = randomizer.decoded_reach
    ones = int((reports > REACH.middle).sum())
    expected = (high - low) * np.sqrt(bit_variance(ones, 40) / 40)
    assert one.standard_error == pytest.approx(expected, rel=1e-9)


def test_bits_of_two_budgets_are_two_classes() -> None:
    """Where contributors differ in epsilon each class has the error of its own number of ones."""
    budgets = (1.0,) * 6 + (8.0,) * 4
    randomizer = Duchi(budgets, REACH)
    reports = randomizer.randomize(np.full(10, 300.0), rng=SeededRandom(7))
    both = unbiased_mean(reports, randomizer=randomizer, epsilon=budgets)
    parts = [
        unbiased_mean(reports[chosen], randomizer=Duchi(budget, REACH))
        for budget, chosen in ((1.0, slice(0, 6)), (8.0, slice(6, 10)))
    ]
    expected = np.hypot(6 * parts[0].standard_error, 4 * parts[1].standard_error) / 10
    assert both.standard_error == pytest.approx(expected, rel=1e-9)
