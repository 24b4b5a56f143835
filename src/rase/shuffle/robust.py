"""RS, the robust shuffler (Algorithm 2): Mallows where it protects, uniform elsewhere.

The corrected mode differs from the print where the print breaks its own promise; the paper mode
runs the print (docs/explain/paper.md, rows 1 to 7).
"""

import math
import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rase.kernels.permute import Order, shuffle_rows, uniform_order, values_in_order
from rase.kernels.words import Random, source_of
from rase.shuffle.agglomeration import Edges
from rase.shuffle.attacker import order_attack
from rase.shuffle.checks import number_at_least, positive_number, whole_number
from rase.shuffle.mallows import Mallows
from rase.shuffle.paper import Line9, PaperPlan, paper_plan
from rase.shuffle.partition import Partition, sensitivity
from rase.shuffle.permutation import as_permutation, identity, rank_of
from rase.shuffle.refinement import refine
from rase.shuffle.release import (
    Manifest,
    Release,
    as_rounds,
    as_values,
    mallows_manifest,
    uniform_manifest,
)
from rase.shuffle.shufflers import UnsafeShuffleWarning

__all__ = ["Line9", "Robust"]


@dataclass(frozen=True, slots=True)
class Robust:
    """Shuffle by a Mallows law if that hides senders well enough, uniformly otherwise.

    Corrected mode: refine the groups, set theta = alpha / exact sensitivity, and draw from Mallows
    only if the best observer of order alone then names the sender of every slot, the most exposed
    ones (first and last) included, with a probability below ``attacker_cap / n``; else draw
    uniformly, at alpha = 0. A cap of n or more is certainty and would allow every theta, so rounds
    of that few reports are shuffled uniformly too. Since refined groups are other than the real
    ones, the manifest states the loss for both. Where groups follow ``edges`` and a real group is
    spread over several of them, neighbouring arrivals may be shuffled by different laws; the real
    loss is then the most that any two of them lose.

    Guarantee: in corrected mode, loss at most alpha for the groups used, for swapped arrivals and
    swapped values, and at most ``real_loss`` for the real ones (tests/paper/test_shuffle_loss.py),
    assuming the shuffler keeps its permutation to itself. The promise is about the values released;
    if ``arrival`` is passed, the manifest's ``real_loss`` depends on where the real groups stood,
    and should stay with the shuffler. In paper mode: none, and building it warns.

    Args:
        alpha: The privacy loss allowed.
        group_count: k, the number of groups to refine into; rounds with fewer reports use as many
            groups as reports.
        partition: The contributors' real groups. If nobody named them, the worst case is taken:
            one group of all.
        mode: "corrected", or "paper" for Algorithm 2 as printed.
        attacker_cap: How many times better than chance the best observer of order may be in the
            slot that is most exposed; infinity for no cap at all.
        refinement: How corrected mode groups: "contiguous" blocks of arrival places (optimal),
            "agglomerative" (the paper's greedy), "connected" along ``edges``, or "none" to keep
            the real groups.
        edges: The relationship graph for "connected".
        line9: The reading of line 9 that paper mode takes.

    Raises:
        TypeError: If a number is not one.
        ValueError: If an argument is out of range or does not fit the others.

    Example:
        >>> release = Robust(alpha=30, group_count=16).shuffle(range(64))
        >>> release.manifest.method, release.manifest.alpha
        ('uniform', 0.0)
    """

    alpha: float
    group_count: int
    _: KW_ONLY
    partition: Partition | None = None
    mode: Literal["corrected", "paper"] = "corrected"
    attacker_cap: float = 2.0
    refinement: Literal["contiguous", "agglomerative", "connected", "none"] = "contiguous"
    edges: Iterable[tuple[int, int]] | Edges | None = None
    line9: Line9 = Line9.RIGHT_FIRST_BY_USER

    def __post_init__(self) -> None:
        """Check the arguments once; warn about paper mode."""
        object.__setattr__(self, "alpha", positive_number("alpha", self.alpha))
        object.__setattr__(
            self, "group_count", whole_number("group_count", self.group_count, least=1)
        )
        object.__setattr__(
            self, "attacker_cap", number_at_least("attacker_cap", self.attacker_cap, least=1.0)
        )
        if self.mode not in ("corrected", "paper"):
            raise ValueError(f'mode must be "corrected" or "paper", got {self.mode!r}.')
        if self.refinement not in ("contiguous", "agglomerative", "connected", "none"):
            raise ValueError(
                'refinement must be "contiguous", "agglomerative", "connected" or "none", '
                f"got {self.refinement!r}."
            )
        if (self.edges is not None) != (self.refinement == "connected"):
            raise ValueError('edges must be given for refinement "connected" alone.')
        if self.edges is not None:
            # An iterator would be empty in the second round.
            object.__setattr__(self, "edges", tuple((int(a), int(b)) for a, b in self.edges))
        if self.mode == "paper":
            warnings.warn(
                "mode 'paper' runs Algorithm 2 as printed, which gives no privacy guarantee; "
                "use it to study the paper only.",
                UnsafeShuffleWarning,
                stacklevel=3,
            )

    def shuffle(
        self, values: ArrayLike, *, rng: Random | None = None, arrival: ArrayLike | None = None
    ) -> Release:
        """Return the values in a random order, with a manifest.

        Args:
            values: One report an entry, in the order of arrival; or a table of rows.
            rng: The source of randomness; secure if not given.
            arrival: The contributor at each place; their own sequence if not given.

        Raises:
            ValueError: If the partition is one of another number of contributors, or ``arrival``
                is not an order of them.
        """
        table = as_values(values)
        manifest, order = self._draw_order(len(table), rng, arrival)
        return Release(values_in_order(table, order), manifest)

    def insecure_shuffle_with_order(
        self, values: ArrayLike, *, rng: Random | None = None, arrival: ArrayLike | None = None
    ) -> tuple[Release, Order]:
        """Shuffle and also return the order, which undoes all protection; for study only."""
        table = as_values(values)
        manifest, order = self._draw_order(len(table), rng, arrival)
        return Release(table[order], manifest), order

    def _draw_order(
        self, n: int, rng: Random | None, arrival: ArrayLike | None
    ) -> tuple[Manifest, Order]:
        if self.mode == "paper" and n:
            printed = self._paper_plan(n, arrival)
            return printed.manifest, printed.draw(rng=rng)
        manifest = self.manifest_for(n, arrival=arrival)
        return manifest, _draw_order(manifest, source_of(rng))

    def shuffle_rounds(self, values: ArrayLike, *, rng: Random | None = None) -> Release:
        """Shuffle many rounds, one a row, each on its own; the manifest is that of every one.

        Raises:
            ValueError: If the partition is one of another number of contributors, or in paper mode.
        """
        if self.mode == "paper":
            raise ValueError('mode must be "corrected" for many rounds at once; use shuffle.')
        table = as_rounds(values)
        source = source_of(rng)
        manifest = self.manifest_for(table.shape[1])
        if manifest.theta is None:
            shuffle_rows(table, source)
            return Release(table, manifest)
        orders = Mallows(manifest.n, manifest.theta).samples(len(table), rng=source)
        return Release(np.take_along_axis(table, orders, axis=1), manifest)

    def manifest_for(self, n: int, *, arrival: ArrayLike | None = None) -> Manifest:
        """Return the manifest that shuffling n reports would carry, drawing nothing.

        Raises:
            ValueError: As `shuffle`.
        """
        n = whole_number("n", n, least=0)
        if self.mode == "paper" and n:
            return self._paper_plan(n, arrival).manifest
        self._check_partition(n)
        if n < 2:
            _arrival(n, arrival)
            return uniform_manifest(n, "There was nothing to shuffle.")
        measured = self._sensitivities(n, arrival)
        if measured.used == 0:
            return uniform_manifest(
                n, f"With {n} groups of one, theta would be infinite and nothing would move."
            )
        if n <= self.attacker_cap < math.inf:
            return uniform_manifest(
                n, f"A cap of {self.attacker_cap:g}/{n} is certainty and would protect nobody."
            )
        exact = measured.used
        theta = self.alpha / exact
        success = order_attack(n, theta).exposed_success
        is_hidden = success < self.attacker_cap / n
        reason = (
            f"Theta {theta:.4g} = alpha {self.alpha:g} / sensitivity {exact} of "
            f"{measured.group_count} groups {'lets' if is_hidden else 'would let'} the best "
            f"observer of order name the first and the last sender in {100 * success:.3g} % of "
            f"rounds, {self._compare_with_cap(n, is_hidden=is_hidden)}."
        )
        at_most = None
        if measured.alphas_at_most is not None:
            at_most = self.alpha * measured.alphas_at_most
            reason += (
                " Real groups are spread over several of these, whose sensitivity is another for "
                "neighbouring arrivals: the real loss is the most there can be."
            )
        elif is_hidden and self.partition is None:
            reason += " Nobody named the real groups: their loss is that of one group of all."
        if not is_hidden:
            return uniform_manifest(n, reason, real_loss=at_most or 0.0)
        return mallows_manifest(
            n,
            reason,
            theta=theta,
            sensitivity=exact,
            alpha=theta * exact,
            real_loss=theta * measured.real if at_most is None else at_most,
        )

    def _compare_with_cap(self, n: int, *, is_hidden: bool) -> str:
        if self.attacker_cap == math.inf:
            return "and there is no cap"
        return (
            f"{'below' if is_hidden else 'not below'} the cap of {self.attacker_cap:g}/{n} = "
            f"{100 * self.attacker_cap / n:.3g} %"
        )

    def _sensitivities(self, n: int, arrival: ArrayLike | None) -> "_Sensitivities":
        if arrival is None and self.partition is None and self.refinement == "contiguous":
            # Blocks of neighbours in their own order: the largest can be reversed, and no group
            # need be looked at member by member.
            count = min(self.group_count, n)
            return _Sensitivities(_reversals(-(-n // max(count, 1))), _reversals(n), count)
        rank = rank_of(_arrival(n, arrival))
        groups, real = self._refine(n, rank), self._real_groups(n)
        alphas = None
        if self.refinement == "connected" and not _is_inside(real, groups):
            # No arrival gives the largest group less sensitivity than standing side by side. Of
            # Mallows laws up to the theta of that, the uniform one included, two differ by theta
            # times the largest distance at most: log Z and theta d + log Z are monotonous in theta.
            largest = int(np.bincount(groups.labels).max(initial=0))
            alphas = _reversals(n) / max(_reversals(largest), 1)
        return _Sensitivities(
            sensitivity(groups, rank), sensitivity(real, rank), groups.group_count, alphas
        )

    def _refine(self, n: int, rank: Order) -> Partition:
        if self.refinement == "none":
            return self._real_groups(n)
        group_count = min(self.group_count, n)
        if self.refinement == "connected":
            # Places of single contributors must not decide on the groups, or theta would tell
            # neighbouring arrivals apart; their public numbers may.
            return refine(n, group_count, method="connected", edges=self.edges).partition
        return refine(n, group_count, method=self.refinement, rank=rank).partition

    def _real_groups(self, n: int) -> Partition:
        return Partition.contiguous(n, 1) if self.partition is None else self.partition

    def _check_partition(self, n: int) -> None:
        if self.partition is not None and self.partition.n != n:
            raise ValueError(
                f"partition must group the {n} contributors who report, got one of "
                f"{self.partition.n}; Partition.restricted(...) takes those who do."
            )

    def _paper_plan(self, n: int, arrival: ArrayLike | None) -> PaperPlan:
        order_of_arrival = _arrival(n, arrival)
        self._check_partition(n)
        return paper_plan(
            order_of_arrival,
            alpha=self.alpha,
            group_count=min(self.group_count, n),
            partition=self._real_groups(n),
            line9=self.line9,
        )


@dataclass(frozen=True, slots=True)
class _Sensitivities:
    """Of the groups used, of the real groups, and how many the former are.

    ``alphas_at_most`` is how many alphas the real groups lose at most where neighbouring arrivals
    of theirs may have another theta; None where all have the same.
    """

    used: float
    real: float
    group_count: int
    alphas_at_most: float | None = None


def _is_inside(inner: Partition, outer: Partition) -> bool:
    """Return whether each group of one partition lies within a group of the other."""
    pairs = np.unique(np.stack([inner.labels, outer.labels]), axis=1)
    return len(pairs.T) == inner.group_count


def _reversals(size: int) -> int:
    """Return the Kendall distance from a group of neighbours to its reverse."""
    return size * (size - 1) // 2


def _arrival(n: int, arrival: ArrayLike | None) -> Order:
    if arrival is None:
        return identity(n)
    checked = as_permutation(arrival, name="arrival")
    if checked.size != n:
        raise ValueError(
            f"arrival must name a contributor for each of {n} reports, got {checked.size}."
        )
    return checked


def _draw_order(manifest: Manifest, source: Random) -> Order:
    if manifest.theta is None:
        return uniform_order(manifest.n, source)
    return Mallows(manifest.n, manifest.theta).sample(rng=source)
