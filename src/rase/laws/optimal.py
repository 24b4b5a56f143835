"""The optimal mechanism for a mean: the unbiased channel with the smallest worst variance."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

from rase.kernels.fixed import WORD
from rase.laws.ladder import LOWEST_RUNG, programme_at
from rase.laws.law import BoundedLaw, RangeLaw
from rase.laws.optimum_bound import lower_bound
from rase.laws.programme import Programme, mixed_sum
from rase.laws.randomizer import RangeRandomizer
from rase.laws.windows import bit_law
from rase.lazy import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from rase.arrays import Flags, Floats, Indices, Places, Words
    from rase.domain import Grid
    from rase.kernels.backend import Compiled
    from rase.kernels.entropy import Entropy
    from rase.laws.certificate import Drawn

__all__ = ["Optimal", "ProgrammeLaw", "mix_rows"]

# Parts of the way between two inputs, and leading bits of a word, that a guide tells apart; as the
# compiled kernel has them. With more of either, guides of 64 inputs no longer fit a second cache.
_ROW_BITS = 2
_WORD_BITS = 9
_FAR_APART = 1 << 15


@dataclass(frozen=True)
class Optimal(RangeRandomizer):
    """Report one of about a hundred places, by the channel that a linear programme found best.

    Among all epsilon-LDP channels with an unbiased reading of each report none has a worst variance
    much below this one's: `lower_bound` proves it within 0.2 % up to epsilon 4, 1 % at 6 and 5 % at
    8. Channels are shipped for budgets from 0.25 to 8.5, at most 0.1 apart; a budget between two of
    them is served by the one above, which reports its own blanket just so often that the budget is
    kept (0.5 % more error at most), one above the ladder by the highest, whose epsilon the
    certificate states as ``drawn_epsilon``, and one below 0.25 by Duchi's bit, which is optimal
    there within 1 %. Squares are read without bias on average over
    the places between two inputs, and within a sixth of their squared distance (1.6e-4 squared
    widths up to epsilon 2, 4e-5 above) at each.

    Guarantee: epsilon-LDP for any two readings of the range; the largest ratio of the integer
    weights is computed exactly (tests/laws/test_optimal.py enumerates it). Assumes secure
    noise, drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public range.
        programme: A channel solved with ``rase.lab.optimum`` for exactly this epsilon; the shipped
            ladder unless given. Devices always use the ladder.

    Raises:
        ValueError: If the programme was solved for more than epsilon.

    Example:
        >>> from rase import Hybrid, Optimal, Range
        >>> public = Range(0, 1)
        >>> [round(float(make(4.0, public).variance(0.3)), 3) for make in (Hybrid, Optimal)]
        [0.055, 0.032]
    """

    programme: Programme | None = None

    name: ClassVar[str] = "optimal"
    summary: ClassVar[str] = "least worst variance of a mean, from a solved table"
    has_proven_pair: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check that a given programme keeps the budget."""
        super().__post_init__()
        if self.programme is None:
            return
        if not isinstance(self.programme, Programme):
            raise TypeError(f"programme must be a Programme, got {self.programme!r}.")
        if self.programme.epsilon > self.budgets[0]:
            raise ValueError(
                f"programme must be solved for at most epsilon {self.budgets[0]:g}, "
                f"got {self.programme.epsilon:g}."
            )

    def lower_bound(self, *, epsilon: float | None = None) -> float:
        """Return the worst variance below which no unbiased mechanism of this budget can go.

        Computed with fractions from the dual prices that are shipped with the channel, in the
        squared unit of the readings; for a budget above the ladder it is that of the highest rung.

        Args:
            epsilon: One of the budgets; the largest unless given.

        Raises:
            ValueError: If no contributor has this budget, or it is below the ladder.
        """
        budget = self.certificate(epsilon=epsilon).epsilon
        programme = self.programme or programme_at(budget)
        return self.domain.width**2 * lower_bound(programme.epsilon, programme.prices)

    @property
    def channel(self) -> Floats | None:
        """The probability of each output for each input; None if Duchi's bit is used.

        Contributors must share one budget.
        """
        law = self.law(self.budgets[-1])
        return law.rows if isinstance(law, ProgrammeLaw) else None

    @property
    def reach(self) -> float:
        """How far beyond the ends of the range reports can lie, in the unit of the readings."""
        codes = self.law(self.budgets[0]).weights(0)
        return self.domain.step * (max(codes) - self.domain.steps)

    def report_moments(self, reading: ArrayLike) -> tuple[Floats, Floats]:
        """Return mean and variance of the report of each reading as it is, not decoded.

        Contributors must share one budget.

        Args:
            reading: One or more readings; those outside the range count at its nearest end.
        """
        low, step = self.domain.low, self.domain.step
        exact, _, _ = self._surround(np.asarray(reading, dtype=np.float64))
        law = self.law(self.budgets[-1])
        middle = self.domain.steps / 2
        if isinstance(law, ProgrammeLaw):
            # Both moments are mixed as the rows are: no need for the whole law of each reading.
            mean, square = law.moments(exact)
        else:
            codes = np.array(sorted(law.weights(0)), dtype=np.float64)
            edges = np.append(codes - 0.5, codes[-1] + 0.5)
            chances = np.diff(law.cumulative(exact[..., None], edges), axis=-1)
            mean, square = chances @ (codes - middle), chances @ np.square(codes - middle)
        return low + step * (middle + mean), step * step * (square - np.square(mean))

    def _surround(self, values: Floats) -> tuple[Indices, Indices, Floats]:
        """Return the position of each value; rows are mixed between inputs, not grid points."""
        steps = self.domain.steps
        exact = np.clip((values - self.domain.low) / self.domain.step, 0, steps)
        return exact, exact, np.zeros(exact.shape)

    def law(self, epsilon: float) -> RangeLaw:
        """Return the law for a budget; below the ladder that of the bit."""
        if self.programme is not None:
            return _programme_law(self.programme, self.domain.steps)
        if epsilon < LOWEST_RUNG:
            return bit_law(epsilon, self.domain.steps)
        return _programme_law(programme_at(epsilon), self.domain.steps)


