"""A bank of Kalman filters: the same rounds followed under many models, weighted by likelihood.

Each model says how a fleet's mean moves: a level that wanders, a daily and weekly profile, and an
irregular part that comes and goes. The models differ in how strongly each part moves; how well a
model predicted the rounds so far decides how much it counts. So nothing has to be tuned, a change
of habits shifts the weights, and doubt about the model is part of the error.

Devices share causes, such as weather, tariffs and meal times, and may all move at once. So the
irregular part of a model reaches up to the whole width of the range, whatever the size of the
fleet. The model of the widest part that lasts one round takes next to nothing from earlier rounds:
it is the round's unbiased mean as a member of the bank.
"""

import functools
import itertools
import math
import struct
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Belief", "FilterBank"]

Floats = NDArray[np.float64]

_DAY_S = 86_400.0
# Harmonics of the day and of the week; further ones are left to the irregular part.
# Where rounds are too long to see a wave, it looks like a part of the level and does no harm.
_PERIODS_S = np.array([*(_DAY_S / k for k in range(1, 7)), *(7 * _DAY_S / k for k in range(1, 4))])
_RELATIVE_SIZES = np.array([*(1 / k for k in range(1, 7)), *(0.3 / k for k in range(1, 4))])
# Scales are shares of the public range's width, a factor of 2.5 to 6 apart: nearer ones can hardly
# be told apart by noisy rounds. The level's is a standard deviation per day.
_LEVELS = (0.0, 0.002, 0.01, 0.05, 0.25)
_PROFILES = (0.002, 0.012, 0.07)
_IRREGULAR = (0.0001, 0.0003, 0.0009, 0.0025, 0.007, 0.02, 0.05, 0.13, 0.35, 1.0)
# How long the irregular part lasts: the next round knows nothing of it, minutes, or hours.
_LASTING_S = (0.0, 1200.0, 7200.0)
_SHAPE = (len(_LEVELS), len(_IRREGULAR), len(_LASTING_S), len(_PROFILES))
# A profile changes by this share of itself a day, in standard deviations.
_PROFILE_DRIFT = 0.02
# From round to round a fleet may begin to move like a neighbouring model, or like any: without this
# a model that was wrong for long would count nothing when its time comes.
_NEXT_LEVEL, _NEXT_IRREGULAR, _ANY = 0.005, 0.002, 1e-4
# Before any round the stiller of two models is the likelier, by these factors for each step: at
# first rounds cannot tell a profile from noise, and following noise costs more than missing a wave.
_STILLER_LEVEL, _STILLER_PROFILE = 1.35, 2.7
# What is known of the spread of readings, and of how many may report, counts a third after so many
# days.
_MEMORY_DAYS, _MEMBERS_DAYS = 60.0, 7.0
# Standard deviations of readings in a round that are considered before any report, as shares of the
# width. Below the variance of the mean of n independent devices an irregular part is less likely by
# a normal law of the logarithm, and not by much: devices that differ for good spread a round, but
# move no mean. Above it, it is half as likely at the least: devices that share a cause move
# together, however many they are, and a few rounds are enough to outweigh that.
_SPREADS = np.geomspace(0.005, 0.5, 40)
_SPREADS_NEEDED = 5.0
_IRREGULAR_ABOVE, _IRREGULAR_BELOW = math.log(1.8), math.log(3.5)
_LEAST_ABOVE = 0.5
# A mean that is near an end of the range can hardly move further than the way to that end, and
# readings spread about it by twice that way or less: most quantities are as variable as they are
# large. Models that suppose more lose weight by a normal law of the logarithm of the excess.
_MOST_SPREAD, _EXCESS = 2.0, 0.5
# A belief whose mean lies this many errors outside the range is taken as if it lay no further; what
# is left of its variance inside the range is then this share, and rounding makes it no smaller.
_FURTHEST, _LEAST_SHARE = 3.0, 0.1
# Fleets move by jumps now and then, models by normal steps. Where an error comes from motion alone
# Student's t of so few degrees holds 95 %; where it comes from noise, whose law is known, the
# normal law does, and degrees beyond the most make no difference.
_DEGREES_OF_MOTION, _MOST_DEGREES = 5.0, 200.0
# Changes with every change of the numbers above: a state of other models means something else.
_FORMAT: Final = b"rase-bank-4\n"
_SIZE = 2 + 2 * len(_PERIODS_S)
_COUNT = math.prod(_SHAPE)


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Hold what the bank believes of a round's mean, for each run.

    Args:
        means: The mean of all models; where they reach beyond the range, a value inside it, never
            exactly an end: see `_within`.
        variances: The mean square distance to it: how sure the models are, how far they disagree,
            and that no mean of readings lies outside the range.
        degrees: How well that distance is known: whole degrees of freedom of Student's t, few where
            it rests on what models suppose of motion, many where noise makes it.
    """

    means: Floats
    variances: Floats
    degrees: Floats


class FilterBank:
    """Follow the mean of a fleet through time, under many models at once.

    The cost of a round does not depend on how many came before, nor on the time between them.
    Several runs may be followed at once that differ in what the rounds told, but not in how sure
    they were: the models' covariances are then the same and are computed once.

    Args:
        low: The lower end of the public range.
        width: Its width.
        runs: How many runs.
    """

    def __init__(self, low: float, width: float, *, runs: int = 1) -> None:
        self._low, self._width = low, width
        models = np.array(list(itertools.product(_LEVELS, _IRREGULAR, _LASTING_S, _PROFILES)))
        level, irregular, self._lasting_s, profile = models.T
        self._level_per_s = (level * width) ** 2 / _DAY_S
        self._irregular = (irregular * width) ** 2
        self._state = np.zeros((runs, _COUNT, _SIZE))
        self._state[:, :, 0] = low + width / 2
        self._covariance = np.zeros((_COUNT, _SIZE, _SIZE))
        # Before any report a mean is as likely near an end of the range as in its middle: both ends
        # lie within one deviation. With that of the uniform law the middle would pull for days.
        self._covariance[:, 0, 0] = width**2 / 3
        self._covariance[:, 1, 1] = self._irregular
        self._waves = np.arange(2, _SIZE)
        amplitudes = (profile[:, None] * width * np.repeat(_RELATIVE_SIZES, 2)) ** 2
        self._covariance[:, self._waves, self._waves] = amplitudes
        self._profile_per_s = amplitudes * (_PROFILE_DRIFT**2 / _DAY_S)
        self._weights = np.tile(_prior(), (runs, 1))
        # How far the mean of each model moves in a day, and how far it can: see `_MOST_SPREAD`.
        waves = float(np.square(_RELATIVE_SIZES).sum())
        self._motion = width * np.sqrt(level**2 + irregular**2 + waves * profile**2)
        self._way = np.full(runs, width)
        # Count, sum and sum of squares of what rounds told of their readings' variance.
        self._spread = np.zeros((runs, 3))
        # The most that reported lately.
        self._most = 0.0
        self._time_s: float | None = None
        # Written over in every round; memory of this size that is new each time costs more than
        # what is computed in it.
        self._outer = np.empty_like(self._covariance)

    @classmethod
    def from_bytes(cls, low: float, width: float, *, state: bytes) -> Self:
        """Return the bank of one run that `to_bytes` wrote, to the last bit.

        Raises:
            ValueError: If the bytes are of other models or another range.
        """
        bank = cls(low, width)
        head = _head(low, width)
        numbers = (
            np.frombuffer(state, "<f8", offset=len(head)) if state[: len(head)] == head else ()
        )
        sizes = (1, 1, 1, 3, _COUNT, _COUNT * _SIZE, _COUNT * _SIZE * (_SIZE + 1) // 2)
        if len(numbers) != sum(sizes):
            raise ValueError("state must be of the same models and range; follow the rounds again.")
        time_s, most, bank._way, spread, weights, means, half = (
            part.astype(np.float64) for part in np.split(numbers, np.cumsum(sizes)[:-1])
        )
        bank._time_s = None if math.isnan(time_s[0]) else float(time_s[0])
        bank._most = float(most[0])
        bank._spread, bank._weights = spread.reshape(1, -1), weights.reshape(1, -1)
        bank._state = means.reshape(1, _COUNT, _SIZE)
        rows, columns = np.triu_indices(_SIZE)
        bank._covariance[:, rows, columns] = half.reshape(_COUNT, -1)
        bank._covariance[:, columns, rows] = half.reshape(_COUNT, -1)
        return bank

    def to_bytes(self) -> bytes:
        """Return all that the bank of one run knows, as float64 to the last bit."""
        # Covariances are symmetric to the last bit, because every step is; half of each is enough.
        half = self._covariance[(slice(None), *np.triu_indices(_SIZE))]
        time_s = math.nan if self._time_s is None else self._time_s
        parts = (self._way, self._spread, self._weights, self._state, half)
        numbers = np.concatenate([[time_s, self._most], *(part.ravel() for part in parts)])
        return _head(self._low, self._width) + numbers.astype("<f8").tobytes()

    @property
    def time_s(self) -> float | None:
        """The time of the latest round that was taken in; None before the first."""
        return self._time_s

    @property
    def spread(self) -> Floats | None:
        """The variance of readings in a round as it is believed now; None if none was learnt."""
        if not self._spread[0, 0]:
            return None
        return np.asarray(self._spread_chances() @ (_SPREADS * self._width) ** 2)

    def step(self, time_s: float, values: Floats, *, variance: float, n: int) -> Belief:
        """Take the unbiased mean of a round, one for each run, and return what is believed now.

        Args:
            time_s: When the round began; later than all before.
            values: The unbiased means.
            variance: Their variance by noise alone.
            n: How many reported.

        Raises:
            ValueError: If the round is not later than the last.
        """
        self._advance(time_s)
        seen = _seen(time_s)
        gain = (self._covariance.reshape(-1, _SIZE) @ seen).reshape(_COUNT, _SIZE)
        spreads = self._spread_chances()
        of_members = self._of_members(n, spreads)
        signal = gain @ seen + of_members
        total = signal + variance
        surprise = values[:, None] - self._state @ seen
        self._weigh(-0.5 * (np.log(total) + surprise * surprise / total))
        # The same factor on both sides keeps the covariance symmetric to the last bit.
        scaled = gain / np.sqrt(total)[:, None]
        np.einsum("ki,kj->kij", scaled, scaled, out=self._outer)
        self._covariance -= self._outer
        self._state += gain * (surprise / total)[:, :, None]
        weights = self._weights * self._irregular_prior(n, spreads)
        weights *= _at_most(self._motion / self._way[:, None])
        weights /= weights.sum(axis=1, keepdims=True)
        means = self._state @ seen + of_members * (surprise / total)
        mean = (weights * means).sum(axis=1)
        left = signal * (variance / total)
        apart = (weights * (left + np.square(means - mean[:, None]))).sum(axis=1)
        degrees = _degrees(apart, noise=variance, still=float(left.min()))
        return self._within(mean, np.sqrt(apart), degrees)

    def _within(self, means: Floats, errors: Floats, degrees: Floats) -> Belief:
        """Return a normal belief as cut to the range, and note the way to the nearer end.

        The likeliest value of what is left is often an end of the range itself, which reads like a
        measured 0; its mean lies far inside, and fleets are mostly near an end of a range that was
        chosen wide. Halfway between the two errs least over the whole of noisy records
        (docs/explain/accuracy.md, "Near the ends of the range").
        """
        high = self._low + self._width
        likeliest = means.clip(self._low, high)
        # Further outside than this the reports contradict the range, and the error is not trusted.
        means = means.clip(self._low - _FURTHEST * errors, high + _FURTHEST * errors)
        ends = np.stack([self._low - means, high - means]) / errors
        below, above = np.array([[math.erf(x / math.sqrt(2)) / 2 for x in end] for end in ends])
        density = np.exp(-0.5 * ends * ends) / math.sqrt(2 * math.pi)
        first = (density[0] - density[1]) / (above - below)
        second = 1 + (ends[0] * density[0] - ends[1] * density[1]) / (above - below)

        def square_about(points: Floats) -> Floats:
            shift = (points - means) / errors
            share = np.maximum(second - 2 * shift * first + shift * shift, _LEAST_SHARE)
            return np.asarray(share * errors * errors)

        inside = np.minimum(likeliest - self._low, high - likeliest)
        self._way = np.maximum(inside, 1e-12 * self._width) + np.sqrt(square_about(likeliest))
        told = (likeliest + means + first * errors) / 2
        return Belief(told, square_about(told), degrees)

    def learn_spread(self, values: Floats) -> None:
        """Take, for each run, an unbiased estimate of the variance of readings within a round.

        Rounds count alike: an error estimated from the same few reports is small where the value
        happens to be small, and weights by it would pull the mean down.
        """
        self._spread += np.stack([np.ones_like(values), values, values * values], axis=1)

    def _advance(self, time_s: float) -> None:
        if self._time_s is not None:
            passed_s = time_s - self._time_s
            if not 0 < passed_s < math.inf:
                raise ValueError(f"time_s must be later than {self._time_s:g}, got {time_s:g}.")
            with np.errstate(divide="ignore"):
                left = np.exp(-passed_s / self._lasting_s)
            self._state[:, :, 1] *= left
            self._covariance[:, 1, :] *= left[:, None]
            self._covariance[:, :, 1] *= left[:, None]
            self._covariance[:, 0, 0] += passed_s * self._level_per_s
            self._covariance[:, 1, 1] += self._irregular * (1 - left**2)
            self._covariance[:, self._waves, self._waves] += passed_s * self._profile_per_s
            self._spread *= math.exp(-passed_s / (_MEMORY_DAYS * _DAY_S))
            self._most *= math.exp(-passed_s / (_MEMBERS_DAYS * _DAY_S))
            self._weights = _drifted(self._weights)
        elif not math.isfinite(time_s):
            raise ValueError(f"time_s must be finite, got {time_s}.")
        self._time_s = time_s

    def _weigh(self, evidence: Floats) -> None:
        weights = self._weights * np.exp(evidence - evidence.max(axis=1, keepdims=True))
        self._weights = weights / weights.sum(axis=1, keepdims=True)

    def _of_members(self, n: int, chances: Floats) -> float:
        """Return how far the mean of those who report is off that of all who may, as a variance.

        Where n of N report, another n would have another mean: as much as sampling without
        replacement makes it. It is of this round alone, and 0 while as many report as ever. Runs
        share their covariances, so the spread is averaged over them.
        """
        self._most = max(self._most, float(n))
        variances = chances @ (_SPREADS * self._width) ** 2
        return float(variances.mean()) * (1 / n - 1 / self._most)

    def _spread_chances(self) -> Floats:
        """Return how likely each spread of readings is, for each run."""
        spreads = (_SPREADS * self._width) ** 2
        chances = np.log(_at_most(_SPREADS * self._width / (_MOST_SPREAD * self._way[:, None])))
        # Runs learn of the spread in the same rounds, so their counts are one.
        if self._spread[0, 0] >= _SPREADS_NEEDED:
            count, total, squares = self._spread.T[:, :, None]
            seen = total / count
            variance = np.maximum(squares / count - seen * seen, 0.0) / (count - 1)
            chances -= 0.5 * (seen - spreads) ** 2 / (variance + (0.1 * spreads) ** 2)
        chances = np.exp(chances - chances.max(axis=1, keepdims=True))
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def _irregular_prior(self, n: int, chances: Floats) -> Floats:
        """Say how likely each model's irregular part is, given V / n of n independent devices."""
        spreads = (_SPREADS * self._width) ** 2
        grid = (np.array(_IRREGULAR) * self._width) ** 2
        away = np.log(grid)[:, None] - np.log(spreads / n)[None, :]
        is_above = away > 0
        odds = np.exp(-0.5 * (away / np.where(is_above, _IRREGULAR_ABOVE, _IRREGULAR_BELOW)) ** 2)
        odds = np.where(is_above, np.maximum(odds, _LEAST_ABOVE), odds)
        likely = chances @ odds.T
        shaped = np.broadcast_to(
            (likely + 1e-300)[:, None, :, None, None], (len(self._way), *_SHAPE)
        )
        return np.ascontiguousarray(shaped).reshape(-1, _COUNT)


