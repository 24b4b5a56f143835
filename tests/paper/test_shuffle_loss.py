"""Theorem 3 for the Mallows branch: which reading of line 9 keeps the loss within alpha.

Every arrival order, partition, neighbour and outcome is enumerated. For distinct reports a release
is explained by one draw, so its privacy loss is theta times a difference of distances; losses
below are in units of alpha = theta times sensitivity.
"""

import itertools
import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cases import each_case

from rase.kernels.permute import inversion_count
from rase.kernels.words import Random
from rase.shuffle.mallows import Mallows
from rase.shuffle.paper import Line9, PaperPlan
from rase.shuffle.partition import Partition, sensitivity
from rase.shuffle.release import mallows_manifest
from rase.shuffle.robust import Robust

Table = NDArray[np.int64]

OTHER_READINGS = [line9 for line9 in Line9 if line9 is not Line9.LEFT_FIRST_BY_PLACE]


@each_case("n", [2, 3, 4, 5])
def test_the_reading_on_places_keeps_the_loss_within_alpha(n: int) -> None:
    """For every partition and arrival the loss is exactly alpha: for values, and for arrivals."""
    values, arrivals = losses(n, Line9.LEFT_FIRST_BY_PLACE)
    np.testing.assert_array_equal(values, 1)
    np.testing.assert_array_equal(arrivals, 1)


@each_case("n", [2, 3, 4, 5])
def test_the_corrected_shuffler_keeps_the_loss_within_alpha(n: int) -> None:
    """What Robust plans for each partition has an enumerated loss of at most its alpha."""
    distances = np.array([inversion_count(order) for order in all_orders(n)])
    for partition in all_partitions(n):
        for refinement in ("contiguous", "none"):
            robust = Robust(
                alpha=2.0,
                group_count=partition.group_count,
                partition=partition,
                refinement=refinement,
                attacker_cap=math.inf,
            )
            manifest = robust.manifest_for(n)
            if manifest.theta is None:
                assert partition.group_count == n
                continue
            used = (
                partition
                if refinement == "none"
                else Partition.contiguous(n, partition.group_count)
            )
            for groups, allowed in ((used, manifest.alpha), (partition, manifest.real_loss)):
                largest = max(
                    np.abs(distances[products(n)[swap]] - distances).max()
                    for swap in swaps_within(groups)
                )
                assert manifest.theta * largest == pytest.approx(allowed)
            assert manifest.alpha == pytest.approx(2.0)


@pytest.mark.uncovered
@each_case("cap", [2.0, math.inf])
@each_case("alpha", [0.3, 0.9, 3.0])
def test_groups_along_edges_lose_no_more_than_is_told(alpha: float, cap: float) -> None:
    """For all real groups and arrivals of 4, by whatever law their neighbours are shuffled."""
    n, is_more_than_one_theta_tells = 4, False
    table = distance_tables(n, Line9.LEFT_FIRST_BY_PLACE)
    for partition in all_partitions(n):
        robust = Robust(
            alpha,
            2,
            partition=partition,
            refinement="connected",
            edges=[(0, 1), (1, 2), (2, 3)],
            attacker_cap=cap,
        )
        plans = [robust.manifest_for(n, arrival=np.argsort(rank)) for rank in all_orders(n)]
        thetas = np.array([plan.theta or 0.0 for plan in plans])
        normalisers = np.array([Mallows(n, theta).log_normaliser for theta in thetas])
        laws = -thetas[:, np.newaxis] * table - normalisers[:, np.newaxis]
        told = np.array([plan.real_loss for plan in plans])
        by_theta = thetas * [sensitivity(partition, rank) for rank in all_orders(n)]
        for images in products(n).T[swaps_within(partition)]:
            lost = np.abs(laws[images] - laws).max(axis=1)
            assert (lost <= told + 1e-9).all()
            is_more_than_one_theta_tells |= bool((lost > by_theta + 1e-9).any())
    assert is_more_than_one_theta_tells


@pytest.mark.uncovered
@pytest.mark.departure(row=7)
@each_case("line9", OTHER_READINGS)
@each_case("n", [3, 4, 5])
def test_every_other_reading_of_line_9_exceeds_alpha(n: int, line9: Line9) -> None:
    """The largest losses: 7 alpha for values, 9 alpha for arrivals at n = 5."""
    values, arrivals = losses(n, line9)
    largest = {
        Line9.LEFT_FIRST_BY_USER: (2 * n - 3, 0),
        Line9.RIGHT_FIRST_BY_PLACE: (2 * n - 3, {3: 3, 4: 5, 5: 9}[n]),
        Line9.RIGHT_FIRST_BY_USER: (1, 2),
    }[line9]
    assert (values.max(), arrivals.max()) == largest


