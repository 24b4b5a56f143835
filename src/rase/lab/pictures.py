"""Pictures as plain values: charts of lines or dots, heat maps, and their layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Chart", "HeatMap", "Level", "Line", "Picture"]


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a chart.

    Args:
        label: Its name in the legend; empty for none.
        x: Places on the horizontal axis, ascending.
        y: Values there.
        low: Lower end of the band around the values.
        high: Upper end.
        look: The key of its colour and marker, the same in all pictures for the same thing; its
            label if not given.
        style: "solid" and "dashed" join the points, "dots" does not.

    Raises:
        ValueError: If the columns differ in length.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    look: str = ""
    style: Literal["solid", "dashed", "dots"] = "solid"

    def __post_init__(self) -> None:
        """Check that the columns fit."""
        lengths = {len(column) for column in (self.x, self.y, self.low, self.high) if column}
        if len(lengths) > 1:
            raise ValueError(f"x, y, low and high must have one length, got {sorted(lengths)}.")


@dataclass(frozen=True, slots=True)
class Level:
    """A line across a chart, such as chance or a bound.

    Args:
        at: Where.
        label: What it is.
        is_upright: Whether it marks a place on the horizontal axis.
    """

    at: float
    label: str
    is_upright: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """One pair of axes with its lines.

    Args:
        title: What stands above it.
        x_label: The horizontal axis, with unit.
        y_label: The vertical axis, with unit.
        lines: The series.
        levels: Lines across.
        x_scale: "linear", "log", "even" for places at equal distance, or "time" for seconds since
            1970, shown as dates in UTC.
        y_scale: "linear" or "log".
        y_limits: Ends of the vertical axis, where they must be the same in several charts.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    levels: tuple[Level, ...] = ()
    x_scale: Literal["linear", "log", "even", "time"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    y_limits: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A table drawn as colours with numbers.

    Args:
        title: What stands above it.
        x_label: What the columns are.
        y_label: What the rows are.
        columns: Their names.
        rows: Their names.
        values: The numbers, rows x columns; NaN stays blank.
        unit: What the numbers are, next to the scale of colours.
        limits: The numbers at the two ends of the scale.
    """

    title: str
    x_label: str
    y_label: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float]]
    unit: str
    limits: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Picture:
    """Lay out charts from left to right, then downwards.

    Args:
        charts: The charts.
        columns: How many stand side by side.
        chart_size: Width and height of one, in inches.
    """

    charts: tuple[Chart | HeatMap, ...]
    columns: int = 1
    chart_size: tuple[float, float] = (7.0, 3.6)
