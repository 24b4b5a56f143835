"""Attack `value_time`: a Random Forest on single values and the time of the round."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rase.lab.attacks.forest import ForestAttack
from rase.lab.attacks.protocol import Case, Floats

__all__ = ["ValueTimeAttack"]

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class ValueTimeAttack(ForestAttack):
    """Classify a report by its value, hour, weekday and day, against the true sender.

    With a random split of records this attack can fall *below* chance: each device reports once
    a round, so the devices seen in training at the time of a test record are the wrong ones.

    Knowledge:
        Knows the sender of four fifths of the released records. Sees value and time. Cost n^2
        (records x classes) at a fixed number of rounds.
    """

    name: ClassVar[str] = "value_time"

    def features(self, case: Case) -> Floats:
        """Return value, hour of day, weekday and number of the day."""
        hours = case.times_ms // _HOUR_MS
        days = hours // 24
        # 1970-01-01 was a Thursday.
        times = np.stack([hours % 24, (days + 3) % 7, days - days.min()], axis=1)
        repeated = np.broadcast_to(times[:, None, :], (*case.values.shape, times.shape[1]))
        return np.concatenate([case.values[:, :, None], repeated], axis=2)
