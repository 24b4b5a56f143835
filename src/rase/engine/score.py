"""Windows over rounds, and the errors of estimates where the truth is known."""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from rase.estimate.estimate import Estimate
from rase.estimate.window import surer_window
from rase.pipeline import RoundResult

__all__ = ["ErrorTally", "WindowResult", "Windows"]


@dataclass(frozen=True, slots=True)
class WindowResult:
    """Hold Win(t, w) of a run of rounds.

    Args:
        start_ms: When the window's first round began.
        estimates: By the name of the estimator.
        truth: The mean of the rounds' true means, where they are known.
    """

    start_ms: int | None
    estimates: Mapping[str, Estimate]
    truth: float | None


class Windows:
    """Slide a window over rounds as they come, keeping no more rounds than it holds.

    Args:
        size: How many rounds a window holds, w in the paper.
        is_gapless: Whether a window ends where a round number is missing, because a mean over the
            others would be a mean of something else. False where each time is a round.

    Raises:
        ValueError: If ``size`` is below 1.
    """

    def __init__(self, size: int, *, is_gapless: bool) -> None:
        if size < 1:
            raise ValueError(f"window must hold at least 1 round, got {size}.")
        self.size = size
        self.is_gapless = is_gapless
        self._rounds: deque[RoundResult] = deque(maxlen=size)

    def add(self, result: RoundResult) -> WindowResult | None:
        """Take the next round and return the window that ends with it, once there is one."""
        if self.is_gapless and self._rounds and self._rounds[-1].round != _before(result.round):
            self._rounds.clear()
        self._rounds.append(result)
        if len(self._rounds) < self.size:
            return None
        truths = [one.truth for one in self._rounds if one.truth is not None]
        means = {
            name: surer_window(
                [one.estimates[name] for one in self._rounds],
                [_single(one, name) for one in self._rounds],
                w=self.size,
            )[0]
            for name in result.estimates
        }
        return WindowResult(
            start_ms=self._rounds[0].start_ms,
            estimates={name: mean for name, mean in means.items() if mean is not None},
            truth=math.fsum(truths) / self.size if len(truths) == self.size else None,
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


def _single(result: RoundResult, name: str) -> Estimate:
    """Return what a round says by itself: such errors are independent."""
    if name == "auto" and result.alone is not None:
        return result.alone
    return result.estimates[name]


def _before(number: int | None) -> int | None:
    return None if number is None else number - 1
