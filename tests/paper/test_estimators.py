"""The paper's estimators ET: the worked example, the likelihood, and where they mislead."""

import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.counts.mean import unbiased_mean
from rase.counts.paper import bootstrap_from, bootstrap_mean, median, sample_mean
from rase.domain import Precision, Range
from rase.kernels.words import SeededRandom
from rase.laws.geometric import BudgetAware, Laplace

# Example "est_outflier": readings 4, 2, 1, 3, 5 and their noisy reports.
EXAMPLE = [9.5, 1.1, 8.4, 2.8, 3.2]
REACH = Range(0, 3000)
PRECISION = Precision(beta=0.5, rho=0.9)


def test_the_worked_example_gives_5_and_3_2_and_3_08() -> None:
    """The sample mean is 5, the maximum-likelihood estimate 3.2, the bootstrap of two 3.08."""
    resamples = [[1.1, 2.8, 1.1, 3.2, 2.8], [9.5, 2.8, 3.2, 3.2, 1.1]]
    assert sample_mean(EXAMPLE).value == pytest.approx(5.0, abs=1e-12)
    assert median(EXAMPLE).value == 3.2
    assert bootstrap_from(resamples).value == pytest.approx(3.08, abs=1e-12)


def test_the_median_maximises_the_laplace_likelihood() -> None:
    """No point of a fine net has a larger likelihood, with equal and with unequal scales."""
    for scales in (np.ones(5), np.array([1.0, 5.0, 0.5, 2.0, 3.0])):
        net = np.linspace(0, 10, 10_001)
        losses = (np.abs(np.array(EXAMPLE) - net[:, None]) / scales).sum(axis=1)
        best = median(EXAMPLE, scales).value
        assert (np.abs(np.array(EXAMPLE) - best) / scales).sum() <= losses.min() + 1e-9


@pytest.mark.departure(row=10)
def test_the_printed_likelihood_drops_scales_that_differ() -> None:
    """With unequal scales the unweighted median is not the maximum of the likelihood."""
    scales = [0.1, 1.0, 1.0, 1.0, 1.0]
    assert median(EXAMPLE).value == 3.2
    assert median(EXAMPLE, scales).value == 9.5


@pytest.mark.departure(row=10)
def test_the_median_is_not_an_estimate_of_the_mean() -> None:
    """If readings differ, the median of a million reports is far from their mean.

    Three quarters of the readings are 0: their mean is 750, the median of reports below 450.
    """
    readings = np.resize([0.0, 0.0, 0.0, 3000.0], 100_000)
    reports = Laplace(4.0, REACH).randomize(readings, rng=SeededRandom(2026))
    assert median(reports).value < 450
    assert median(reports).target == "median of the reports"


def test_the_bootstrap_is_the_sample_mean_and_chance() -> None:
    """Eq. of the bootstrap: over many resamples it comes to the sample mean (rate 6e-7)."""
    done = bootstrap_mean(EXAMPLE, resamples=200_000, rng=SeededRandom(2026))
    limit = 5 * np.std(EXAMPLE) / math.sqrt(5 * 200_000)
    assert abs(done.value - 5.0) <= limit


@pytest.mark.departure(row=9)
@each_case("epsilon", [0.1, 1.0, 4.0])
@each_case(("reading", "sign"), [(0.0, 1), (3000.0, -1)])
def test_the_mean_of_clamped_reports_is_biased_to_the_middle(
    epsilon: float, reading: float, sign: int
) -> None:
    """At an end of the range the bias is Δ(1−e^−ε)/(2ε), and no number of reports mends it.

    200,000 reports and 5 standard errors: false-alarm rate 6e-7. A bias 30 % smaller is rejected,
    and `unbiased_mean` of the same reports has none.
    """
    randomizer = BudgetAware(epsilon, REACH, PRECISION)
    assert randomizer.is_clamping
    reports = randomizer.randomize(np.full(200_000, reading), rng=SeededRandom(2026))
    bias = sign * 3000 * -math.expm1(-epsilon) / (2 * epsilon)
    plain, mended = sample_mean(reports), unbiased_mean(reports, randomizer=randomizer)
    # The closed form is for continuous noise; a grid of 4096 steps differs by half a step at most.
    limit = 5 * plain.standard_error + REACH.step / 2
    assert abs(plain.value - reading - bias) <= limit
    assert abs(plain.value - reading - 0.7 * bias) > limit
    assert abs(mended.value - reading) <= 5 * mended.standard_error


@pytest.mark.departure(row=9)
@each_case("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0])
def test_clamping_and_decoding_beats_laplace_at_every_epsilon(epsilon: float) -> None:
    """Rao-Blackwell: the decoded clamped report varies less than Laplace noise for every reading.

    The variance is λ²(2 − e^(−ε/2) cosh(εu)), u the distance to the middle in ranges.
    """
    clamped = BudgetAware(epsilon, REACH, Precision(beta=0, rho=0.9))
    readings = np.linspace(0, 3000, 33)
    decoded, plain = clamped.variance(readings), Laplace(epsilon, REACH).variance(readings)
    assert (decoded < plain).all()
    away = (readings - 1500) / 3000
    scale = 3000 / epsilon
    formula = scale**2 * (2 - np.exp(-epsilon / 2) * np.cosh(epsilon * away))
    assert decoded == pytest.approx(formula, rel=0.003)
    reports = clamped.randomize(readings, rng=SeededRandom(1))
    error = unbiased_mean(reports, randomizer=clamped).standard_error
    assert error < math.sqrt(float(plain[0]) / 33)


@pytest.mark.departure(row=9)
def test_there_is_a_cliff_of_error_at_the_precision_bound() -> None:
    """Just below ε* the sample mean errs by its bias, just above by chance alone."""
    bound = PRECISION.epsilon_bound(REACH)
    errors = []
    for epsilon in (bound * 0.999, bound * 1.001):
        randomizer = BudgetAware(epsilon, REACH, PRECISION)
        reports = randomizer.randomize(np.zeros(100_000), rng=SeededRandom(2026))
        errors.append(abs(sample_mean(reports).value))
    assert errors[0] > 300
    assert errors[1] < 20
