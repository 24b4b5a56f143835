"""A bank of Kalman filters: the same rounds followed under many models, weighted by likelihood.

Each model says how a fleet's mean moves: a level that wanders, waves of the day, the week or a
cycle that was learnt, and an irregular part that comes and goes. The models differ in how strongly
each part moves; how well a model predicted the rounds so far decides how much it counts. So nothing
has to be tuned, a change of behaviour shifts the weights, and doubt about the model is part of the
error.

Devices share causes, such as weather, tariffs and meal times, and may all move at once. So the
irregular part of a model reaches up to the whole width of the range, whatever the size of the
fleet. Devices that move on their own shift the mean of n by about V / n, and where other devices
report in every round, by what sampling adds.

Three more layers make intervals hold where no model is right: the movement of models is scaled by
factors that are learnt from how far rounds were off; a round may be a jump, which lasts or not, or
an outlier of the noise; and the mean of earlier rounds and the round by itself are experts like the
bank.
"""

import functools
import itertools
import math
import struct
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from rase.arrays import Floats
from rase.kernels import backend
from rase.series import models, posterior
from rase.series.cycle import CYCLE_GRID, CycleFilters
from rase.series.families import DAY_S, TOGETHER, Family, Prediction
from rase.series.joint import RecentRounds, Step
from rase.series.models import (
    IRREGULAR,
    drift_weights,
    edges_grid,
    fast_prior,
    movements,
    part_of_model,
    prior,
    seen_of,
    seen_rows,
    smooth_grid,
)
from rase.series.posterior import (
    FIRST_SCALES,
    LEAST_SHARE,
    OUTLIER,
    Experts,
    Posterior,
    as_student,
    cut_law,
    mix_models,
    outlier_share,
    reach_of,
)

__all__ = ["Belief", "FilterBank"]

# What is known of the spread of readings, and of how many may report, counts a third after so many
# days.
_MEMORY_DAYS, _MEMBERS_DAYS = 60.0, 7.0
# Standard deviations of readings in a round that are considered before any report, as shares of the
# width. Below the variance of the mean of n independent devices an irregular part is less likely by
# a normal law of the logarithm, and not by much: devices that differ for good spread a round, but
# move no mean. Above it, it is half as likely at the least: devices that share a cause move
# together, however many they are, and a few rounds are enough to outweigh that.
_SPREADS = np.geomspace(0.005, 0.5, 40)
_SPREADS_LOG, _SPREADS_SQUARED = np.log(_SPREADS), _SPREADS**2
_SPREADS_NEEDED = 5.0
_IRREGULAR_ABOVE, _IRREGULAR_BELOW = math.log(1.8), math.log(3.5)
_LEAST_ABOVE = 0.5
_IRREGULAR_SQUARED = np.array(IRREGULAR) ** 2
_HIDDEN, _HIDDEN_COUNT = 0.003, 2
# A mean that is near an end of the range can hardly move further than the way to that end, and
# readings spread about it by twice that way or less: most quantities are as variable as they are
# large. Models that suppose more lose weight by a normal law of the logarithm of the excess.
_MOST_SPREAD, _EXCESS = 2.0, 0.5
# The share of a belief's error that moves a value inside, and that adds to the way to the nearer
# end; chosen on made-up fleets near an end of a wide range.
_SEEN = 0.4
# Changes with every change of the numbers above: a state of other models means something else.
_FORMAT: Final = b"rase-bank-8\n"
# Of so many numbers what the compiled kernels are given and what they say of a round consists.
_GIVEN, _SAID = 8, 9


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """What the bank believes of a round's mean, for each run.

    Args:
        means: The mean of all models; where they reach beyond the range, a value inside it, never
            exactly an end: see `_cut_to_range`.
        variances: The mean square distance to it: how sure the models are, how far they disagree,
            and that no mean of readings lies outside the range. Where a few models that lie far
            away make most of it, that of the normal law with the same 95 % interval.
        degrees: Degrees of freedom of the Student law whose 95 % interval is that of the models.
    """

    means: Floats
    variances: Floats
    degrees: Floats


