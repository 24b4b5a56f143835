"""Mixtures of normal laws: their reach against an exact solver, and laws of Student that match."""

import math
from statistics import NormalDist

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import erf
from tests.cases import each_case

from rase.counts.estimate import student_quantile
from rase.series.posterior import _erf, as_student, reach_of

MIXTURES = [
    ([1.0], [0.0], [1.0]),
    ([0.9, 0.1], [0.0, 0.0], [1.0, 25.0]),
    ([0.5, 0.5], [-3.0, 3.0], [0.1, 0.1]),
    ([0.97, 0.03], [0.0, 8.0], [0.2, 1.0]),
    ([0.999, 0.001], [0.0, 60.0], [0.01, 1.0]),
]


@each_case("mixture", MIXTURES)
def test_the_reach_is_that_of_an_exact_solver(
    mixture: tuple[list[float], list[float], list[float]],
) -> None:
    """Never nearer by more than 3 % of a deviation, nor by more than 12 % further."""
    weights, means, variances = (np.array(part) for part in mixture)
    centre = float(weights @ means)
    deviation = math.sqrt(float(weights @ (variances + (means - centre) ** 2)))

    def inside(reach: float) -> float:
        laws = [NormalDist(m, math.sqrt(v)) for m, v in zip(means, variances, strict=True)]
        ends = centre - reach * deviation, centre + reach * deviation
        return float(weights @ [law.cdf(ends[1]) - law.cdf(ends[0]) for law in laws]) - 0.95

    exact = max(brentq(inside, 1e-6, 10), 0.8)
    found = reach_of(
        weights[None],
        means[None],
        variances[None],
        about=np.array([centre]),
        deviation=np.array([deviation]),
    )
    assert exact - 0.03 <= float(found[0]) <= 1.12 * exact


@each_case("reach", [0.8, 1.5, 1.9, 1.96, 1.98, 2.1, 2.5, 3.1, 4.4])
def test_a_law_of_student_reaches_as_far(reach: float) -> None:
    """The factor times the quantile is the reach, or a little more where degrees are whole."""
    factors, degrees = as_student(np.array([reach]))
    stated = float(factors[0]) * student_quantile(0.95, float(degrees[0]))
    assert reach - 1e-9 <= stated
    assert stated <= (1.05 * reach if reach < 2.6 else 1.5 * reach)
    assert (factors[0] < 1) == (reach < 1.95)


def test_student_quantiles_are_those_of_the_law() -> None:
    """Degrees are found in a table of whole ones."""
    _, degrees = as_student(np.array([stats.t.ppf(0.975, 7) - 1e-6]))
    assert degrees.tolist() == [7.0]


def test_the_error_function_is_near_enough() -> None:
    """To 1.5e-7 as the formula promises."""
    points = np.linspace(-6, 6, 1001)
    assert np.abs(_erf(points) - erf(points)).max() < 1.6e-7
