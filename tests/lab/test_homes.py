"""Made-up homes: shape, repetition, and a demonstration's estimates over many worlds."""

import numpy as np
import pytest

from rase.cli.demo.live import HOURS, Setting
from rase.counts.counts import Counts
from rase.counts.fleet import of_fleet
from rase.counts.mean import unbiased_mean
from rase.counts.moments import moments_of
from rase.kernels.words import SeededRandom
from rase.lab.homes import Homes


def test_homes_differ_and_repeat_with_their_seed() -> None:
    """The same seed gives the same homes, another one others; nothing is below zero."""
    one, again, other = (Homes(homes=50, days=2, seed=seed, patterns=5) for seed in (1, 1, 2))
    assert one.power_w.shape == (48, 50)
    assert np.array_equal(one.power_w, again.power_w)
    assert not np.array_equal(one.power_w, other.power_w)
    assert one.power_w.min() > 0
    assert len({tuple(column) for column in one.power_w.T}) == 50


def test_the_day_has_a_shape() -> None:
    """Evenings use more than nights, as a fleet's do."""
    hours = Homes(homes=400, days=1, seed=3, patterns=100).power_w.mean(axis=1)
    assert hours[17:20].min() > 1.3 * hours[1:4].max()


@pytest.mark.parametrize("name", ["homes", "days", "patterns"])
def test_too_small_numbers_are_refused(name: str) -> None:
    """Nothing can be simulated of no home and no day."""
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        Homes(**{"homes": 5, "days": 1, name: 0})


@pytest.mark.slow
def test_the_demonstration_is_right_in_twenty_worlds() -> None:
    """Every day's curve correlates with the truth by 0.95 or more, and intervals cover 92 to 98 %.

    The fleet's mean is asked for, of which the homes whose turn it is are a sample. Worlds, turns
    and noise are seeded.
    """
    setting = Setting(homes=30_000, days=2, high_w=1500.0, shuffled_epsilon=0.9)
    campaign, law = setting.campaign(), setting._law
    covered, correlations = [], []
    for world in range(1, 21):
        power_w = Homes(homes=setting.homes, days=2, seed=world).power_w
        turns = np.random.default_rng(world).integers(0, campaign.window, setting.homes)
        values = []
        for hour, readings in enumerate(power_w):
            chosen = readings[turns == hour % campaign.window]
            reports = law.draw_many(chosen, rng=SeededRandom(100 * world + hour))
            counts = Counts.of(reports)
            spread = moments_of(counts, law).spread
            assert spread is not None
            estimate = of_fleet(
                unbiased_mean(counts, randomizer=law),
                members=setting.homes,
                spread=float(spread[0]),
                value_range=campaign.domain,
            )
            low, high = estimate.interval()
            covered.append(low <= readings.mean() <= high)
            values.append(estimate.value)
        truth = power_w.mean(axis=1)
        correlations += [
            float(np.corrcoef(values[day], truth[day])[0, 1])
            for day in (slice(0, HOURS), slice(HOURS, 2 * HOURS))
        ]
    assert min(correlations) >= 0.95
    assert 0.92 <= np.mean(covered) <= 0.98
