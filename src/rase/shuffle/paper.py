"""Algorithm 2 as the paper prints it, with every reading of its line 9; for study alone.

Nothing here keeps the promise of Theorem 3 (docs/explain/paper.md, rows 1, 3, 6 and 7). Places and
contributors are counted from 0; the data permutation σ_y is a rank (places by contributor).
"""

import math
from dataclasses import dataclass
from enum import Enum

from rase.kernels.permute import Order
from rase.kernels.words import Random, source_of
from rase.shuffle.mallows import Mallows
from rase.shuffle.partition import Partition, sensitivity
from rase.shuffle.permutation import compose, order_of, rank_of
from rase.shuffle.refinement import refine
from rase.shuffle.release import Manifest, cyclic_manifest, loss_of, mallows_manifest
from rase.shuffle.shufflers import cyclic_order

__all__ = ["Line9", "PaperPlan", "paper_plan"]


class Line9(Enum):
    """Name the four readings of ``σ* = σ_y⁻¹ τ; z_i = y_σ*(i)`` (Alg. 2 l. 9 and 17).

    A product of permutations can apply its left or its right factor first, and y_i can be the
    report of contributor i or the report at arrival place i. Which combination is meant the paper
    does not say.
    """

    LEFT_FIRST_BY_PLACE = "left first, y by arrival place"
    """z_i is the report at place π(i), π around the identity: the reading that is private."""
    LEFT_FIRST_BY_USER = "left first, y by contributor"
    """z_i is contributor π(i)'s report: near the contributors' own sequence, whoever came first."""
    RIGHT_FIRST_BY_PLACE = "right first, y by arrival place"
    """z_i is the report at the place σ_y⁻¹πσ_y(i)."""
    RIGHT_FIRST_BY_USER = "right first, y by contributor"
    """z_i is the report of contributor σ_y⁻¹πσ_y(i): what usual notation says."""

    @property
    def is_left_first(self) -> bool:
        """Whether the product applies its left factor first."""
        return self in (Line9.LEFT_FIRST_BY_PLACE, Line9.LEFT_FIRST_BY_USER)

    @property
    def is_by_user(self) -> bool:
        """Whether y_i is the report of contributor i."""
        return self in (Line9.LEFT_FIRST_BY_USER, Line9.RIGHT_FIRST_BY_USER)


@dataclass(frozen=True, slots=True)
class PaperPlan:
    """The decision of lines 1 to 7 for one round, before anything is drawn.

    Args:
        rank: The data permutation (Eq. 6).
        line9: The reading of line 9.
        manifest: What will be done.
    """

    rank: Order
    line9: Line9
    manifest: Manifest

    def draw(self, *, rng: Random | None = None) -> Order:
        """Draw lines 8 to 16: the arrival place whose report each slot receives."""
        if self.manifest.theta is None:
            # σ* begins as σ_y and has its entries interchanged.
            star = compose(self.rank, cyclic_order(self.rank.size, source_of(rng)))
        else:
            star = self._line_9(Mallows(self.rank.size, self.manifest.theta).sample(rng=rng))
        return compose(self.rank, star) if self.line9.is_by_user else star

    def _line_9(self, order: Order) -> Order:
        back = order_of(self.rank)
        # Around the centre σ_y a Mallows draw is an order around the identity after σ_y.
        tau = compose(order, self.rank)
        return compose(tau, back) if self.line9.is_left_first else compose(back, tau)


def paper_plan(
    arrival: Order, *, alpha: float, group_count: int, partition: Partition, line9: Line9
) -> PaperPlan:
    """Decide lines 1 to 7 of Algorithm 2 for one round of at least one report.

    Args:
        arrival: The contributor at each place.
        alpha: The paper's privacy budget.
        group_count: k, at most the number of reports.
        partition: The initial partition ξ_0 of line 2.
        line9: The reading of line 9.
    """
    n = arrival.size
    rank = rank_of(arrival)
    initial = sensitivity(partition, rank, method="bound")
    if not alpha <= initial <= 10 * alpha:
        reason = (
            f"Sensitivity {initial} of the initial groups lies outside "
            f"[{alpha:g}, {10 * alpha:g}] (Alg. 2 l. 4)."
        )
        return PaperPlan(rank, line9, cyclic_manifest(n, reason))
    groups = refine(n, group_count, method="agglomerative", rank=rank).partition
    refined = sensitivity(groups, rank, method="bound")
    theta = alpha / refined if refined else math.inf
    if line9 is Line9.LEFT_FIRST_BY_PLACE:
        losses = [loss_of(theta, sensitivity(xi, rank)) for xi in (groups, partition)]
    else:
        # Whatever the reading, one draw explains a release of distinct reports; the probabilities
        # of two draws differ by no more than the largest distance allows.
        losses = [loss_of(theta, n * (n - 1) // 2)] * 2
    manifest = mallows_manifest(
        n,
        f"Sensitivity {initial} of the initial groups lies within [{alpha:g}, {10 * alpha:g}] "
        f"(Alg. 2 l. 4); refined to {refined}, theta is {theta:.4g}; line 9 read as {line9.value}.",
        theta=theta,
        sensitivity=refined,
        alpha=losses[0],
        real_loss=losses[1],
    )
    return PaperPlan(rank, line9, manifest)
