"""Attack `value`: a Random Forest on single released values."""

from dataclasses import dataclass
from typing import ClassVar

from rase.lab.attacks.forest import ForestAttack
from rase.lab.attacks.protocol import Case, Floats

__all__ = ["ValueAttack"]


@dataclass(frozen=True, slots=True)
class ValueAttack(ForestAttack):
    """Classify a report by its value alone, against the true sender.

    Shuffling changes nothing here: the attack never looks at a position.

    Knowledge:
        Knows the sender of four fifths of the released records. Sees the value. Cost n^2 (records
        x classes) at a fixed number of rounds.
    """

    name: ClassVar[str] = "value"

    def features(self, case: Case) -> Floats:
        """Return the value."""
        return case.values[:, :, None]
