"""Attack `slot`: a Random Forest on the slot alone."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rase.lab.attacks.forest import ForestAttack
from rase.lab.attacks.protocol import Case, Floats

__all__ = ["SlotAttack"]


@dataclass(frozen=True, slots=True)
class SlotAttack(ForestAttack):
    """Classify a report by its slot, against the true sender: what the order alone gives away.

    Knowledge:
        Knows the sender of four fifths of the released records. Sees the slot and no value. Cost
        n^2 (records x classes) at a fixed number of rounds.
    """

    name: ClassVar[str] = "slot"

    def features(self, case: Case) -> Floats:
        """Return the slot."""
        slots = np.broadcast_to(np.arange(case.values.shape[1]), case.values.shape)
        return slots[:, :, None].astype(np.float64)
