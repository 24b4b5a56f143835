"""The low bits of float noise: what one report with textbook Laplace noise reveals for certain.

A float sampler reaches only some of the floats, and which ones depends on the reading that is added
(Mironov, "On significance of the least significant bits for differential privacy", CCS 2012). So
whoever has two candidates for a reading excludes one as soon as no random number leads from it to
the report. Reports on a public grid, drawn from whole numbers, have no such bits.
"""

import math
from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from rase.laws.randomizer import RangeRandomizer

__all__ = ["excluded_by_low_bits", "excluded_by_table", "insecure_float_laplace"]

_UNIT = 2.0**-53
# How many neighbouring random numbers are tried beyond those that rounding can confuse.
_MARGIN = 4


def insecure_float_laplace(
    reading: float, scale: float, *, count: int, seed: int
) -> NDArray[np.float64]:
    """Draw reports of textbook float Laplace noise: not private, kept here to show why.

    Args:
        reading: The reading that every report is of.
        scale: The noise scale.
        count: How many reports.
        seed: Of the noise.
    """
    return np.asarray(reading + np.random.default_rng(seed).laplace(0.0, scale, count))


def excluded_by_low_bits(reports: Sequence[float], candidate: float, scale: float) -> float:
    """Return the share of float reports that cannot come from a candidate reading.

    NumPy draws U as a multiple of 2^-53 and returns -scale log(2 - U - U) from one half on and
    scale log(2 U) below; only the few U that lead near the report need be tried.

    Args:
        reports: Reports of `insecure_float_laplace`.
        candidate: The reading that may be the one reported.
        scale: The noise scale, which is public.

    Example:
        >>> reports = insecure_float_laplace(0.0, 1.0, count=200, seed=2026).tolist()
        >>> excluded_by_low_bits(reports, 0.0, 1.0), excluded_by_low_bits(reports, 1.0, 1.0) > 0.7
        (0.0, True)
    """
    excluded = sum(not _is_reachable(report, candidate, scale) for report in reports)
    return excluded / len(reports)


def excluded_by_table(
    randomizer: RangeRandomizer, reports: Sequence[float], candidate: float
) -> float:
    """Return the share of reports on the grid that cannot come from a candidate reading.

    Exact: a report is excluded if its weight for both grid points next to the candidate is 0. Noise
    without end draws every place of the grid, by its law.

    Args:
        randomizer: What drew the reports.
        reports: Its reports.
        candidate: The reading that may be the one reported; outside the range it counts at its end.
    """
    public = randomizer.domain
    places = np.rint((np.asarray(reports) - public.low) / public.step).astype(int).tolist()
    exact = min(max((candidate - public.low) / public.step, 0.0), float(public.steps))
    if randomizer.certificate().total is None:
        return 0.0
    neighbours = {math.floor(exact), math.ceil(exact)}
    possible = {
        place
        for index, row in enumerate(islice(randomizer.table_rows(), max(neighbours) + 1))
        for place, weight in row.items()
        if weight and index in neighbours
    }
    return sum(place not in possible for place in places) / len(places)


def _is_reachable(report: float, candidate: float, scale: float) -> bool:
    """Return whether some U leads from the candidate to exactly this float."""
    distance = (report - candidate) / scale
    half = math.exp(-abs(distance)) / 2
    # The report was rounded when the noise was added, so more than one noise may lead to it.
    blur = math.ulp(max(abs(report), abs(candidate))) / scale * half / _UNIT
    reach = _MARGIN + math.ceil(4 * blur)
    if distance >= 0:
        nearest = round((1 - half) / _UNIT)
        for number in range(nearest - reach, min(nearest + reach, 2**53 - 1) + 1):
            u = number * _UNIT
            if u >= 0.5 and candidate - scale * math.log(2.0 - u - u) == report:
                return True
    if distance <= 0:
        nearest = round(half / _UNIT)
        for number in range(max(nearest - reach, 1), nearest + reach + 1):
            u = number * _UNIT
            if u < 0.5 and candidate + scale * math.log(u + u) == report:
                return True
    return False
