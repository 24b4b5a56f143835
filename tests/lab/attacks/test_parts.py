"""The parts the attacks are made of: bins, rankings, forests, profiles."""

import numpy as np
import pytest

from rase.domain import Precision, Range
from rase.errors import DataError
from rase.kernels.words import SeededRandom
from rase.lab.attacks.forest import ProfileAttack, forest_guesses
from rase.lab.attacks.likelihood import histograms, likelihood_of
from rase.lab.attacks.mallows_aware import sinkhorn
from rase.lab.attacks.range import RangeAttack
from rase.lab.attacks.ranking import best_first, nearest_in_rank, posterior_of
from rase.lab.attacks.runner import case_for
from rase.lab.panel import Panel
from rase.lab.schemes import scheme_named
from rase.laws.geometric import BudgetAware, Laplace

WATTS = Range(0, 100)


def test_few_readings_are_points_of_their_own() -> None:
    """Up to the number of bins every reading is counted exactly, with one reading more for all."""
    model = histograms(np.array([[1.0, 5.0], [1.0, np.nan], [5.0, 5.0]]), bins=8)
    assert model.points.tolist() == [1.0, 5.0]
    # Of all five readings two are 1 W and three are 5 W.
    assert model.weights == pytest.approx(np.array([[2.4, 1.6], [0.4, 2.6]]) / [[4], [3]])


def test_many_readings_fall_into_bins_of_equal_shares() -> None:
    """A reading as common as 0 W keeps a bin of its own."""
    generator = np.random.default_rng(2026)
    history = np.where(generator.random((500, 4)) < 0.5, 0.0, generator.uniform(1, 99, (500, 4)))
    model = histograms(history, bins=16)
    assert 0.0 in model.points
    assert np.allclose(model.weights.sum(axis=1), 1)
    assert model.weights[:, 0] == pytest.approx((history == 0).mean(axis=0), abs=0.01)
    assert (np.diff(model.points) > 0).all()
    assert 8 <= model.points.size <= 17


@pytest.mark.parametrize("bins", [16, 5000])
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_report_bins_hold_all_probability(bins: int, epsilon: float) -> None:
    """Whatever the bins, each device's probabilities add up to 1, ends included."""
    noise = BudgetAware(epsilon, WATTS, Precision(beta=0.5, rho=0.9))
    history = np.random.default_rng(1).uniform(0, 100, (300, 5))
    reports = noise.randomize(history, rng=SeededRandom(1)).reshape(-1)
    likelihood = likelihood_of(histograms(history, 32), noise, reports, bins)
    assert likelihood.table.sum(axis=1) == pytest.approx(1, abs=1e-9)
    assert (np.diff(likelihood.edges) > 0).all()
    inside = likelihood.bin_of(reports)
    assert (likelihood.edges[inside] <= reports).all()
    assert (reports < likelihood.edges[inside + 1]).all()
    if epsilon == 1.0:
        # Reports clamped to an end stand in a bin that holds nothing else.
        assert set(inside[reports == 0]).isdisjoint(inside[reports != 0])
        assert set(inside[reports == 100]).isdisjoint(inside[reports != 100])


def test_likelihoods_are_the_observed_frequencies() -> None:
    """A million reports of known readings fill the bins as computed (6 deviations, below 1e-6).

    A mechanism with 30 % less budget does not fit.
    """
    history = np.array([[10.0, 80.0], [10.0, 90.0]])
    model = histograms(history, bins=4)
    noise = Laplace(3.0, WATTS)
    device, place = 0, model.weights[0]
    counts = SeededRandom(2026)
    reports = np.concatenate(
        [
            noise.randomize(np.full(round(1_000_000 * share), point), rng=counts)
            for point, share in zip(model.points, place, strict=True)
        ]
    )

    def deviation(assumed: Laplace) -> float:
        likelihood = likelihood_of(model, assumed, reports, 40)
        shares = np.bincount(likelihood.bin_of(reports), minlength=likelihood.table.shape[1])
        expected = likelihood.table[device]
        spread = np.sqrt(np.maximum(expected * (1 - expected), 1e-9) / reports.size)
        return float((np.abs(shares / reports.size - expected) / spread).max())

    assert deviation(noise) < 6
    assert deviation(Laplace(2.1, WATTS)) > 6


