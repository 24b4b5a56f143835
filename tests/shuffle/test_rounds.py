"""Many rounds shuffled at once: each on its own, by the law of a single one."""

import numpy as np
import pytest
from tests.cases import each_case

from rase import Mallows, Robust, SeededRandom, Uniform


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
    assert release.manifest == shuffler.manifest_for(64)
    with pytest.raises(ValueError, match="values must have one round a row"):
        shuffler.shuffle_rounds(table[0])


def test_mallows_rounds_are_those_of_the_law() -> None:
    """The orders of many rounds are the law's own samples from the same words."""
    robust = Robust(alpha=0.1, group_count=16)
    theta = robust.manifest_for(64).theta
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
