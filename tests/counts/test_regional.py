"""Means of regions from blocks of slots."""

import numpy as np
import pytest

from rase.counts.mean import unbiased_mean
from rase.counts.regional import block_mixing, regional_means
from rase.domain import Precision, Range
from rase.errors import NotIdentifiable
from rase.kernels.words import SeededRandom
from rase.laws.geometric import BudgetAware, Laplace
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import auto
from rase.laws.windows import Duchi, Hybrid
from rase.shuffle.mallows import Mallows

REACH = Range(0, 3000)
CLAMPED = BudgetAware(4.0, REACH, Precision(beta=0.5, rho=0.9))


def test_without_mixing_each_block_is_its_region() -> None:
    """With the identity as mixing, regional means are the means of the blocks."""
    reports = CLAMPED.randomize(np.linspace(0, 3000, 10), rng=SeededRandom(1))
    done = regional_means(reports, randomizer=CLAMPED, mixing=np.eye(3))
    blocks = [reports[:4], reports[4:7], reports[7:]]
    for one, block in zip(done, blocks, strict=True):
        alone = unbiased_mean(block, randomizer=CLAMPED)
        assert one.value == pytest.approx(alone.value)
        assert one.standard_error == pytest.approx(alone.standard_error, rel=0.1)
        assert one.n == block.size
    assert done[0].target == "mean of the readings of region 1 of 3"


def test_rounding_to_the_grid_is_part_of_the_error_of_a_region() -> None:
    """Where noise is smaller than a step, the error is at least that of rounding half-way."""
    reach = Range(0, 3, steps=3)
    randomizer = Hybrid(30.0, reach)
    reports = randomizer.randomize(np.full(40, 1.5), rng=SeededRandom(1))
    for one in regional_means(reports, randomizer=randomizer, mixing=np.eye(2)):
        assert one.standard_error >= 0.5 / np.sqrt(20)


def test_the_mixing_of_blocks_follows_the_marginals() -> None:
    """Rows sum to 1, and a uniform shuffle mixes all regions evenly."""
    mixing = block_mixing(Mallows(10, 0.3).marginals(), 3)
    assert mixing.sum(axis=1) == pytest.approx(np.ones(3))
    assert mixing[0, 0] > mixing[0, 1] > mixing[0, 2]
    uniform = block_mixing(np.full((10, 10), 0.1), 3)
    assert uniform == pytest.approx(np.tile([0.4, 0.3, 0.3], (3, 1)))


