"""What a reading may be: a number in a public range, or one of a few named categories.

Pure Python without NumPy, because the device agent imports it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, TypeAlias, cast

__all__ = [
    "MAX_CATEGORIES",
    "MAX_STEPS",
    "OTHER",
    "PAPER_PRECISION",
    "Categories",
    "Domain",
    "Grid",
    "Precision",
    "Range",
    "between_bounds",
    "least_width",
]

MAX_STEPS: Final = 65536
MAX_CATEGORIES: Final = 64
_LONGEST_NAME: Final = 64
# The category of all readings that are none of the others, where it is one of them.
OTHER: Final = "other"
# First point, step and number of steps.
Grid: TypeAlias = tuple[float, float, int]
# Fourth powers of decoded reports at the smallest epsilon, and of single steps, stay within floats.
_LARGEST: Final = 1e60
_NARROWEST: Final = 1e-60
# A report is low + code * step, rounded once. With so many units in the last place to a step, that
# moves it by less than a hundredth of a step, up to which a report counts as a point of the grid;
# twice what the ends need, because unclamped reports may lie in the next power of two beyond.
_ULPS_A_STEP: Final = 128


@dataclass(frozen=True, slots=True)
class Range:
    """The public range ``[low, high]`` of readings and its grid of ``steps + 1`` points.

    The range is part of the campaign and known to everybody; it must be chosen without looking at
    private readings. Readings outside are clipped to it before noise is drawn. Readings and
    reports live on the grid ``low + j * step``, because noise on a finite public grid can be drawn
    exactly, while textbook floating-point noise leaks its input through the low bits.

    Args:
        low: The smallest reading, x_min in the paper.
        high: The largest reading, x_max in the paper.
        steps: How many grid steps the range is cut into.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If a bound is not finite or beyond 1e60, ``low >= high``, ``steps`` is out of
            bounds, or the range is too narrow for so many steps (`least_width`).

    Example:
        >>> power_w = Range(0, 3000)
        >>> power_w.width, power_w.step
        (3000.0, 0.732421875)
    """

    low: float
    high: float
    steps: int = 4096

    def __post_init__(self) -> None:
        """Check the three numbers once."""
        low, high = _number("low", self.low), _number("high", self.high)
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"low and high must be finite numbers, got {low} and {high}.")
        if low >= high:
            raise ValueError(f"low must be below high, got low {low} and high {high}.")
        if max(abs(low), abs(high)) > _LARGEST:
            raise ValueError(
                f"low and high must be between -{_LARGEST:g} and {_LARGEST:g}, got {low} and "
                f"{high}. Take another unit."
            )
        if isinstance(self.steps, bool) or not isinstance(self.steps, int):
            raise TypeError(f"steps must be a whole number, got {self.steps!r}.")
        if not 1 <= self.steps <= MAX_STEPS:
            raise ValueError(f"steps must be between 1 and {MAX_STEPS}, got {self.steps}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        least = least_width(low, high, steps=self.steps)
        if self.width < least:
            raise ValueError(
                f"high - low must be at least {least:.3g} for {self.steps} steps from {low} to "
                f"{high}, got {self.width:.3g}: floats cannot tell a finer grid apart. Widen the "
                "range, take fewer steps or another zero."
            )

    @property
    def width(self) -> float:
        """The spread of readings, Δ(x) in the paper."""
        return self.high - self.low

    @property
    def step(self) -> float:
        """The distance of two neighbouring grid points."""
        return self.width / self.steps

    @property
    def middle(self) -> float:
        """The centre of the range, to which clamped reports are biased."""
        return self.low + self.width / 2

    @property
    def grid(self) -> Grid:
        """First point, step and number of steps."""
        return self.low, self.step, self.steps

    def spot(self, reading: float) -> tuple[int, int]:
        """Return the grid point at or below a reading, and the share of 2^64 towards the next.

        Readings outside the range count at its nearest end.

        Raises:
            ValueError: If the reading is not finite.

        Example:
            >>> Range(0, 10, steps=10).spot(2.5) == (2, 2**63)
            True
        """
        if not math.isfinite(reading):
            raise ValueError("reading must be a finite number, got NaN or infinity.")
        exact = min(max((reading - self.low) / self.step, 0.0), float(self.steps))
        index = math.floor(exact)
        # As in rase.laws.law.grid_spots, to the last bit.
        return index, int((exact - index) * 2.0**63) << 1


@dataclass(frozen=True)
class Categories:
    """The public names of the states that a reading may be.

    Args:
        names: Two to 64 different names, in the order in which they are shown.

    Raises:
        TypeError: If a name is not a text.
        ValueError: If there are too few or too many names, or one is empty, too long or repeated.

    Example:
        >>> state = Categories(("on", "off", "standby"))
        >>> state.steps, state.spot("off")
        (2, (1, 0))
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the names once."""
        given = cast("object", self.names)
        names = tuple(self.names)
        if isinstance(given, str) or {type(name) for name in names} - {str}:
            raise TypeError(f"categories must be a list of texts, got {given!r}.")
        if not 2 <= len(names) <= MAX_CATEGORIES:
            raise ValueError(f"categories must be 2 to {MAX_CATEGORIES} names, got {len(names)}.")
        for name in names:
            if not 0 < len(name) <= _LONGEST_NAME or name != name.strip() or not name.isprintable():
                raise ValueError(
                    f"a category must be 1 to {_LONGEST_NAME} printable characters without blanks "
                    f"around them, got {name!r}."
                )
            if names.count(name) > 1:
                raise ValueError(f"categories must differ, got {name!r} more than once.")
        object.__setattr__(self, "names", names)

    @property
    def steps(self) -> int:
        """The place of the last category; the first has place 0."""
        return len(self.names) - 1

    @property
    def grid(self) -> Grid:
        """First place, step and number of steps: categories are numbered from 0."""
        return 0.0, 1.0, self.steps

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each name."""
        return {name: place for place, name in enumerate(self.names)}

    def spot(self, reading: str) -> tuple[int, int]:
        """Return the place of a category, and no share of the next one.

        Raises:
            ValueError: If the reading is not one of the categories. It is not shown.
        """
        place = self.places.get(reading)
        if place is None:
            raise ValueError(
                f"reading must be one of the {len(self.names)} categories, got something else."
            )
        return place, 0


