"""Attack `value_slot`: a Random Forest on single values and the slot they stand in."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rase.lab.attacks.forest import ForestAttack
from rase.lab.attacks.protocol import Case, Floats

__all__ = ["ValueSlotAttack"]


@dataclass(frozen=True, slots=True)
class ValueSlotAttack(ForestAttack):
    """Classify a report by its value and its slot, against the true sender.

    Knowledge:
        Knows the sender of four fifths of the released records, and so learns the routines of the
        shuffler too. Sees value and slot. Cost n^2 (records x classes) at a fixed number of
        rounds.
    """

    name: ClassVar[str] = "value_slot"

    def features(self, case: Case) -> Floats:
        """Return value and slot."""
        slots = np.broadcast_to(np.arange(case.values.shape[1]), case.values.shape)
        return np.stack([case.values, slots], axis=2)
