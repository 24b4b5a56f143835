"""The uniform shuffler, which campaigns use unless they ask for another law.

It loads nothing of the other laws, so that a server of uniform campaigns does not either.
"""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from rase.kernels.permute import Order, shuffle_rows, shuffle_values, uniform_order
from rase.kernels.words import Random, source_of
from rase.shuffle.release import Manifest, Release, as_rounds, as_values, uniform_manifest

__all__ = ["Uniform"]


@dataclass(frozen=True, slots=True)
class Uniform:
    """Release the reports in one of the n! orders, each equally likely.

    Guarantee: alpha = 0 for every partition: the release has the same law for any two arrival
    orders, under the assumption that the shuffler keeps its permutation to itself
    (tests/paper/test_shuffle_fallback.py).

    Example:
        >>> release = Uniform().shuffle([3.0, 1.0, 2.0])
        >>> sorted(release.values.tolist()), release.manifest.alpha
        ([1.0, 2.0, 3.0], 0.0)
    """

    def shuffle(self, values: ArrayLike, *, rng: Random | None = None) -> Release:
        """Return the values in a uniformly random order."""
        table = as_values(values)
        return Release(shuffle_values(table, source_of(rng)), self.manifest_for(len(table)))

    def insecure_shuffle_with_order(
        self, values: ArrayLike, *, rng: Random | None = None
    ) -> tuple[Release, Order]:
        """Shuffle and also return the order, which undoes all protection; for study only."""
        table = as_values(values)
        order = uniform_order(len(table), source_of(rng))
        return Release(table[order], self.manifest_for(len(table))), order

    def manifest_for(self, n: int) -> Manifest:
        """Return what a round of n reports would be released with, drawing nothing."""
        return uniform_manifest(n, "Uniform was asked for.")

    def shuffle_rounds(self, values: ArrayLike, *, rng: Random | None = None) -> Release:
        """Shuffle many rounds, one a row, each on its own; the manifest is that of every one."""
        table = as_rounds(values)
        shuffle_rows(table, source_of(rng))
        return Release(table, self.manifest_for(table.shape[1]))
