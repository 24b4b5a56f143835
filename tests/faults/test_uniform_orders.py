"""Uniform orders leave no round as it came: batches, single rounds, and what a shuffler releases.

Of 24 reports one order in 24! is that of arrival, so a round that kept it was not shuffled. The
false-alarm rate of each test is below 1e-19. A share of 0.1 % of rounds left as they came is missed
with a chance of exp(-20).
"""

import numpy as np

from rase.campaign import ShufflePlan
from rase.kernels.permute import shuffle_rows, uniform_order
from rase.kernels.words import SeededRandom
from rase.shuffle.uniform import Uniform
from rase.shuffler.order import draw_order

REPORTS = 24
ROUNDS = 20_000


def test_batches_are_shuffled() -> None:
    """None of many rounds that are shuffled at once keeps its order."""
    came = np.arange(REPORTS, dtype=np.float64)
    rows = np.tile(came, (ROUNDS, 1))
    shuffle_rows(rows, SeededRandom(2026))
    assert (np.sort(rows, axis=1) == came).all()
    assert not (rows == came).all(axis=1).any()


def test_single_rounds_are_shuffled() -> None:
    """None of many rounds that are shuffled one by one keeps its order."""
    came = np.arange(REPORTS)
    source = SeededRandom(2026)
    assert not any((uniform_order(REPORTS, source) == came).all() for _ in range(ROUNDS))
    values = came.astype(np.float64)
    shuffled = (Uniform().shuffle(values, rng=source).values for _ in range(ROUNDS))
    assert not any((one == values).all() for one in shuffled)


def test_released_rounds_are_shuffled() -> None:
    """None of many rounds of the live shuffler is released in the order of arrival."""
    groups, came, plan = [""] * REPORTS, list(range(REPORTS)), ShufflePlan()
    assert not any(draw_order(groups, plan)[0].tolist() == came for _ in range(ROUNDS))
