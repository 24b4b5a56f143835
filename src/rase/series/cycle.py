"""Cycles that nobody named: found in the unbiased means of the rounds, and followed from then on.

A machine cycle of three hours or a tide is neither a day nor a week. The last rounds are kept, what
a day and a week explain is taken out, and a wave that stands out of the noise around its frequency
is taken for a cycle. Its multiples may stand out more than it does itself, so a half and a third of
the frequency are tried as well. Filters of the cycle are idle until one is found.
"""

import itertools
import math
from typing import Final

import numpy as np

from rase.arrays import Floats, Places
from rase.series.families import DAY_S, Family, Grid, Prediction

__all__ = [
    "CYCLE_GRID",
    "CYCLE_SHARE",
    "KEPT",
    "CycleFilters",
    "PeriodFinder",
    "find_period",
    "seen_of_cycle",
    "wave_columns",
]

# How many rounds are kept, and how many have to be there.
KEPT: Final = 1024
_NEEDED = 96
# A period must have been seen so often, or leakage of slow movement is taken for one.
_CYCLES = 5.0
# The power of noise is exponential around its floor: among F frequencies it comes above this many
# floors beyond ln F in one of 3,000 looks.
_ABOVE = 8.0
_HARMONICS, _PART_COSTS = 4, 16.0
_ANGLES = 2 * math.pi * np.repeat(np.arange(1, 13), 2)
_QUARTERS = np.tile([math.pi / 2, 0.0], 12)
_PADDING = 4
_AT_ONCE = 8192
# A frequency this far from a wave of the day, in cycles over the time that is kept, is another.
_APART, _DAY_MULTIPLES = 0.25, 12

_WAVES, _DAY_WAVES = 4, 3
_SIZES = np.array([*(1 / k for k in range(1, _WAVES + 1)), *(0.3 / k for k in (1, 2, 3))])
CYCLE_GRID = Grid.of(
    np.array(
        list(
            itertools.product(
                (0.002, 0.02, 0.1), (0.0003, 0.0025, 0.02, 0.05), (0.0,), (0.03, 0.12), (1.0,)
            )
        )
    ),
    sizes=_SIZES,
)
# How often a period is looked for, in rounds: at first, and once so many are kept.
_EVERY, _EVERY_LATER, _LATER = 32, 64, 512
# A frequency within this share of a cycle over the rounds that are kept is the same one.
_SAME = 0.5
# A period was chosen among hundreds, which its filters pay for when they begin; and rounds in which
# they know nothing yet are not held against them.
CYCLE_SHARE: Final = 0.01
_FIRST = 32
_MOST_ODDS = 500.0
# Filters that count less than this may begin again with a better frequency, after so many rounds:
# that goes through all rounds that are kept.
_TRUSTED, _AGAIN = 0.3, 256.0