Domain = Range | Categories


def between_bounds(bounds: Iterable[float]) -> tuple[str, ...]:
    """Return the names of the intervals between public bounds; each holds its lower end.

    Args:
        bounds: 1 to 63 numbers, ascending.

    Raises:
        TypeError: If the bounds are not numbers.
        ValueError: If there are too few or too many, or they do not ascend.

    Example:
        >>> between_bounds([1000, 3000])
        ('below 1000', '1000 to 3000', '3000 or more')
    """
    given = cast("object", bounds)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"bounds must be a list of numbers, got {given!r}.")
    ends = [_number("bounds", bound) for bound in bounds]
    if not 1 <= len(ends) < MAX_CATEGORIES:
        raise ValueError(f"bounds must be 1 to {MAX_CATEGORIES - 1} numbers, got {len(ends)}.")
    is_rising = all(low < high for low, high in pairwise(ends))
    if not is_rising or not all(map(math.isfinite, ends)):
        raise ValueError(f"bounds must be finite and ascend, got {ends}.")
    words = [f"{end:.12g}" for end in ends]
    inner = (f"{low} to {high}" for low, high in pairwise(words))
    return (f"below {words[0]}", *inner, f"{words[-1]} or more")


def least_width(low: float, high: float, *, steps: int) -> float:
    """Return the width from which a range about these ends has a grid that floats can tell apart.

    Args:
        low: The smallest reading.
        high: The largest reading.
        steps: How many grid steps the range is cut into.

    Example:
        >>> least_width(1.0, 1.5, steps=4096) < 1.2e-10
        True
    """
    return max(steps * _ULPS_A_STEP * math.ulp(max(abs(low), abs(high))), _NARROWEST)


