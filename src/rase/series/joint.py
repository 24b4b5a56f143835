"""Windows of tracked rounds from the joint law of their rounds.

Errors of neighbouring rounds go together, so those of a window follow neither from adding them up
nor from averaging them as if they were independent. Every model says how its rounds go together:
the covariance of the state with the sum of the window's rounds is carried through the window, a few
numbers a model and round, exact for each of them. A round that is missing belongs to the sum, too,
as the models expect it.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rase.arrays import Floats, Places
from rase.series.families import Family, Prediction
from rase.series.smoother import LookingBack, mixed

__all__ = ["MOST_ROUNDS", "RecentRounds", "Step", "joint_law"]

# Windows of more rounds average unbiased means: there both are nearly the same, and going through
# so many rounds for every one of them costs more than following them.
MOST_ROUNDS = 64
# So many models speak of a window; the others count next to nothing.
_MOST_MODELS, _LEAST_CHANCE = 24, 1e-3

# How far all models may be wrong about a window, in variances of its noise, and how likely that is.
_WRONG = np.array([0.0, 1.0, 4.0, 16.0, 64.0])
_WRONG_PRIOR = np.array([0.7, 0.15, 0.09, 0.04, 0.02])
# The distance to the unbiased mean is not trusted to be smaller than this share of the noise.
_LEAST_NOISE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What one round did to the models of one family.

    Args:
        family: The family.
        left: How much was left of the irregular part since the step before.
        expected: What was expected of the round.
        movements: The variance of the round's mean by movement, also of who reports.
        totals: That and the noise's; None where the round is missing.
        surprises: How far the round was off, likewise.
    """

    family: Family
    left: Floats
    expected: Prediction
    movements: Floats
    totals: Floats | None = None
    surprises: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    """What was said of a round that is remembered.

    Args:
        shares: How much each expert counted.
        value: The unbiased mean.
        noise: Its variance by noise.
        wider: How much larger the stated variance is than that of the models.
    """

    shares: Floats
    value: float
    noise: float
    wider: float