class CycleFilters:
    """Follow one run by filters of a learnt cycle.

    Args:
        low: The lower end of the public range.
        width: Its width.
    """

    def __init__(self, low: float, width: float) -> None:
        self._low, self._width = low, width
        self._finder = PeriodFinder()
        self._family = Family(CYCLE_GRID, low, width)
        # Cycles a second, 0 while none is known; the phase at a time, in cycles; that time.
        self._frequency, self._phase, self._time_s = 0.0, 0.0, 0.0
        # How many rounds there were when the filters last began.
        self._begun = 0.0
        self._expected: Prediction | None = None
        self._idle = Prediction(
            np.full((1, self._family.count), low + width / 2),
            np.full(self._family.count, width**2),
            np.empty(0),
            np.empty(0),
        )

    @property
    def is_known(self) -> bool:
        """Whether a cycle is known."""
        return bool(self._frequency)

    def predict(self, time_s: float) -> Prediction:
        """Say what the filters expect of a round; anything while no cycle is known."""
        if not self._frequency:
            return self._idle
        passed, seen = self.go_on(np.array([time_s]))
        self._family.advance(float(passed[0]))
        self._expected = self._family.predict(seen[0])
        return self._expected

    def take(
        self, time_s: float, value: float, *, variance: float, evidence: float, share: float
    ) -> Floats | None:
        """Take a round in.

        Args:
            time_s: When it began.
            value: Its unbiased mean.
            variance: Its variance by noise.
            evidence: The logarithm of how likely the bank found it.
            share: How much these filters count now, from 0 to 1.

        Returns:
            How much the filters count against all others, if they begin now; None if they do not.
        """
        if self._frequency and self._expected is not None:
            totals = self._expected.variances + variance
            self._family.take(self._expected, value - self._expected.means, totals)
        return self.look(np.array([[time_s, value, 1 / variance, evidence]]), share=share)

    @property
    def until_look(self) -> int:
        """How many rounds it takes until a period is looked for again."""
        every = _EVERY if self._finder.count < _LATER else _EVERY_LATER
        return every - self._finder.count % every

    def look(self, rounds: Floats, *, share: float) -> Floats | None:
        """Keep rounds that were taken in, and look for a period where enough have come.

        Args:
            rounds: As `PeriodFinder.add` takes them, not more than until the next look.
            share: As in `take`.

        Returns:
            As `take` does.
        """
        is_due = len(rounds) == self.until_look
        self._finder.add(rounds)
        return self._look(is_trusted=share > _TRUSTED) if is_due else None

    def numbers(self) -> list[Floats]:
        """Return all that is known."""
        finder = self._finder
        own = np.array([self._frequency, self._phase, self._time_s, self._begun, finder.count])
        return [own, finder.rounds.ravel(), *self._family.numbers()]

    @property
    def lengths(self) -> list[int]:
        """How many numbers there are in each entry of `numbers`."""
        return [5, 4 * KEPT, *self._family.lengths]

    @property
    def family(self) -> Family:
        """The filters."""
        return self._family

    @property
    def prediction(self) -> Prediction | None:
        """What the filters expected of the latest round; None while no cycle is known."""
        return self._expected if self._frequency else None

    def restore(self, own: Floats, rounds: Floats, *rest: Floats) -> None:
        """Take back what `numbers` returned."""
        self._frequency, self._phase, self._time_s, self._begun, count = own.tolist()
        self._finder.count, self._finder.rounds = int(count), rounds.reshape(KEPT, 4)
        self._family.restore(*rest)

    def go_on(self, times: Floats) -> tuple[Floats, Floats]:
        """Go on to rounds; return how much time passed before each, and how much shows in it."""
        passed = np.diff(times, prepend=self._time_s)
        phases = []
        # The phase is added up, so that a frequency can be corrected without turning the waves.
        for passed_s in passed.tolist():
            self._phase = (self._phase + self._frequency * passed_s) % 1.0
            phases.append(self._phase)
        self._time_s = float(times[-1])
        return passed, _seen(np.array(phases), times)

    def _look(self, *, is_trusted: bool) -> Floats | None:
        """Look for a period, and begin again with it where the one before is not trusted."""
        found = find_period(self._finder.kept())
        if found is None:
            return None
        rounds = self._finder.kept()
        span_s = float(rounds[-1, 0] - rounds[0, 0])
        if abs(found - self._frequency) * span_s < _SAME:
            self._frequency = found
            if is_trusted:
                return None
        if self._finder.count < self._begun + min(self._begun / 8, _AGAIN):
            return None
        self._begun = float(self._finder.count)
        self._frequency, self._phase, self._time_s = found, 0.0, float(rounds[0, 0])
        self._family = Family(CYCLE_GRID, self._low, self._width)
        passed, seen = self.go_on(rounds[:, 0])
        passed[0] = -1.0
        given = np.stack([passed, rounds[:, 1], 1 / rounds[:, 2], np.zeros(len(rounds))], axis=1)
        surprises, totals = self._family.filter(given, seen, gains=np.empty(0))
        own = -0.5 * (np.log(totals) + surprises**2 / totals)
        earned = (own - rounds[:, 3:])[_FIRST:].sum(axis=0)
        odds = np.exp(np.minimum(earned, _MOST_ODDS))
        return np.asarray(CYCLE_SHARE / self._family.count * odds)


class PeriodFinder:
    """Keep the last rounds and look for a period in them."""

    def __init__(self) -> None:
        # Times, means, precisions, and how likely the bank found each round; a ring.
        self.rounds = np.zeros((KEPT, 4))
        self.count = 0

    def add(self, rounds: Floats) -> None:
        """Take rounds.

        Args:
            rounds: When each began, its unbiased mean, one over its variance by noise, and the
                logarithm of how likely it was before it came: a round a row.
        """
        self.rounds[(self.count + np.arange(len(rounds))) % KEPT] = rounds
        self.count += len(rounds)

    def kept(self) -> Floats:
        """Return the rounds that are kept, in the order of time."""
        if self.count <= KEPT:
            return self.rounds[: self.count]
        return np.roll(self.rounds, -(self.count % KEPT), axis=0)


def find_period(rounds: Floats) -> float | None:
    """Return a frequency in cycles a second that stands out of rounds; None if none does.

    Args:
        rounds: Times, means and precisions, a round a row, in the order of time.
    """
    if len(rounds) < _NEEDED:
        return None
    times, step = rounds[:, 0] - rounds[0, 0], float(np.diff(rounds[:, 0]).min())
    places = np.rint(times / step).astype(np.int64)
    span = int(places[-1]) + 1
    # Where most rounds are missing nothing can be said of what repeats.
    if span > 2 * len(rounds):
        return None
    roots = np.sqrt(rounds[:, 2] / rounds[:, 2].mean())
    line, days = _designs(times)
    found = []
    # A day is taken out of the second look, not of the first: over some weeks a tide of 12.42
    # hours and half a day are one. Where the time is short there is no day to take out.
    for design in (line, days)[: days.shape[1] - 1]:
        rest = _without(design, rounds[:, 1], roots)
        peak = _peak(places, rest * roots**2, span)
        if peak is not None and _is_no_day(peak / step, times[-1]):
            found.append(_base(peak / step, times, rounds[:, 1], roots=roots, line=line))
    return min(found)[1] if found else None


def seen_of_cycle(frequency: float, times: Floats) -> Floats:
    """Return how much of each part of the state of a cycle's models shows, a time a row."""
    return _seen(frequency * times % 1.0, times)


