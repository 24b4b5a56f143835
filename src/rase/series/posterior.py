"""What a round says under all models, scales of movement, events and experts: a mixture of laws.

Three experts speak of every round: the bank of filters, the mean of earlier rounds, and the round
by itself. Which of them to follow is learnt from unbiased estimates of their squared errors (Stein
1981), so that over any series the error is hardly above that of the best of the three. The bound
and its proof are in docs/explain/accuracy.md, "Never much worse than a constant or the unbiased
mean".
"""

import functools
import math
from typing import Final

import numpy as np

from rase.arrays import Floats
from rase.counts.estimate import student_quantile
from rase.series.models import IRREGULAR, part_of_model

__all__ = [
    "FIRST_SCALES",
    "LEAST_SHARE",
    "NUMBERS",
    "OUTLIER",
    "Experts",
    "Posterior",
    "as_student",
    "cut_law",
    "mix_models",
    "outlier_share",
    "reach_of",
    "reaches",
]

# The variance of movement that models expect is multiplied by one of these. How likely each is, for
# models of one irregular part, follows the last 200 rounds or so, and comes back to the first
# opinion where they say nothing. Irregular parts are far apart: between two of them the one needs
# more, the other less.
_SCALES = np.array([0.3, 1.0, 3.0, 10.0, 40.0])
_SCALES_PRIOR = np.array([0.08, 0.72, 0.15, 0.04, 0.01])
FIRST_SCALES = np.tile(_SCALES_PRIOR, (len(IRREGULAR), 1))
_SCALES_KEPT = 0.995
# A round may be a jump to anywhere, with this chance, by this share of the width, and stays there
# for another round with the next chance. Only a share of the odds of that moves the value.
_JUMP_CHANCE, _JUMP_SIZE, _AWAY_KEPT, _AWAY_ODDS = 0.004, 0.25, 0.9, 0.02
# An outlier of the noise has three times its error. A share q of them has an excess kurtosis of
# 192 q; the degrees of freedom of a mean say 34.5 over its kurtosis (`rase.counts.moments`).
OUTLIER, _OUTLIERS_PER_DEGREE, _MOST_OUTLIERS = 9.0, 34.5 / 192, 0.05
# Models of each irregular part, and of neighbouring ones, go together: matrices of zeros and ones.
_ONE_OF_PARTS = np.eye(len(IRREGULAR))
_ONE_OF_GROUPS = np.repeat(np.eye(len(IRREGULAR) // 2), 2, axis=0)
# Models that count less than this change no number that anybody sees.
_LEAST_WEIGHT = 1e-6

# A belief whose mean lies this many errors outside the range is taken as if it lay no further; what
# is left of its variance inside the range is then this share, and rounding makes it no smaller.
_FURTHEST, LEAST_SHARE = 3.0, 0.1

# Before any round: the bank, the mean of earlier rounds, the round by itself.
_EXPERTS_PRIOR = np.array([0.8, 0.17, 0.03])
# What becomes of the shares while there is no earlier round.
_TO_THE_BANK = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
# Losses are counted in units of so many variances of the noise; the proof needs this number.
_TEMPERATURE = 8.0
# In round t a share of 1 / (t + this) goes back to the prior, so that none is lost for good.
_FIRST_SHARE = 50.0

# Where the reach is looked for, in standard deviations of the whole: no law has 5 % further away
# than 4.48 (Chebyshev 1867), and none that comes from here has 95 % nearer than 0.8.
_STEPS: Final = np.array(
    [0.8, 1.1, 1.4, *(1.6 + 0.1 * step for step in range(8)), 2.45, 2.65, 2.9, 3.2, 3.6, 4.5]
)
_MOST_DEGREES: Final = 200
# What the compiled kernels are given of these, as `struct numbers` in native_bank.h has it.
NUMBERS: Final = (
    *(_SCALES_KEPT, _JUMP_CHANCE, _JUMP_SIZE, _AWAY_KEPT, _AWAY_ODDS, OUTLIER, _LEAST_WEIGHT),
    *(_FURTHEST, LEAST_SHARE, _TEMPERATURE, _FIRST_SHARE, student_quantile(0.95, math.inf)),
    *(*_EXPERTS_PRIOR, *_SCALES, *_SCALES_PRIOR, *_STEPS),
)


def outlier_share(degrees: float) -> float:
    """Return how often noise has an outlier, by the degrees of freedom of its error."""
    return min(_OUTLIERS_PER_DEGREE / degrees, _MOST_OUTLIERS)


class Posterior:
    """What models, scales and events say of a round together, as a mixture of normal laws.

    Args:
        weights: Of the models before the round, one run a row.
        scales: How likely each scale of movement was before the round, for each irregular part.
        means: What the models expected.
        movements: The variances of that by movement.
        surprises: How far the round is off.
        variance: Its variance by noise.
    """

    def __init__(
        self,
        weights: Floats,
        scales: Floats,
        *,
        means: Floats,
        movements: Floats,
        surprises: Floats,
        variance: float,
    ) -> None:
        self._noise = variance
        chosen = np.flatnonzero(weights.max(axis=0) > _LEAST_WEIGHT)
        weights, means, movements, surprises = (
            part[:, chosen] for part in (weights, means, movements, surprises)
        )
        scaled = _SCALES[:, None, None] * movements
        totals = scaled + variance
        odds = -0.5 * (np.log(totals) + surprises * surprises / totals)
        self._top = odds.max(axis=(0, 2))
        chances = weights * np.exp(odds - self._top[:, None])
        parts = part_of_model()[chosen]
        by_part = (chances @ _ONE_OF_PARTS[parts]).transpose(1, 2, 0)
        # A scale that one round rules out may still be right for the next; parts without models
        # learn nothing.
        by_part += 1e-9 * by_part.max(axis=2, keepdims=True) + 1e-300
        by_part /= by_part.sum(axis=2, keepdims=True)
        learnt = scales**_SCALES_KEPT * _SCALES_PRIOR ** (1 - _SCALES_KEPT) * by_part
        self.scales = learnt / learnt.sum(axis=2, keepdims=True)
        chances *= scales.transpose(2, 0, 1)[:, :, parts]
        follows = scaled / totals
        found, left = means + follows * surprises, follows * variance
        # Models of like irregular parts and one scale are taken together: their mean and variance.
        together = _ONE_OF_GROUPS[parts]
        self.weights = _rowed(chances @ together) + 1e-300
        self.means = _rowed((chances * found) @ together) / self.weights
        squares = _rowed((chances * (left + found * found)) @ together) / self.weights
        self.variances = np.maximum(squares - self.means**2, 1e-9 * variance)
        self._centre = (weights * means).sum(axis=1)
        apart = movements + np.square(means - self._centre[:, None])
        self._apart = (weights * apart).sum(axis=1)
        self._surprise = (weights * surprises).sum(axis=1)

    def add_jumps_and_outliers(self, width: float, outliers: float) -> None:
        """Add that the round is a jump, or an outlier of the noise.

        Args:
            width: The width of the range.
            outliers: The chance of an outlier.
        """
        variances = np.array([[(_JUMP_SIZE * width) ** 2], [0.0]])
        movements = np.where(variances, variances, self._apart)
        noise = np.array([[1.0], [OUTLIER]]) * self._noise
        chances = np.array([[_JUMP_CHANCE], [outliers]])
        totals = movements + noise
        odds = -0.5 * (np.log(totals) + self._surprise**2 / totals) - self._top
        follows = movements / totals
        self._events = (
            (chances * np.exp(np.minimum(odds, 700.0))).T,
            (self._centre + follows * self._surprise).T,
            (follows * noise).T,
        )

    def add_away(
        self, away: Floats, values: Floats, bank: tuple[Floats, Floats, Floats, Floats]
    ) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
        """Add that the mean is still where it jumped to in a round before.

        Args:
            away: How likely that is, where it is then, and the variance of that, one run a row.
            values: The unbiased means of the round.
            bank: What `mix_models` says.

        Returns:
            The same for the next round, and what the bank says together with a jump: a mixture of
            normal laws like its own, so the variance over the noise still is how far it follows.
        """
        chance, expected, variance = away.T
        staying, totals = _AWAY_KEPT * chance, variance + self._noise
        surprises, follows = values - expected, variance / totals
        odds = -0.5 * (np.log(totals) + surprises * surprises / totals) - self._top
        stays = staying * np.exp(np.minimum(odds, 700.0)) + 1e-300
        found, left = expected + follows * surprises, follows * self._noise
        self.weights *= (1 - staying)[:, None]
        events, means, variances = self._events
        both = events[:, 0] + stays
        whole = self.weights.sum(axis=1) + events.sum(axis=1) + stays
        since = stays / both
        mean = (1 - since) * means[:, 0] + since * found
        apart = (1 - since) * (variances[:, 0] + np.square(means[:, 0] - mean))
        apart += since * (left + np.square(found - mean))
        self._events = (
            np.column_stack([events, stays]),
            np.column_stack([means, found]),
            np.column_stack([variances, left]),
        )
        chances, own, doubt, likely = bank
        rest = (1 - staying) * np.exp(np.minimum(likely - self._top, 700.0))
        share = _AWAY_ODDS * both / (_AWAY_ODDS * both + rest)
        value = (1 - share) * own + share * mean
        doubt = (1 - share) * (doubt + np.square(own - value))
        doubt += share * (apart + np.square(mean - value))
        return np.stack([both / whole, mean, apart], axis=1), (chances, value, doubt)

    def join(self, shares: Floats, *, constant: Floats, doubt: float, values: Floats) -> None:
        """Add the other two experts, in shares that add up to 1 with the bank's.

        The weights then add up to 1, too.
        """
        events, means, variances = self._events
        weights = np.concatenate([self.weights, events], axis=1)
        weights *= shares[:, :1] / weights.sum(axis=1, keepdims=True)
        others = np.empty((len(shares), 2))
        others[:, 0], others[:, 1] = doubt, self._noise
        said = np.stack([constant, values], axis=1)
        self.weights = np.concatenate([weights, shares[:, 1:]], axis=1)
        self.means = np.concatenate([self.means, means, said], axis=1)
        self.variances = np.concatenate([self.variances, variances, others], axis=1)

    def square_about(self, points: Floats) -> Floats:
        """Return the mean square distance of the mixture to a point, for each run."""
        apart = self.variances + np.square(self.means - points[:, None])
        return np.asarray((self.weights * apart).sum(axis=1))


def _rowed(parts: Floats) -> Floats:
    """Return scales x runs x groups as runs x (scales and groups)."""
    return np.asarray(parts.transpose(1, 0, 2).reshape(parts.shape[1], -1))


class Experts:
    """Weigh three estimates of the mean of each round.

    Args:
        low: The lower end of the public range.
        width: Its width.
        runs: How many runs are followed at once.
    """

    def __init__(self, low: float, width: float, *, runs: int = 1) -> None:
        self._low, self._high = low, low + width
        # The precision of what is known of a constant, and that precision times its mean; before
        # any report it is the middle of the range, give or take its half.
        self._precision = 3 / width**2
        self._sum = np.full(runs, self._precision * (low + width / 2))
        self._shares = np.tile(_EXPERTS_PRIOR, (runs, 1))
        self._rounds = 0.0

    @property
    def constant(self) -> tuple[Floats, float]:
        """The mean of all rounds so far within the range, and its variance."""
        return (self._sum / self._precision).clip(self._low, self._high), 1 / self._precision

    def weigh(
        self, values: Floats, *, variance: float, bank: Floats, bank_variance: Floats
    ) -> Floats:
        """Return how much each expert counts in a round, one run a row.

        Args:
            values: The unbiased means of the round.
            variance: Their variance by noise.
            bank: What the bank says.
            bank_variance: How sure it is; this against ``variance`` is how far its estimate follows
                the round's own mean, which Stein's estimate needs.
        """
        constant, _ = self.constant
        off = np.stack([values - bank, values - constant, np.zeros_like(values)], axis=1)
        follows = np.zeros_like(off)
        follows[:, 0] = np.minimum(bank_variance / variance, 1.0)
        follows[:, 2] = 1.0
        losses = off * off / variance - 1 + 2 * follows
        if self._rounds == 0:
            # There is no mean of earlier rounds yet: its expert says what the bank says.
            losses[:, 1] = losses[:, 0]
        losses -= losses.min(axis=1, keepdims=True)
        shares = self._shares * np.exp(-losses / _TEMPERATURE)
        shares /= shares.sum(axis=1, keepdims=True)
        back = 1 / (self._rounds + _FIRST_SHARE)
        self._shares = (1 - back) * shares + back * _EXPERTS_PRIOR
        if self._rounds == 0:
            shares = shares @ _TO_THE_BANK
        self._rounds += 1
        self._precision += 1 / variance
        self._sum += values / variance
        return shares

    def numbers(self) -> list[Floats]:
        """Return all that is known of one run."""
        return [np.array([self._precision, self._rounds]), self._sum, self._shares.ravel()]

    lengths = (2, 1, 3)

    def restore(self, known: Floats, total: Floats, shares: Floats) -> None:
        """Take back what `numbers` returned."""
        self._precision, self._rounds = known.tolist()
        self._sum, self._shares = total.copy(), shares.reshape(1, -1)


def cut_law(
    means: Floats, errors: Floats, low: float, high: float, *, about: Floats
) -> tuple[Floats, Floats]:
    """Return how far the means of normal laws cut to the range are off points, and their variances.

    Args:
        means: Of the laws as they are.
        errors: Their standard deviations.
        low: The lower end of the range.
        high: Its upper end.
        about: The points.
    """
    # Further outside than this the reports contradict the range, and the error is not trusted.
    means = means.clip(low - _FURTHEST * errors, high + _FURTHEST * errors)
    ends = np.stack([low - means, high - means]) / errors
    below, above = np.array([[math.erf(x / math.sqrt(2)) / 2 for x in end] for end in ends])
    density = np.exp(-0.5 * ends * ends) / math.sqrt(2 * math.pi)
    at_ends = np.stack([density, ends * density])
    first, second = (at_ends[:, 0] - at_ends[:, 1]) / (above - below)
    variance = 1 + second - first * first
    return means + first * errors - about, variance * errors * errors


def mix_models(
    weights: Floats, odds: Floats, found: Floats, left: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return how likely one run's models are after a round, their mean, its variance, and evidence.

    The evidence is the logarithm of how likely all models together found the round.

    Args:
        weights: Of the models before the round.
        odds: The logarithm of how likely each found it.
        found: What each says after it.
        left: How sure each is then, as a variance.
    """
    odds = np.where(weights > 0, odds, -np.inf)
    top = odds.max(axis=1)
    chances = weights * np.exp(odds - top[:, None])
    sums = chances.sum(axis=1)
    chances /= sums[:, None]
    mean = (chances * found).sum(axis=1)
    apart = (chances * (left + np.square(found - mean[:, None]))).sum(axis=1)
    return chances[0], mean, apart, top + np.log(sums)


def reach_of(
    weights: Floats, means: Floats, variances: Floats, *, about: Floats, deviation: Floats
) -> Floats:
    """Return how far to both sides of a point 95 % of a mixture lies, in deviations.

    Args:
        weights: Of the components, one mixture a row; each row adds up to 1.
        means: Their means.
        variances: Their variances, above 0.
        about: The point, one for each mixture.
        deviation: The root mean square distance to it.
    """
    errors = np.sqrt(variances)
    off = (means - about[:, None]) / errors
    scaled = _STEPS[:, None, None] * (deviation[:, None] / errors)
    inside = 0.5 * _erf(np.stack([scaled - off, scaled + off]) / math.sqrt(2)).sum(axis=0)
    masses = (weights * inside).sum(axis=2).T
    # Masses rise with the steps; this is numpy.interp for many rows.
    above = (masses <= 0.95).sum(axis=1)
    before = np.clip(above - 1, 0, len(_STEPS) - 2)
    rows = np.arange(len(masses))
    low, high = masses[rows, before], masses[rows, before + 1]
    slopes = (_STEPS[before + 1] - _STEPS[before]) / np.where(high > low, high - low, 1.0)
    found = slopes * (0.95 - low) + _STEPS[before]
    found = np.where(above == len(_STEPS), _STEPS[-1], found)
    return np.asarray(np.where(above == 0, _STEPS[0], found))


def as_student(reach: Floats) -> tuple[Floats, Floats]:
    """Return laws of Student that reach as far: factors of the deviation, degrees of freedom.

    Where 95 % lie further than the normal law has them, the deviation stays and degrees say how
    far. Where they lie nearer, a few components lie far away; then the deviation is that of the
    normal law of the same reach.
    """
    quantiles, normal = reaches(), student_quantile(0.95, math.inf)
    # The largest number of degrees that still reaches as far.
    degrees = np.searchsorted(-quantiles, -reach, side="right").astype(np.float64) + 1
    is_near = reach <= quantiles[-1]
    return (
        np.where(is_near, reach / normal, np.maximum(reach / quantiles[0], 1.0)),
        np.where(is_near, math.inf, np.maximum(degrees, 2.0)),
    )


@functools.cache
def reaches() -> Floats:
    """Return how far Student's law reaches, by whole degrees of freedom from 2."""
    found = np.array([student_quantile(0.95, degrees) for degrees in range(2, _MOST_DEGREES + 1)])
    found.flags.writeable = False
    return found


def _erf(x: Floats) -> Floats:
    """Return the error function to 1.5e-7: Abramowitz and Stegun 7.1.26."""
    far = np.abs(x)
    t = 1 / (1 + 0.3275911 * far)
    terms = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    return np.asarray(np.copysign(1 - terms * np.exp(-far * far), x))
