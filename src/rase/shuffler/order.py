"""The order in which a round is released: drawn once, by the campaign's plan.

Where the plan is a Mallows law it starts from the campaign's public group order; inside a group,
from a fresh uniform order. Arrival times, device numbers and earlier rounds have no influence.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rase.campaign import ShufflePlan
from rase.kernels.permute import uniform_order
from rase.kernels.words import SecureRandom, checked_secure
from rase.shuffle.release import Manifest, Release
from rase.shuffle.uniform import Uniform

__all__ = ["Order", "draw_order"]

Order: TypeAlias = NDArray[np.int64]


def draw_order(
    groups: Sequence[str], plan: ShufflePlan, *, rng: SecureRandom | None = None
) -> tuple[Order, Manifest]:
    """Draw the order of release of reports whose senders' groups are given.

    Guarantee: that of `Uniform`, `MallowsShuffle` or `Robust` with the public groups as they are;
    the uniform start inside each group makes the loss there 0, so the manifest states an upper
    bound (tests/shuffler/test_order.py).

    Args:
        groups: The public group of each report's sender; names that are not in the plan form
            groups after those that are.
        plan: The campaign's.
        rng: The secure source. A seeded one is refused: who knows the seed could undo the order.

    Returns:
        The place of each released report in ``groups``, and what may be said of the order.

    Raises:
        TypeError: If ``rng`` is not a SecureRandom.
    """
    source = checked_secure(rng)
    if plan.method == "uniform":
        release = Uniform().shuffle(np.arange(len(groups)), rng=source)
    else:
        release = _shuffle_by_groups(groups, plan, source)
    return np.asarray(release.values, np.int64), release.manifest


def _shuffle_by_groups(groups: Sequence[str], plan: ShufflePlan, source: SecureRandom) -> Release:
    # Campaigns with such a plan are rare: a shuffler of others does not load these laws.
    from rase.shuffle.partition import Partition, sensitivity
    from rase.shuffle.robust import Robust
    from rase.shuffle.shufflers import MallowsShuffle

    # Uniform first: a stable sort by group then keeps a uniform order inside each group.
    start = uniform_order(len(groups), source)
    rank = {name: place for place, name in enumerate(plan.groups)}
    labels = np.array([rank.get(name, len(rank)) for name in groups], dtype=np.int64)[start]
    by_group = np.argsort(labels, kind="stable")
    start, partition = start[by_group], Partition(labels[by_group])
    # Without a group of two theta would have no bound, and nothing would move.
    if not sensitivity(partition):
        return Uniform().shuffle(start, rng=source)
    if plan.method == "mallows":
        return MallowsShuffle(alpha=plan.alpha, partition=partition).shuffle(start, rng=source)
    law = Robust(plan.alpha, partition.group_count, partition=partition, refinement="none")
    return law.shuffle(start, rng=source)
