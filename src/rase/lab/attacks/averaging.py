"""Attack `averaging`: noise averages out over rounds unless reports cannot be linked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rase.kernels.words import Random
from rase.lab.attacks.protocol import Case, Floats, Guesses, Knowledge, Target, Unit
from rase.lab.attacks.ranking import best_first, nearest_in_rank, posterior_of
from rase.lab.panel import Panel
from rase.lab.schemes import Scheme
from rase.laws.randomizer import RangeRandomizer

__all__ = ["AveragingAttack", "error_by_rounds", "mean_posterior"]


@dataclass(frozen=True, slots=True)
class AveragingAttack:
    """Learn the mean reading behind each slot over T rounds, and name the device that has it.

    The mean's error falls like 1/sqrt(T), whatever the epsilon of one report: composition made
    visible. `error_by_rounds` measures that error itself.

    Knowledge:
        Knows each device's mean raw reading in the training rounds and the public mechanism. Sees
        the values of a slot over all test rounds. Cost: a search on the sorted means, n log n.

    Args:
        candidates: With how many devices a slot is compared, those whose means are nearest.
    """

    candidates: int = 64

    name: ClassVar[str] = "averaging"
    knows: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.HISTORY, Knowledge.MECHANISM})
    unit: ClassVar[Unit] = "round"
    target: ClassVar[Target] = "sender"
    cost: ClassVar[str] = "n log n"

    def guess(self, case: Case) -> Guesses:
        """Compare the means; all records of a slot get the same answer."""
        seen, seen_error = mean_posterior(
            np.where(case.is_test, case.values, np.nan), case.randomizer
        )
        history = case.known_history()
        if case.randomizer is not None:
            grid = case.randomizer.domain
            history = np.clip(history, grid.low, grid.high)
        known, known_error = mean_posterior(history, None)
        near = nearest_in_rank(known, seen, self.candidates)
        spread = np.square(seen_error)[:, np.newaxis] + np.square(known_error)[near]
        # A constant known without error is matched to the last digit.
        spread = np.maximum(spread, np.finfo(np.float64).tiny ** 0.5)
        miss = np.square(seen[:, np.newaxis] - known[near])
        scores = -(miss / spread + np.log(spread)) / 2
        best = best_first(scores)
        ranked = np.take_along_axis(near, best, axis=1)
        confidence = np.take_along_axis(posterior_of(scores), best[:, :1], axis=1)[:, 0]
        rounds, slots = np.nonzero(case.is_test)
        return Guesses(rounds, slots, ranked[slots], confidence[slots], clusters=slots)


def mean_posterior(reports: Floats, randomizer: RangeRandomizer | None) -> tuple[Floats, Floats]:
    """Return the mean reading behind each column of reports, and its standard error.

    Under a flat prior and many rounds the posterior of the mean is normal with these two numbers.
    A column without a report is known least: the mean of all, with the spread of all.

    Args:
        reports: Reports, rounds x slots; NaN where none.
        randomizer: The mechanism, whose `decode` is unbiased; None for raw readings.
    """
    has_report = ~np.isnan(reports)
    decoded = np.zeros(reports.shape)
    some = reports[has_report]
    decoded[has_report] = some if randomizer is None else randomizer.decode(some)
    counts = has_report.sum(axis=0)
    overall = decoded[has_report]
    means = np.where(counts, decoded.sum(axis=0) / np.maximum(counts, 1), overall.mean())
    squares = np.where(has_report, np.square(decoded - means), 0.0).sum(axis=0)
    # One report alone shows no spread of its own.
    variance = np.where(counts > 1, squares / np.maximum(counts - 1, 1), overall.var())
    return means, np.sqrt(variance / np.maximum(counts, 1))


def error_by_rounds(
    panel: Panel,
    scheme: Scheme,
    *,
    rounds: Sequence[int],
    rng: Random | None = None,
) -> Floats:
    """Return an observer's error about each device's mean after watching its slot.

    Args:
        panel: The readings, without gaps.
        scheme: The scheme; devices report in a fixed sequence, so without a shuffle slot i is
            device i.
        rounds: After how many rounds to report.
        rng: None for secure randomness; a `SeededRandom` for study.

    Returns:
        For each entry of ``rounds`` the root mean square, over devices, of the difference between
        the mean of the decoded reports and of the readings, clipped to the public range.

    Raises:
        ValueError: If ``rounds`` leaves 1 .. the panel's rounds, or the panel has gaps.
    """
    if np.isnan(panel.values).any():
        raise ValueError("panel must have a reading of every device in every round.")
    places = np.asarray(rounds, dtype=np.int64)
    if not places.size or places.min() < 1 or places.max() > panel.rounds:
        raise ValueError(f"rounds must lie between 1 and {panel.rounds}, got {list(rounds)}.")
    release, _ = scheme.release(panel, arrival="fixed", rng=rng)
    readings, decoded = panel.values, release.values
    if release.randomizer is not None:
        grid = release.randomizer.domain
        readings = np.clip(readings, grid.low, grid.high)
        decoded = release.randomizer.decode(release.values)
    gap = np.cumsum(decoded - readings, axis=0)[places - 1] / places[:, np.newaxis]
    return np.asarray(np.sqrt(np.square(gap).mean(axis=1)), dtype=np.float64)
