"""Looking back: each round of a record with the help of the rounds before and after it.

The models of the bank are weighed by how well they predicted the whole record, and those that count
go through it once forward and once backward (Bryson and Frazier 1963): exact for each model. Models
that suppose small steps look back wrongly at jumps and spikes. So around every round an unbiased
estimate of both errors (Stein 1981) compares the smoothed with the filtered estimates, and where
looking back is not better, what was known then stays.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from rase.arrays import Flags, Floats, Places
from rase.counts.estimate import Estimate
from rase.counts.registry import SMOOTHED
from rase.domain import Range
from rase.kernels import backend
from rase.series.cycle import CYCLE_GRID, CYCLE_SHARE, find_period, seen_of_cycle
from rase.series.families import Family, Grid
from rase.series.models import edges_grid, seen_rows, smooth_grid
from rase.series.posterior import as_student, reach_of

__all__ = [
    "LEAST_ROUNDS",
    "LookingBack",
    "Record",
    "is_better",
    "mixed",
    "revised",
    "smooth_record",
]

# So many models of each shape are followed backward, if they count this much of the best.
_MOST_MODELS, _LEAST_CHANCE = 12, 1e-4
# How many rounds to both sides decide whether looking back is better there, and how much worse it
# may look by chance: in variances of the noise, in errors of the comparison around a round, and in
# errors of the comparison over the whole record.
_AROUND, _CHANCE, _DOUBT, _SURE = 12, 2.0, 1.5, 2.0
# An error is not stated to be smaller than this share of that which was known then.
_LEAST_ERROR = 0.7
# With fewer rounds there is nothing to look back with.
LEAST_ROUNDS: Final = 8
# Of so many rounds at a time it is kept what models made of them; of the others their state at the
# beginning of each such block, from which they go through it again.
_BLOCK = 1024
# Their mixtures are evaluated for so many at a time, which stays in the caches.
_MIXED = 64


def smooth_record(
    times_s: Sequence[float],
    means: Sequence[Estimate],
    *,
    filtered: Sequence[Estimate],
    evidence: Floats,
    sampling: Sequence[float] | None = None,
) -> list[Estimate]:
    """Return each round's mean with the help of all rounds of a record.

    Guarantee: post-processing of released reports, so it has the privacy of these and costs none.

    Args:
        times_s: When each round began, ascending.
        means: Their unbiased means, with errors above 0.
        filtered: What `rase.series.tracker` said of each when it came; they know the range.
        evidence: How well each of its models predicted the record; `Tracker.evidence`.
        sampling: How far the mean of those who reported is off that of all who may, as a variance;
            `Tracker.sampling` after each round. None where as many report in every round.

    Returns:
        One estimate a round. Its method is ``smoothed`` where later rounds helped; where looking
        back is not better, at jumps and spikes, it is the filtered one as it was.
    """
    if len(means) < LEAST_ROUNDS:
        return list(filtered)
    record = Record(
        np.asarray(times_s, dtype=np.float64),
        np.array([one.value for one in means]),
        np.array([one.standard_error for one in means]) ** 2,
        np.zeros(len(means)) if sampling is None else np.asarray(sampling),
        Range(filtered[0].lowest, filtered[0].highest),
    )
    passes, weights = _chosen_models(record, evidence)
    blocks = [
        mixed(weights, *(np.concatenate(part) for part in zip(*law, strict=True)))
        for law in zip(*(one.look_back() for one in passes), strict=True)
    ][::-1]
    about, spread, factors, degrees = (np.concatenate(part) for part in zip(*blocks, strict=True))
    better, proven = is_better(record, about, spread, filtered=filtered)
    law = (about, spread, factors, degrees)
    return revised(filtered, better, *law[:2], factors=factors, degrees=degrees, proven=proven)


def revised(
    filtered: Sequence[Estimate],
    better: Flags,
    about: Floats,
    spread: Floats,
    *,
    factors: Floats,
    degrees: Floats,
    proven: float = 1.0,
) -> list[Estimate]:
    """Return what is known now of rounds: of those of which that is better, else what was.

    Args:
        filtered: What was known of each when it came.
        better: Whether looking back is better.
        about: What is said looking back.
        spread: The variances of that.
        factors: By how much the intervals reach further than a normal law's.
        degrees: The degrees of freedom of Student's law that they then have.
        proven: How much of what looking back claims to gain the rounds prove, from 0 to 1: errors
            are stated to be smaller by that.
    """
    before = np.array([one.standard_error for one in filtered])
    laws = factors * np.sqrt(spread)
    # What noise hides from the filter it hides from the smoother, too.
    errors = np.maximum(laws, _LEAST_ERROR * before)
    gained = np.square(before) - np.square(errors)
    errors = np.sqrt(np.square(before) - np.where(gained > 0, proven, 1.0) * gained)
    return [
        Estimate(
            min(max(value, one.lowest), one.highest),
            error,
            n=one.n,
            method=SMOOTHED,
            target=one.target,
            degrees_of_freedom=df,
            lasting_error=one.lasting_error,
            lowest=one.lowest,
            highest=one.highest,
            rounds=one.rounds,
            of_rounds=one.of_rounds,
        )
        if is_revised
        else one
        for one, is_revised, value, error, df in zip(
            filtered, better, about.tolist(), errors.tolist(), degrees.tolist(), strict=True
        )
    ]


def is_better(
    record: "Record",
    about: Floats,
    spread: Floats,
    *,
    filtered: Sequence[Estimate],
    is_whole: bool = True,
) -> tuple[Flags, float]:
    """Say for each round whether looking back is better around it, and in the whole record.

    The second number is the share of what looking back claims to gain that a whole record proves.

    Stein's estimate of a squared error is (y - f)^2 - R + 2v; R is in both and left out.

    Args:
        record: The rounds.
        about: What is said looking back.
        spread: The variances of that.
        filtered: What was said when the rounds came.
        is_whole: Whether the record is long enough to show by itself that looking back is better.
    """
    values, noise, smoothed = record.values, record.noise, about
    before = np.array([one.value for one in filtered])
    doubts = np.array([one.standard_error for one in filtered]) ** 2
    gains = np.square(values - before) + 2 * np.minimum(doubts, noise)
    gains -= np.square(values - smoothed) + 2 * np.minimum(spread, noise)
    gains /= noise
    # How far the difference of two such estimates is off by chance, as a variance; and what the
    # models claim that looking back gains.
    chance = 4 * np.square(smoothed - before) / noise
    claimed = (np.minimum(doubts, noise) - np.minimum(spread, noise)) / noise
    places = np.arange(len(values))
    first = np.maximum(places - _AROUND, 0)
    last = np.minimum(places + _AROUND + 1, len(values))

    def around(numbers: Floats) -> Floats:
        sums = np.concatenate([[0.0], np.cumsum(numbers)])
        return np.asarray(sums[last] - sums[first])

    least = np.minimum(around(claimed) - _DOUBT * np.sqrt(around(chance)), 0.0)
    better = around(gains) > np.maximum(least, -_CHANCE)
    # Rounds that were chosen look better than they are. Where the record as a whole does not prove
    # that looking back is better, as with spikes, each round must be proven by those around it.
    if is_whole and gains.sum() <= _SURE * math.sqrt(chance.sum()):
        better &= around(gains) > _SURE * np.sqrt(around(chance))
    # What is left must help as a whole, by more than chance.
    total, doubt = float(gains[better].sum()), float(chance[better].sum())
    better &= not is_whole or total > _SURE * math.sqrt(doubt)
    # Nothing came after the last round.
    better[-1] = False
    claims = float(claimed[better].sum())
    proven = total - _SURE * math.sqrt(doubt)
    proven = max(proven, 0.0) / claims if is_whole and claims > 0 else 1.0
    return np.asarray(better), min(proven, 1.0)


class LookingBack:
    """What later rounds say of the state of some models of one shape: it goes backward in time.

    With y = m + e, e of variance R: m is y - R u given everything, with variance R - R^2 d.

    Args:
        count: How many models.
        size: How many parts a state has.
    """

    def __init__(self, count: int, size: int) -> None:
        self._vector = np.zeros((count, size))
        self._matrix = np.zeros((count, size, size))

    def take(
        self, gains: Floats, row: Floats, *, surprises: Floats, totals: Floats
    ) -> tuple[Floats, Floats]:
        """Take the round before in, and return u and d of it.

        Args:
            gains: What `rase.series.families.Prediction` says of the round.
            row: How much of each part of the state showed in it.
            surprises: How far it was off what was expected.
            totals: The variance of that.
        """
        follows = gains / totals[:, None]
        along = np.einsum("kij,kj->ki", self._matrix, follows)
        d = 1 / totals + (follows * along).sum(axis=1)
        u = surprises / totals - (follows * self._vector).sum(axis=1)
        self._vector += u[:, None] * row
        self._matrix -= along[:, :, None] * row + row[:, None] * along[:, None, :]
        self._matrix += d[:, None, None] * np.outer(row, row)
        return u, d

    def go_through(
        self,
        rounds: Floats,
        seen: Floats,
        *,
        lasting_s: Floats,
        surprises: Floats,
        totals: Floats,
        gains: Floats,
    ) -> tuple[Floats, Floats]:
        """Go backward through rounds that `rase.series.families.Family.filter` took in.

        Args:
            rounds: As it was given.
            seen: Likewise.
            lasting_s: How long the irregular part of each model lasts.
            surprises: What it said.
            totals: Likewise.
            gains: Likewise.

        Returns:
            Means and variances of the rounds given all that later ones say; a model a row.
        """
        means, variances = np.empty(surprises.T.shape), np.empty(surprises.T.shape)
        kernels = backend.native
        if kernels is not None:
            given = (rounds, seen, np.ascontiguousarray(lasting_s), surprises, totals, gains)
            kernels.look_back(*given, self._vector, self._matrix, means, variances)
            return means, variances
        for row in range(len(rounds) - 1, -1, -1):
            passed_s, value, noise, _ = rounds[row].tolist()
            u, d = self.take(gains[row], seen[row], surprises=surprises[row], totals=totals[row])
            means[:, row] = value - noise * u
            variances[:, row] = np.maximum(noise - noise**2 * d, 1e-9 * noise)
            if passed_s >= 0:
                with np.errstate(divide="ignore"):
                    self.let_pass(np.exp(-passed_s / lasting_s))
        return means, variances

    def let_pass(self, left: Floats) -> None:
        """Let time pass backward, of which so much was left of the irregular part of each model."""
        self._vector[:, 1] *= left
        self._matrix[:, 1, :] *= left[:, None]
        self._matrix[:, :, 1] *= left[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """Rounds: when they began, unbiased means, their variances by noise and by who reported."""

    times: Floats
    values: Floats
    noise: Floats
    sampling: Floats
    value_range: Range

    @property
    def rounds(self) -> Floats:
        """Each round as `rase.series.families.Family.filter` takes it."""
        passed = np.diff(self.times, prepend=self.times[0] + 1.0)
        return np.stack([passed, self.values, self.noise, self.sampling], axis=1)


def _chosen_models(record: Record, evidence: Floats) -> tuple[list["_Pass"], Floats]:
    """Return the models that count in a record, and how much they do."""
    smooth, edges = smooth_grid(), edges_grid()
    shapes = [_Pass(smooth, _seen_smooth, record), _Pass(edges, _seen_edges, record)]
    odds = np.split(
        evidence[: len(smooth.level) + len(edges.level)]
        + np.log(np.concatenate([smooth.prior, edges.prior])),
        [len(smooth.level)],
    )
    rounds = np.stack([record.times, record.values, 1 / record.noise], axis=1)
    frequency = find_period(rounds)
    if frequency is not None:
        shapes.append(_Pass(CYCLE_GRID, partial(seen_of_cycle, frequency), record))
        # A period was chosen among hundreds, which its filters pay for.
        share = CYCLE_SHARE * float(smooth.prior.sum()) / len(CYCLE_GRID.level)
        odds.append(shapes[-1].evidence() + math.log(share))
    top = max(float(one.max()) for one in odds)
    passes, weights = [], []
    for shape, own in zip(shapes, odds, strict=True):
        best = np.sort(np.argsort(own)[-_MOST_MODELS:])
        best = best[own[best] > top + math.log(_LEAST_CHANCE)]
        if best.size:
            passes.append(shape.of_models(best))
            weights.append(np.exp(own[best] - top))
    together = np.concatenate(weights)
    return passes, together / together.sum()


def _seen_smooth(times: Floats) -> Floats:
    return seen_rows(times)[0]


def _seen_edges(times: Floats) -> Floats:
    return seen_rows(times)[1]


class _Pass:
    """Models of one shape that go through a record.

    Args:
        grid: The models.
        seen: How much of each part of the state shows at some times, a time a row.
        record: The rounds.
    """

    def __init__(self, grid: Grid, seen: Callable[[Floats], Floats], record: Record) -> None:
        self._grid, self._seen, self._record = grid, seen, record
        reach = record.value_range
        self._family = Family(grid, reach.low, reach.width)
        self._rounds = record.rounds

    def of_models(self, chosen: Places) -> "_Pass":
        """Return some of the models, at the beginning of the record."""
        grid = self._grid
        parts = (grid.level, grid.irregular, grid.lasting_s, grid.profile, grid.prior)
        some = Grid.of(np.stack([part[chosen] for part in parts], axis=1), sizes=grid.sizes)
        return _Pass(some, self._seen, self._record)

    def evidence(self) -> Floats:
        """Return how well each model predicts the record."""
        found = np.zeros(self._family.count)
        for block in self._blocks():
            surprises, totals = self._family.filter(*self._part_of(block), gains=np.empty(0))
            found -= 0.5 * (np.log(totals) + surprises**2 / totals).sum(axis=0)
        return found

    def look_back(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield means and variances of blocks of rounds given the whole record, the last first.

        One model a row, one round of the block a column.
        """
        family, blocks = self._family, self._blocks()
        kept = []
        for block in blocks:
            kept.append((family.pending, [one.copy() for one in family.numbers()]))
            if block is not blocks[-1]:
                family.filter(*self._part_of(block), gains=np.empty(0))
        later = LookingBack(family.count, family.size)
        gains = np.empty((len(blocks[0]), family.count, family.size))
        for block, (pending, state) in zip(blocks[::-1], kept[::-1], strict=True):
            family.pending = pending
            family.restore(*state)
            rounds, seen = self._part_of(block)
            surprises, totals = family.filter(rounds, seen, gains=gains[: len(block)])
            yield later.go_through(
                rounds,
                seen,
                lasting_s=self._grid.lasting_s,
                surprises=surprises,
                totals=totals,
                gains=gains[: len(block)],
            )

    def _blocks(self) -> list[range]:
        count = len(self._record.times)
        return [range(first, min(first + _BLOCK, count)) for first in range(0, count, _BLOCK)]

    def _part_of(self, block: range) -> tuple[Floats, Floats]:
        some = slice(block.start, block.stop)
        return self._rounds[some], self._seen(self._record.times[some])


def mixed(
    weights: Floats, found: Floats, variances: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return what models say together of some rounds.

    Returns:
        Means and variances; then by what factor the deviation is to be taken, and with how many
        degrees of freedom, so that Student's law reaches as far.
    """
    about = weights @ found
    spread = weights @ (variances + np.square(found - about))
    reach = np.empty(len(about))
    for first in range(0, len(about), _MIXED):
        some = slice(first, first + _MIXED)
        shares = np.tile(weights, (len(about[some]), 1))
        laws = (shares, found[:, some].T, variances[:, some].T)
        reach[some] = reach_of(*laws, about=about[some], deviation=np.sqrt(spread[some]))
    return about, spread, *as_student(reach)
