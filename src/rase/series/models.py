"""The models of the bank: which there are, how likely each is, and how weight moves among them."""

import functools
import itertools
import math

import numpy as np

from rase.arrays import Floats, Places
from rase.series.cycle import CYCLE_GRID, wave_columns
from rase.series.families import DAY_S, Grid

__all__ = [
    "IRREGULAR",
    "NUMBERS",
    "drift_weights",
    "edges_grid",
    "fast_prior",
    "movements",
    "part_of_model",
    "prior",
    "seen_of",
    "seen_rows",
    "smooth_grid",
]

# Scales are shares of the public range's width, a factor of 2.5 to 6 apart: rounds can hardly
# distinguish nearer ones. The level's is a standard deviation per day.
_LEVELS = (0.0, 0.002, 0.01, 0.05, 0.25)
_PROFILES = (0.002, 0.012, 0.07)
IRREGULAR = (0.0004, 0.0014, 0.005, 0.017, 0.06, 0.2)
# How long the irregular part lasts: the next round knows nothing of it, minutes, or hours.
_MINUTES_S, _HOURS_S = 1200.0, 7200.0
_LASTING = tuple(
    (size, lasting_s) for lasting_s in (_MINUTES_S, _HOURS_S) for size in IRREGULAR[1:5]
)
# Where the irregular part lasts, every other level does: it wanders itself.
_LEVELS_LASTING = _LEVELS[::2]
_SINGLE_SHAPE = (len(_LEVELS), len(IRREGULAR), len(_PROFILES))
_LASTING_SHAPE = (len(_LEVELS_LASTING), len(_LASTING), len(_PROFILES))
# Smooth waves of the day and of the week; where rounds are too long to see a wave, it looks like a
# part of the level and does no harm.
_SMOOTH_DAY, _SMOOTH_WEEK = 6, 3
_SMOOTH = np.array(
    [
        *(1 / k for k in range(1, _SMOOTH_DAY + 1)),
        *(0.3 / k for k in range(1, _SMOOTH_WEEK + 1)),
    ]
)
# A day with edges, such as office hours, needs all waves that hourly rounds can show, and days of
# the week of their own.
_EDGES_DAY = 12
_EDGES = np.array([*(1 / k for k in range(1, _EDGES_DAY + 1)), *[0.7] * 4])
# From round to round a fleet may begin to move like a neighbouring model, or like any: without this
# a model that was wrong for long would count nothing when its time comes. What goes to any goes
# mostly to levels that move fast, because that is what a change looks like.
_NEXT_LEVEL, _NEXT_IRREGULAR, _ANY, _ANY_FAST = 0.005, 0.002, 1e-4, 6e-4
# Before any round the stiller of two models is the likelier, by these factors for each step: at
# first rounds cannot tell a profile from noise, and following noise costs more than missing a wave.
_STILLER_LEVEL, _STILLER_PROFILE = 1.35, 2.7
_PRIOR_EDGES = 0.1
# What the compiled kernels are given of these, as `struct numbers` in native_bank.h has it.
NUMBERS = (1 - _ANY - _ANY_FAST, _NEXT_LEVEL, _NEXT_IRREGULAR, *_SINGLE_SHAPE, *_LASTING_SHAPE)


@functools.cache
def smooth_grid() -> Grid:
    """Return models with smooth waves of the day and the week."""
    single = tuple((size, 0.0) for size in IRREGULAR)
    models = np.array(
        [
            (level, *part, profile, _STILLER_LEVEL ** -_LEVELS.index(level) * _STILLER_PROFILE**-j)
            for levels, parts in ((_LEVELS, single), (_LEVELS_LASTING, _LASTING))
            for level in levels
            for part in parts
            for j, profile in enumerate(_PROFILES)
        ]
    )
    return Grid.of(models, sizes=_SMOOTH)


