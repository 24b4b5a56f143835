"""Range feedback in one process: probe, choose a better range, go on with it.

A probing round reports by the square wave instead of the mechanism for means, with the same
epsilon, so no device spends more. Its reports still give an unbiased mean, with more noise: in the
long run probing may make the mean's error 2.5 % larger, and a range ten times too wide makes it ten
times as large. Rounds that do not probe are learnt from, too.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from rase.estimate.ranges import (
    RangeAdvice,
    RangeOutlook,
    RangeProbe,
    advise_range,
    latest_ranges,
)
from rase.kernels.words import Random
from rase.randomize.choice import auto
from rase.randomize.protocol import Randomizer
from rase.randomize.square_wave import SquareWave
from rase.stream import ValueRange

__all__ = ["RangeFeedback", "probe_share", "worst_noise"]

# The first rounds all probe, with a choice after every fourth: the first few hundred reports often
# mislead, and what they mislead to must not last. Afterwards the rounds between two choices are
# these, a number that grows with what is known already: a choice costs time.
_LEARNING = 48
_STAGE = 4
_SETTLED_STAGE, _LONGEST_STAGE, _STAGES_KNOWN = 8, 24, 48
# While learning, ranges are chosen as if at least so many rounds were averaged.
_AVERAGED = 8
# Rounds remembered besides the first: a year of hours would cost minutes for each choice.
_REMEMBERED = 960
# A range is changed only if that lessens the expected error by this factor.
_WORTHWHILE = 1.05
# What probing may cost: 5 % more variance is 2.5 % more error.
_PRICE = 0.05


def worst_noise(randomizer: Randomizer) -> float:
    """Return the largest variance of a decoded report over the range, in squared widths."""
    reach = randomizer.value_range
    tried = np.linspace(reach.low, reach.high, 65)
    return float(randomizer.variance(tried).max()) / reach.width**2


def probe_share(epsilon: float) -> float:
    """Return the share of rounds that may probe for the mean's error to grow by 2.5 % at most.

    Example:
        >>> [round(probe_share(epsilon), 2) for epsilon in (0.5, 1, 2, 4)]
        [0.17, 0.13, 0.07, 0.02]
    """
    unit = ValueRange(0, 1)
    more = worst_noise(SquareWave(epsilon, unit)) / worst_noise(auto(epsilon, unit)) - 1
    return min(_PRICE / more, 1.0)


class RangeFeedback:
    """Say which mechanism and range each round has, and learn from the reports of all rounds.

    The first 48 rounds probe, with a choice after every fourth, for ranges that still show where
    the tails are. After that a share of the rounds that costs little (`probe_share`) goes on
    probing, because readings change, with a choice once in 8 rounds, and once in 24 of a long run.
    A range may grow again, up to the limits.

    Guarantee: each report is epsilon-LDP by its randomizer, probing or not; choices depend on
    released reports alone.

    Args:
        epsilon: The budget of one report.
        value_range: The range to begin with.
        limits: The widest range allowed, such as the owners' limits; the first range if None.
        make: The mechanism for means, by epsilon and range.
        averaged: Over how many rounds means are averaged afterwards; about a day of them for the
            estimator `auto`.

    Example:
        >>> from rase import SeededRandom
        >>> feedback = RangeFeedback(2.0, ValueRange(0, 1000))
        >>> source = SeededRandom(1)
        >>> for round in range(24):
        ...     reports = feedback.randomizer.randomize([40.0, 50.0, 60.0] * 40, rng=source)
        ...     feedback.learn(reports, rng=source)
        >>> feedback.value_range.width < 200
        True
    """

    def __init__(
        self,
        epsilon: float,
        value_range: ValueRange,
        *,
        limits: ValueRange | None = None,
        make: Callable[[float, ValueRange], Randomizer] = auto,
        averaged: int = 1,
    ) -> None:
        """Begin with probing."""
        self.epsilon = epsilon
        self._make = make
        self._averaged = averaged
        self.value_range = value_range
        self.limits = value_range if limits is None else limits
        self.advice: RangeAdvice | None = None
        # What the range of the next round leads to; nothing is known before the first choice.
        self.outlook: RangeOutlook | None = None
        self._probes: list[RangeProbe] = []
        self._rounds = 0
        self._next_choice = _STAGE
        self._every = math.ceil(1 / probe_share(epsilon))

    @property
    def is_probing(self) -> bool:
        """Whether the next round probes."""
        return self._rounds < _LEARNING or self._rounds % self._every == 0

    @property
    def randomizer(self) -> Randomizer:
        """The mechanism of the next round."""
        if self.is_probing:
            return SquareWave(self.epsilon, self.value_range)
        return self._make(self.epsilon, self.value_range)

    @property
    def _stage(self) -> int:
        """How many rounds there are from one choice to the next."""
        if self._rounds < _LEARNING:
            return _STAGE
        return min(max(self._rounds // _STAGES_KNOWN, _SETTLED_STAGE), _LONGEST_STAGE)

    def learn(self, reports: ArrayLike, *, rng: Random | None = None) -> None:
        """Take a round's reports in, and choose the range of the next round.

        Args:
            reports: The reports of a round that `randomizer` drew.
            rng: For the fits; None for the secure source.
        """
        self._probes.append(RangeProbe.of(reports, randomizer=self.randomizer))
        if len(self._probes) > _LEARNING + _REMEMBERED:
            # Those of the widest range come first and are kept.
            del self._probes[_LEARNING]
        self._rounds += 1
        if self._rounds >= self._next_choice:
            self._choose(rng)

    def _choose(self, rng: Random | None) -> None:
        is_learning = self._rounds < _LEARNING
        self._next_choice = self._rounds + self._stage
        noise = worst_noise(self._make(self.epsilon, self.value_range))
        n = round(np.mean([probe.n for probe in self._probes]))
        advice = advise_range(
            self._probes,
            limits=self.limits,
            n=n,
            noise=noise,
            # Too narrow a range would hide the tails for good: no later probe would look for them.
            averaged=max(self._averaged, _AVERAGED) if is_learning else self._averaged,
            rng=rng,
        )
        self.advice = advice
        best = advice.recommended
        if advice.present.error <= _WORTHWHILE * best.error:
            self.outlook = advice.present
            return
        self.outlook = best
        self.value_range = ValueRange(best.low, best.high, self.value_range.steps)
        self._probes = latest_ranges(self._probes)
