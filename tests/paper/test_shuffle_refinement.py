"""The grouping refinement problem (Def. 6, Theorem 2) and the branch of Alg. 2 l. 4-7."""

import itertools
import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.kernels.permute import uniform_order
from rase.kernels.words import SeededRandom
from rase.shuffle.paper import Line9, paper_plan
from rase.shuffle.partition import Partition, sensitivity
from rase.shuffle.permutation import identity, inverse
from rase.shuffle.refinement import refine
from rase.shuffle.robust import Robust


def labellings(n: int) -> set[Partition]:
    """Return every partition of n contributors."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*head, label] for head in found for label in range(max(head) + 2)]
    return {Partition(labels) for labels in found}


@pytest.mark.uncovered
@pytest.mark.departure(row=2)
@each_case("n", range(1, 9))
def test_the_refinement_problem_is_easy_blocks_are_optimal(n: int) -> None:
    """Over all partitions of up to 8 into k groups none beats blocks, exactly or by the bound."""
    best: dict[tuple[int, str], int] = {}
    for partition in labellings(n):
        for method in ("exact", "bound"):
            case = (partition.group_count, method)
            found = sensitivity(partition, method=method)
            best[case] = min(best.get(case, found), found)
    for group_count in range(1, n + 1):
        blocks = refine(n, group_count).partition
        assert sensitivity(blocks) == best[group_count, "exact"]
        assert sensitivity(blocks, method="bound") == best[group_count, "bound"]


@pytest.mark.departure(row=2)
def test_greedy_merging_is_up_to_3_3_times_worse() -> None:
    """At n = 128 greedy groups have 1.4 times the optimal sensitivity on average."""
    ratios = [
        sensitivity(refine(128, k, method="agglomerative").partition)
        / sensitivity(refine(128, k).partition)
        for k in range(2, 128)
    ]
    assert min(ratios) == 1
    assert max(ratios) == pytest.approx(10 / 3)
    assert np.mean(ratios) == pytest.approx(1.39, abs=0.01)


@pytest.mark.departure(row=3)
@each_case(("n", "group_count"), [(16, 4), (64, 16), (64, 8)])
def test_refining_moves_the_loss_to_the_real_groups(n: int, group_count: int) -> None:
    """With theta set for refined groups, real groups that interleave lose many times alpha."""
    real = Partition(np.arange(n) % group_count)
    robust = Robust(30, group_count, partition=real, attacker_cap=math.inf)
    manifest = robust.manifest_for(n)
    refined = sensitivity(refine(n, group_count).partition)
    assert manifest.alpha == pytest.approx(30)
    assert manifest.real_loss == pytest.approx(30 * sensitivity(real) / refined)
    assert 2 < manifest.real_loss / manifest.alpha < 48


def printed_theta(n: int, group_count: int) -> float:
    """Return theta of Alg. 2 l. 7 at alpha = 30, given that the branch of line 4 is taken."""
    real = Partition.contiguous(n, -(-n // 16))
    assert 30 <= sensitivity(real, method="bound") <= 300
    plan = paper_plan(
        identity(n),
        alpha=30,
        group_count=group_count,
        partition=real,
        line9=Line9.LEFT_FIRST_BY_PLACE,
    )
    assert plan.manifest.theta is not None
    return plan.manifest.theta


@pytest.mark.departure(row=6)
def test_after_refinement_reports_keep_their_places() -> None:
    """At n = 64, k = 16 and alpha = 30 theta is 5 and 98.7 % of the reports stay."""
    assert printed_theta(64, 16) == 5
    manifest = Robust(30, 16, attacker_cap=math.inf).manifest_for(64)
    assert manifest.theta == 5
    assert manifest.stay_share == pytest.approx(0.987, abs=0.0005)
    assert Robust(30, 4, attacker_cap=math.inf).manifest_for(16).stay_share == pytest.approx(
        0.99, abs=0.005
    )


@pytest.mark.departure(row=6)
def test_with_many_groups_nothing_moves() -> None:
    """From k = n/2 on theta is 30, and an observer of order is right in all slots."""
    for group_count in (32, 48, 63):
        assert printed_theta(64, group_count) == 30
        manifest = Robust(30, group_count, attacker_cap=math.inf).manifest_for(64)
        assert manifest.attacker_success == pytest.approx(1, abs=1e-11)


@pytest.mark.departure(row=6)
def test_theta_exceeds_1_for_most_numbers_of_groups() -> None:
    """The test of line 4 bounds theta by 1 before refinement only."""
    for n in (16, 64):
        thetas = [printed_theta(n, k) for k in range(2, n)]
        assert np.mean(np.array(thetas) > 1) >= 0.88


@pytest.mark.departure(row=6)
@each_case("group_count", [2, 4, 8, 16])
@each_case("n", [64, 128])
def test_with_arrivals_independent_of_groups_the_branch_is_never_taken(
    n: int, group_count: int
) -> None:
    """In 500 random arrivals equal groups spread too far for Mallows; its chance is below 1e-9."""
    real = Partition.contiguous(n, group_count)
    source = SeededRandom(2026)
    for _ in range(500):
        rank = inverse(uniform_order(n, source))
        assert sensitivity(real, rank, method="bound") > 10 * 30


def test_the_corrected_branch_looks_at_the_observer_after_refinement() -> None:
    """Of all k at n = 64 and alpha = 30, Mallows is kept where it hides, and only there."""
    for group_count, cap in itertools.product((1, 2, 3, 16, 64), (1.5, 2.0, 4.0)):
        manifest = Robust(30, group_count, attacker_cap=cap).manifest_for(64)
        assert manifest.exposed_slot_success < cap / 64
        assert manifest.alpha <= 30 * (1 + 1e-12)
    assert Robust(30, 1).manifest_for(64).method == "mallows"
    assert Robust(30, 2).manifest_for(64).method == "uniform"
