"""The optimal channel for a budget: a linear programme solved by column generation.

Wanted is the unbiased epsilon-LDP channel of least worst variance. Some optimal channel gives each
output one of two likelihoods, m or m e^epsilon (Kairouz, Oh, Viswanath, "Extremal mechanisms for
local differential privacy", JMLR 2016), so a channel is a list of columns (value z, favoured inputs
S) with masses m: linear in m. Columns are added where the dual prices say that one is missing,
until none is; the prices are then a proof of how good any channel can be.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rase.atomic_files import write_atomic
from rase.errors import DataError
from rase.laws.optimum_bound import lower_bound
from rase.laws.programme import FORMAT, PRICE_UNIT, Output, Programme

__all__ = ["cache_folder", "parts_for", "programme_for", "solve"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_COARSEST = 16
_MOST_TURNS = 400
# Columns kept in the programme besides those in use.
_KEPT = 800
_MOST_COLUMNS = 1500
_NEGLIGIBLE_MASS = 1e-13


def programme_for(epsilon: float, *, folder: Path | None = None) -> Programme:
    """Return the optimal channel for a budget, from the cache or solved and cached.

    A file that is damaged or of another format is solved again and replaced.

    Args:
        epsilon: The budget of a report, from 0.1 to 10.
        folder: Where solved channels are kept; the user's cache unless given.

    Raises:
        ValueError: If epsilon lies outside these bounds.
    """
    file = (folder or cache_folder()) / f"optimal-v{FORMAT}-{epsilon!r}.json"
    try:
        kept = Programme.from_fields(json.loads(file.read_text(encoding="utf-8")))
        if kept.epsilon == epsilon:
            return kept
    except (OSError, ValueError, DataError):
        # Nothing kept, or nothing that can be trusted: what follows is the same either way.
        pass
    made = solve(epsilon)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, json.dumps(made.to_fields()))
    return made


def cache_folder() -> Path:
    """Return where solved channels are kept: ``rase`` in the user's cache folder."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rase"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rase"


def solve(epsilon: float, *, parts: int | None = None, close: float = 1e-6) -> Programme:
    """Solve for the optimal channel.

    Args:
        epsilon: The budget of a report, from 0.1 to 10.
        parts: Into how many parts the range is cut, a power of two from 16 on; `parts_for` unless
            given. Readings between inputs are rounded at random, which costs 1 / (4 parts^2).
        close: How near the channel and its lower bound must come before it ends, relatively.

    Returns:
        The channel.

    Raises:
        ValueError: If an argument is out of bounds.
        RuntimeError: If the iteration does not end; no such budget is known.

    Example:
        >>> solved = solve(1.0, parts=16)
        >>> round(solved.worst_variance, 4)
        0.9984
    """
    if not 0.1 <= epsilon <= 10:
        raise ValueError(f"epsilon must be between 0.1 and 10, got {epsilon}.")
    finest = parts_for(epsilon) if parts is None else parts
    if finest < _COARSEST or finest & (finest - 1):
        raise ValueError(f"parts must be a power of two from {_COARSEST} on, got {finest}.")
    count = _COARSEST
    columns = _first_columns(epsilon, count)
    while True:
        solved = _solve(epsilon, count, columns, close=close if count == finest else 1e-4)
        if count == finest:
            return _programme(epsilon, count, solved)
        columns = _halve_parts(solved.columns, epsilon, count)
        count *= 2


def parts_for(epsilon: float) -> int:
    """Return into how many parts the range is cut, so that rounding costs less than 1 %."""
    return 32 if epsilon <= 2 else 64


@dataclass(frozen=True, slots=True)
class _Columns:
    """Values, and the inputs that each favours (rows: columns of the programme)."""

    value: Floats
    favoured: Flags

    def with_more(self, value: Floats, favoured: Flags) -> "_Columns":
        """Add columns that are not there yet."""
        values = np.concatenate([self.value, value])
        patterns = np.concatenate([self.favoured, favoured])
        keyed = np.column_stack([np.round(values, 11), np.packbits(patterns, axis=1)])
        first = np.sort(np.unique(keyed, axis=0, return_index=True)[1])
        return _Columns(values[first], patterns[first])

    def only(self, chosen: Flags) -> "_Columns":
        """Keep some columns."""
        return _Columns(self.value[chosen], self.favoured[chosen])


