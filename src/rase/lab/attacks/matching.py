"""Attack `matching`: the most likely assignment of all reports of a round to devices."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rase.lab.attacks.likelihood import case_likelihood
from rase.lab.attacks.protocol import Case, Guesses, Knowledge, Target, Unit

__all__ = ["MatchingAttack"]


@dataclass(frozen=True, slots=True)
class MatchingAttack:
    """Assign the reports of a round to devices, each to one, with the largest joint likelihood.

    Uses what `bayes` leaves aside: a device reports once a round, so one report's owner cannot own
    another. It is the most probable permutation under a uniform order, not the guess with the most
    hits expected; for that see `mallows_aware`.

    Knowledge:
        Knows each device's histogram of raw readings in the training rounds and the public
        mechanism. Sees all values of a round. Cost n^3 a round (an assignment problem).

    Args:
        bins: How many bins of readings, and of reports.
    """

    bins: int = 256

    name: ClassVar[str] = "matching"
    knows: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HISTORY, Knowledge.MECHANISM})
    unit: ClassVar[Unit] = "round"
    target: ClassVar[Target] = "sender"
    cost: ClassVar[str] = "n^3"

    def guess(self, case: Case) -> Guesses:
        """Solve one assignment problem per round; the confidence is the report's own posterior."""
        from scipy.optimize import linear_sum_assignment

        likelihood = case_likelihood(case, self.bins)
        log_table = np.log(likelihood.table)
        posterior = likelihood.table / likelihood.table.sum(axis=0)
        rounds, slots = np.nonzero(case.is_test)
        bins = likelihood.bin_of(case.values[rounds, slots])
        guess = np.empty(len(rounds), dtype=np.int64)
        generator = np.random.default_rng(case.seed)
        for number in np.unique(rounds):
            # Clamped reports tie, and the solver breaks ties along the diagonal: in the order of
            # slots it would use a position that this attack does not claim to know.
            mine = generator.permutation(np.flatnonzero(rounds == number))
            place, device = linear_sum_assignment(log_table[:, bins[mine]].T, maximize=True)
            guess[mine[place]] = device
        confidence = posterior[guess, bins]
        return Guesses(rounds, slots, guess[:, np.newaxis], confidence, clusters=rounds)