def _seen(phases: Floats, times: Floats) -> Floats:
    days = wave_columns(times % DAY_S / DAY_S, _DAY_WAVES)
    ones = np.ones((len(times), 2))
    return np.concatenate([ones, wave_columns(phases, _WAVES), days], axis=1)


def wave_columns(phases: Floats | float, harmonics: int) -> Floats:
    """Return cosines and sines of phases, in cycles, and of their multiples, in turn."""
    angles = np.multiply.outer(phases, _ANGLES[: 2 * harmonics])
    # A cosine is a sine a quarter ahead.
    return np.asarray(np.sin(angles + _QUARTERS[: 2 * harmonics]))


def _designs(times: Floats) -> tuple[Floats, Floats]:
    """Return what is taken out before a period is looked for: a line, or also day and week."""
    span = float(times[-1])
    # A wave of which hardly one period was seen is a trend, and left to the local floor.
    waves = [
        (period, most) for period, most in ((DAY_S, 6), (7 * DAY_S, 3)) if span >= 1.5 * period
    ]
    days = np.empty((len(times), 2 + 2 * sum(most for _, most in waves)))
    days[:, 0], days[:, 1] = 1.0, times / span
    first = 2
    for period, most in waves:
        days[:, first : first + 2 * most] = _waves(times / period, most)
        first += 2 * most
    return days[:, :2].copy(), days


def _waves(phases: Floats, harmonics: int) -> Floats:
    """Return what `wave_columns` does, to rounding: by one sine and cosine each, a record long."""
    turns = np.exp(2j * math.pi * phases)
    found, power = np.empty((len(phases), harmonics, 2)), turns
    for place in range(harmonics):
        found[:, place, 0], found[:, place, 1] = power.real, power.imag
        power = power * turns
    return found.reshape(len(phases), -1)


def _without(design: Floats, values: Floats, roots: Floats) -> Floats:
    """Return what is left of values when the columns of a design are fitted to them."""
    products, sums = np.zeros((design.shape[1],) * 2), np.zeros(design.shape[1])
    # In pieces: a record may have a million rounds.
    for first in range(0, len(values), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        weighted = design[some] * roots[some, None]
        products += weighted.T @ weighted
        sums += weighted.T @ (values[some] * roots[some])
    # Columns may be nearly alike over a short time; a little is added, and changes nothing else.
    products[np.diag_indices_from(products)] += 1e-9 * len(values)
    return np.asarray(values - design @ np.linalg.solve(products, sums))


def _is_no_day(frequency: float, span_s: float) -> bool:
    """Say whether a frequency is none of the day's, as far as so long a time can show."""
    cycles = frequency * DAY_S
    return abs(cycles - round(cycles)) / DAY_S * span_s > _APART or cycles > _DAY_MULTIPLES + 0.5


def _peak(places: Places, values: Floats, span: int) -> float | None:
    """Return the frequency of a wave above the noise around it, in cycles a round."""
    size = int(_PADDING * 2 ** math.ceil(math.log2(span)))
    line = np.zeros(size)
    line[places] = values
    power = np.square(np.abs(np.fft.rfft(line)))
    first = math.ceil(_CYCLES * size / span)
    best = first + int(np.argmax(power[first:-1]))
    lobe = math.ceil(1.5 * size / span)
    low, high = max(int(best / 1.6), lobe), min(int(best * 1.6) + 4 * lobe, len(power))
    around = np.concatenate([power[low : max(best - lobe, low)], power[best + lobe : high]])
    floor = float(np.median(around)) / math.log(2)
    if power[best] < (math.log(span / 2) + _ABOVE) * floor:
        return None
    # The top of a parabola through three points.
    left, top, right = np.log(power[best - 1 : best + 2] + 1e-300)
    shift = 0.5 * (left - right) / (left - 2 * top + right)
    top_at = best + min(max(float(shift), -0.5), 0.5)
    return top_at / size


def _base(
    frequency: float, times: Floats, values: Floats, *, roots: Floats, line: Floats
) -> tuple[float, float]:
    """Return the frequency, its half or its third: whichever explains most for its waves.

    The first number of the pair is the cost: the smaller, the better.
    """
    found = []
    for part in (1, 2, 3):
        base = frequency / part
        if part > 1 and base * times[-1] < _CYCLES:
            break
        design = np.concatenate([line, _waves(times * base, _HARMONICS)], axis=1)
        left = _without(design, values, roots) * roots
        # Schwarz 1978: fewer waves explain as well unless the rest shrinks by enough.
        waves = min(2 * _HARMONICS, _distinct(base, times))
        cost = len(times) * math.log(float(left @ left)) + waves * math.log(len(times))
        # A part of a frequency has it among its waves, and must explain more than that.
        cost += _PART_COSTS if part > 1 else 0.0
        found.append((cost, base))
    return min(found)


def _distinct(base: float, times: Floats) -> int:
    """Return how many numbers a cycle has that its rounds can tell apart."""
    step = float(np.diff(times).min())
    return max(2 * int(0.5 / (base * step) + 1e-6), 2)
