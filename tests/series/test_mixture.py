"""Mixtures of normal laws: their reach against an exact solver, and laws of Student that match."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import erf
from tests.cases import each_case

from rase.counts.estimate import student_quantile
from rase.series import posterior
from rase.series.bank import Belief, FilterBank
from rase.series.models import IRREGULAR
from rase.series.posterior import (
    FIRST_SCALES,
    Posterior,
    _erf,
    as_student,
    mix_models,
    reach_of,
)

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


def last_rounds(truth: np.ndarray, *, noise: float, seed: int = 2026) -> tuple[Belief, np.ndarray]:
    """Return what is believed of the last of hourly rounds, and its truth; a run a row."""
    rng, bank = np.random.default_rng(seed), FilterBank(0.0, 1.0, runs=len(truth))
    values = truth + noise * rng.normal(size=truth.shape)
    for place in range(truth.shape[1]):
        belief = bank.step(3600.0 * place, values[:, place], variance=noise**2, n=50)
    return belief, truth[:, -1]


def test_scales_are_learnt_for_each_irregular_part() -> None:
    """A mean that moves by twice the one part and half of the next widens those, narrows these."""
    rng = np.random.default_rng(7)
    truth = 0.3 + 0.0028 * rng.normal(size=(6, 300))
    bank = FilterBank(0.0, 1.0, runs=len(truth))
    for place, values in enumerate((truth + 0.004 * rng.normal(size=truth.shape)).T):
        bank.step(3600.0 * place, values, variance=0.004**2, n=50)
    smaller, larger = IRREGULAR.index(0.0014), IRREGULAR.index(0.005)
    # How likely it is that the movement is three times as large, or more: 0.2 before any round.
    wider = bank._scales[:, :, 2:].sum(axis=2).mean(axis=0)
    assert wider[smaller] > 0.25
    assert wider[larger] < 0.02


def test_a_jump_that_lasts_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the third round after a jump the error is smaller than without that belief."""
    truth = np.full((50, 83), 0.2)
    truth[:, 80:] = 0.6

    def error() -> float:
        belief, mean = last_rounds(truth, noise=0.05)
        return float(np.sqrt(np.square(belief.means - mean).mean()))

    followed = error()
    monkeypatch.setattr(posterior, "_AWAY_ODDS", 0.0)
    assert followed < 0.9 * error()


@each_case("value", [0.31, 0.37, 0.45, 0.62])
def test_how_far_the_value_follows_a_round_is_its_variance_over_the_noise(value: float) -> None:
    """With a belief in a jump, too: Stein's estimate of the error rests on it."""
    noise, weights = 0.04**2, np.array([[0.7, 0.3]])
    means, movements = np.array([[0.3, 0.32]]), np.array([[1e-4, 4e-4]])
    away = np.array([[0.3, 0.5, 1e-3]])

    def said(y: float) -> tuple[float, float]:
        surprises, totals = y - means, movements + noise
        law = Posterior(
            weights,
            FIRST_SCALES[None],
            means=means,
            movements=movements,
            surprises=surprises,
            variance=noise,
        )
        law.add_jumps_and_outliers(1.0, 0.0)
        odds, follows = -0.5 * (np.log(totals) + surprises**2 / totals), movements / totals
        models = mix_models(weights, odds, means + follows * surprises, follows * noise)
        _, (_, mean, variance) = law.add_away(away, np.array([y]), models)
        return float(mean[0]), float(variance[0])

    # The jump of this round is centred by all models, which moves with none of them.
    slope = (said(value + 1e-5)[0] - said(value - 1e-5)[0]) / 2e-5
    assert said(value)[1] / noise == pytest.approx(slope, rel=1e-4)