class ProgrammeLaw(BoundedLaw, RangeLaw):
    """Draw from the rows of the two inputs next to a reading, mixed.

    Validation: chi-square against the exact law in tests/statistical/test_noise.py.
    """

    name = "optimal"

    def __init__(self, programme: Programme, steps: int) -> None:
        """Place the programme's outputs on the grid."""
        self.steps, self.parts = steps, programme.parts
        self._programme = programme
        self._outputs = programme.places(steps)

    @property
    def largest_ratio(self) -> Drawn:
        """The largest ratio of the integer weights."""
        return self._programme.drawn_ratio(self.steps)

    def weights(self, index: int) -> dict[int, int]:
        """Return the weights of the two inputs next to the index, mixed as they are drawn."""
        row = self._programme.mixed_row(*divmod(index * self.parts, self.steps), self.steps)
        return dict(zip(self._outputs, row, strict=True))

    def as_fields(self) -> dict[str, Any]:
        """Return a row of weights for each input, and the place of each column."""
        return {
            "kind": "rows",
            "steps": self.steps,
            "parts": self.parts,
            "places": list(self._outputs),
            "rows": [[str(weight) for weight in row] for row in self._programme.rows],
        }

    @cached_property
    def _sums(self) -> list[tuple[int, ...]]:
        """For each input the partial sums of its weights."""
        return [tuple(accumulate(row)) for row in self._programme.rows]

    def draw(self, index: int, share: int, entropy: Entropy) -> int:
        """Draw one place."""
        below, rest = divmod(((index << 64) + share) * self.parts, self.steps << 64)
        mixed = rest // self.steps
        under, over = self._sums[below], self._sums[min(below + 1, self.parts)]
        word = entropy.word()
        # The mixed sum that a word falls below lies between those of the two rows.
        start, end = sorted((bisect_right(under, word), bisect_right(over, word)))
        while start < end and mixed_sum(under[start], over[start], mixed) <= word:
            start += 1
        return self._outputs[start]

    @cached_property
    def _places(self) -> Places:
        return np.array(self._outputs, dtype=np.int64)

    @cached_property
    def _columns(self) -> Words:
        """Partial sums of each input as one row, the last 2^64 - 1 for 2^64; the last row twice.

        So every input has a next one, and every weight a boundary behind it.
        """
        rows = [(*row[:-1], WORD - 1) for row in self._sums]
        return np.array([*rows, rows[-1]], dtype=np.uint64)

    @cached_property
    def _guide(self) -> NDArray[np.uint16]:
        """Where to look for the weight of a word: the first that such words can fall into.

        For each input, each part of the way to the next and each value of a word's leading bits.
        Marked where words may fall behind the weight after it, too. Mixed sums are monotonous in
        the share, so within a part of the way they lie between those at its ends.
        """
        under, over = self._columns[:-1, None, :-1], self._columns[1:, None, :-1]
        gap = np.where(over < under, under - over, over - under)
        # Each end is so many parts of the gap, truncated; products of the whole gap would not fit.
        ends = np.arange((1 << _ROW_BITS) + 1, dtype=np.uint64)[:, None]
        bits, rest = np.uint64(_ROW_BITS), np.uint64((1 << _ROW_BITS) - 1)
        moved = (gap >> bits) * ends + ((gap & rest) * ends >> bits)
        sums = np.where(over < under, under - moved, under + moved)
        low, high = np.minimum(sums[:, :-1], sums[:, 1:]), np.maximum(sums[:, :-1], sums[:, 1:])
        # Words of a cell lie behind sums up to its first word, and before those beyond its last.
        shift, columns = np.uint64(64 - _WORD_BITS), (1 << _WORD_BITS) + 1
        reached = np.stack([low >> shift, (high >> shift) + (high << np.uint64(_WORD_BITS) != 0)])
        rows = reached.astype(np.int64).reshape(-1, reached.shape[-1])
        rows += columns * np.arange(len(rows))[:, None]
        counts = np.bincount(rows.reshape(-1), minlength=columns * len(rows))
        running = np.cumsum(counts.reshape(*reached.shape[:-1], columns), axis=-1)
        last, first = running[..., :-1]
        return np.asarray(first | np.where(last > first + 1, _FAR_APART, 0), dtype=np.uint16)

    @cached_property
    def _values(self) -> Floats:
        """What each output is read as, in grid units."""
        return self.steps * (np.array(self._programme.values) + 0.5)

    @cached_property
    def rows(self) -> Floats:
        """The probability of each output (column) for each input."""
        return np.array(self._programme.rows, dtype=np.float64) / WORD

    def _fill_compiled(
        self, native: Compiled, grid: Grid, readings: Floats, words: Words, out: Places
    ) -> bool:
        rows = (self._columns, self._guide, self._places)
        return native.row_places(rows, grid, readings, words, out)

    def _places_from(self, index: Places, share: Words, words: Words) -> Places:
        from rase.kernels.integers import high_product

        sums, last = self._columns, len(self._outputs) - 1
        below, mixed = mix_rows(index, share, gaps=self.parts, steps=self.steps)
        part = (mixed >> np.uint64(64 - _ROW_BITS)).astype(np.int64)
        cells = (words >> np.uint64(64 - _WORD_BITS)).astype(np.int64)
        drawn = (self._guide[below, part, cells] & np.uint16(_FAR_APART - 1)).astype(np.int64)
        waiting = np.flatnonzero(drawn < last)
        while waiting.size:
            at = drawn[waiting]
            under, over = sums[below[waiting], at], sums[below[waiting] + 1, at]
            gap = np.where(over < under, under - over, over - under)
            moved = high_product(mixed[waiting], gap)
            reached = np.where(over < under, under - moved, under + moved)
            waiting = waiting[reached <= words[waiting]]
            drawn[waiting] += 1
            waiting = waiting[drawn[waiting] < last]
        return np.asarray(self._places[drawn])

    def is_place(self, place: Places) -> Flags:
        """Accept the places of the outputs."""
        return np.asarray(self._places[self._output(place)] == place)

    def decode(self, place: Places) -> Floats:
        """Decode each output as its value."""
        return np.asarray(self._values[self._output(place)])

    def decode_square(self, place: Places) -> Floats:
        """Decode each output as its square value; see `square_values`."""
        return np.asarray(self.square_values[self._output(place)])

    @cached_property
    def square_values(self) -> Floats:
        """What each output is read as for the squared index, about unbiased.

        The rows are linearly independent, so there are values whose mean is the squared index at
        every input; of all such the ones of least variance over the inputs are taken. Between two
        inputs every mean of a report is a straight line and lies above the square by up to a
        quarter of the squared gap, on average by a sixth, which is taken off.
        """
        inputs = np.arange(self.parts + 1) / self.parts - 0.5
        weight = np.sqrt(self.rows.mean(axis=0))
        # The least norm in these coordinates is the least mean square over the inputs.
        solved = np.linalg.lstsq(self.rows / weight, np.square(inputs), rcond=None)[0]
        squares = solved / weight - 1 / (6 * self.parts**2)
        shifted = self.steps**2 * squares + self.steps * (self._values - self.steps / 4)
        return np.asarray(shifted)

    def _output(self, place: Places) -> Places:
        """Return the output at each place, or the next one."""
        low, table = self._output_table
        return np.asarray(table[np.clip(place, low, low + table.size - 1) - low])

    @cached_property
    def _output_table(self) -> tuple[int, NDArray[np.int16]]:
        """The lowest place, and the output at it and each of those behind: no need to search."""
        low, high = self._outputs[0], self._outputs[-1]
        found = np.searchsorted(self._places, np.arange(low, high + 1))
        return low, found.astype(np.int16)

    def variance(self, index: Indices) -> Floats:
        """Return E[value^2] less the squared index, both about the middle for accuracy."""
        middle = self.steps / 2
        squares = self._mix_inputs(self.rows @ np.square(self._values - middle), index)
        return np.asarray(squares - np.square(index - middle))

    def moments(self, index: Indices) -> tuple[Floats, Floats]:
        """Return mean and mean square of the codes themselves, both about the middle."""
        codes = self._places - self.steps / 2
        mean, square = self.rows @ codes, self.rows @ np.square(codes)
        return self._mix_inputs(mean, index), self._mix_inputs(square, index)

    def cumulative(self, index: Indices, place: Floats) -> Floats:
        """Return the mixed distribution functions of the two inputs next to each index."""
        sums = np.hstack([np.zeros((self.parts + 1, 1)), np.cumsum(self.rows, axis=1)])
        sums[:, -1] = 1.0
        at = np.searchsorted(self._places, place, side="right")
        below, above, share = self._neighbours(index)
        return np.asarray((1 - share) * sums[below, at] + share * sums[above, at])

    def _mix_inputs(self, by_input: Floats, index: Indices) -> Floats:
        below, above, share = self._neighbours(index)
        return np.asarray((1 - share) * by_input[below] + share * by_input[above])

    def _neighbours(self, index: Indices) -> tuple[Places, Places, Floats]:
        """Return the inputs next to each place of the grid, and the share of the upper one."""
        whole, rest = np.divmod(index * self.parts, self.steps)
        below = whole.astype(np.int64)
        return below, np.minimum(below + 1, self.parts), rest / self.steps


@lru_cache(maxsize=256)
def _programme_law(programme: Programme, steps: int) -> ProgrammeLaw:
    return ProgrammeLaw(programme, steps)


def mix_rows(index: Places, share: Words, *, gaps: int, steps: int) -> tuple[Places, Words]:
    """Return the input below each place of a grid, and the share of 2^64 towards the next.

    Args:
        index: Grid points.
        share: How far beyond them, of 2^64.
        gaps: How many equal parts the inputs cut the grid into.
        steps: How many steps it has.
    """
    from rase.kernels.integers import high_product

    half, low_half, wide = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(gaps)
    whole = index.astype(np.uint64) * wide + high_product(share, wide)
    low = share * wide
    below, rest = np.divmod(whole, np.uint64(steps))
    # (rest * 2^64 + low) / steps, in two halves.
    upper, rest = np.divmod(rest << half | low >> half, np.uint64(steps))
    lower = (rest << half | low & low_half) // np.uint64(steps)
    return below.astype(np.int64), upper << half | lower
