import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.kernels.permute import uniform_order
from rase.kernels.words import SeededRandom
from rase.shuffle.mallows import Mallows
from rase.shuffle.paper import Line9
from rase.shuffle.partition import Partition
from rase.shuffle.permutation import inverse
from rase.shuffle.robust import Robust
from rase.shuffle.shufflers import UnsafeShuffleWarning, cyclic_order

ARRIVAL = uniform_order(12, SeededRandom(5))


def paper_mode(
    *, alpha: float, group_count: int, line9: Line9, partition: Partition | None = None
) -> Robust:
    """Build the shuffler of Algorithm 2 as printed."""
    with pytest.warns(UnsafeShuffleWarning, match="Algorithm 2 as printed"):
        return Robust(alpha, group_count, partition=partition, mode="paper", line9=line9)


@each_case("line9", Line9)
def test_each_reading_of_line_9_releases_what_its_name_says(line9: Line9) -> None:
    """From one Mallows draw π, slots receive the report of the place or contributor described."""
    rank = inverse(ARRIVAL)
    robust = paper_mode(alpha=30, group_count=4, line9=line9)
    by_contributor = 100 + np.arange(12)
    arrived = by_contributor[ARRIVAL]
    release = robust.shuffle(arrived, rng=SeededRandom(1), arrival=ARRIVAL)
    theta = release.manifest.theta
    assert theta == 30 / 6
    pi = Mallows(12, theta).sample(rng=SeededRandom(1))
    conjugate = ARRIVAL[pi[rank]]
    expected = {
        Line9.LEFT_FIRST_BY_PLACE: arrived[pi],
        Line9.LEFT_FIRST_BY_USER: by_contributor[pi],
        Line9.RIGHT_FIRST_BY_PLACE: arrived[conjugate],
        Line9.RIGHT_FIRST_BY_USER: by_contributor[conjugate],
    }[line9]
    assert release.values.tolist() == expected.tolist()
    assert line9.value in release.manifest.reason


@each_case("line9", Line9)
def test_outside_the_bounds_of_line_4_the_loop_starts_at_the_data_permutation(line9: Line9) -> None:
    """Lines 11 to 17: z_i is the y of index σ_y(c(i)), c a cyclic permutation."""
    rank = inverse(ARRIVAL)
    by_contributor = 100 + np.arange(12)
    robust = paper_mode(alpha=3, group_count=4, line9=line9)
    release = robust.shuffle(by_contributor[ARRIVAL], rng=SeededRandom(1), arrival=ARRIVAL)
    star = rank[cyclic_order(12, SeededRandom(1))]
    indexed = by_contributor if line9.is_by_user else by_contributor[ARRIVAL]
    assert release.values.tolist() == indexed[star].tolist()
    assert release.manifest.method == "cyclic"
    assert release.manifest.alpha == math.inf
    assert "lies outside [3, 30]" in release.manifest.reason


def test_losses_are_told_as_they_are() -> None:
    """The private reading loses theta times exact sensitivity, others up to theta n(n-1)/2."""
    partition = Partition.contiguous(12, 2)
    sound = paper_mode(
        alpha=10, group_count=3, line9=Line9.LEFT_FIRST_BY_PLACE, partition=partition
    ).manifest_for(12)
    assert (sound.theta, sound.sensitivity) == (10 / 6, 6)
    assert sound.alpha == pytest.approx(10)
    assert sound.real_loss == pytest.approx(10 * 15 / 6)
    other = paper_mode(
        alpha=10, group_count=3, line9=Line9.RIGHT_FIRST_BY_USER, partition=partition
    ).manifest_for(12)
    assert other.alpha == other.real_loss == pytest.approx(10 / 6 * 66)


def test_groups_of_one_move_nothing() -> None:
    """At k = n theta is infinite, and the printed algorithm releases the sequence as it is."""
    robust = paper_mode(alpha=30, group_count=12, line9=Line9.LEFT_FIRST_BY_PLACE)
    release = robust.shuffle(np.arange(12))
    assert release.values.tolist() == list(range(12))
    assert release.manifest.theta == math.inf
    assert release.manifest.alpha == 0
    assert release.manifest.real_loss == math.inf
    assert release.manifest.attacker_success == 1


def test_partitions_of_others_are_refused() -> None:
    """Paper mode checks its arguments as corrected mode does."""
    robust = paper_mode(
        alpha=3, group_count=2, line9=Line9.RIGHT_FIRST_BY_USER, partition=Partition([0, 0, 1])
    )
    with pytest.raises(ValueError, match="partition must group the 4 contributors who report"):
        robust.shuffle(range(4))
