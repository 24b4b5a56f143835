"""The mean over a sliding window of rounds: the paper's Win(t, w)."""

import math
from collections import deque
from collections.abc import Iterable, Iterator

from rase.estimate.estimate import Estimate, combined_degrees

__all__ = ["rolling", "surer_window", "window"]


def window(estimates: Iterable[Estimate | None], w: int) -> list[Estimate | None]:
    """Return Win(t, w) = (1 / w) * sum of the estimates of rounds t - w + 1 .. t, for each t.

    Args:
        estimates: One estimate for each round, in order; None for a round that was withheld.
        w: The number of rounds in a window.

    Returns:
        One entry for each round from the w-th on: None where a round of the window was withheld,
        because a mean of the others would be a mean of something else. Empty if there are fewer
        than w rounds.

    Raises:
        TypeError: If ``w`` is not a whole number.
        ValueError: If ``w`` is below 1.

    Example:
        >>> rounds = [Estimate(v, 3.0, n=64, method="m", target="mean") for v in (1.0, 2.0, 6.0)]
        >>> [round.value for round in window(rounds, 2)]
        [1.5, 4.0]
    """
    return list(rolling(estimates, w))


def rolling(estimates: Iterable[Estimate | None], w: int) -> Iterator[Estimate | None]:
    """Yield the entries of `window` one by one, keeping no more than ``w`` rounds.

    The rounds' errors are taken as independent, which the noise of different rounds is; what an
    estimate calls lasting stays. Errors of tracked rounds (``auto``) are not independent: borrowed
    from the same past, they go together, and the error of their window is taken as if they did so
    fully, which is too large rather than too small; see `surer_window`. Where a standard error also
    holds the spread of the readings (`sample_mean`, `median`), the same devices report in every
    round and the spread does not average out; it is then a rough guide only.

    Args:
        estimates: As for `window`; any iterable, also an endless one.
        w: The number of rounds in a window.

    Raises:
        TypeError: If ``w`` is not a whole number.
        ValueError: If ``w`` is below 1.
    """
    if isinstance(w, bool) or not isinstance(w, int):
        raise TypeError(f"w must be a whole number, got {w!r}.")
    if w < 1:
        raise ValueError(f"w must be at least 1, got {w}.")
    return _rolling(estimates, w)


def surer_window(
    tracked: Iterable[Estimate | None], alone: Iterable[Estimate | None], *, w: int
) -> list[Estimate | None]:
    """Return Win(t, w) by tracked rounds or by the rounds alone, whichever error is the smaller.

    Errors of tracked rounds go together and hardly average out; those of unbiased means do. Over a
    few rounds the tracked ones are surer, over many the others. The standard errors decide, never
    the values, so that taking the smaller one leans to no side.

    Args:
        tracked: What ``auto`` says of each round; None for a round that was withheld.
        alone: The unbiased mean of each of these rounds by itself.
        w: The number of rounds in a window.

    Raises:
        TypeError: If ``w`` is not a whole number.
        ValueError: If ``w`` is below 1, or there are not as many of one as of the other.

    Example:
        >>> alone = [Estimate(4.0, 3.0, n=9, method="unbiased_mean", target="mean")] * 16
        >>> tracked = [Estimate(5.0, 1.0, n=9, method="auto", target="mean")] * 16
        >>> [surer_window(tracked, alone, w=w)[0].method for w in (4, 16)]
        ['auto', 'unbiased_mean']
    """
    pairs = zip(rolling(tracked, w), rolling(alone, w), strict=True)
    return [
        min(other, one, key=lambda found: found.standard_error) if one and other else other
        for one, other in pairs
    ]


def _rolling(estimates: Iterable[Estimate | None], w: int) -> Iterator[Estimate | None]:
    # Sums are taken afresh for each window: a running sum would gather rounding errors for ever.
    kept: deque[Estimate | None] = deque(maxlen=w)
    for estimate in estimates:
        kept.append(estimate)
        if len(kept) == w:
            present = [one for one in kept if one is not None]
            yield _mean(present) if len(present) == w else None


def _mean(rounds: list[Estimate]) -> Estimate:
    w = len(rounds)
    if w == 1:
        return rounds[0]
    lasting = math.fsum(one.lasting_error for one in rounds) / w
    # What is of the round itself averages out; rounding may leave it a little below 0.
    single = [max(one.standard_error**2 - one.lasting_error**2, 0.0) for one in rounds]
    methods = dict.fromkeys(one.method for one in rounds)
    targets = dict.fromkeys(one.target for one in rounds)
    error = math.hypot(math.sqrt(math.fsum(single)) / w, lasting)
    degrees = _degrees(rounds, single, lasting=lasting)
    if "auto" in methods:
        error = math.fsum(one.standard_error for one in rounds) / w
        degrees = min(one.degrees_of_freedom for one in rounds)
    return Estimate(
        math.fsum(one.value for one in rounds) / w,
        error,
        n=sum(one.n for one in rounds),
        method=" and ".join(methods),
        target=f"{' and '.join(targets)}, over {w} rounds",
        degrees_of_freedom=degrees,
        lasting_error=min(lasting, error),
    )


def _degrees(rounds: list[Estimate], single: list[float], *, lasting: float) -> float:
    """Return how well the error of a window is known."""
    known = [one.degrees_of_freedom for one in rounds]
    # What lasts is in all rounds, and counts as the one of them that is known least.
    parts = [*single, (len(rounds) * lasting) ** 2]
    return combined_degrees(parts, [*known, min(known)])
