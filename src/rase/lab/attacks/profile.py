"""Attack `profile`: a Random Forest on the daily profile of a slot, scored by slot.

The set-up in which the paper's ordering raw >> BR > shuffled appears.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rase.lab.attacks.forest import forest_guesses
from rase.lab.attacks.protocol import Case, Codes, Floats, Guesses, Knowledge, Target, Unit

__all__ = ["ProfileAttack"]

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class ProfileAttack:
    """Classify the 24 hourly values of a slot on a day by the slot they came from.

    What counts as right is the slot, not the sender: with a fixed order and no shuffle they are
    the same, after a shuffle a slot is nobody, and the attack must fall to chance whatever the
    noise. It shows that a shuffle breaks profiles, not that senders are safe.

    Knowledge:
        Knows which slot each training day came from, which is public. Sees the values of a slot
        over a day. Cost n^2 (profiles x classes) at a fixed number of rounds.

    Args:
        trees: How many trees.
        jobs: How many processor cores to use.
    """

    trees: int = 50
    jobs: int = 1

    name: ClassVar[str] = "profile"
    knows: ClassVar[frozenset[Knowledge]] = frozenset()
    unit: ClassVar[Unit] = "day"
    target: ClassVar[Target] = "slot"
    cost: ClassVar[str] = "n^2"

    def guess(self, case: Case) -> Guesses:
        """Train on the profiles of the training days and classify the others."""
        profiles, first_rounds = _profiles(case)
        has_value = ~np.isnan(profiles).all(axis=2)
        is_train = case.is_train[first_rounds] & has_value
        days, slots = np.nonzero(~is_train & has_value)
        ranked, confidence = forest_guesses(
            profiles[is_train],
            np.nonzero(is_train)[1],
            profiles[days, slots],
            trees=self.trees,
            jobs=self.jobs,
            seed=case.seed,
        )
        return Guesses(first_rounds[days], slots, ranked, confidence, clusters=days)


def _profiles(case: Case) -> tuple[Floats, Codes]:
    """Return hourly means, days x slots x hours, and the first round of each day."""
    hours = case.times_ms // _HOUR_MS
    _, first_rounds, day = np.unique(hours // 24, return_index=True, return_inverse=True)
    slots = case.values.shape[1]
    sums = np.zeros((len(first_rounds), 24, slots))
    counts = np.zeros_like(sums)
    has_value = ~np.isnan(case.values)
    np.add.at(sums, (day, hours % 24), np.where(has_value, case.values, 0.0))
    np.add.at(counts, (day, hours % 24), has_value.astype(np.float64))
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    # An hour in which no round falls on any day tells nothing.
    told = (counts > 0).any(axis=(0, 2))
    return means[:, told].transpose(0, 2, 1), first_rounds.astype(np.int64)