@functools.cache
def edges_grid() -> Grid:
    """Return models of a day with edges and of days of the week."""
    models = np.array(
        list(
            itertools.product(
                (0.0, 0.01, 0.05), (0.0009, 0.007, 0.05), (0.0,), (0.03, 0.12), (_PRIOR_EDGES,)
            )
        )
    )
    return Grid.of(models, sizes=_EDGES)


@functools.cache
def _grids() -> tuple[Grid, ...]:
    return (smooth_grid(), edges_grid(), CYCLE_GRID)


@functools.cache
def prior() -> Floats:
    """Return what models count before any round; those of a cycle begin when one is found."""
    odds = np.concatenate([smooth_grid().prior, edges_grid().prior, 0 * CYCLE_GRID.prior])
    return _fixed(odds / odds.sum())


@functools.cache
def fast_prior() -> Floats:
    """Return where weight goes when anything may happen: mostly to levels that move fast."""
    fast = np.concatenate([one.level >= _LEVELS[-2] for one in _grids()])
    return _fixed(_ANY * prior() + _ANY_FAST * (prior() * fast) / (prior() * fast).sum())


@functools.cache
def movements() -> Floats:
    """Return how far the mean of each model moves in a day, as a share of the width."""
    return _fixed(np.concatenate([one.movement for one in _grids()]))


@functools.cache
def part_of_model() -> Places:
    """Return which of `IRREGULAR` each model has."""
    irregular = np.concatenate([one.irregular for one in _grids()])
    return np.searchsorted(np.array(IRREGULAR), irregular * 0.999)


def _fixed(numbers: Floats) -> Floats:
    numbers.flags.writeable = False
    return numbers


def drift_weights(weights: Floats) -> Floats:
    """Return what the models count before the next round: some of it goes to their neighbours."""
    drifted = (1 - _ANY - _ANY_FAST) * weights
    first, runs = math.prod(_SINGLE_SHAPE), len(weights)
    single = drifted[:, :first].reshape(runs, *_SINGLE_SHAPE)
    lasting = drifted[:, first : first + math.prod(_LASTING_SHAPE)].reshape(runs, *_LASTING_SHAPE)
    _exchange(single, _NEXT_LEVEL)
    _exchange(lasting, _NEXT_LEVEL)
    _exchange(single.swapaxes(1, 2), _NEXT_IRREGULAR)
    drifted[:, :first] = single.reshape(runs, -1)
    drifted[:, first : first + math.prod(_LASTING_SHAPE)] = lasting.reshape(runs, -1)
    return np.asarray(drifted + fast_prior())


def _exchange(weights: Floats, share: float) -> None:
    """Let neighbours along the second axis exchange weight; nothing goes beyond the ends."""
    flow = share / 2 * (weights[:, 1:] - weights[:, :-1])
    weights[:, :-1] += flow
    weights[:, 1:] -= flow


def seen_of(time_s: float) -> tuple[Floats, Floats]:
    """Return how much of each part of the state shows at a time: of smooth models, of edges."""
    return _seen_in_week(time_s % (7 * DAY_S))


def seen_rows(times: Floats) -> tuple[Floats, Floats]:
    """Return what `seen_of` says of some times, a time a row."""
    seconds = times % (7 * DAY_S)
    day = wave_columns(seconds % DAY_S / DAY_S, _EDGES_DAY)
    week = wave_columns(seconds / (7 * DAY_S), _SMOOTH_WEEK)
    days = np.zeros((len(times), 8))
    days[np.arange(len(times)), (seconds // DAY_S).astype(np.intp)] = 1.0
    ones = np.ones((len(times), 2))
    smooth = np.concatenate([ones, day[:, : 2 * _SMOOTH_DAY], week], axis=1)
    return smooth, np.concatenate([ones, day, days], axis=1)


# Rounds of a fleet begin at the same times in every week.
@functools.lru_cache(maxsize=1024)
def _seen_in_week(second: float) -> tuple[Floats, Floats]:
    smooth, edges = seen_rows(np.array([second]))
    return _fixed(smooth[0]), _fixed(edges[0])
