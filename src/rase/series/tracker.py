"""The mean of a fleet followed through time: each round's estimate borrows from the rounds before.

What was released in earlier rounds is already public, so using it costs no privacy. The less a
single round says, the more is borrowed; where a round's own reports are precise, its unbiased mean
comes through almost unchanged.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from rase.arrays import Floats
from rase.counts.estimate import Estimate
from rase.counts.fleet import OF_FLEET, sampling_variance
from rase.counts.registry import TRACKED
from rase.domain import Range
from rase.series.bank import FilterBank
from rase.series.joint import MOST_ROUNDS
from rase.series.smoother import LEAST_ROUNDS, Record, is_better, revised
from rase.series.window import is_enough

__all__ = ["Followed", "Tracker"]

# A mean far outside the range says no more than one a little outside; the square must not overflow.
_MOST_WIDTHS = 1e6


@dataclass(frozen=True, slots=True)
class _Said:
    """What was said of a round, and by what variance its mean may be off the fleet's."""

    time_s: float
    mean: Estimate
    found: Estimate
    added: float | None


@dataclass(frozen=True, slots=True)
class Followed:
    """What `Tracker.follow` says of a round.

    Args:
        estimate: As `Tracker.update` returns it.
        sampling: `Tracker.sampling` after it.
        window: `Tracker.mean_of_last` after it.
    """

    estimate: Estimate
    sampling: float
    window: Estimate | None = None


