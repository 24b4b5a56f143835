"""Attack `linkage`: follow each slot over rounds as if it belonged to one device."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rase.lab.attacks.likelihood import Likelihood, histograms, likelihood_of
from rase.lab.attacks.protocol import Case, Codes, Floats, Guesses, Knowledge, Target, Unit
from rase.lab.attacks.ranking import best_first, nearest_in_rank, posterior_of

__all__ = ["LinkageAttack"]

_CELLS_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class LinkageAttack:
    """Add up each slot's log-likelihoods over all test rounds and name one device for the slot.

    Against a fixed order little noise survives this; against a fresh uniform order each round a
    slot is nobody, and the attack is at chance.

    Knowledge:
        Knows each device's histogram of raw readings in the training rounds and the public
        mechanism. Sees the values of a slot over all test rounds. Cost: devices are sorted by
        their mean reading, and each slot is compared with the ``candidates`` devices whose means
        are nearest to its own; n log n + n x candidates x bins. Exact where there are no more
        devices than candidates.

    Args:
        bins: How many bins of readings, and of reports.
        candidates: With how many devices a slot is compared.
    """

    bins: int = 128
    candidates: int = 64

    name: ClassVar[str] = "linkage"
    knows: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HISTORY, Knowledge.MECHANISM})
    unit: ClassVar[Unit] = "round"
    target: ClassVar[Target] = "sender"
    cost: ClassVar[str] = "n log n"

    def guess(self, case: Case) -> Guesses:
        """Compare every slot with its candidates; all its records get the same answer."""
        model = histograms(case.known_history(), self.bins)
        rounds, slots = np.nonzero(case.is_test)
        reports = case.values[rounds, slots]
        likelihood = likelihood_of(model, case.randomizer, reports, self.bins)
        points, decoded = model.points, reports
        if case.randomizer is not None:
            grid = case.randomizer.domain
            points = np.clip(points, grid.low, grid.high)
            decoded = case.randomizer.decode(reports)
        slot_count = case.values.shape[1]
        reported = np.bincount(slots, minlength=slot_count)
        sums = np.bincount(slots, weights=decoded, minlength=slot_count)
        near = nearest_in_rank(
            model.weights @ points, sums / np.maximum(reported, 1), self.candidates
        )
        ranked, confidence = _rank_candidates(
            _counts(likelihood, slots, reports, slot_count), np.log(likelihood.table), near
        )
        return Guesses(rounds, slots, ranked[slots], confidence[slots], clusters=slots)


def _counts(likelihood: Likelihood, slots: Codes, reports: Floats, slot_count: int) -> Floats:
    bins = likelihood.table.shape[1]
    flat = np.bincount(slots * bins + likelihood.bin_of(reports), minlength=slot_count * bins)
    return flat.reshape(slot_count, bins).astype(np.float64)


def _rank_candidates(counts: Floats, log_table: Floats, near: Codes) -> tuple[Codes, Floats]:
    """Rank the candidates of each slot, a block of slots at a time."""
    ranked, confidence = [], []
    block = max(_CELLS_AT_ONCE // (near.shape[1] * counts.shape[1]), 1)
    for first in range(0, len(counts), block):
        some = near[first : first + block]
        scores = np.matmul(log_table[some], counts[first : first + block, :, np.newaxis])[:, :, 0]
        best = best_first(scores)
        ranked.append(np.take_along_axis(some, best, axis=1))
        posterior = posterior_of(scores)
        confidence.append(np.take_along_axis(posterior, best[:, :1], axis=1)[:, 0])
    return np.concatenate(ranked), np.concatenate(confidence)
