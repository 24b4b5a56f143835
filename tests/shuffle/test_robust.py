import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.kernels.permute import uniform_order
from rase.kernels.words import SeededRandom
from rase.shuffle.attacker import order_attack
from rase.shuffle.mallows import Mallows
from rase.shuffle.partition import Partition, sensitivity
from rase.shuffle.permutation import inverse
from rase.shuffle.robust import Robust


def test_mallows_is_drawn_where_it_hides_senders() -> None:
    """Two groups of 64 at alpha 12 stay below twice chance, and the manifest has the numbers."""
    robust = Robust(alpha=12, group_count=2, partition=Partition.contiguous(64, 1))
    release, order = robust.insecure_shuffle_with_order(np.arange(64), rng=SeededRandom(2026))
    manifest = release.manifest
    assert manifest.method == "mallows"
    assert manifest.sensitivity == 32 * 31 // 2
    assert manifest.theta == pytest.approx(12 / 496)
    assert manifest.alpha == pytest.approx(12)
    assert manifest.real_loss == pytest.approx(12 / 496 * 64 * 63 / 2)
    attack = order_attack(64, 12 / 496)
    assert manifest.attacker_success == attack.mean_success
    assert manifest.exposed_slot_success == attack.exposed_success < 2 / 64
    assert f"first and the last sender in {100 * attack.exposed_success:.3g} %" in manifest.reason
    assert "below the cap of 2/64 = 3.12 %" in manifest.reason
    drawn = Mallows(64, 12 / 496).sample(rng=SeededRandom(2026))
    assert order.tolist() == release.values.tolist() == drawn.tolist()


def test_uniform_is_drawn_where_mallows_would_expose_senders() -> None:
    """Sixteen groups of 64 would let 98.7 % keep their place, so the order is uniform."""
    manifest = Robust(alpha=30, group_count=16).manifest_for(64)
    assert (manifest.method, manifest.alpha, manifest.real_loss) == ("uniform", 0, 0)
    assert "Theta 5 = alpha 30 / sensitivity 6 of 16 groups" in manifest.reason
    assert "the last sender in 99.3 % of rounds, not below the cap" in manifest.reason


def test_the_cap_decides() -> None:
    """A cap just above the most exposed slot's success takes Mallows, one just below uniform."""
    success = 64 * order_attack(64, 5.0).exposed_success
    for cap, method in ((success * 1.001, "mallows"), (success * 0.999, "uniform")):
        assert Robust(alpha=30, group_count=16, attacker_cap=cap).manifest_for(64).method == method


def test_where_the_mean_keeps_the_cap_the_ends_must_keep_it_too() -> None:
    """Two groups of 64 at alpha 30: the mean is below twice chance, the first sender not."""
    attack = order_attack(64, 30 / 496)
    assert attack.mean_success < 2 / 64 < 3.8 / 64 < attack.exposed_success
    assert Robust(alpha=30, group_count=2).manifest_for(64).method == "uniform"


def test_a_cap_of_certainty_is_no_cap() -> None:
    """Among two reports twice chance is certainty, so they are shuffled uniformly."""
    robust = Robust(alpha=1, group_count=1)
    assert robust.manifest_for(2).method == "uniform"
    assert robust.manifest_for(2).reason == "A cap of 2/2 is certainty and would protect nobody."
    assert robust.manifest_for(3).method == "mallows"
    uncapped = Robust(alpha=1, group_count=1, attacker_cap=math.inf).manifest_for(2)
    assert uncapped.method == "mallows"
    assert uncapped.reason.startswith("Theta 1 = alpha 1 / sensitivity 1 of 1 groups lets")
    assert "73.1 % of rounds, and there is no cap." in uncapped.reason


def test_groups_of_one_are_shuffled_uniformly() -> None:
    """Where theta would be infinite nothing may stay as it is."""
    manifest = Robust(alpha=30, group_count=9).manifest_for(5)
    assert manifest.method == "uniform"
    assert "With 5 groups of one" in manifest.reason
    assert Robust(alpha=30, group_count=9).manifest_for(1).reason == "There was nothing to shuffle."


@each_case("n", [0, 1])
@each_case("refinement", ["contiguous", "agglomerative", "connected", "none"])
@each_case("has_partition", [False, True])
def test_rounds_without_anybody_to_hide_among_pass(
    n: int, refinement: str, has_partition: bool
) -> None:
    """Whatever the groups, nothing is shuffled and nothing lost; arrivals are checked as ever."""
    robust = Robust(
        alpha=3,
        group_count=2,
        partition=Partition([0] * n) if has_partition else None,
        refinement=refinement,  # type: ignore[arg-type]
        edges=[] if refinement == "connected" else None,
    )
    release = robust.shuffle(np.arange(n), arrival=range(n))
    assert release.values.tolist() == list(range(n))
    assert (release.manifest.reason, release.manifest.real_loss) == (
        "There was nothing to shuffle.",
        0.0,
    )
    with pytest.raises(ValueError, match=f"arrival must name a contributor for each of {n}"):
        robust.manifest_for(n, arrival=[0, 1])


