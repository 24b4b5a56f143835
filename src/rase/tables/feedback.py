"""Range feedback: probe, choose a better range, go on with it.

A probing round reports by the square wave instead of the mechanism for means, with the same
epsilon, so no device spends more. Its reports still give an unbiased mean, with more noise: in the
long run probing may make the mean's error 2.5 % larger, and a range ten times too wide makes it ten
times as large. Rounds that do not probe are learnt from, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from rase.counts.clipping import DEGREES_OF_CLIPPING, Clipping
from rase.counts.counts import Counts
from rase.counts.estimate import Estimate
from rase.counts.mean import OF_READINGS
from rase.counts.ranges import (
    RangeAdvice,
    RangeOutlook,
    RangeProbe,
    advise_range,
    latest_ranges,
)
from rase.domain import Range
from rase.kernels.words import Random
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import auto
from rase.laws.windows import SquareWave
from rase.series.rounds import RoundResult
from rase.series.tracker import Tracker
from rase.tables.rounds import estimate_rounds

if TYPE_CHECKING:
    from rase.kernels.keyed import RunKey
    from rase.tables.plan import RunPlan
    from rase.tables.rounds import Drawn

__all__ = ["RangeFeedback", "feedback_rounds", "probe_share", "worst_noise"]

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


def worst_noise(randomizer: RangeRandomizer) -> float:
    """Return the largest variance of a decoded report over the range, in squared widths."""
    reach = randomizer.domain
    tried = np.linspace(reach.low, reach.high, 65)
    return float(randomizer.variance(tried).max()) / reach.width**2


def probe_share(epsilon: float) -> float:
    """Return the share of rounds that may probe for the mean's error to grow by 2.5 % at most.

    Example:
        >>> [round(probe_share(epsilon), 2) for epsilon in (0.5, 1, 2, 4)]
        [0.17, 0.13, 0.07, 0.02]
    """
    unit = Range(0, 1)
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
            estimator `tracked`.

    Example:
        >>> from rase import SeededRandom
        >>> feedback = RangeFeedback(2.0, Range(0, 1000))
        >>> source = SeededRandom(1)
        >>> for round in range(24):
        ...     reports = feedback.randomizer.randomize([40.0, 50.0, 60.0] * 40, rng=source)
        ...     feedback.learn(reports, rng=source)
        >>> feedback.domain.width < 200
        True
    """

    def __init__(
        self,
        epsilon: float,
        value_range: Range,
        *,
        limits: Range | None = None,
        make: Callable[[float, Range], RangeRandomizer] = auto,
        averaged: int = 1,
    ) -> None:
        """Begin with probing."""
        self.epsilon = epsilon
        self._make = make
        self._averaged = averaged
        self.domain = value_range
        # The first round of each range that was chosen.
        self.choices: list[tuple[int, Range]] = []
        self.limits = value_range if limits is None else limits
        self.advice: RangeAdvice | None = None
        # What the range of the next round leads to; nothing is known before the first choice.
        self.outlook: RangeOutlook | None = None
        self._probes: list[RangeProbe] = []
        self._rounds = 0
        self._next_choice = _STAGE
        self._every = math.ceil(1 / probe_share(epsilon))

    @property
    def randomizer(self) -> RangeRandomizer:
        """The mechanism of the next round."""
        return self._randomizer_in(self._rounds)

    @property
    def stage(self) -> list[RangeRandomizer]:
        """The mechanisms of the rounds up to the next choice: until then no range changes."""
        behind = max(self._next_choice, self._rounds + 1)
        return [self._randomizer_in(round) for round in range(self._rounds, behind)]

    def _is_probing_in(self, round: int) -> bool:
        return round < _LEARNING or round % self._every == 0

    def _randomizer_in(self, round: int) -> RangeRandomizer:
        if self._is_probing_in(round):
            return SquareWave(self.epsilon, self.domain)
        return self._make(self.epsilon, self.domain)

    @property
    def _stage(self) -> int:
        """How many rounds there are from one choice to the next."""
        if self._rounds < _LEARNING:
            return _STAGE
        return min(max(self._rounds // _STAGES_KNOWN, _SETTLED_STAGE), _LONGEST_STAGE)

    def learn(self, reports: Counts | ArrayLike, *, rng: Random | None = None) -> None:
        """Take a round's reports in, and choose the range of the next round.

        Args:
            reports: Counts, or the reports of a round that `randomizer` drew.
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
        noise = worst_noise(self._make(self.epsilon, self.domain))
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
        self.domain = Range(best.low, best.high, self.domain.steps)
        self.choices.append((self._rounds, self.domain))
        self._probes = latest_ranges(self._probes)


def feedback_rounds(
    plan: RunPlan,
    feedback: RangeFeedback,
    numbers: list[int],
    *,
    drawn_of: Callable[[list[int], Callable[[int], RangeRandomizer]], Drawn],
    key: RunKey,
) -> Iterator[tuple[Drawn, list[RoundResult]]]:
    """Run rounds whose range is learnt from those before, stage by stage.

    Errors are those of the mean of the readings as measured: what clipping to the range of a round
    may add is a part of them.

    Args:
        plan: What is asked for; its randomizer has the widest range.
        feedback: Chooses mechanism and range of each round.
        numbers: The rounds that have a reading, ascending.
        drawn_of: Draws the reports of some neighbouring rounds, each by its own randomizer.
        key: The key of the run.

    Yields:
        What was drawn in a stage, and the results of its rounds.
    """
    tracker = Tracker(feedback.domain)
    # What a tracker of another range learns again from.
    known: list[RoundResult] = []
    start = 0
    while start < len(numbers):
        randomizers = feedback.stage
        rounds = numbers[start : start + len(randomizers)]
        start += len(rounds)
        made = dict(zip(rounds, randomizers, strict=False))
        drawn = drawn_of(rounds, made.__getitem__)
        estimated = estimate_rounds(plan, drawn, key=key, randomizer_of=made.__getitem__)
        if tracker.domain != randomizers[0].domain:
            # Decoded means and their errors are in the unit of readings, whatever the range.
            tracker = Tracker(randomizers[0].domain)
            for result in known:
                result.tracked(tracker)
        known += estimated
        clipping = None if feedback.outlook is None else feedback.outlook.clipping
        results = [
            _as_measured(result.tracked(tracker), clipping, limits=feedback.limits)
            for result in estimated
        ]
        for number, counts in zip(rounds, drawn.each_round(), strict=True):
            feedback.learn(counts, rng=key.round(number))
        yield drawn, results


def _as_measured(result: RoundResult, clipping: Clipping | None, *, limits: Range) -> RoundResult:
    """Return a round's result as one about the readings as measured.

    What clipping adds to the mean becomes a part of the errors, and the limits bound the intervals,
    not the range that the round happened to have.
    """

    def widened(one: Estimate) -> Estimate:
        # The paper's estimators speak of the reports.
        if one.target != OF_READINGS:
            return one
        one = replace(one, lowest=limits.low, highest=limits.high)
        if clipping is None:
            return one
        error = clipping.error_at(one.value, error=one.standard_error)
        return one.with_lasting(error, degrees_of_freedom=DEGREES_OF_CLIPPING)

    return replace(
        result,
        estimates={name: widened(one) for name, one in result.estimates.items()},
        alone=None if result.alone is None else widened(result.alone),
    )
