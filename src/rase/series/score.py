"""Windows over rounds, and the errors of estimates where the truth is known."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rase.counts.estimate import Estimate
from rase.counts.registry import TRACKED
from rase.series.rounds import RoundResult
from rase.series.window import LEAST_SHARE, surer_window

__all__ = ["ErrorTally", "WindowResult", "Windows", "mean_of_window"]


@dataclass(frozen=True, slots=True)
class WindowResult:
    """Win(t, w) of consecutive rounds.

    Args:
        start_ms: When the window's first round began.
        estimates: By the name of the estimator.
        truth: The mean of the true means of the rounds that are there, where they are known.
    """

    start_ms: int | None
    estimates: Mapping[str, Estimate]
    truth: float | None


class Windows:
    """Slide a window over rounds as they come, keeping no more rounds than it holds.

    A window that lacks rounds answers with those it has, as `rase.series.window` says.

    Args:
        size: How many rounds a window holds, w in the paper.
        is_gapless: Whether round numbers count, so that some may be missing. False where each time
            is a round.
        strict: Whether there is no window where a round is missing.

    Raises:
        ValueError: If ``size`` is below 1.
    """

    def __init__(self, size: int, *, is_gapless: bool, strict: bool = False) -> None:
        if size < 1:
            raise ValueError(f"window must hold at least 1 round, got {size}.")
        self.size = size
        self.is_gapless = is_gapless
        self.strict = strict
        self._rounds: deque[RoundResult | None] = deque(maxlen=size)

    def add(self, result: RoundResult) -> WindowResult | None:
        """Take the next round and return the window that ends with it, once there is one."""
        self._rounds.extend([None] * self._missing_before(result))
        self._rounds.append(result)
        if len(self._rounds) < self.size:
            return None
        found = mean_of_window(self._rounds, start_ms=None, strict=self.strict)
        return None if found is None else replace(found, start_ms=self._start_ms())

    def _start_ms(self) -> int | None:
        """Return when a window began, also if its first rounds are missing."""
        there = [one for one in self._rounds if one is not None]
        first, last = there[0], there[-1]
        missing = self._rounds.index(first)
        if not missing or first.start_ms is None or last.start_ms is None:
            return first.start_ms
        # Missing rounds are counted, so rounds have numbers, and two or more are there.
        apart = (last.round or 0) - (first.round or 0)
        return first.start_ms - missing * (last.start_ms - first.start_ms) // apart

    def _missing_before(self, result: RoundResult) -> int:
        """Return how many rounds are missing before a round, as far as that counts."""
        last = self._rounds[-1] if self._rounds else None
        if not self.is_gapless or last is None or last.round is None or result.round is None:
            return 0
        return min(result.round - last.round - 1, self.size)


def mean_of_window(
    rounds: Sequence[RoundResult | None], *, start_ms: int | None, strict: bool
) -> WindowResult | None:
    """Return the mean over the rounds of a window; None where too few of them are there.

    Args:
        rounds: All rounds of the window in order; None for one that is missing.
        start_ms: When the window began.
        strict: Whether there is no mean where a round is missing.
    """
    there = [one for one in rounds if one is not None]
    needed = len(rounds) if strict else math.ceil(LEAST_SHARE * len(rounds))
    if not there or len(there) < needed:
        return None
    truths = [one.truth for one in there if one.truth is not None]
    means = {
        name: surer_window(
            [None if one is None else one.estimates[name] for one in rounds],
            [None if one is None else _single(one, name) for one in rounds],
            w=len(rounds),
        )[0]
        for name in there[-1].estimates
    }
    joint = None if rounds[-1] is None else rounds[-1].window
    if joint is not None and joint.of_rounds == len(rounds):
        means[TRACKED] = _surer(joint, means[TRACKED])
    return WindowResult(
        start_ms=start_ms,
        estimates={name: mean for name, mean in means.items() if mean is not None},
        truth=math.fsum(truths) / len(there) if len(truths) == len(there) else None,
    )


class ErrorTally:
    """Add up the errors of one estimator against the truth."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0
        self._absolute = 0.0
        self._square = 0.0
        self._predicted = 0.0

    def add(self, estimate: Estimate, truth: float) -> None:
        """Take one estimate of a mean that is known."""
        error = estimate.value - truth
        self.count += 1
        self._sum += error
        self._absolute += abs(error)
        self._square += error * error
        self._predicted += estimate.standard_error**2

    @property
    def rmse(self) -> float:
        """The root of the mean square error."""
        return math.sqrt(self._square / self.count)

    @property
    def bias(self) -> float:
        """The mean error."""
        return self._sum / self.count

    @property
    def mean_absolute(self) -> float:
        """The mean size of the error."""
        return self._absolute / self.count

    @property
    def predicted(self) -> float:
        """The root mean square of the standard errors the estimates came with."""
        return math.sqrt(self._predicted / self.count)


def _surer(joint: Estimate, other: Estimate | None) -> Estimate:
    """Return the window by the joint law of its rounds, or by unbiased means if these are surer."""
    is_other = other is not None and other.standard_error < joint.standard_error
    return other if other is not None and is_other else joint


def _single(result: RoundResult, name: str) -> Estimate:
    """Return what a round says by itself: such errors are independent."""
    if name == TRACKED and result.alone is not None:
        return result.alone
    return result.estimates[name]