class RecentRounds:
    """Keep the last rounds of one run, and say what they say together.

    Args:
        most: How many.
    """

    def __init__(self, most: int) -> None:
        self._steps: deque[Sequence[Step]] = deque(maxlen=most)
        self._answers: deque[_Answer | None] = deque(maxlen=most)
        self._chances = np.empty(0)

    @property
    def count(self) -> int:
        """How many rounds are kept, missing ones included."""
        return len(self._answers)

    def add_round(
        self, steps: Sequence[Step], movements: Floats, totals: Floats, surprises: Floats
    ) -> None:
        """Take what a round did to the models; all families in one row."""
        parts, first = [], 0
        for step in steps:
            part = slice(first, first + step.family.count)
            first = part.stop
            moved, total, surprise = (row[0, part] for row in (movements, totals, surprises))
            parts.append(replace(step, movements=moved, totals=total, surprises=surprise))
        self._steps.append(parts)

    def add_answer(
        self, chances: Floats, shares: Floats, *, value: float, noise: float, wider: float
    ) -> None:
        """Take what was said of that round, and how likely the models are after it."""
        self._chances = chances
        self._answers.append(_Answer(shares, value, noise, wider))

    def add_missing(self, steps: Sequence[Step]) -> None:
        """Take a missing round."""
        self._steps.append(steps)
        self._answers.append(None)

    def law(self, rounds: int, *, constant: float) -> tuple[float, float]:
        """Return the mean over the last rounds, missing ones included, and its variance.

        Args:
            rounds: How many; some of them are there.
            constant: What the expert says who repeats the mean of all rounds.
        """
        steps = list(self._steps)[-rounds:]
        mean, variance = joint_law(steps, self._chances)
        about, known = mean, variance
        if any(one[0].totals is None for one in steps):
            about, known = joint_law(steps, self._chances, is_present=True)
        said = [one for one in list(self._answers)[-rounds:] if one is not None]
        shares = np.mean([one.shares for one in said], axis=0)
        alone = math.fsum(one.value for one in said) / len(said)
        noise = math.fsum(one.noise for one in said) / len(said) ** 2
        value = float(shares @ [mean, constant, alone])
        off = alone - float(shares @ [about, constant, alone])
        shift, doubt = _correct(off, noise, max(noise - known, _LEAST_NOISE * noise))
        # What intervals of the rounds add to the models' error, those of windows add, too.
        wider = math.fsum(one.wider for one in said) / len(said)
        return value + shift, wider * (variance + (value - mean) ** 2) + doubt

    def look_back(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return what is known now of the rounds that are kept and there, the oldest first.

        The models count as much as they do after the last round: over so few rounds a fleet hardly
        changes its behaviour.

        Returns:
            As `rase.series.smoother.mixed` does.
        """
        steps = list(self._steps)
        values, noise = np.array(
            [(one.value, one.noise) for one in self._answers if one is not None]
        ).T
        chosen, shares = _likeliest(steps, self._chances)
        parts = [_backward(own, some, values, noise) for own, some in chosen if some.size]
        means, variances = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mixed(shares, means, variances)


def joint_law(
    steps: Sequence[Sequence[Step]], chances: Floats, *, is_present: bool = False
) -> tuple[float, float]:
    """Return the mean over the rounds of a window and its variance.

    Args:
        steps: Of each round of the window in order, one entry a family.
        chances: How likely the models are after the last round, one family after the other.
        is_present: Whether the mean is meant over those rounds alone that are there.
    """
    chosen, shares = _likeliest(steps, chances)
    parts = [_sums(own, some, is_present=is_present) for own, some in chosen]
    means, variances = (np.concatenate(part) for part in zip(*parts, strict=True))
    mean = float(shares @ means)
    apart = float(shares @ (variances + np.square(means - mean)))
    count = sum(one[0].totals is not None for one in steps) if is_present else len(steps)
    return mean / count, apart / count**2


def _likeliest(
    steps: Sequence[Sequence[Step]], chances: Floats
) -> tuple[list[tuple[tuple[Step, ...], Places]], Floats]:
    """Return the steps of each family and its likeliest models, and how much these count."""
    # Filters of a cycle that began within the window do not speak of it.
    families = list(zip(*steps, strict=False))
    families = [own for own in families if all(one.family is own[0].family for one in own)]
    ends = np.cumsum([0, *(own[0].family.count for own in families)])
    known = chances[: ends[-1]]
    chosen = np.sort(np.argsort(known)[-_MOST_MODELS:])
    chosen = chosen[known[chosen] > _LEAST_CHANCE * known.max()]
    parts = [
        (own, chosen[(chosen >= first) & (chosen < last)] - first)
        for own, first, last in zip(families, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]
    return parts, known[chosen] / known[chosen].sum()


def _backward(
    steps: Sequence[Step], some: Places, values: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """Return means and variances of the rounds that are there under some models of a family."""
    later = LookingBack(len(some), steps[0].family.size)
    means, variances = np.empty((len(some), len(values))), np.empty((len(some), len(values)))
    place = len(values) - 1
    for step in reversed(steps):
        if step.totals is not None and step.surprises is not None:
            u, d = later.take(
                step.expected.gains[some],
                step.expected.seen,
                surprises=step.surprises[some],
                totals=step.totals[some],
            )
            means[:, place] = values[place] - noise[place] * u
            left = noise[place] - noise[place] ** 2 * d
            variances[:, place] = np.maximum(left, 1e-9 * noise[place])
            place -= 1
        later.let_pass(step.left[some])
    return means, variances


def _sums(steps: Sequence[Step], some: Places, *, is_present: bool) -> tuple[Floats, Floats]:
    """Return the mean and the variance of the sum of the rounds under some models."""
    with_state = np.zeros((len(some), steps[0].family.size))
    mean, variance = np.zeros(len(some)), np.zeros(len(some))
    for step in steps:
        expected, movement = step.expected, step.movements[some]
        gains = expected.gains[some]
        with_state[:, 1] *= step.left[some]
        if is_present and step.totals is None:
            continue
        before = with_state @ expected.seen
        mean += expected.means[0, some]
        variance += movement + 2 * before
        with_state += gains
        if step.totals is not None and step.surprises is not None:
            follows = (before + movement) / step.totals[some]
            mean += follows * step.surprises[some]
            variance -= follows * (before + movement)
            with_state -= follows[:, None] * gains
    return mean, np.maximum(variance, 0.0)


def _correct(off: float, noise: float, expected: float) -> tuple[float, float]:
    """Return how far a window's mean is to be moved towards its unbiased mean, and the doubt left.

    Models that are right lie off the unbiased mean by no more than is expected. All of them may be
    wrong in the same way, as at jumps: by how much is one of a few sizes, learnt from the window.

    Args:
        off: How far the unbiased mean is off.
        noise: Its variance.
        expected: The variance of the distance if the models are right.
    """
    wrong = _WRONG * noise
    odds = np.log(_WRONG_PRIOR) - 0.5 * (off * off / (expected + wrong) + np.log(expected + wrong))
    shares = np.exp(odds - odds.max())
    shares /= shares.sum()
    follows = wrong / (expected + wrong)
    shift = float(shares @ follows) * off
    return shift, float(shares @ (follows * expected + np.square(follows * off - shift)))