def _at_most(ratio: Floats) -> Floats:
    """Return 1 up to a ratio of 1, and less the further it is exceeded; never 0."""
    excess = np.maximum(np.log(ratio), 0.0) / _EXCESS
    return np.asarray(np.exp(-0.5 * np.minimum(excess, 10.0) ** 2))


def _degrees(variances: Floats, *, noise: float, still: float) -> Floats:
    """Return the degrees of freedom of beliefs by the share of their variance that is of motion.

    No part of motion is what the stillest model would leave, the noise of all rounds averaged, and
    what the round's own noise makes: a variance of v leaves v / noise of the weight to the round.
    The rest is known as a variance from few numbers is; Welch and Satterthwaite (1947) give how
    well the sum is then.
    """
    of_motion = (1 - still / variances) * (1 - np.minimum(variances / noise, 1.0))
    least = math.sqrt(_DEGREES_OF_MOTION / _MOST_DEGREES)
    return np.asarray(np.floor(_DEGREES_OF_MOTION / np.square(np.maximum(of_motion, least))))


def _head(low: float, width: float) -> bytes:
    return _FORMAT + struct.pack("<dd", low, width)


@functools.cache
def _prior() -> Floats:
    level, _, _, profile = np.indices(_SHAPE)
    weights = _STILLER_LEVEL ** -level.astype(float) * _STILLER_PROFILE ** -profile.astype(float)
    prior = (weights / weights.sum()).reshape(_COUNT)
    prior.flags.writeable = False
    return np.asarray(prior)


def _drifted(weights: Floats) -> Floats:
    """Return what the models count before the next round: some of it goes to their neighbours."""
    shaped = weights.reshape(-1, *_SHAPE).copy()
    for axis, share in ((1, _NEXT_LEVEL / 2), (2, _NEXT_IRREGULAR / 2)):
        along = np.moveaxis(shaped, axis, 0)
        # What the greater of two neighbours loses the other gains; nothing goes beyond the ends.
        flow = share * np.diff(along, axis=0)
        along[:-1] += flow
        along[1:] -= flow
    return np.asarray((1 - _ANY) * shaped.reshape(weights.shape) + _ANY * _prior())


def _seen(time_s: float) -> Floats:
    """Return how much of each part of the state shows at a time."""
    angles = 2 * math.pi * (time_s % (7 * _DAY_S)) / _PERIODS_S
    waves = np.stack([np.cos(angles), np.sin(angles)], axis=1).ravel()
    return np.concatenate([[1.0, 1.0], waves])
