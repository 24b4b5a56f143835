"""Whether rounds differ by more than their noise: what can be said without knowing the truth.

Two tests of "the mean is the same in all rounds", on the unbiased means of rounds, whose errors are
independent and known. The first takes the squares of all distances to the common mean (Cochran's
Q); the second only the part that daily and weekly waves explain, because fleets mostly move that
way and slow drift hides in the noise of single rounds. Both together raise a false alarm in
`FALSE_ALARM` of fleets that rest.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rase.answer import rounded_alike
from rase.counts.estimate import Estimate

__all__ = [
    "FALSE_ALARM",
    "POWER",
    "ROUNDS_NEEDED",
    "WAYS",
    "Verdict",
    "VerdictTally",
    "verdict_in_words",
    "verdicts",
    "visible_share",
]

Floats = NDArray[np.float64]

FALSE_ALARM: Final = 0.01
POWER: Final = 0.9
# With fewer rounds only differences of many errors would show.
ROUNDS_NEEDED: Final = 8
_PERIODS_S = np.array([86_400.0, 43_200.0, 7 * 86_400.0, 3.5 * 86_400.0])
# A constant, and both phases of each wave.
_SIZE = 1 + 2 * len(_PERIODS_S)
# A tally adds the terms of so many rounds together.
_AT_ONCE = 256
# A wave that varies less than this within the rounds cannot be sentence from a constant.
_LEAST_VARIANCE = 0.01
# What would show half of what shows, whatever the budget.
WAYS: Final = "4 times the devices or half the range"
# An interval of nine tenths of what is possible anyway says nothing.
_VAGUE = 0.9


@dataclass(frozen=True, slots=True)
class Verdict:
    """Say whether rounds differ by more than their noise.

    Args:
        rounds: How many rounds were compared.
        is_moving: Whether they do; False alarms have the probability `FALSE_ALARM`.
        noise: What noise alone makes of a round, as a standard deviation.
        spread: How far the true means of the rounds differ, as far as that shows.
        visible: How far they would have to differ to be noticed with probability `POWER`.
    """

    rounds: int
    is_moving: bool
    noise: float
    spread: float
    visible: float

    def sentence(self, unit: str = "", *, ways: str = WAYS) -> str:
        """Return the verdict in plain words, with numbers to two digits.

        Args:
            unit: The unit of the means.
            ways: What would show half of what shows; empty for none: errors that hold more than
                noise do not shrink with more devices or a narrower range.
        """

        def shown(number: float) -> str:
            (text,) = rounded_alike(number, error=number)
            return f"{text} {unit}" if unit else text

        if self.is_moving:
            return (
                f"the rounds differ by more than their noise: by about {shown(self.spread)} "
                f"(standard deviation over {self.rounds} rounds), where noise alone makes "
                f"{shown(self.noise)}"
            )
        text = (
            f"not distinguishable from a constant: {self.rounds} rounds differ by no more than "
            f"their noise, {shown(self.noise)}; a spread of {shown(self.visible)} would show"
        )
        return f"{text}, or of {shown(self.visible / 2)} with {ways}" if ways else text


def verdicts(
    times_s: Sequence[float], means: Sequence[Estimate], *, last: int | None = None
) -> list[Verdict | None]:
    """Return for each round what it and the rounds before it say.

    Guarantee: post-processing of released reports, so it has the privacy of these and costs none.

    Validation: false alarms on fleets that rest, and power on fleets that move as far as `visible`
    says, in tests/series/test_verdict.py.

    Args:
        times_s: When each round began, ascending.
        means: Their unbiased means; errors above 0.
        last: How many rounds to look back at, itself included; None for all.

    Returns:
        One entry for each round: None where fewer than `ROUNDS_NEEDED` are known.

    Example:
        >>> means = [Estimate(v, 1.0, n=9, method="m", target="t") for v in [3.0, 9.0] * 8]
        >>> verdicts([3600.0 * place for place in range(16)], means)[-1].is_moving
        True
    """
    if not means:
        return []
    values = np.array([one.value for one in means])
    precision = np.array([one.standard_error for one in means]) ** -2.0
    # Sums of squares lose no digits if they are about the centre.
    values -= float(precision @ values / precision.sum())
    sums = np.cumsum(_terms(np.asarray(times_s, dtype=np.float64), values, precision), axis=0)
    span = len(values) if last is None else last
    sums[span:] = sums[span:] - sums[:-span].copy()
    counts = np.minimum(np.arange(len(values)) + 1, span)
    first = min(ROUNDS_NEEDED, len(values) + 1) - 1
    if span < ROUNDS_NEEDED or first == len(values):
        return [None] * len(values)
    return [*[None] * first, *_verdicts(counts[first:], sums[first:])]


class VerdictTally:
    """Compare the rounds of a run that is too long to be kept, as `verdicts` does.

    Example:
        >>> tally = VerdictTally()
        >>> for place in range(16):
        ...     tally.add(3600.0 * place, Estimate(4.0, 1.0, n=9, method="m", target="t"))
        >>> tally.count, tally.verdict().is_moving
        (16, False)
    """

    def __init__(self) -> None:
        self.count = 0
        self._centre = 0.0
        self._sums = np.zeros(_SIZE * (_SIZE + 1) + 2)
        # Rounds whose terms are still to be added.
        self._waiting: list[tuple[float, float, float]] = []

    def add(self, time_s: float, mean: Estimate) -> None:
        """Take a round: when it began, and its unbiased mean; one without an error is left out."""
        if not 0 < mean.standard_error < math.inf:
            return
        if not self.count:
            self._centre = mean.value
        self.count += 1
        self._waiting.append((time_s, mean.value - self._centre, mean.standard_error**-2.0))
        if len(self._waiting) == _AT_ONCE:
            self._add_waiting()

    def _add_waiting(self) -> None:
        if self._waiting:
            times_s, values, precision = np.array(self._waiting).T
            # One after the other, as `verdicts` adds them.
            terms = np.vstack([self._sums, _terms(times_s, values, precision)])
            self._sums = np.cumsum(terms, axis=0)[-1]
            self._waiting = []

    def verdict(self) -> Verdict | None:
        """Return what all rounds so far say; None where they are too few."""
        if self.count < ROUNDS_NEEDED:
            return None
        self._add_waiting()
        return _verdicts(np.array([self.count]), self._sums[None, :])[0]


def _terms(times_s: Floats, values: Floats, precision: Floats) -> Floats:
    """Return what is added up over rounds: products of waves, means and weights, a round a row."""
    angles = 2 * math.pi * times_s[:, None] / _PERIODS_S
    waves = np.concatenate([np.ones((len(values), 1)), np.cos(angles), np.sin(angles)], axis=1)
    weighted = precision[:, None] * waves
    return np.concatenate(
        [
            (weighted[:, :, None] * waves[:, None, :]).reshape(len(values), -1),
            weighted * values[:, None],
            np.stack([precision * values * values, precision * precision], axis=1),
        ],
        axis=1,
    )


def _verdicts(counts: NDArray[np.int64], sums: Floats) -> list[Verdict]:
    """Return verdicts from the sums of `_terms`, one a row."""
    products = sums[:, : _SIZE * _SIZE].reshape(-1, _SIZE, _SIZE)
    along, squares = sums[:, _SIZE * _SIZE : -2], sums[:, -2:]
    total = products[:, 0, 0]
    free = counts - 1
    all_squares = np.maximum(squares[:, 0] - along[:, 0] ** 2 / total, 0.0)
    # What is left of waves and of their products with the means when the common mean is taken out.
    shares = products[:, 0] / total[:, None]
    shape = products - shares[:, :, None] * products[:, :1]
    projected = along - shares * along[:, :1]
    lengths, axes = np.linalg.eigh(shape[:, 1:, 1:] / total[:, None, None])
    kept = lengths > _LEAST_VARIANCE
    parts = np.square(np.einsum("rij,ri->rj", axes, projected[:, 1:]))
    explained = np.where(kept, parts / np.where(kept, lengths, 1.0), 0.0).sum(axis=1) / total
    waves = kept.sum(axis=1)
    # DerSimonian and Laird 1986; of the waves alone where these show more.
    between = (all_squares - free) / (total - squares[:, 1] / total)
    spread = np.sqrt(np.maximum(np.maximum(between, (explained - waves) / total), 0.0))
    noise = np.sqrt(counts / total)
    found = []
    for place, degrees in enumerate(free.tolist()):
        most = _chi_square(1 - FALSE_ALARM / 2, degrees)
        seen = int(waves[place])
        is_moving = bool(all_squares[place] > most) or (
            seen > 0 and bool(explained[place] > _chi_square(1 - FALSE_ALARM / 2, seen))
        )
        found.append(
            Verdict(
                rounds=degrees + 1,
                is_moving=is_moving,
                noise=float(noise[place]),
                spread=float(spread[place]),
                visible=float(noise[place]) * visible_share(degrees + 1),
            )
        )
    return found


def verdict_in_words(
    verdict: Verdict | None,
    *,
    known: int,
    unit: str = "",
    of: Iterable[Estimate] = (),
    ways: str = WAYS,
) -> str:
    """Return what is said with answers.

    Args:
        verdict: Of the rounds up to the answer; None where too few are known.
        known: How many are known.
        unit: The unit of the means.
        of: The answers it goes with.
        ways: As for `Verdict.sentence`.
    """
    if verdict is None:
        sentence = f"unknown yet: {known} of {ROUNDS_NEEDED} rounds needed"
    else:
        sentence = verdict.sentence(unit, ways=ways)
    if any(_is_vague(one) for one in of):
        return f"the interval is nearly the whole range and says nothing; {sentence}"
    return sentence


def visible_share(rounds: int) -> float:
    """Return how far rounds must differ to be noticed with probability `POWER`, by their noise.

    Args:
        rounds: How many are compared, two or more.

    Example:
        >>> [round(visible_share(rounds), 2) for rounds in (8, 24, 168)]
        [2.49, 1.41, 0.72]
    """
    most, few = (_chi_square(level, rounds - 1) for level in (1 - FALSE_ALARM / 2, 1 - POWER))
    return math.sqrt(most / few - 1)


def _is_vague(estimate: Estimate) -> bool:
    low, high = estimate.interval()
    return high - low >= _VAGUE * (estimate.highest - estimate.lowest)


@functools.lru_cache(maxsize=1024)
def _chi_square(level: float, degrees: int) -> float:
    """Return the quantile of chi-square: Wilson and Hilferty 1931, within 1 % for what is asked."""
    part = 2 / (9 * degrees)
    return float(degrees * (1 - part + NormalDist().inv_cdf(level) * math.sqrt(part)) ** 3)