@dataclass(frozen=True, slots=True)
class _Prices:
    """The dual prices of all inputs, and what columns would gain by them."""

    square: Floats
    mean: Floats
    whole: Floats
    factor: float

    def gains(self, z: Floats) -> Floats:
        """Return g_x(z) for each z (row) and input."""
        return np.asarray(np.square(z)[:, None] * self.square - z[:, None] * self.mean - self.whole)

    def least(self, z: Floats) -> Floats:
        """Return the reduced cost of the best pattern at each z."""
        gains = self.gains(z)
        return np.asarray(np.where(gains > 0, gains, self.factor * gains).sum(axis=1))

    def settle(self, z: Floats) -> Floats:
        """Move each z to the bottom of the parabola that its best pattern makes, repeatedly."""
        for _ in range(30):
            weight = np.where(self.gains(z) < 0, self.factor, 1.0)
            z = np.maximum(weight @ self.mean / (2 * weight @ self.square), 0.0)
        return z


@dataclass(frozen=True, slots=True)
class _Solved:
    columns: _Columns
    mass: Floats
    prices: _Prices


def _solve(epsilon: float, parts: int, columns: _Columns, *, close: float) -> _Solved:
    factor = float(np.exp(epsilon))
    # A one-bit report's value; the optimal ones lie within 1.3 times of it.
    bit = 0.5 / np.tanh(epsilon / 2)
    grid = np.unique(np.concatenate([np.linspace(0, 1, 2001), np.linspace(0, 3 * bit, 3001)]))
    best = -np.inf
    for _ in range(_MOST_TURNS):
        mass, value, prices = _master(columns, parts, factor)
        least = prices.least(grid)
        best = max(best, value + least.min() / 2)
        used = mass > _NEGLIGIBLE_MASS
        solved = _Solved(columns.only(used), mass[used], prices)
        if value - best <= close * value:
            return solved
        if columns.value.size > _MOST_COLUMNS:
            cost = _costs(columns, prices)
            columns = columns.only((mass > 0) | (cost < np.partition(cost, _KEPT)[_KEPT]))
        chosen = grid[_missing(least)]
        more = np.concatenate([chosen, prices.settle(chosen)])
        known = columns.value.size
        columns = columns.with_more(more, prices.gains(more) < 0)
        if columns.value.size == known:
            # Nothing new helps: what is left of the gap is the solver's own tolerance.
            return solved
    raise RuntimeError(f"epsilon {epsilon} did not settle within {_MOST_TURNS} turns.")


