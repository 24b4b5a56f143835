"""The mean over a sliding window of rounds: the paper's Win(t, w)."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rase.counts.estimate import Estimate, combined_degrees
from rase.counts.registry import SMOOTHED, TRACKED

__all__ = [
    "LEAST_SHARE",
    "is_enough",
    "missing_error",
    "rolling",
    "surer_window",
    "window",
    "with_missing",
]

# Of a day of which only one half is there, nothing says what the other half was like.
LEAST_SHARE: Final = 0.75
# Fleets move by jumps more often than normal chance allows; see `rase.series.bank`.
_DEGREES_OF_MOVEMENT = 5.0


def is_enough(rounds: int, w: int) -> bool:
    """Say whether so many rounds of a window answer for all of them: three quarters or more.

    Example:
        >>> [is_enough(rounds, 24) for rounds in (24, 23, 18, 17)]
        [True, True, True, False]
    """
    return rounds >= LEAST_SHARE * w


def window(
    estimates: Iterable[Estimate | None], w: int, *, strict: bool = False
) -> list[Estimate | None]:
    """Return Win(t, w) = (1 / w) * sum of the estimates of rounds t - w + 1 .. t, for each t.

    Args:
        estimates: One estimate for each round, in order; None for a round that was withheld.
        w: The number of rounds in a window.
        strict: Whether a window that lacks a round is None.

    Returns:
        One entry for each round from the w-th on. Where rounds of a window were withheld, the mean
        of the others, with ``rounds`` and ``of_rounds`` to say so and an error that includes what
        the missing ones may have done; None where fewer than three quarters are there, or with
        ``strict``. Empty if there are fewer than w rounds.

    Raises:
        TypeError: If ``w`` is not a whole number.
        ValueError: If ``w`` is below 1.

    Example:
        >>> rounds = [Estimate(v, 3.0, n=64, method="m", target="mean") for v in (1.0, 2.0, 6.0)]
        >>> [round.value for round in window(rounds, 2)]
        [1.5, 4.0]
        >>> with_gap = window([*rounds[:2], None, rounds[2]], 4)[0]
        >>> with_gap.value, with_gap.target
        (3.0, 'mean, over 3 of 4 rounds')
    """
    return list(rolling(estimates, w, strict=strict))


def rolling(
    estimates: Iterable[Estimate | None], w: int, *, strict: bool = False
) -> Iterator[Estimate | None]:
    """Yield the entries of `window` one by one, keeping no more than ``w`` rounds.

    The rounds' errors are taken as independent, which the noise of different rounds is; what an
    estimate calls lasting stays. Errors of tracked rounds are not independent: borrowed
    from the same past, they go together, and the error of their window is taken as if they did so
    fully, which is too large rather than too small; see `surer_window`. Where a standard error also
    holds the spread of the readings (`sample_mean`, `median`), the same devices report in every
    round and the spread does not average out; it is then a rough guide only.

    What missing rounds did is not known. The mean of all w rounds differs from that of the m which
    are there by (w - m) / w times the distance between the means of the missing and of the present
    ones. That distance is taken as if all missing rounds were off to the same side, by as much as
    single rounds differ among each other: so it is where the same hour of every day is missing, or
    a whole night. How far rounds differ is read from those that are there, less their noise and
    plus one standard error of that reading. A round that is always missing and unlike all others
    leaves no trace, and no interval can hold it (docs/explain/accuracy.md, "Windows with gaps").

    Args:
        estimates: As for `window`; any iterable, also an endless one.
        w: The number of rounds in a window.
        strict: Whether a window that lacks a round is None.

    Raises:
        TypeError: If ``w`` is not a whole number.
        ValueError: If ``w`` is below 1.
    """
    if isinstance(w, bool) or not isinstance(w, int):
        raise TypeError(f"w must be a whole number, got {w!r}.")
    if w < 1:
        raise ValueError(f"w must be at least 1, got {w}.")
    return _rolling(estimates, w, strict)


def surer_window(
    tracked: Iterable[Estimate | None],
    alone: Iterable[Estimate | None],
    *,
    w: int,
    strict: bool = False,
) -> list[Estimate | None]:
    """Return Win(t, w) by tracked rounds or by the rounds alone, whichever error is the smaller.

    Errors of tracked rounds go together and hardly average out; those of unbiased means do. Over a
    few rounds the tracked ones are surer, over many the others. The standard errors decide, never
    the values, so that taking the smaller one leans to no side.

    Args:
        tracked: What ``tracked`` says of each round; None for a round that was withheld.
        alone: The unbiased mean of each of these rounds by itself.
        w: The number of rounds in a window.
        strict: Whether a window that lacks a round is None.

    Raises:
        TypeError: If ``w`` is not a whole number.
        ValueError: If ``w`` is below 1, or there are not as many of one as of the other.

    Example:
        >>> alone = [Estimate(4.0, 3.0, n=9, method="unbiased_mean", target="mean")] * 16
        >>> tracked = [Estimate(5.0, 1.0, n=9, method="tracked", target="mean")] * 16
        >>> [surer_window(tracked, alone, w=w)[0].method for w in (4, 16)]
        ['tracked', 'unbiased_mean']
    """
    pairs = zip(rolling(tracked, w, strict=strict), rolling(alone, w, strict=strict), strict=True)
    return [
        min(other, one, key=lambda found: found.standard_error) if one and other else other
        for one, other in pairs
    ]


def missing_error(
    values: Sequence[float], variances: Sequence[float], *, w: int, is_tracked: bool
) -> float:
    """Return how far the mean of a window may be off because rounds of it are missing.

    All that are missing are supposed to be off to the same side, as the same hour of every day is,
    by how far rounds differ among each other, rather too far than not far enough.

    Args:
        values: The estimates of those that are there, at least two.
        variances: The squares of their errors.
        w: How many rounds the window has.
        is_tracked: Whether they are tracked: beliefs differ less than what is believed
            in, so the doubt about each belongs to the difference.
    """
    m = len(values)
    centre = math.fsum(values) / m
    seen = math.fsum((value - centre) ** 2 for value in values) / (m - 1)
    noise = math.fsum(variances) / m
    between = max(seen - noise, 0.0) + noise * math.sqrt(2 / (m - 1))
    return (w - m) / w * math.sqrt(seen + noise if is_tracked else between)


def with_missing(error: float, degrees: float, missing: float, *, m: int) -> tuple[float, float]:
    """Return an error with what is missing added, and how well it is then known.

    Args:
        error: The error of the mean of the rounds that are there.
        degrees: Its degrees of freedom.
        missing: What `missing_error` says.
        m: How many rounds are there.
    """
    known = combined_degrees([error**2, missing**2], [degrees, min(_DEGREES_OF_MOVEMENT, m - 1)])
    return math.hypot(error, missing), known


def _rolling(
    estimates: Iterable[Estimate | None], w: int, strict: bool
) -> Iterator[Estimate | None]:
    # Sums are taken afresh for each window: a running sum would gather rounding errors for ever.
    kept: deque[Estimate | None] = deque(maxlen=w)
    for estimate in estimates:
        kept.append(estimate)
        if len(kept) == w:
            present = [one for one in kept if one is not None]
            is_answered = len(present) == w if strict else is_enough(len(present), w)
            yield _mean(present, w) if is_answered else None


def _mean(rounds: list[Estimate], w: int) -> Estimate:
    """Return the mean of a window of w rounds from those of them that are there."""
    m = len(rounds)
    if w == 1:
        return rounds[0]
    lasting = math.fsum(one.lasting_error for one in rounds) / m
    # What is of the round itself averages out; rounding may leave it a little below 0.
    single = [max(one.standard_error**2 - one.lasting_error**2, 0.0) for one in rounds]
    methods = dict.fromkeys(one.method for one in rounds)
    targets = dict.fromkeys(one.target for one in rounds)
    error = math.hypot(math.sqrt(math.fsum(single)) / m, lasting)
    degrees = _degrees(rounds, single, lasting=lasting)
    is_borrowed = TRACKED in methods or SMOOTHED in methods
    if is_borrowed:
        error = math.fsum(one.standard_error for one in rounds) / m
        degrees = min(one.degrees_of_freedom for one in rounds)
    if m < w:
        values = [one.value for one in rounds]
        missing = missing_error(values, single, w=w, is_tracked=is_borrowed)
        error, degrees = with_missing(error, degrees, missing, m=m)
    return Estimate(
        math.fsum(one.value for one in rounds) / m,
        error,
        n=sum(one.n for one in rounds),
        # Of which some rounds have the help of later ones, the window has it, too.
        method=" and ".join(name for name in methods if name != TRACKED or SMOOTHED not in methods),
        target=f"{' and '.join(targets)}, over {w if m == w else f'{m} of {w}'} rounds",
        degrees_of_freedom=degrees,
        lasting_error=min(lasting, error),
        # What is missing is of the same kind as what is there, and lies within the same bounds.
        lowest=min(one.lowest for one in rounds),
        highest=max(one.highest for one in rounds),
        rounds=m,
        of_rounds=w,
    )


def _degrees(rounds: list[Estimate], single: list[float], *, lasting: float) -> float:
    """Return how well the error of a window is known."""
    known = [one.degrees_of_freedom for one in rounds]
    # What lasts is in all rounds, and counts as the one of them that is known least.
    parts = [*single, (len(rounds) * lasting) ** 2]
    return combined_degrees(parts, [*known, min(known)])