class FilterBank:
    """Follow the mean of a fleet through time, under many models at once.

    The cost of a round does not depend on how many came before, nor on the time between them.
    Several runs may be followed at once that differ in what the rounds say, but not in how sure
    they were: the models' covariances are then the same and are computed once.

    Args:
        low: The lower end of the public range.
        width: Its width.
        runs: How many runs.
        remembered: How many rounds of one run are kept for their joint law; a state that is written
            does not hold them.
    """

    def __init__(self, low: float, width: float, *, runs: int = 1, remembered: int = 0) -> None:
        self._low, self._width = low, width
        self._smooth = Family(smooth_grid(), low, width, runs=runs)
        self._edges = Family(edges_grid(), low, width, runs=runs)
        self._cycles = [CycleFilters(low, width) for _ in range(runs)]
        self._experts = Experts(low, width, runs=runs)
        self._weights = np.tile(prior(), (runs, 1))
        self._scales = np.tile(FIRST_SCALES, (runs, 1, 1))
        # How likely the mean is where it jumped to before, where that is, and the variance of that.
        self._away = np.tile([0.0, low, width**2], (runs, 1))
        self._movement_log = np.log(width * movements())
        self._way = np.full(runs, width)
        # Count, sum and sum of squares of what rounds say of their readings' variance.
        self._spread = np.zeros((runs, 3))
        # The most that reported lately.
        self._most = 0.0
        self._time_s: float | None = None
        # When the families' states are of: a missing round lets time pass for them alone.
        self._states_s = 0.0
        self._recent = RecentRounds(remembered) if remembered else None
        self._fixed = (
            np.array([low, width, *_numbers(), *models.NUMBERS, *posterior.NUMBERS]),
            self._movement_log,
            fast_prior(),
            part_of_model().astype(np.int64),
            posterior.reaches(),
        )
        # How far the mean of those who reported last is off that of all who may, as a variance.
        self.sampling = 0.0
        # How well each model predicted the rounds since this was made, as a logarithm, one run a
        # row; without the filters of a cycle. A state that is written does not hold it.
        self.evidence = np.zeros((runs, self._smooth.count + self._edges.count))

    @classmethod
    def from_bytes(cls, low: float, width: float, *, state: bytes, remembered: int = 0) -> Self:
        """Return the bank of one run that `to_bytes` wrote, to the last bit.

        Raises:
            ValueError: If the bytes are of other models or another range.
        """
        bank = cls(low, width, remembered=remembered)
        head = _head(low, width)
        numbers = (
            np.frombuffer(state, "<f8", offset=len(head)) if state[: len(head)] == head else ()
        )
        own = (3, 1, 1, 1, 3, FIRST_SCALES.size, 3, prior().size)
        parts = (bank._smooth, bank._edges, bank._experts, bank._cycles[0])
        bank._expect_pending(numbers[:3])
        lengths = [*own, *(length for part in parts for length in part.lengths)]
        if len(numbers) != sum(lengths):
            raise ValueError("state must be of the same models and range; follow the rounds again.")
        found = [part.astype(np.float64) for part in np.split(numbers, np.cumsum(lengths)[:-1])]
        time_s, most, bank._way, spread, scales, away, weights = found[1:8]
        bank._time_s = None if math.isnan(time_s[0]) else float(time_s[0])
        bank._states_s = bank._time_s or 0.0
        bank._most = float(most[0])
        bank._spread, bank._weights = spread.reshape(1, -1), weights.reshape(1, -1)
        bank._scales, bank._away = scales.reshape(1, *FIRST_SCALES.shape), away.reshape(1, -1)
        rest = iter(found[8:])
        for part in parts:
            part.restore(*itertools.islice(rest, len(part.lengths)))
        return bank

    def to_bytes(self) -> bytes:
        """Return all that the bank of one run knows, as float64 to the last bit."""
        time_s = math.nan if self._time_s is None else self._time_s
        pending = [float(family.pending) for family in self._families]
        own = [np.array([*pending, time_s, self._most]), self._way, self._spread]
        own += [self._scales, self._away, self._weights]
        for part in (self._smooth, self._edges, self._experts, self._cycles[0]):
            own.extend(part.numbers())
        numbers = np.concatenate([one.ravel() for one in own])
        return _head(self._low, self._width) + numbers.astype("<f8").tobytes()

    def _expect_pending(self, counts: Floats | tuple[float, ...]) -> None:
        for family, pending in zip(self._families, counts, strict=False):
            family.pending = int(pending) if 0 <= pending < TOGETHER else 0

    @property
    def _families(self) -> tuple[Family, Family, Family]:
        return self._smooth, self._edges, self._cycles[0].family

    @property
    def time_s(self) -> float | None:
        """The time of the latest round that was taken in; None before the first."""
        return self._time_s

    @property
    def spread(self) -> Floats | None:
        """The variance of readings in a round as it is believed now; None if none was learnt."""
        if not self._spread[0, 0]:
            return None
        return np.asarray(self._spread_chances() @ (_SPREADS_SQUARED * self._width**2))

    def step(
        self,
        time_s: float,
        values: Floats,
        *,
        variance: float,
        n: int,
        degrees: float = math.inf,
    ) -> Belief:
        """Take the unbiased mean of a round, one for each run, and return what is believed now.

        Args:
            time_s: When the round began; later than all before.
            values: The unbiased means.
            variance: Their variance by noise alone.
            n: How many reported.
            degrees: The degrees of freedom of their error, which say how heavy its tails are.

        Raises:
            ValueError: If the round is not later than the last.
        """
        if backend.native is not None and len(values) == 1:
            round = np.array([[time_s, values[0], variance, n, outlier_share(degrees), math.nan]])
            said = self._follow_compiled(round)
            return Belief(said[:, 0], said[:, 1], said[:, 2])
        self._advance(time_s)
        spreads = self._spread_chances()
        smooth, edges = seen_of(time_s)
        predictions = self._smooth.predict(smooth), self._edges.predict(edges)
        means, movements = self._expected(predictions, time_s)
        self.sampling = self._of_members(n, spreads)
        movements = movements + self.sampling
        surprises = values[:, None] - means
        outliers = outlier_share(degrees)
        count = means.shape[1]
        excess = self._movement_log[:count] - np.log(self._way)[:, None]
        core = self._weights[:, :count] * np.exp(_log_at_most(excess))
        likely, hidden = self._irregular_prior(n, spreads, variance)
        parts = part_of_model()[:count]
        core *= likely[:, parts]
        core /= core.sum(axis=1, keepdims=True)
        plausible = core * hidden[parts]
        plausible /= plausible.sum(axis=1, keepdims=True)
        law = Posterior(
            plausible,
            self._scales,
            means=means,
            movements=movements,
            surprises=surprises,
            variance=variance,
        )
        law.add_jumps_and_outliers(self._width, outliers)
        self._scales = law.scales
        totals = movements + variance
        squares = surprises * surprises
        odds = -0.5 * (np.log(totals) + squares / totals)
        self.evidence += odds[:, : self.evidence.shape[1]]
        evidence = self._weigh(odds, squares, movements + OUTLIER * variance, outliers)
        if self._recent is not None:
            self._recent.add_round(self._family_steps(predictions), movements, totals, surprises)
        begin = 0
        for family, prediction in zip((self._smooth, self._edges), predictions, strict=True):
            part = slice(begin, begin + family.count)
            family.take(prediction, surprises[:, part], totals[0, part])
            begin += family.count
        self._follow_cycles(time_s, values, variance=variance, evidence=evidence)
        follows = movements / totals
        models = mix_models(core, odds, means + follows * surprises, follows * variance)
        self._away, bank = law.add_away(self._away, values, models)
        return self._decide(law, bank, values, variance)

    def follow(self, rounds: Floats) -> Floats:
        """Take rounds of one run, and what each says of the spread, as `step` and `learn_spread`.

        Args:
            rounds: When each began, its unbiased mean, the variance of that by noise, how many
                reported, the degrees of freedom of the error, and an estimate of the variance of
                readings, NaN for none: a round a row, in the order of time.

        Returns:
            The mean, variance and degrees of `Belief`, and `sampling` after it, a round a row.

        Raises:
            ValueError: If a round is not later than the one before.
        """
        given, first, parts = rounds.copy(), 0, []
        given[:, 4] = [outlier_share(degrees) for degrees in rounds[:, 4].tolist()]
        while backend.native is not None and first < len(given):
            last = first + self._cycles[0].until_look
            parts.append(self._follow_compiled(given[first:last])[:, :4])
            first = last
        for time_s, value, variance, n, degrees, spread in rounds[first:].tolist():
            one = self.step(time_s, np.array([value]), variance=variance, n=int(n), degrees=degrees)
            if not math.isnan(spread):
                self.learn_spread(np.array([spread]))
            said = (one.means[0], one.variances[0], one.degrees[0], self.sampling)
            parts.append(np.array([said]))
        return np.concatenate(parts)

    def _follow_compiled(self, rounds: Floats) -> Floats:
        """Take rounds of one run by the compiled kernels, up to the next look for a period.

        Args:
            rounds: As in `follow`, with the shares of outliers in the place of degrees.

        Returns:
            What `struct said` in native_bank.h has, a round a row.
        """
        times = rounds[:, 0]
        passed = self._passed_before(times)
        given = np.empty((len(rounds), _GIVEN))
        given[:, 0] = given[:, 1] = given[:, 2] = passed
        if self._time_s is not None:
            given[0, 1] = times[0] - self._states_s
        given[:, 3:] = rounds[:, 1:]
        is_single = len(rounds) == 1
        smooth, edges = seen_of(float(times[0])) if is_single else seen_rows(times)
        cycle, seen = self._cycles[0], np.empty(0)
        if cycle.is_known:
            given[:, 2], seen = cycle.go_on(times)
        own = (self._way, self._spread[0], [self._most], self._scales[0].ravel(), self._away[0])
        known = np.concatenate([*own, *self._experts.numbers()])
        count, steps = self.evidence.shape[1], np.empty(0)
        families = self._families if cycle.is_known else self._families[:2]
        if self._recent is not None:
            count = sum(family.count for family in families)
            gains = sum(family.count * family.size for family in families)
            steps = np.empty((len(rounds), 5 * count + gains))
        said = np.empty((len(rounds), _SAID))
        kernels = backend.native
        assert kernels is not None  # noqa: S101 - the caller has asked
        kernels.follow_rounds(
            tuple(family.arrays for family in self._families),
            self._fixed,
            (smooth, edges, seen),
            known,
            self._weights,
            self.evidence,
            given,
            said,
            steps,
        )
        for family in families:
            family.pending = (family.pending + len(rounds)) % TOGETHER
        self._way, self._spread, self._most = known[:1], known[1:4].reshape(1, 3), float(known[4])
        scales, self._away, *experts = np.split(known[5:], np.cumsum([FIRST_SCALES.size, 3, 2, 1]))
        self._scales, self._away = scales.reshape(self._scales.shape), self._away.reshape(1, -1)
        self._experts.restore(*experts)
        self._time_s = self._states_s = float(times[-1])
        self.sampling = float(said[-1, 3])
        if self._recent is not None:
            shown = (smooth.reshape(-1), edges.reshape(-1), seen.reshape(-1))
            self._remember(steps[-1], given[-1], said[-1], seen=shown)
        share = float(self._weights[0, -len(CYCLE_GRID.level) :].sum())
        finder = np.stack([times, rounds[:, 1], 1 / rounds[:, 2], said[:, 4]], axis=1)
        self._begin_cycle(0, cycle.look(finder, share=share))
        return said

    def _passed_before(self, times: Floats) -> Floats:
        """Return how much time passed before each of some rounds; NaN before the first of all."""
        passed = np.diff(times, prepend=math.nan if self._time_s is None else self._time_s)
        is_right = (passed > 0) & (passed < math.inf)
        if self._time_s is None:
            is_right[0] = math.isfinite(times[0])
        if not is_right.all():
            bad = int(np.argmin(is_right))
            if bad == 0 and self._time_s is None:
                raise ValueError(f"time_s must be finite, got {times[0]}.")
            earlier = self._time_s if bad == 0 else times[bad - 1]
            raise ValueError(f"time_s must be later than {earlier:g}, got {times[bad]:g}.")
        return passed

    def _remember(
        self, steps: Floats, given: Floats, said: Floats, *, seen: tuple[Floats, Floats, Floats]
    ) -> None:
        """Keep what the compiled kernels say of a round for the joint law of rounds."""
        assert self._recent is not None  # noqa: S101 - the caller has asked
        families = [
            family for family, shown in zip(self._families, seen, strict=True) if shown.size
        ]
        count = sum(family.count for family in families)
        means, movements, totals, surprises, chances = steps[: 5 * count].reshape(5, 1, count)
        first, begin, found = 0, 5 * count, []
        passed = (given[1], given[1], given[2])
        for family, shown, passed_s in zip(families, seen, passed, strict=False):
            part, end = slice(first, first + family.count), begin + family.count * family.size
            gains = steps[begin:end].reshape(family.count, family.size)
            expected = Prediction(means[:, part], movements[0, part], gains, shown)
            left = family.decay if math.isnan(passed_s) else family.left_after(float(passed_s))
            found.append(Step(family, left, expected, movements[0, part]))
            first, begin = part.stop, end
        self._recent.add_round(found, movements, totals, surprises)
        self._recent.add_answer(
            chances[0],
            said[6:9],
            value=float(given[3]),
            noise=float(given[4]),
            wider=float(said[5]),
        )

    def skip(self, time_s: float) -> None:
        """Let a round pass that is missing, so that windows can say what it may have been.

        Args:
            time_s: When it began; later than all before.

        Raises:
            ValueError: If no rounds are remembered.
        """
        if self._recent is None:
            raise ValueError("remembered must be above 0 for windows over missing rounds.")
        self._let_pass(time_s)
        smooth, edges = seen_of(time_s)
        self._cycles[0].predict(time_s)
        predictions = self._smooth.predict(smooth), self._edges.predict(edges)
        self._recent.add_missing(self._family_steps(predictions))

    def window(self, rounds: int) -> Belief | None:
        """Return what is believed of the mean over the last rounds, by their joint law.

        Args:
            rounds: How many; None is returned where fewer are remembered.
        """
        if self._recent is None or self._recent.count < rounds:
            return None
        value, variance = self._recent.law(rounds, constant=float(self._experts.constant[0][0]))
        error = np.array([math.sqrt(variance)])
        return self._cut_to_range(np.array([value]), error, np.array([math.inf]))[0]

    def look_back(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return what is known now of the last rounds; `rase.series.joint.RecentRounds`.

        Raises:
            ValueError: If no rounds are remembered.
        """
        if self._recent is None:
            raise ValueError("remembered must be above 0 for looking back.")
        return self._recent.look_back()

    def _expected(
        self, predictions: tuple[Prediction, ...], time_s: float
    ) -> tuple[Floats, Floats]:
        """Return the mean of each model and its variance, one run a row."""
        means = [one.means for one in predictions]
        movements = [
            np.broadcast_to(one.variances, (len(self._cycles), len(one.variances)))
            for one in predictions
        ]
        cycles = [cycle.predict(time_s) for cycle in self._cycles]
        # While no run knows a cycle these filters are left out.
        if any(cycle.is_known for cycle in self._cycles):
            means.append(np.concatenate([one.means for one in cycles]))
            movements.append(np.stack([one.variances for one in cycles]))
        return np.concatenate(means, axis=1), np.concatenate(movements, axis=1)

    def _follow_cycles(
        self, time_s: float, values: Floats, *, variance: float, evidence: Floats
    ) -> None:
        """Take a round into the filters of learnt cycles; new ones begin with what they earned."""
        count = len(CYCLE_GRID.level)
        for run, cycle in enumerate(self._cycles):
            odds = cycle.take(
                time_s,
                float(values[run]),
                variance=variance,
                evidence=float(evidence[run]),
                share=float(self._weights[run, -count:].sum()),
            )
            self._begin_cycle(run, odds)

    def _begin_cycle(self, run: int, odds: Floats | None) -> None:
        """Let filters of a cycle that begin count as much as they earned; None if none do."""
        if odds is not None:
            self._weights[run, -len(odds) :] = odds
            self._weights[run] /= self._weights[run].sum()
            # How far other models were off says nothing of these.
            self._scales[run] = FIRST_SCALES

    def _decide(
        self, law: Posterior, core: tuple[Floats, Floats, Floats], values: Floats, variance: float
    ) -> Belief:
        """Return what the three experts say together, within the range.

        The value is that of the models as they are; the wider mixture says how far it may be off.
        Movement that noise hides belongs to the interval: an estimate near an end of the range
        would be pulled inside by it.
        """
        chances, bank, bank_variance = core
        constant, doubt = self._experts.constant
        shares = self._experts.weigh(
            values, variance=variance, bank=bank, bank_variance=bank_variance
        )
        law.join(shares, constant=constant, doubt=doubt, values=values)
        said = np.stack([bank, constant, values], axis=1)
        means = (shares * said).sum(axis=1)
        # A small share of the round by itself has little say in the value, but makes most of the
        # variance where noise is large: it belongs to the interval, too.
        variances = bank_variance + np.square(bank - means)
        wide = np.sqrt(law.square_about(means))
        reach = reach_of(law.weights, law.means, law.variances, about=means, deviation=wide)
        factors, degrees = as_student(reach)
        belief, self._way = self._cut_to_range(means, np.sqrt(variances), degrees)
        wider = factors**2 * np.maximum(wide**2 / variances, 1.0)
        if self._recent is not None:
            self._recent.add_answer(
                chances, shares[0], value=float(values[0]), noise=variance, wider=float(wider[0])
            )
        return Belief(belief.means, belief.variances * wider, degrees)

    def _cut_to_range(
        self, means: Floats, errors: Floats, degrees: Floats
    ) -> tuple[Belief, Floats]:
        """Return a normal belief as cut to the range, and the way to the nearer end.

        The likeliest value of what is left is often an end of the range itself, which reads like a
        measured 0; its mean lies far inside, and fleets are mostly near an end of a range that was
        chosen wide. The value is halfway between the two, for a narrower belief: most of the error
        is movement that models allow for and nobody saw (docs/explain/accuracy.md, "Near the ends
        of the range").
        """
        high = self._low + self._width
        likeliest = means.clip(self._low, high)
        laws = np.concatenate([_SEEN * errors, errors])
        off, spread = cut_law(np.tile(means, 2), laws, self._low, high, about=np.tile(likeliest, 2))
        inside = np.minimum(likeliest - self._low, high - likeliest)
        count = len(means)
        apart = np.maximum(off[:count] ** 2 + spread[:count], LEAST_SHARE * laws[:count] ** 2)
        way = np.maximum(inside, 1e-12 * self._width) + np.sqrt(apart)
        # Halfway to the mean of the narrower law; the distance to it is that of the whole law.
        moved = off[:count] / 2
        apart = np.square(off[count:] - moved) + spread[count:]
        apart = np.maximum(apart, LEAST_SHARE * errors * errors)
        return Belief(likeliest + moved, apart, degrees), way

    def learn_spread(self, values: Floats) -> None:
        """Take, for each run, an unbiased estimate of the variance of readings within a round.

        Rounds count alike: an error estimated from the same few reports is small where the value
        happens to be small, and weights by it would pull the mean down.
        """
        self._spread += np.stack([np.ones_like(values), values, values * values], axis=1)

    def _advance(self, time_s: float) -> None:
        passed_s = float(self._passed_before(np.array([time_s]))[0])
        if self._time_s is not None:
            self._let_pass(time_s)
            self._spread *= math.exp(-passed_s / (_MEMORY_DAYS * DAY_S))
            self._most *= math.exp(-passed_s / (_MEMBERS_DAYS * DAY_S))
            self._weights = drift_weights(self._weights)
        self._time_s = self._states_s = time_s

    def _let_pass(self, time_s: float) -> None:
        """Let time pass for the states of the models."""
        self._smooth.advance(time_s - self._states_s)
        self._edges.advance(time_s - self._states_s)
        self._states_s = time_s

    def _family_steps(self, predictions: tuple[Prediction, ...]) -> list[Step]:
        """Return what families expected of a round; those of a cycle only if one is known."""
        families, expected = [self._smooth, self._edges], [*predictions]
        if self._cycles[0].prediction is not None:
            families.append(self._cycles[0].family)
            expected.append(self._cycles[0].prediction)
        pairs = zip(families, expected, strict=True)
        return [Step(family, family.decay, one, one.variances) for family, one in pairs]

    def _weigh(self, evidence: Floats, squares: Floats, wide: Floats, outliers: float) -> Floats:
        """Weigh the models by how likely the round was; return the logarithm of that, by run."""
        if outliers:
            far = -0.5 * (np.log(wide) + squares / wide)
            evidence = np.logaddexp(evidence + math.log1p(-outliers), far + math.log(outliers))
        count = evidence.shape[1]
        before = self._weights[:, :count]
        # Filters of a cycle that is not known yet count nothing, and decide nothing.
        top = np.where(before > 0, evidence, -np.inf).max(axis=1, keepdims=True)
        weights = before * np.exp(np.minimum(evidence - top, 0.0))
        sums = weights.sum(axis=1, keepdims=True)
        self._weights[:, :count] = weights / sums
        return np.asarray((top + np.log(sums))[:, 0])

    def _of_members(self, n: int, chances: Floats) -> float:
        """Return how far the mean of those who report is off that of all who may, as a variance.

        Where n of N report, another n would have another mean: as much as sampling without
        replacement makes it. It is of this round alone, and 0 while as many report as ever. Runs
        share their covariances, so the spread is averaged over them.
        """
        self._most = max(self._most, float(n))
        if n == self._most:
            return 0.0
        variances = chances @ _SPREADS_SQUARED
        return self._width**2 * float(variances.mean()) * (1 / n - 1 / self._most)

    def _spread_chances(self) -> Floats:
        """Return how likely each spread of readings is, for each run."""
        spreads = _SPREADS_SQUARED * self._width**2
        chances = _log_at_most(
            _SPREADS_LOG - np.log(_MOST_SPREAD / self._width * self._way)[:, None]
        )
        # Runs learn of the spread in the same rounds, so their counts are one.
        if self._spread[0, 0] >= _SPREADS_NEEDED:
            count, total, squares = self._spread.T[:, :, None]
            seen = total / count
            variance = np.maximum(squares / count - seen * seen, 0.0) / (count - 1)
            chances -= 0.5 * (seen - spreads) ** 2 / (variance + (0.1 * spreads) ** 2)
        chances = np.exp(chances - chances.max(axis=1, keepdims=True))
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def _irregular_prior(self, n: int, chances: Floats, variance: float) -> tuple[Floats, Floats]:
        """Say how likely each irregular part is, given V / n of n independent devices.

        The second array is what intervals add to that: parts that noise hides.
        """
        # Parts that are far below the noise look alike, and count together as little as two do.
        factors = np.ones(len(IRREGULAR))
        hidden = int(np.searchsorted(_IRREGULAR_SQUARED, _HIDDEN * variance / self._width**2))
        if hidden > _HIDDEN_COUNT:
            factors[:hidden] = _HIDDEN_COUNT / hidden
        return np.asarray(chances @ _own_movement(n)), factors


@functools.lru_cache(maxsize=256)
def _own_movement(n: int) -> Floats:
    """Return how likely each irregular part is by the spread of readings, where n report."""
    away = np.log(_IRREGULAR_SQUARED) - np.log(_SPREADS_SQUARED / n)[:, None]
    is_above = away > 0
    odds = np.exp(-0.5 * (away / np.where(is_above, _IRREGULAR_ABOVE, _IRREGULAR_BELOW)) ** 2)
    return np.asarray(np.where(is_above, np.maximum(odds, _LEAST_ABOVE), odds) + 1e-300)


def _numbers() -> tuple[float, ...]:
    """Return what the compiled kernels are given, as `struct numbers` in native_bank.h has it."""
    return (
        *(_MEMORY_DAYS * DAY_S, _MEMBERS_DAYS * DAY_S),
        *(_SPREADS_NEEDED, _IRREGULAR_ABOVE, _IRREGULAR_BELOW, _LEAST_ABOVE),
        *(_HIDDEN, _HIDDEN_COUNT, _MOST_SPREAD, _EXCESS, _SEEN),
        *(*_SPREADS_LOG, *_SPREADS_SQUARED, *_IRREGULAR_SQUARED),
    )


def _log_at_most(ratio_log: Floats) -> Floats:
    """Return 0 up to a ratio of 1, and less the further it is exceeded, but not without end."""
    excess = ratio_log.clip(0.0, 10.0 * _EXCESS) / _EXCESS
    return np.asarray(-0.5 * excess * excess)


def _head(low: float, width: float) -> bytes:
    return _FORMAT + struct.pack("<dd", low, width)