@pytest.mark.departure(row=7)
@each_case("line9", [Line9.LEFT_FIRST_BY_USER, Line9.RIGHT_FIRST_BY_USER])
def test_readings_by_contributor_release_the_contributors_own_sequence(line9: Line9) -> None:
    """Where nothing moves, slot i holds contributor i's report, however the reports arrived."""
    manifest = mallows_manifest(5, "", theta=math.inf, sensitivity=0, alpha=0, real_loss=0)
    for rank in all_orders(5):
        released_places = PaperPlan(rank, line9, manifest).draw()
        arrival = np.argsort(rank)
        assert arrival[released_places].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("line9", Line9)
def test_the_enumerated_readings_are_those_of_the_code(
    line9: Line9, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The distance table of this file is what drawing from the plan gives, for all π at n = 4."""
    manifest = mallows_manifest(4, "", theta=1.0, sensitivity=1, alpha=1, real_loss=1)
    for row, rank in enumerate(all_orders(4)):
        for order in all_orders(4):

            def sample(self: Mallows, *, rng: Random | None = None, order: Table = order) -> Table:
                return order

            monkeypatch.setattr(Mallows, "sample", sample)
            users = np.argsort(rank)[PaperPlan(rank, line9, manifest).draw()]
            distance = distance_tables(4, line9)[row, index_of(4)[key(users)]]
            assert distance == inversion_count(order)


def losses(n: int, line9: Line9) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest loss for swapped values and arrivals, by partition and arrival order."""
    table = distance_tables(n, line9)
    by_value = np.stack([np.abs(table[:, images] - table).max(axis=1) for images in products(n)])
    by_arrival = np.stack([np.abs(table[images] - table).max(axis=1) for images in products(n).T])
    values, arrivals = [], []
    for partition in all_partitions(n):
        swaps = swaps_within(partition)
        if partition.group_count == n:
            continue
        exact = np.array([sensitivity(partition, rank) for rank in all_orders(n)])
        values.append(by_value[swaps].max(axis=0) / exact)
        arrivals.append(by_arrival[swaps].max(axis=0) / exact)
    return np.array(values), np.array(arrivals)


@cache
def distance_tables(n: int, line9: Line9) -> Table:
    """Return the distance of the draw that releases contributors in a sequence, by rank."""
    orders = all_orders(n)
    distances = np.array([inversion_count(order) for order in orders])
    table = np.empty((len(orders), len(orders)), np.int64)
    for row, rank in enumerate(orders):
        arrival = np.argsort(rank)
        star = orders if line9.is_left_first else arrival[orders[:, rank]]
        users = star if line9.is_by_user else arrival[star]
        table[row, index_of(n)[key(users)]] = distances
    return table


@cache
def products(n: int) -> Table:
    """Return the number of the permutation a after b as entry [a, b]."""
    orders = all_orders(n)
    return np.stack([index_of(n)[key(a[orders])] for a in orders])


def swaps_within(partition: Partition) -> Table:
    """Return the numbers of the permutations that rearrange one group and nothing else."""
    orders = all_orders(partition.n)
    moves = orders != np.arange(partition.n)
    is_swap = np.zeros(len(orders), np.bool_)
    for group in partition.groups:
        is_swap |= ~moves[:, ~np.isin(np.arange(partition.n), group)].any(axis=1)
    return np.flatnonzero(is_swap)


def all_partitions(n: int) -> Iterator[Partition]:
    """Yield every partition of n contributors once."""
    return iter({Partition(labels) for labels in itertools.product(range(n), repeat=n)})


@cache
def all_orders(n: int) -> Table:
    """Return all orders of n items, one a row."""
    return np.array(list(itertools.permutations(range(n))))


@cache
def index_of(n: int) -> Table:
    """Return the number of a permutation by its key."""
    index = np.full(n**n, -1)
    index[key(all_orders(n))] = np.arange(math.factorial(n))
    return index


def key(orders: Table) -> Table:
    """Return each order as one number."""
    n = orders.shape[-1]
    keys: Table = orders @ n ** np.arange(n)
    return keys