def test_unnamed_groups_count_as_one_group_of_all() -> None:
    """Without a partition the real loss is the worst case, and the reason says so."""
    manifest = Robust(alpha=3, group_count=2, attacker_cap=math.inf).manifest_for(6)
    assert manifest.real_loss == pytest.approx(15.0)
    assert "Nobody named the real groups" in manifest.reason


@each_case(("n", "groups"), [(2, 1), (7, 3), (64, 5), (64, 64), (65, 2), (10, 99)])
def test_planning_for_no_arrival_in_particular_is_planning_for_one(n: int, groups: int) -> None:
    """Blocks measured by their size alone have the sensitivity of blocks looked at in order."""
    robust = Robust(alpha=0.5, group_count=groups)
    assert robust.manifest_for(n) == robust.manifest_for(n, arrival=range(n))


def test_real_groups_can_be_kept() -> None:
    """Without refinement alpha is the loss for the real groups, at the places where they stand."""
    partition = Partition([0, 0, 1, 1, 0])
    arrival = np.array([0, 2, 3, 1, 4])
    robust = Robust(
        alpha=3, group_count=2, partition=partition, refinement="none", attacker_cap=math.inf
    )
    manifest = robust.manifest_for(5, arrival=arrival)
    exact = sensitivity(partition, inverse(arrival))
    assert manifest.sensitivity == exact == 7
    assert manifest.alpha == manifest.real_loss == pytest.approx(3)


def test_refinements_other_than_blocks_can_be_asked_for() -> None:
    """Greedy and connected groups set theta by their own sensitivity."""
    greedy = Robust(alpha=3, group_count=2, refinement="agglomerative", attacker_cap=math.inf)
    assert greedy.manifest_for(6).sensitivity == 6
    path = iter([(i, i + 1) for i in range(5)])
    connected = Robust(
        alpha=3, group_count=2, refinement="connected", edges=path, attacker_cap=math.inf
    )
    assert [connected.manifest_for(6).sensitivity for _ in range(2)] == [3, 3]


@each_case("refinement", ["contiguous", "agglomerative", "connected", "none"])
def test_neighbouring_arrivals_are_planned_alike(refinement: str) -> None:
    """Theta is the same after members of a group used have changed places, so it tells nothing."""
    n, source = 8, SeededRandom(2026)
    edges = [(0, 5), (5, 2), (2, 7), (7, 1), (1, 6), (6, 3), (3, 4)]
    robust = Robust(
        alpha=3,
        group_count=3,
        partition=Partition([0, 1, 2, 0, 1, 2, 0, 1]),
        refinement=refinement,  # type: ignore[arg-type]
        edges=edges if refinement == "connected" else None,
        attacker_cap=math.inf,
    )
    for _ in range(20):
        arrival = uniform_order(n, source)
        groups = robust._refine(n, inverse(arrival))
        for group in groups.groups:
            places = np.flatnonzero(np.isin(arrival, group))
            neighbour = arrival.copy()
            neighbour[places] = arrival[places][uniform_order(places.size, source)]
            other, own = (robust.manifest_for(n, arrival=one) for one in (neighbour, arrival))
            assert other.theta == own.theta


def test_partitions_of_others_are_refused() -> None:
    """The partition must be of those who report, and the error tells the way out."""
    robust = Robust(alpha=3, group_count=2, partition=Partition([0, 0, 1]))
    with pytest.raises(
        ValueError, match=r"partition must group the 4 .* got one of 3; Partition\."
    ):
        robust.shuffle(range(4))
    with pytest.raises(ValueError, match="arrival must name a contributor for each of 3 reports"):
        robust.shuffle(range(3), arrival=[0, 1])
    with pytest.raises(ValueError, match=r"arrival must be a permutation of 0\.\.2"):
        robust.shuffle(range(3), arrival=[0, 1, 1])


@each_case(
    ("arguments", "message"),
    [
        ({"alpha": 0}, "alpha must be above 0 and finite"),
        ({"group_count": 0}, "group_count must be at least 1"),
        ({"attacker_cap": 0.5}, "attacker_cap must be at least 1"),
        ({"mode": "printed"}, 'mode must be "corrected" or "paper"'),
        ({"refinement": "best"}, 'refinement must be "contiguous"'),
        ({"refinement": "connected"}, 'edges must be given for refinement "connected" alone'),
        ({"edges": [(0, 1)]}, 'edges must be given for refinement "connected" alone'),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    """Each error names the argument and what it must be."""
    full: dict[str, object] = {"alpha": 3, "group_count": 2, **arguments}
    with pytest.raises(ValueError, match=message):
        Robust(**full)  # type: ignore[arg-type]
