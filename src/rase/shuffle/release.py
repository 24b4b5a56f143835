"""What a shuffler hands on: the shuffled values and a manifest of what was done to them."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.kernels.words import Random
from rase.privacy import PermutationPrivacy
from rase.shuffle.attacker import order_attack

__all__ = [
    "Manifest",
    "Release",
    "RoundShuffler",
    "Shuffler",
    "as_rounds",
    "as_values",
    "cyclic_manifest",
    "loss_of",
    "mallows_manifest",
    "uniform_manifest",
]


class Shuffler(Protocol):
    """Permute the reports of one round, so that an observer cannot know who sent which."""

    def shuffle(self, values: ArrayLike, *, rng: Random | None = None) -> "Release":
        """Return the values in a random order, with a manifest.

        Args:
            values: One report an entry, in the order of arrival; or a table whose rows travel
                together, such as a report with its epsilon.
            rng: The source of randomness; secure if not given.
        """
        ...

    def manifest_for(self, n: int) -> "Manifest":
        """Return what a round of n reports would be released with, drawing nothing."""
        ...


@runtime_checkable
class RoundShuffler(Shuffler, Protocol):
    """A shuffler that permutes many rounds of equal size at once."""

    def shuffle_rounds(self, values: ArrayLike, *, rng: Random | None = None) -> "Release":
        """Return the rounds, one a row, each in an order of its own; the manifest is of each."""
        ...


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a shuffler did and what it means, without the permutation.

    A round of no reports has nothing to guess: its shares are 0. With one report they are 1.

    Args:
        method: The law the permutation was drawn from.
        reason: Why that law, in one sentence with its numbers.
        n: How many reports.
        theta: The spread parameter of a Mallows law, None otherwise.
        sensitivity: The sensitivity theta was set by, for the groups used; None without groups.
        alpha: The privacy loss for the groups used; 0 for uniform, infinite for cyclic.
        real_loss: The privacy loss for the contributors' real groups, at most.
        stay_share: The share of reports expected to keep their place.
        attacker_success: The share of slots the best observer of order alone assigns rightly, a
            mean over the slots.
        exposed_slot_success: The probability with which that observer names the sender of the most
            exposed slot, under a Mallows law the first or the last.
        chance: What guessing achieves, 1 / n.
    """

    method: Literal["uniform", "cyclic", "mallows"]
    reason: str
    n: int
    theta: float | None
    sensitivity: float | None
    alpha: float
    real_loss: float
    stay_share: float
    attacker_success: float
    exposed_slot_success: float
    chance: float

    @property
    def guarantee(self) -> PermutationPrivacy:
        """What the release promises, as a value that prints one sentence."""
        return PermutationPrivacy(
            self.alpha,
            self.real_loss,
            self.attacker_success,
            self.chance,
            exposed_success=self.exposed_slot_success,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """Shuffled values and their manifest, never the permutation.

    Args:
        values: The reports (or rows) in the order of release.
        manifest: What was done to them.
    """

    values: NDArray[Any] = field(repr=False)
    manifest: Manifest


def as_values(values: ArrayLike) -> NDArray[Any]:
    """Return the values as an array of one or two dimensions, or refuse them."""
    table = np.asarray(values)
    if table.ndim not in (1, 2):
        raise ValueError(f"values must have one or two dimensions, got {table.ndim}.")
    return table


def as_rounds(values: ArrayLike) -> NDArray[np.float64]:
    """Return a copy of reports as a table with one round a row, or refuse them."""
    table = np.array(values, dtype=np.float64, order="C")
    if table.ndim != 2:
        raise ValueError(f"values must have one round a row, got {table.ndim} dimensions.")
    return table


def loss_of(theta: float, sensitivity: float) -> float:
    """Return theta times sensitivity; where nobody can change, nothing is lost at any theta."""
    return theta * sensitivity if sensitivity else 0.0


def uniform_manifest(n: int, reason: str, *, real_loss: float = 0.0) -> Manifest:
    """Return the manifest of a uniform shuffle: no loss, whatever the groups.

    Args:
        n: How many reports.
        reason: Why uniform, in one sentence.
        real_loss: What is lost nevertheless where the shuffler might have chosen another law, had
            the members of a real group arrived in another sequence.
    """
    # No order is likelier than another: whoever guesses is right once in n.
    chance = 1 / n if n else 0.0
    return Manifest(
        method="uniform",
        reason=reason,
        n=n,
        theta=None,
        sensitivity=None,
        alpha=0.0,
        real_loss=real_loss,
        stay_share=chance,
        attacker_success=chance,
        exposed_slot_success=chance,
        chance=chance,
    )


def cyclic_manifest(n: int, reason: str) -> Manifest:
    """Return the manifest of the paper's loop: no report stays, and the loss is infinite."""
    same = replace(uniform_manifest(n, reason), method="cyclic")
    if n < 2:
        return same
    others = 1 / (n - 1)
    return replace(
        same,
        alpha=math.inf,
        real_loss=math.inf,
        stay_share=0.0,
        attacker_success=others,
        exposed_slot_success=others,
    )


def mallows_manifest(
    n: int, reason: str, *, theta: float, sensitivity: float, alpha: float, real_loss: float
) -> Manifest:
    """Return the manifest of a Mallows shuffle of at least one report."""
    attack = order_attack(n, theta)
    return Manifest(
        method="mallows",
        reason=reason,
        n=n,
        theta=theta,
        sensitivity=float(sensitivity),
        alpha=alpha,
        real_loss=real_loss,
        stay_share=attack.stay_share,
        attacker_success=attack.mean_success,
        exposed_slot_success=attack.exposed_success,
        chance=1 / n,
    )