@pytest.mark.parametrize(
    ("randomizer", "theta"),
    [(CLAMPED, 0.1), (Laplace(4.0, REACH), 0.05), (Duchi(4.0, REACH), 0.1)],
)
def test_regions_are_unmixed_and_covered(randomizer: RangeRandomizer, theta: float) -> None:
    """Over 1600 Mallows releases means are unbiased and intervals cover at least 93 %.

    Bias: 5 standard errors, a false-alarm rate of 2e-6 for the four regions. Coverage was measured
    as 95.6 to 99.5 %, so 93 % or less has a rate below 1e-6; errors 30 % too small are rejected
    where they are not bounds. The means of the blocks themselves are biased and rejected too.
    """
    n, regions = 200, 4
    law = Mallows(n, theta)
    mixing = block_mixing(law.marginals(), regions)
    readings = np.repeat([200.0, 1000.0, 1900.0, 2800.0], n // regions)
    true = readings.reshape(regions, -1).mean(axis=1)
    source = SeededRandom(2026)
    values, errors = [], []
    for _ in range(1600):
        reports = randomizer.randomize(readings, rng=source)[law.sample(rng=source)]
        done = regional_means(reports, randomizer=randomizer, mixing=mixing)
        values.append([one.value for one in done])
        errors.append([one.standard_error for one in done])
    scatter = np.std(values, axis=0) / np.sqrt(1600)
    assert (np.abs(np.mean(values, axis=0) - true) <= 5 * scatter).all()
    blurred = mixing @ true
    assert (np.abs(blurred - true) > 5 * scatter).any()
    misses = np.abs(np.array(values) - true) / errors
    assert (misses <= 1.96).mean() >= 0.93
    if not isinstance(randomizer, Duchi):
        assert (misses <= 0.7 * 1.96).mean() < 0.93


def test_budgets_of_their_own_are_used() -> None:
    """Mixed budgets are decoded each by its own."""
    budgets = np.resize([1.0, 4.0], 40)
    randomizer = Laplace(tuple(budgets.tolist()), REACH)
    reports = randomizer.randomize(np.full(40, 700.0), rng=SeededRandom(1))
    done = regional_means(reports, randomizer=randomizer, mixing=np.eye(2), epsilon=budgets)
    assert all(abs(one.value - 700) <= 5 * one.standard_error for one in done)


def test_a_uniform_shuffle_carries_no_regions() -> None:
    """Equal rows, or nearly equal ones, are refused."""
    nearly = block_mixing(Mallows(64, 0.01).marginals(), 4)
    for mixing in (np.full((4, 4), 0.25), nearly):
        with pytest.raises(NotIdentifiable, match="a uniform shuffle shows nothing"):
            regional_means(np.zeros(64), randomizer=CLAMPED, mixing=mixing)


def test_unusable_arguments_are_refused() -> None:
    """Tables must be square, rows must be shares, and each region needs a place."""
    with pytest.raises(ValueError, match=r"mixing must be a square table, got shape \(2, 3\)"):
        regional_means([0.0] * 9, randomizer=CLAMPED, mixing=np.ones((2, 3)) / 3)
    for rows in ([[0.5, 0.4], [0.5, 0.5]], [[1.5, -0.5], [0.5, 0.5]]):
        with pytest.raises(ValueError, match="mixing must hold shares"):
            regional_means([0.0] * 9, randomizer=CLAMPED, mixing=rows)
    with pytest.raises(ValueError, match="region_count must be between 1 and the number of places"):
        regional_means([0.0], randomizer=CLAMPED, mixing=np.eye(2))
    with pytest.raises(ValueError, match="marginals must be a square table"):
        block_mixing([[1.0, 0.0]], 1)
    with pytest.raises(ValueError, match="got 0"):
        block_mixing(np.eye(2), 0)


def test_small_regions_are_refused() -> None:
    """Fewer than k_min reports of a region are not told apart from others."""
    reports = CLAMPED.randomize(np.linspace(0, 3000, 10), rng=SeededRandom(1))
    told = regional_means(reports, randomizer=CLAMPED, mixing=np.eye(3), k_min=3)
    assert len(told) == 3
    with pytest.raises(ValueError, match="each region must have 4 reports or more, got 3"):
        regional_means(reports, randomizer=CLAMPED, mixing=np.eye(3), k_min=4)


@pytest.mark.parametrize("epsilon", [0.5, 12.0])
def test_intervals_of_regions_of_five_hold_at_both_ends_of_epsilon(epsilon: float) -> None:
    """Ten reports of two regions: 93 % or more of 400 intervals hold; 360 is far below that.

    They hold more than they say, because records are taken to move independently.
    """
    law, rng, held = auto(epsilon, Range(0, 1)), np.random.default_rng(2026), []
    mallows = Mallows(10, theta=1.0)
    mixing = block_mixing(mallows.marginals(), 2)
    for seed, order in enumerate(mallows.samples(200, rng=SeededRandom(5))):
        readings = np.concatenate([rng.uniform(0.05, 0.35, 5), rng.uniform(0.45, 0.75, 5)])
        reports = np.asarray(law.randomize(readings, rng=SeededRandom(seed)))
        found = regional_means(reports[np.asarray(order)], randomizer=law, mixing=mixing)
        for one, truth in zip(found, readings.reshape(2, 5).mean(axis=1), strict=True):
            low, high = one.interval()
            held.append(low <= truth <= high)
    assert sum(held) >= 372
