"""Unbiased means of many rounds at once."""

import numpy as np
import pytest
from tests.cases import each_case

from rase import (
    BudgetAware,
    Duchi,
    Laplace,
    Mallows,
    NotIdentifiable,
    Piecewise,
    Pipeline,
    Precision,
    Robust,
    SeededRandom,
    Uniform,
    ValueRange,
    unbiased_mean,
)
from rase.estimate.rounds import unbiased_means
from rase.randomize.grid import GridRandomizer
from rase.shuffle.shufflers import MallowsShuffle

PUBLIC = ValueRange(-20, 100)
BR = BudgetAware(1.0, PUBLIC, Precision(beta=0.5, rho=0.9))
READINGS = np.random.default_rng(2026).uniform(-20, 100, (50, 64))


@each_case("mechanism", [BR, Laplace(0.7, PUBLIC), Piecewise(2.0, PUBLIC)])
def test_each_round_has_the_estimate_of_its_own(mechanism: GridRandomizer) -> None:
    """Columns hold what `unbiased_mean` says of each round, up to the rounding of floats."""
    reports = mechanism.randomize(READINGS, rng=SeededRandom(1))
    means = unbiased_means(reports, randomizer=mechanism)
    assert len(means) == len(READINGS)
    for round in (0, 7, 49):
        alone = unbiased_mean(reports[round], randomizer=mechanism)
        together = means[round]
        assert together.value == pytest.approx(alone.value, rel=1e-12)
        assert together.standard_error == pytest.approx(alone.standard_error, rel=1e-9)
        assert (together.n, together.method, together.target, together.degrees_of_freedom) == (
            alone.n,
            alone.method,
            alone.target,
            alone.degrees_of_freedom,
        )


def test_strange_reports_are_refused() -> None:
    """Reports of another mechanism, and what is no table of rounds."""
    with pytest.raises(ValueError, match="reports must be such as this randomizer can draw"):
        unbiased_means(np.full((2, 3), 100 + PUBLIC.step), randomizer=BR)
    for empty in (np.empty((0, 3)), np.empty((3, 0)), np.ones(3)):
        with pytest.raises(ValueError, match="reports must be a table of rounds"):
            unbiased_means(empty, randomizer=BR)
    with pytest.raises(NotIdentifiable):
        unbiased_means(np.full((2, 3), 100.0), randomizer=Duchi(1.0, PUBLIC))


@each_case(
    ("shuffler", "method"),
    [
        (None, "uniform"),
        (Robust(alpha=30, group_count=16), "uniform"),
        (Robust(alpha=0.1, group_count=16), "mallows"),
    ],
)
def test_rounds_run_at_once_estimate_their_means(shuffler: Robust | None, method: str) -> None:
    """Errors of 6,000 rounds are as large as told: their mean square within 10 % (6 of its sigma).

    A standard error 30 % too small would show as a mean square of 2.
    """
    readings = np.random.default_rng(2026).uniform(-20, 100, (6000, 64))
    means, manifest = Pipeline(BR, shuffler).run_rounds(readings, rng=SeededRandom(2026))
    assert manifest.method == method
    scaled = (means.values - readings.mean(axis=1)) / means.standard_errors
    assert abs(np.square(scaled).mean() - 1) < 0.1
    assert abs(scaled.mean()) < 6 / np.sqrt(6000)
    again, _ = Pipeline(BR, shuffler).run_rounds(readings, rng=SeededRandom(2026))
    assert np.array_equal(again.values, means.values)


def test_what_cannot_run_at_once_is_sent_to_the_other_way() -> None:
    """Other estimators, several budgets, shufflers of single rounds, and no table."""
    several = BudgetAware((1.0,) * 64, PUBLIC, Precision(beta=0.5, rho=0.9))
    single = MallowsShuffle(theta=0.1)
    for pipeline in (Pipeline(BR, None, "median"), Pipeline(several), Pipeline(BR, single)):
        with pytest.raises(ValueError, match="use run or run_round for others"):
            pipeline.run_rounds(READINGS)
    with pytest.raises(ValueError, match="readings must have one round a row"):
        Pipeline(BR).run_rounds(READINGS[0])


@each_case(
    "shuffler",
    [Uniform(), Robust(alpha=30, group_count=16), Robust(alpha=0.1, group_count=16)],
)
def test_rounds_keep_their_reports_to_themselves(shuffler: Uniform | Robust) -> None:
    """Each row holds its own values in an order of its own, and the input stays as it was."""
    table = np.arange(40 * 64.0).reshape(40, 64)
    release = shuffler.shuffle_rounds(table, rng=SeededRandom(1))
    assert (table == np.arange(40 * 64.0).reshape(40, 64)).all()
    assert (np.sort(release.values, axis=1) == table).all()
    places = release.values - table[:, :1]
    assert len({tuple(row) for row in places.tolist()}) == 40
    assert release.manifest.n == 64
    with pytest.raises(ValueError, match="values must have one round a row"):
        shuffler.shuffle_rounds(table[0])


def test_mallows_rounds_are_those_of_the_law() -> None:
    """The orders of many rounds are the law's own samples from the same words."""
    robust = Robust(alpha=0.1, group_count=16)
    theta = robust.plan(64).theta
    assert theta is not None
    table = np.tile(np.arange(64.0), (30, 1))
    released = robust.shuffle_rounds(table, rng=SeededRandom(5)).values
    assert np.array_equal(released, Mallows(64, theta).samples(30, rng=SeededRandom(5)))


@pytest.mark.filterwarnings("ignore:mode 'paper'")
def test_paper_mode_takes_one_round_at_a_time() -> None:
    """What the paper prints looks at each arrival; there is no batch of it."""
    paper = Robust(alpha=1, group_count=4, mode="paper")
    with pytest.raises(ValueError, match="mode must be"):
        paper.shuffle_rounds(np.ones((2, 8)))