class Tracker:
    """Estimate the mean of each round from its reports and from the rounds before.

    The level, daily and weekly profile and irregular part of the fleet's mean are learnt from
    sanitized rounds alone, by likelihood over a bank of models (`rase.series.bank`); there is
    nothing to tune. Rounds that were withheld are left out: the next one is less sure. The interval
    holds the doubt about the model; it is for the mean of the readings of that round.

    Errors of neighbouring rounds go together and hardly average out: the mean over the last rounds
    comes from their joint law (`mean_of_last`), and a long window averages unbiased means instead
    (`surer_window` in `rase.series.window`).

    Guarantee: post-processing of released reports, so it has the privacy of these and costs none.

    Args:
        value_range: The public range of readings.
        window: Over how many rounds means are asked for, up to 64; 0 for none.
        every_s: The length of a round, by which missing ones are counted; 0 where each time is a
            round.
        lag: How many later rounds may help a round (`look_back`), up to 63; 0 for none.

    Example:
        >>> tracker = Tracker(Range(0, 100))
        >>> for round in range(48):
        ...     noisy = 40.0 + 20.0 * (-1) ** round  # two numbers around the truth
        ...     mean = Estimate(noisy, 20.0, n=50, method="unbiased_mean", target="mean")
        ...     tracked = tracker.update(3600 * round, mean)
        >>> abs(tracked.value - 40.0) < 10.0, tracked.standard_error < 10.0
        (True, True)
    """

    def __init__(
        self, value_range: Range, *, window: int = 0, every_s: float = 0.0, lag: int = 0
    ) -> None:
        """Start without any knowledge but the range."""
        self.domain = value_range
        self._window = window if window <= MOST_ROUNDS else 0
        self._every_s = every_s
        self._remembered = max(self._window, min(lag + 1, MOST_ROUNDS) if lag else 0)
        self._sizes: deque[int] = deque(maxlen=self._remembered)
        self._said: deque[_Said] = deque(maxlen=lag + 1 if lag else 0)
        low, width = value_range.low, value_range.width
        self._bank = FilterBank(low, width, remembered=self._remembered)

    @classmethod
    def from_bytes(
        cls,
        value_range: Range,
        state: bytes,
        *,
        window: int = 0,
        every_s: float = 0.0,
        lag: int = 0,
    ) -> Self:
        """Return the tracker that `to_bytes` wrote: its next estimates are equal to the last bit.

        Windows and looking back begin with the next round.

        Raises:
            ValueError: If the bytes are of another range, or of models of another release.
        """
        made = cls(value_range, window=window, every_s=every_s, lag=lag)
        low, width = value_range.low, value_range.width
        made._bank = FilterBank.from_bytes(low, width, state=state, remembered=made._remembered)
        return made

    def to_bytes(self) -> bytes:
        """Return all that was learnt, 500 to 700 kB however many rounds there were."""
        return self._bank.to_bytes()

    @property
    def time_s(self) -> float | None:
        """When the latest round that was taken in began; None before the first."""
        return self._bank.time_s

    @property
    def evidence(self) -> Floats:
        """How well each model predicted the rounds that were taken in since this was made."""
        return np.asarray(self._bank.evidence[0])

    @property
    def sampling(self) -> float:
        """How far the mean of those who reported last is off that of all who may, as a variance."""
        return self._bank.sampling

    def update(
        self,
        time_s: float,
        mean: Estimate,
        *,
        spread: float | None = None,
        members: int | None = None,
    ) -> Estimate:
        """Take a round in and return its estimate.

        Args:
            time_s: When the round began, in seconds since 1970; rounds come in order, and some may
                be missing.
            mean: The unbiased mean of its reports.
            spread: The variance of its readings as `rase.counts.moments` estimates it, where the
                mechanism reveals it: about V / n is how far n independent devices move the mean.
                Devices that share a cause move it further, which the models allow for.
            members: How many devices the fleet has, if its mean is meant and ``mean`` is of it
                (`rase.counts.fleet.of_fleet`); None if that of the round's reporters is. What
                choosing the reporters adds is then added after all averaging: where the same
                devices report at the same hour every day, no number of days averages it out. While
                reports hide how far readings spread, the most that they can is taken.

        Raises:
            ValueError: If the round is not later than the last one, ``spread`` is not finite, the
                error of ``mean`` is 0 or infinite, or there are fewer members than reports.
        """
        seen = self._value_of(mean, spread)
        self._skip_missing(time_s)
        self._sizes.append(mean.n)
        belief = self._bank.step(
            time_s,
            np.array([seen]),
            variance=mean.standard_error**2,
            n=mean.n,
            degrees=mean.degrees_of_freedom,
        )
        if spread is not None:
            self._bank.learn_spread(np.array([spread]))
        error, degrees = math.sqrt(belief.variances[0]), float(belief.degrees[0])
        found = self._estimate_of(mean.n, float(belief.means[0]), error, degrees)
        if members is None:
            self._said.append(_Said(time_s, mean, found, None))
            return found
        known = self._bank.spread
        added = sampling_variance(
            found,
            members=members,
            spread=None if known is None else float(known[0]),
            value_range=self.domain,
        )
        self._said.append(_Said(time_s, mean, found, added))
        return _of_fleet(found, added)

    def follow(
        self,
        times_s: Sequence[float],
        means: Sequence[Estimate],
        *,
        spreads: Sequence[float | None],
    ) -> "list[Followed]":
        """Take many rounds in: the same to the last bit as `update` for each, but much faster.

        Args:
            times_s: When each round began.
            means: Their unbiased means.
            spreads: As in `update`.

        Raises:
            ValueError: As `update` does.
        """
        if self._remembered:
            return [
                Followed(
                    self.update(time_s, mean, spread=spread), self.sampling, self.mean_of_last()
                )
                for time_s, mean, spread in zip(times_s, means, spreads, strict=True)
            ]
        if not len(means):
            return []
        rounds = np.empty((len(means), 6))
        rounds[:, 0] = times_s
        pairs = zip(means, spreads, strict=True)
        rounds[:, 1] = [self._value_of(mean, spread) for mean, spread in pairs]
        rounds[:, 2] = [mean.standard_error**2 for mean in means]
        rounds[:, 3] = [mean.n for mean in means]
        rounds[:, 4] = [mean.degrees_of_freedom for mean in means]
        rounds[:, 5] = [math.nan if spread is None else spread for spread in spreads]
        laws = self._bank.follow(rounds)
        laws[:, 1] = np.sqrt(laws[:, 1])
        return [
            Followed(self._estimate_of(mean.n, *law), sampling)
            for mean, (*law, sampling) in zip(means, laws.tolist(), strict=True)
        ]

    def _value_of(self, mean: Estimate, spread: float | None) -> float:
        """Refuse what cannot be followed; return the mean, not too far outside the range."""
        low, high = self.domain.low, self.domain.high
        reach = _MOST_WIDTHS * (high - low)
        if not 0 < mean.standard_error < reach:
            raise ValueError(
                f"mean must have a finite standard error above 0, got {mean.standard_error}."
            )
        if spread is not None and not math.isfinite(spread):
            raise ValueError(f"spread must be finite, got {spread}.")
        return min(max(mean.value, low - reach), high + reach)

    def _estimate_of(self, n: int, mean: float, error: float, degrees: float) -> Estimate:
        return Estimate(
            mean,
            error,
            n=n,
            method=TRACKED,
            target="mean of the readings",
            degrees_of_freedom=degrees,
            lowest=self.domain.low,
            highest=self.domain.high,
        )

    def look_back(self) -> list[tuple[float, Estimate]]:
        """Return what is known now of the last rounds, each with the time when it began.

        Those that later rounds do not help stay as they were known when they came. The method of
        the others is ``smoothed``.
        """
        about, spread, factors, degrees = self._bank.look_back()
        said = list(self._said)[-len(about) :]
        if len(said) < LEAST_ROUNDS:
            return [(one.time_s, _of_fleet(one.found, one.added)) for one in said]
        law = [part[-len(said) :] for part in (about, spread, factors, degrees)]
        record = Record(
            np.array([one.time_s for one in said]),
            np.array([one.mean.value for one in said]),
            np.array([one.mean.standard_error for one in said]) ** 2,
            np.zeros(len(said)),
            self.domain,
        )
        filtered = [one.found for one in said]
        better, _ = is_better(record, law[0], law[1], filtered=filtered, is_whole=False)
        now = revised(filtered, better, law[0], law[1], factors=law[2], degrees=law[3])
        return [
            (one.time_s, _of_fleet(estimate, one.added))
            for one, estimate in zip(said, now, strict=True)
        ]

    def mean_of_last(self, w: int | None = None) -> Estimate | None:
        """Return the mean over the last rounds, a window of them, from their joint law.

        Rounds that are missing belong to it, as the models expect them.

        Args:
            w: How many; the window that was asked for if None.

        Returns:
            None if no window was asked for, fewer rounds than one are known, or fewer than three
            quarters of them are there.
        """
        w = self._window if w is None else w
        there = [n for n in list(self._sizes)[-w:] if n]
        if not 0 < w <= self._remembered or not is_enough(len(there), w):
            return None
        belief = self._bank.window(w)
        if belief is None:
            return None
        held = "" if len(there) == w else f"{len(there)} of "
        # The same devices may report at the same hours: what sampling adds does not average out.
        added = max((one.added or 0.0 for one in list(self._said)[-w:]), default=0.0)
        return Estimate(
            float(belief.means[0]),
            math.sqrt(float(belief.variances[0]) + added),
            n=sum(there),
            method=TRACKED,
            target=f"mean of the readings, over {held}{w} rounds",
            lowest=self.domain.low,
            highest=self.domain.high,
            rounds=len(there),
            of_rounds=w,
        )

    def _skip_missing(self, time_s: float) -> None:
        """Let rounds pass that are missing before a time, as far as a window reaches."""
        if self.time_s is None or not self._every_s or not self._remembered:
            return
        missing = round((time_s - self.time_s) / self._every_s) - 1
        for back in range(min(missing, self._remembered), 0, -1):
            self._bank.skip(time_s - back * self._every_s)
            self._sizes.append(0)


def _of_fleet(estimate: Estimate, added: float | None) -> Estimate:
    """Return an estimate of the mean of a fleet of which a sample reported; None for none."""
    if added is None:
        return estimate
    error = math.hypot(estimate.standard_error, math.sqrt(added))
    return replace(estimate, standard_error=error, target=OF_FLEET)