@dataclass(frozen=True, slots=True)
class Precision:
    """The (beta, rho)-interval precision that a fusion centre asks for (Def. 4).

    A report y of reading x meets it if ``Pr[(1 - beta) x <= y <= (1 + beta) x] >= rho``.

    Args:
        beta: Relative half-width of the interval, in [0, 1].
        rho: Probability with which the report falls into it, in [0, 1].

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If beta or rho lies outside [0, 1].

    Example:
        >>> Precision(beta=0.5, rho=0.9).epsilon_bound(Range(0, 3000))
        4.605170185988092
    """

    beta: float
    rho: float

    def __post_init__(self) -> None:
        """Check both numbers once."""
        for name in ("beta", "rho"):
            value = _number(name, getattr(self, name))
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {value}.")
            object.__setattr__(self, name, value)

    def epsilon_bound(self, value_range: Range, *, reading: float | None = None) -> float:
        """Return the epsilon from which Laplace noise meets this precision (Lemma 1).

        Without ``reading`` this is the bound as the paper prints it, with x_max. Its proof turns an
        inequality round: the printed bound serves readings at x_max only (docs/explain/paper.md,
        row 8). With ``reading`` it is exact for that reading.

        Args:
            value_range: The public range.
            reading: A reading for which the bound must be exact.

        Returns:
            The bound; infinite where no epsilon suffices (a reading of 0, ``beta`` 0, ``rho`` 1, or
            a range whose upper end is not positive).
        """
        size = value_range.high if reading is None else abs(_number("reading", reading))
        return self._bound_for_size(value_range, size)

    def epsilon_bound_everywhere(self, value_range: Range) -> float:
        """Return the epsilon that serves every reading of the range: infinite if it contains 0."""
        low, high = value_range.low, value_range.high
        smallest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        return self._bound_for_size(value_range, smallest)

    def share_met(
        self,
        readings: Iterable[float],
        *,
        epsilon: float,
        value_range: Range,
        is_clamping: bool = False,
    ) -> float:
        """Return the share of readings whose report really meets this precision.

        Args:
            readings: The readings; those outside the range count at its nearest end.
            epsilon: The budget of one report.
            value_range: The public range.
            is_clamping: Whether reports are clamped into the range. A report at an end counts as
                met when that end lies inside the reading's interval.

        Returns:
            A share between 0 and 1.

        Raises:
            ValueError: If ``epsilon`` is not positive or there are no readings.
        """
        if not epsilon > 0:
            raise ValueError(f"epsilon must be greater than 0, got {epsilon}.")
        scale = value_range.width / epsilon
        met = total = 0
        for reading in readings:
            inside = min(max(reading, value_range.low), value_range.high)
            reach = self.beta * abs(inside)
            below = above = math.exp(-reach / scale) / 2
            if is_clamping and inside - reach <= value_range.low:
                below = 0.0
            if is_clamping and inside + reach >= value_range.high:
                above = 0.0
            # An error of a few ulps must not turn a bound that is met with equality.
            met += 1 - below - above >= self.rho - 1e-12
            total += 1
        if not total:
            raise ValueError("readings must hold at least one reading, got none.")
        return met / total

    def _bound_for_size(self, value_range: Range, size: float) -> float:
        if self.rho == 0:
            return 0.0
        if self.rho == 1 or self.beta == 0 or size <= 0:
            return math.inf
        return -value_range.width * math.log1p(-self.rho) / (self.beta * size)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    return float(value)


# What the paper's evaluation asks for.
PAPER_PRECISION: Final = Precision(beta=0.5, rho=0.9)
