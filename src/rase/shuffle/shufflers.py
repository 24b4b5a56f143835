"""The other single-law shufflers: the paper's cyclic loop, and Mallows.

`Robust`, the paper's RS, chooses among these laws and `Uniform`.
"""

import warnings
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from rase.kernels.integers import integers_below
from rase.kernels.permute import (
    Order,
    order_from_swaps,
    values_in_order,
)
from rase.kernels.words import Random, source_of
from rase.shuffle.checks import positive_number
from rase.shuffle.mallows import Mallows
from rase.shuffle.partition import Partition, sensitivity
from rase.shuffle.release import (
    Manifest,
    Release,
    as_values,
    cyclic_manifest,
    mallows_manifest,
    uniform_manifest,
)

__all__ = [
    "Cyclic",
    "MallowsShuffle",
    "UnsafeShuffleWarning",
    "cyclic_order",
]


class UnsafeShuffleWarning(UserWarning):
    """A shuffler was built that the paper prints but that does not keep the paper's promise."""


@dataclass(frozen=True, slots=True)
class Cyclic:
    """Release the reports by the paper's loop (Alg. 2 l. 11-15), which is Sattolo's algorithm.

    The paper calls its outcome uniform. It draws only the (n-1)! cyclic permutations: no report
    keeps its place, and of two reports the order is fixed (docs/explain/paper.md, row 1).

    Guarantee: none. Arrival orders that differ by one interchange never lead to the same release
    (tests/paper/test_shuffle_fallback.py), so the loss is infinite. Use `Uniform`.
    """

    def __post_init__(self) -> None:
        """Warn whoever builds it."""
        warnings.warn(
            "Cyclic has an infinite privacy loss (it draws cyclic permutations only); "
            "use Uniform unless the paper's loop is what you study.",
            UnsafeShuffleWarning,
            stacklevel=3,
        )

    def shuffle(self, values: ArrayLike, *, rng: Random | None = None) -> Release:
        """Return the values after the paper's loop."""
        return self.insecure_shuffle_with_order(values, rng=rng)[0]

    def insecure_shuffle_with_order(
        self, values: ArrayLike, *, rng: Random | None = None
    ) -> tuple[Release, Order]:
        """Shuffle and also return the order, which undoes all protection; for study only."""
        table = as_values(values)
        order = cyclic_order(len(table), source_of(rng))
        return Release(table[order], self.manifest_for(len(table))), order

    def manifest_for(self, n: int) -> Manifest:
        """Return what a round of n reports would be released with, drawing nothing."""
        return cyclic_manifest(n, "The paper's loop was asked for.")


@dataclass(frozen=True, slots=True)
class MallowsShuffle:
    """Release the reports in an order close to that of arrival, drawn from a Mallows law.

    Worth its price only where the order of slots carries use, as for regional means; for any
    symmetric aggregate `Uniform` has the same utility and loses nothing.

    Guarantee: slot i receives the report at arrival place π(i), π from a Mallows law around the
    identity. For arrivals that differ by rearranging one group among its places, and as well for
    values so rearranged, the loss is at most theta times the exact sensitivity
    (tests/paper/test_shuffle_loss.py). Orders are drawn from the law itself, not from tables that
    end somewhere (tests/shuffle/test_mallows.py::test_no_order_is_left_out).

    Args:
        theta: The spread parameter; or leave it to ``alpha`` and ``partition``.
        alpha: The loss allowed for ``partition``: theta = alpha / sensitivity.
        partition: Groups of arrival places. With ``theta`` they only serve the manifest; without
            them it takes the worst case, one group of all.

    Raises:
        ValueError: Unless either ``theta`` or both ``alpha`` and ``partition`` are given, finite
            and above 0; or if no group has two members, which leaves theta without bound.
    """

    theta: float | None = None
    _: KW_ONLY
    alpha: float | None = None
    partition: Partition | None = None

    def __post_init__(self) -> None:
        """Check the arguments once."""
        if (self.theta is None) == (self.alpha is None):
            raise ValueError("theta or alpha must be given, and not both.")
        if self.theta is not None:
            object.__setattr__(self, "theta", positive_number("theta", self.theta))
            return
        object.__setattr__(self, "alpha", positive_number("alpha", self.alpha))
        if self.partition is None or not sensitivity(self.partition):
            raise ValueError(
                "partition must have a group of two or more where alpha is given; with single "
                "contributors nothing would move. Use Uniform."
            )

    def shuffle(self, values: ArrayLike, *, rng: Random | None = None) -> Release:
        """Return the values in an order near that of arrival.

        Raises:
            ValueError: If the partition is one of another number of reports.
        """
        table = as_values(values)
        manifest = self.manifest_for(len(table))
        return Release(values_in_order(table, _draw_order(manifest, rng)), manifest)

    def insecure_shuffle_with_order(
        self, values: ArrayLike, *, rng: Random | None = None
    ) -> tuple[Release, Order]:
        """Shuffle and also return the order, which undoes all protection; for study only.

        Raises:
            ValueError: If the partition is one of another number of reports.
        """
        table = as_values(values)
        manifest = self.manifest_for(len(table))
        order = _draw_order(manifest, rng)
        return Release(table[order], manifest), order

    def manifest_for(self, n: int) -> Manifest:
        """Return what a round of n reports would be released with, drawing nothing.

        Raises:
            ValueError: If the partition is one of another number of reports.
        """
        if self.partition is not None and self.partition.n != n:
            raise ValueError(f"partition must group all {n} reports, got {self.partition.n}.")
        if n == 0:
            return uniform_manifest(0, "There was nothing to shuffle.")
        # Without groups all may change: the most is to reverse everybody.
        exact = n * (n - 1) // 2 if self.partition is None else sensitivity(self.partition)
        theta = self.theta or (self.alpha or 0.0) / exact
        loss = theta * exact
        return mallows_manifest(
            n,
            f"Mallows with theta {theta:.4g} was asked for.",
            theta=theta,
            sensitivity=exact,
            alpha=loss,
            real_loss=loss,
        )


def _draw_order(manifest: Manifest, rng: Random | None) -> Order:
    """Draw an order of the Mallows law that a manifest states; without reports there is one."""
    if manifest.theta is None:
        return np.empty(0, dtype=np.int64)
    return Mallows(manifest.n, manifest.theta).sample(rng=rng)


def cyclic_order(n: int, source: Random) -> Order:
    """Draw one of the (n-1)! cyclic permutations by the paper's loop (Alg. 2 l. 12-15).

    Validation: chi-square over all cycles of 5 in tests/shuffle/test_laws.py; the loop itself is
    enumerated in tests/paper/test_shuffle_fallback.py.
    """
    places = np.arange(n)
    later = n - 1 - places[:-1]
    return order_from_swaps(np.append(places[:-1] + 1 + integers_below(later, source), places[-1:]))
