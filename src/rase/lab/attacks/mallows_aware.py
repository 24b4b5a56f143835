"""Attack `mallows_aware`: combine what order and values reveal."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rase.lab.attacks.likelihood import case_likelihood
from rase.lab.attacks.protocol import Case, Codes, Floats, Guesses, Knowledge, Target, Unit
from rase.lab.attacks.ranking import RANKED, best_first

__all__ = ["MallowsAwareAttack", "sinkhorn"]


@dataclass(frozen=True, slots=True)
class MallowsAwareAttack:
    """Name the most probable sender of each slot from order and values of the whole round.

    The exact posterior is a ratio of permanents and out of reach beyond twenty devices. Instead
    the marginals of the order's law times the likelihoods are scaled until every slot has one
    sender and every sender one slot (Sinkhorn); with n = 6 its success stays within 2 points of
    the exact posterior's (tests/lab/attacks/test_exact.py).

    Knowledge:
        Knows the order in which devices reported (the centre), the law of the shuffle with its
        theta, each device's histogram of raw readings in the training rounds, and the public
        mechanism. Sees all values of a round. Cost n^2 x iterations a round, and n^3 once for each
        law's marginals.

    Args:
        bins: How many bins of readings, and of reports.
        iterations: How often rows and columns are scaled at most.
    """

    bins: int = 256
    iterations: int = 200

    name: ClassVar[str] = "mallows_aware"
    knows: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.HISTORY, Knowledge.MECHANISM, Knowledge.ORDER_LAW, Knowledge.CENTRE}
    )
    unit: ClassVar[Unit] = "round"
    target: ClassVar[Target] = "sender"
    cost: ClassVar[str] = "n^3"

    def guess(self, case: Case) -> Guesses:
        """Scale one table per round."""
        likelihood = case_likelihood(case, self.bins)
        marginals = _Marginals(case)
        keep = min(RANKED, case.n)
        rounds, slots = np.nonzero(case.is_test)
        ranked = np.full((len(rounds), keep), -1, dtype=np.int64)
        confidence = np.zeros(len(rounds))
        bins = likelihood.bin_of(case.values[rounds, slots])
        for number in np.unique(rounds).tolist():
            mine = np.flatnonzero(rounds == number)
            senders = case.known_arrival()[number, : mine.size]
            by_value = likelihood.table[senders][:, bins[mine]].T
            posterior = sinkhorn(marginals.of(number, senders) * by_value, self.iterations)
            best = best_first(posterior, keep)
            ranked[mine, : best.shape[1]] = senders[best]
            confidence[mine] = np.take_along_axis(posterior, best[:, :1], axis=1)[:, 0]
        return Guesses(rounds, slots, ranked, confidence, clusters=rounds)


def sinkhorn(table: Floats, iterations: int) -> Floats:
    """Scale rows and columns of a table of weights until all sum to 1.

    Args:
        table: Weights, with at least one permutation of positive entries.
        iterations: How often at most; it ends before once columns are within 1e-9.
    """
    scaled: Floats = table / table.max(axis=1, keepdims=True)
    for _ in range(iterations):
        scaled /= scaled.sum(axis=0)
        rows = scaled.sum(axis=1, keepdims=True)
        scaled /= rows
        if np.abs(rows - 1).max() < 1e-9:
            break
    return scaled


class _Marginals:
    """Compute the marginals of a law once for all rounds that share it."""

    def __init__(self, case: Case) -> None:
        self._laws = case.known_laws()
        self._kept: dict[object, Floats] = {}

    def of(self, number: int, arrival: Codes) -> Floats:
        law = self._laws[number]
        # Only paper mode looks at who arrived where; elsewhere how many is enough.
        key = (law, arrival.size if law.line9 is None else arrival.tobytes())
        if key not in self._kept:
            self._kept[key] = law.place_marginals(arrival)
        return self._kept[key]
