"""Attack `bayes`: the exact posterior of the sender of each single report."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rase.lab.attacks.likelihood import case_likelihood
from rase.lab.attacks.protocol import Case, Guesses, Knowledge, Target, Unit
from rase.lab.attacks.ranking import best_first

__all__ = ["BayesAttack"]


@dataclass(frozen=True, slots=True)
class BayesAttack:
    """Name the device with the largest posterior given one report's value.

    No attack that looks at single values, knows these histograms and nothing more does better.

    Knowledge:
        Knows each device's histogram of raw readings in the training rounds and the public
        mechanism, hence the exact likelihood of a report. Sees the value. Cost n x bins^2 and one
        look-up a report: within n log n.

    Args:
        bins: How many bins of readings, and of reports.
    """

    bins: int = 256

    name: ClassVar[str] = "bayes"
    knows: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HISTORY, Knowledge.MECHANISM})
    unit: ClassVar[Unit] = "round"
    target: ClassVar[Target] = "sender"
    cost: ClassVar[str] = "n log n"

    def guess(self, case: Case) -> Guesses:
        """Rank the devices once per bin of reports, and look up every report."""
        likelihood = case_likelihood(case, self.bins)
        posterior = (likelihood.table / likelihood.table.sum(axis=0)).T
        ranked = best_first(posterior)
        best = np.take_along_axis(posterior, ranked[:, :1], axis=1)[:, 0]
        rounds, slots = np.nonzero(case.is_test)
        bins = likelihood.bin_of(case.values[rounds, slots])
        return Guesses(rounds, slots, ranked[bins], best[bins], clusters=rounds)
