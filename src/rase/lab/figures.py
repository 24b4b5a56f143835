"""Pictures of a demonstration, drawn without a display."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Curve", "draw_curves"]

# The palette of Okabe and Ito, which most colour-blind readers can tell apart.
_ESTIMATE = "#0072B2"
_TRUTH = "#222222"
_WITHHELD = "#999999"
_HOURS = 24


@dataclass(frozen=True, slots=True)
class Curve:
    """Estimates hour by hour, as one panel of a picture.

    Args:
        title: What is seen.
        truth: The true mean of each hour.
        value: The estimate of each hour; None if it was withheld.
        low: The lower end of its 95 % interval.
        high: The upper end.
    """

    title: str
    truth: Sequence[float]
    value: Sequence[float | None]
    low: Sequence[float | None]
    high: Sequence[float | None]


def draw_curves(
    curves: Sequence[Curve], file: IO[bytes], *, title: str, first_day: int, unit: str = "W"
) -> None:
    """Draw estimates against the truth, a panel for each curve, as a PNG file.

    Args:
        curves: The panels, from above.
        file: Where the picture goes.
        title: What was run.
        first_day: The weekday of the first hour, 0 for Monday.
        unit: The unit of the readings.

    Raises:
        ModuleNotFoundError: If Matplotlib is not installed.
    """
    # Data without pictures needs no Matplotlib.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6 * len(curves)), dpi=150, layout="constrained")
    figure.suptitle(title, fontsize=12)
    panels = figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0]
    for axes, curve in zip(panels, curves, strict=True):
        _draw_curve(axes, curve)
        axes.set_ylabel(f"mean power of a home ({unit})")
    panels[0].legend(loc="upper left", ncols=4, fontsize=8, frameon=False)
    _mark_days(panels[-1], hours=len(curves[0].truth), first_day=first_day)
    figure.savefig(file, format="png")


def _draw_curve(axes: "Axes", curve: Curve) -> None:
    hours = np.arange(len(curve.truth)) + 0.5
    value, low, high = (
        np.array([np.nan if one is None else one for one in numbers])
        for numbers in (curve.value, curve.low, curve.high)
    )
    axes.fill_between(
        hours, low, high, color=_ESTIMATE, alpha=0.2, linewidth=0, label="95 % interval"
    )
    axes.plot(hours, curve.truth, color=_TRUTH, linewidth=1.6, label="truth")
    axes.plot(
        hours, value, color=_ESTIMATE, linewidth=1.6, marker="o", markersize=3, label="estimate"
    )
    withheld = hours[np.isnan(value)]
    for number, hour in enumerate(withheld):
        label = "withheld: too few reported" if number == 0 else None
        axes.axvspan(hour - 0.5, hour + 0.5, color=_WITHHELD, alpha=0.3, linewidth=0, label=label)
    axes.set_title(curve.title, loc="left", fontsize=10)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0)
    axes.set_ylim(bottom=0)


def _mark_days(axes: "Axes", *, hours: int, first_day: int) -> None:
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    marks = range(0, hours + 1, 6)
    axes.set_xticks(
        marks,
        [
            f"{mark % _HOURS:02d}:00"
            + (f"\n{names[(first_day + mark // _HOURS) % 7]}" if mark % _HOURS == 0 else "")
            for mark in marks
        ],
    )