def _master(columns: _Columns, parts: int, factor: float) -> tuple[Floats, float, _Prices]:
    """Solve the programme for the columns there are; only inputs of the upper half are needed."""
    # SciPy is slow to import, and only whoever solves needs it.
    from scipy.optimize import linprog

    half = np.arange(parts // 2, parts + 1)
    reading = half / parts - 0.5
    likelihood = np.where(columns.favoured, factor, 1.0)
    here, there = likelihood[:, half], likelihood[:, parts - half]
    z = columns.value[:, None]
    size = half.size
    # Variables: the masses, then the worst variance. By symmetry the mean at the middle is right.
    solved = linprog(
        np.append(np.zeros(columns.value.size), 1.0),
        A_ub=np.hstack([(z * z * (here + there)).T, -np.ones((size, 1))]),
        b_ub=np.square(reading),
        A_eq=np.vstack(
            [
                np.hstack([(z * (here - there)).T, np.zeros((size, 1))])[1:],
                np.hstack([(here + there).T, np.zeros((size, 1))]),
            ]
        ),
        b_eq=np.concatenate([reading[1:], np.ones(size)]),
        bounds=(0, None),
        method="highs-ds",
    )
    if solved.status != 0:
        raise RuntimeError(f"the linear programme was not solved: {solved.message}")
    equal = solved.eqlin.marginals
    mean = np.append(0.0, equal[: size - 1])
    square, whole = -solved.ineqlin.marginals, equal[size - 1 :]
    prices = _Prices(
        _unfold_prices(square, square),
        _unfold_prices(mean, -mean),
        _unfold_prices(whole, whole),
        factor,
    )
    return solved.x[:-1], float(solved.fun), prices


def _unfold_prices(upper: Floats, lower: Floats) -> Floats:
    """Return prices of all inputs from those of the upper half and of its mirror image."""
    return np.concatenate([lower[:0:-1], [upper[0] + lower[0]], upper[1:]])


def _costs(columns: _Columns, prices: _Prices) -> Floats:
    weight = np.where(columns.favoured, prices.factor, 1.0)
    return np.asarray((weight * prices.gains(columns.value)).sum(axis=1))


def _missing(least: Floats) -> NDArray[np.int64]:
    """Return where columns are missing: all local minima, and some of every bad place."""
    before, after = np.append(np.inf, least[:-1]), np.append(least[1:], np.inf)
    minima = np.flatnonzero((least <= before) & (least <= after) & (least < -1e-12))
    bad = np.flatnonzero(least < 1e-3 * least.min())
    return np.unique(np.concatenate([minima, bad[:: max(1, bad.size // 60)]]))


def _first_columns(epsilon: float, parts: int) -> _Columns:
    """Return columns with which there is a channel: thresholds, and windows of several widths."""
    reading = np.arange(parts + 1) / parts - 0.5
    bit = 0.5 / np.tanh(epsilon / 2)
    found: list[tuple[float, Flags]] = []
    for z in np.linspace(0, 2 * bit, 41):
        found += [(z, reading >= start - 1e-9) for start in reading]
        found += [
            (z, np.abs(reading - centre) <= width)
            for width in (0.02, 0.1, 0.3, 0.6)
            for centre in reading[::2]
        ]
    return _stack_columns(found, parts).with_more(
        np.full(parts + 1, bit), reading >= reading[:, None] - 1e-9
    )


def _halve_parts(columns: _Columns, epsilon: float, parts: int) -> _Columns:
    """Return columns for parts half as long: each end of a run may move by half a part."""
    reading = np.arange(2 * parts + 1) / (2 * parts) - 0.5
    found: list[tuple[float, Flags]] = []
    for z, favoured in zip(columns.value.tolist(), columns.favoured, strict=True):
        found += [(z, pattern) for pattern in _refine_pattern(favoured, parts)]
    bit = 0.5 / np.tanh(epsilon / 2)
    return _stack_columns(found, 2 * parts).with_more(
        np.full(2 * parts + 1, bit), reading >= reading[:, None] - 1e-9
    )


def _refine_pattern(favoured: Flags, parts: int) -> Iterator[Flags]:
    inputs = np.flatnonzero(favoured)
    if not inputs.size:
        yield np.zeros(2 * parts + 1, dtype=np.bool_)
        return
    place = np.arange(2 * parts + 1)
    for before in (0, 1):
        for after in (0, 1):
            yield (place >= 2 * inputs[0] - before) & (place <= 2 * inputs[-1] + after)


def _stack_columns(found: list[tuple[float, Flags]], parts: int) -> _Columns:
    empty = _Columns(np.empty(0), np.empty((0, parts + 1), dtype=np.bool_))
    return empty.with_more(
        np.array([z for z, _ in found]), np.array([pattern for _, pattern in found])
    )


def _programme(epsilon: float, parts: int, solved: _Solved) -> Programme:
    """Remove the solver's rounding: sums and means to the last digits, prices as whole numbers."""
    factor = solved.prices.factor
    half = np.arange(parts // 2, parts + 1)
    reading = half / parts - 0.5
    likelihood = np.where(solved.columns.favoured, factor, 1.0)
    here, there = likelihood[:, half], likelihood[:, parts - half]
    mass, z = solved.mass.copy(), solved.columns.value.copy()
    sums = (here + there).T
    for _ in range(4):
        # Relative changes, the smallest that correct sums and means.
        means = ((here - there) * z[:, None]).T[1:]
        system = np.vstack([sums, means]) * mass
        off = np.concatenate([1 - sums @ mass, reading[1:] - means @ mass])
        mass *= 1 + np.linalg.lstsq(system, off, rcond=None)[0]
    for _ in range(3):
        # Values take what the masses left.
        spread = ((here - there) * mass[:, None]).T[1:]
        scale = np.maximum(z, 1e-3)
        z += scale * np.linalg.lstsq(spread * scale, reading[1:] - spread @ z, rcond=None)[0]
    outputs = tuple(
        Output(abs(float(value)), float(weight), int("".join("01"[b] for b in pattern[::-1]), 2))
        for value, weight, pattern in zip(
            z, mass, solved.columns.favoured.astype(int).tolist(), strict=True
        )
    )
    prices = _whole_prices(solved.prices)
    lower_bound(epsilon, prices)
    return Programme(epsilon, parts, outputs, prices)


def _whole_prices(prices: _Prices) -> tuple[tuple[int, int, int], ...]:
    """Return prices as whole numbers; those of variance rounded down, so as not to exceed one."""
    square = np.maximum(prices.square / 2, 0.0)
    square = np.floor(square / max(square.sum(), 1.0) * PRICE_UNIT)
    mean, whole = (np.rint(part / 2 * PRICE_UNIT) for part in (prices.mean, prices.whole))
    return tuple((int(w), int(mu), int(nu)) for w, mu, nu in zip(square, mean, whole, strict=True))