def test_rankings_put_the_best_first() -> None:
    """Of many columns only the best are kept, in the same order as a full sort."""
    scores = np.random.default_rng(1).random((50, 40))
    full = best_first(scores, 40)
    assert np.array_equal(best_first(scores, 7), full[:, :7])
    assert best_first(np.zeros((1, 30)), 3).shape == (1, 3)
    assert best_first(np.zeros((1, 3))).tolist() == [[0, 1, 2]]


def test_posteriors_of_huge_logs_are_finite() -> None:
    """Log-likelihoods of thousands of reports neither overflow nor vanish."""
    posterior = posterior_of(np.array([[-1e5, -1e5 - np.log(3)], [0.0, -1e6]]))
    assert posterior == pytest.approx(np.array([[0.75, 0.25], [1.0, 0.0]]))


def test_neighbours_on_a_line_stay_inside_it() -> None:
    """At the ends the neighbours come from one side; more than there are cannot be had."""
    points = np.array([3.0, 1.0, 2.0, 0.0])
    assert nearest_in_rank(points, np.array([-5.0, 9.0]), 2).tolist() == [[3, 1], [2, 0]]
    assert nearest_in_rank(points, np.array([1.5]), 10).tolist() == [[3, 1, 2, 0]]


def test_sinkhorn_makes_rows_and_columns_sum_to_one() -> None:
    """Also where some entries are 0; and it stops when told to."""
    table = np.random.default_rng(1).random((5, 5)) * (1 - np.eye(5))
    done = sinkhorn(table, 10_000)
    assert done.sum(axis=0) == pytest.approx(1)
    assert done.sum(axis=1) == pytest.approx(1)
    assert (np.diag(done) == 0).all()
    assert sinkhorn(table, 1).sum(axis=1) == pytest.approx(1)


def test_forests_need_something_to_learn_and_to_ask() -> None:
    """No training record, or no test record, is a DataError."""
    some, none = np.ones((3, 1)), np.ones((0, 1))
    options = {"trees": 2, "jobs": 1, "seed": 0}
    with pytest.raises(DataError, match="more rounds"):
        forest_guesses(none, np.empty(0, np.int64), some, **options)
    with pytest.raises(DataError, match="more rounds"):
        forest_guesses(some, np.arange(3), none, **options)


def test_histories_without_a_reading_are_refused() -> None:
    """If nobody read anything in the training rounds, there is nothing to know."""
    empty = np.full((3, 2), np.nan)
    with pytest.raises(DataError, match="training rounds"):
        histograms(empty, 4)
    values = np.full((10, 2), np.nan)
    values[8:] = 5.0
    panel = Panel(np.arange(10), ["a", "b"], values)
    release, secret = scheme_named("raw", WATTS).release(panel)
    case = case_for(RangeAttack(), release, secret=secret, panel=panel, split="time")
    with pytest.raises(DataError, match="training rounds"):
        RangeAttack().guess(case)


def test_profiles_average_what_falls_into_an_hour() -> None:
    """Two rounds in an hour are one feature; hours without any round are none."""
    hour = 3_600_000
    times = (np.arange(5)[:, None] * 24 * hour + np.array([0, hour // 2, 5 * hour])).reshape(-1)
    values = np.random.default_rng(1).uniform(0, 50, (15, 3))
    values[:, 2] += 40
    panel = Panel(times, ["a", "b", "c"], values)
    release, secret = scheme_named("raw", WATTS).release(panel)
    attack = ProfileAttack(trees=5)
    case = case_for(attack, release, secret=secret, panel=panel, split="time")
    guesses = attack.guess(case)
    assert guesses.rounds.tolist() == [12, 12, 12]
    assert guesses.slots.tolist() == [0, 1, 2]
    assert guesses.ranked[2, 0] == 2
