"""What a new mechanism and a new aggregate take: sample ones, added to a copy of the source.

A test really adds them and calls every command that must know them; the number of files that an
addition touches is a measure of the house.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AGGREGATE", "LAW", "Addition"]


@dataclass(frozen=True, slots=True)
class Addition:
    """A sample of something new.

    Args:
        new: Files that are added, with their text.
        edits: Files that get another line: the line that is there once, and the one after it.
    """

    new: Mapping[str, str]
    edits: Mapping[str, tuple[str, str]]

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that is touched."""
        return tuple(sorted({*self.new, *self.edits}))

    def apply(self, source: Path) -> None:
        """Add it to a source tree.

        Raises:
            ValueError: If a line that is asked for is not there exactly once.
        """
        for name, text in self.new.items():
            (source / name).write_text(text, encoding="utf-8")
        for name, (line, added) in self.edits.items():
            path = source / name
            text = path.read_text(encoding="utf-8")
            if text.count(f"{line}\n") != 1:
                raise ValueError(f"{name} must have {line!r} once, got {text.count(line)}.")
            path.write_text(text.replace(f"{line}\n", f"{line}\n{added}\n"), encoding="utf-8")


# The reading's own grid point often, any other one seldom.
LAW = Addition(
    new={
        "laws/grid_response.py": '''"""K-ary randomized response over the points of a range."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from rase.laws.law import RangeLaw
from rase.laws.parts import one_of_many
from rase.laws.randomizer import RangeRandomizer
from rase.laws.windows import WindowLaw


@dataclass(frozen=True)
class GridResponse(RangeRandomizer):
    """Report the reading's grid point e^epsilon times as often as any other."""

    name: ClassVar[str] = "grid-response"
    summary: ClassVar[str] = "the own grid point often, any other seldom"

    def law(self, epsilon: float) -> RangeLaw:
        """Return the law of a window of one place."""
        return _law(epsilon, self.domain.steps)


@lru_cache(maxsize=256)
def _law(epsilon: float, steps: int) -> RangeLaw:
    return WindowLaw(epsilon, one_of_many(epsilon, steps), GridResponse.name)
'''
    },
    edits={
        "laws/registry.py": (
            '        "square-wave": (Range, "windows", "SquareWave"),',
            '        "grid-response": (Range, "grid_response", "GridResponse"),',
        ),
    },
)

# How far readings are apart: not a mean, but in the unit of the readings.
AGGREGATE = Addition(
    new={
        "counts/deviation.py": '''"""The standard deviation of the readings."""

import math

from rase.counts.aggregates import variance
from rase.counts.estimate import Estimate


def deviation(reports, *, randomizer, epsilon=None, rng=None):
    """Estimate the standard deviation of these readings, by the delta method."""
    found = variance(reports, randomizer=randomizer, epsilon=epsilon)
    value = math.sqrt(max(found.value, 0.0))
    least = math.sqrt(found.standard_error)
    return Estimate(
        value,
        found.standard_error / (2 * max(value, least)),
        n=found.n,
        method="deviation",
        target="standard deviation of the readings",
        lowest=0.0,
        highest=randomizer.domain.width / 2,
    )
'''
    },
    edits={
        "counts/registry.py": (
            '        "winsorized_mean": ("mean", "winsorized_mean", _MEAN),',
            '        "deviation": ("deviation", "deviation", _OTHER),',
        ),
    },
)
