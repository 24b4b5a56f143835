"""What the paper does not mention: composition, the meaning of alpha, chance."""

import pytest

from rase import BudgetAware, MallowsShuffle, Partition, Precision, Range, RunPlan, Uniform
from rase.lab.fleet import SyntheticFleet
from rase.tables.run import run


@pytest.mark.departure(row=11)
def test_epsilon_adds_up_over_the_reports_of_a_device() -> None:
    """A run tells what a device spent in all: epsilon times its reports (the paper's: 270,000)."""
    plan = RunPlan(randomizer=BudgetAware(0.5, Range(0, 1000), Precision(0.5, 0.9)), every="1h")
    done = run(SyntheticFleet(devices=3, days=2, seed=1), plan)
    assert len(list(done)) == 48
    assert done.summary.most_epsilon == 0.5 * 48
    assert 25 * 86400 / 8 == 270_000


@pytest.mark.departure(row=12)
def test_alpha_thirty_hides_nothing_when_groups_are_small() -> None:
    """At alpha = 30 and 16 groups of 64 the order alone tells nearly every sender."""
    release = MallowsShuffle(alpha=30, partition=Partition.contiguous(64, 16)).shuffle(range(64))
    assert release.manifest.alpha == pytest.approx(30)
    assert release.manifest.attacker_success > 0.98
    assert release.manifest.chance == 1 / 64


@pytest.mark.departure(row=13)
def test_no_attacker_falls_below_chance() -> None:
    """The best guess against a uniform shuffle of 64 is right in 1 of 64 slots, not in 0.7 %."""
    manifest = Uniform().shuffle(range(64)).manifest
    assert manifest.attacker_success == pytest.approx(1 / 64)
    assert "guessing 1.6 %" in str(manifest.guarantee)
