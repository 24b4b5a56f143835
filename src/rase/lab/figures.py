"""Pictures of studies, drawn without a screen."""

from collections.abc import Sequence
from typing import IO

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from rase.series.score import WindowResult
from rase.series.window import window

__all__ = ["draw_trace"]

# The palette of Okabe and Ito, which most colour-blind readers can tell apart. The sample mean is
# broad, because the bootstrap mean lies on it.
_LOOKS = {
    "tracked": ("#CC79A7", "-", "s", 1.5),
    "unbiased_mean": ("#0072B2", "-", "o", 1.5),
    "sample_mean": ("#E69F00", "-", "", 6.0),
    "bootstrap_mean": ("#D55E00", "--", "^", 1.2),
    "median": ("#009E73", "-", "D", 1.5),
}
_TRUTH = "#222222"


def draw_trace(
    days: Sequence[WindowResult], file: IO[bytes], *, title: str, unit: str = "W"
) -> None:
    """Draw the truth against the estimators, day by day (after Fig. 9), as a PNG file.

    Above all estimators; below the first one alone with its 95 % interval, and the unbiased mean of
    all days so far, whose interval shrinks.

    Args:
        days: One window a day, in order, each with its truth.
        file: Where the picture goes.
        title: What was run.
        unit: The unit of the readings.
    """
    figure = Figure(figsize=(9, 8), dpi=150, layout="constrained")
    figure.suptitle(title, fontsize=12)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.15))
    numbers = np.arange(1, len(days) + 1)
    truth = np.array([np.nan if day.truth is None else day.truth for day in days])
    _draw_all(above, numbers, truth, days)
    _draw_closer(below, numbers, truth, days)
    above.set_title("Mean of each day", loc="left", fontsize=10)
    below.set_title("Closer", loc="left", fontsize=10)
    for axes in (above, below):
        axes.set_ylabel(f"mean power of the fleet ({unit})")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    below.set_xlabel("day")
    figure.savefig(file, format="png")


def _draw_all(
    axes: Axes, numbers: NDArray[np.int64], truth: NDArray[np.float64], days: Sequence[WindowResult]
) -> None:
    for name in days[0].estimates:
        colour, line, marker, width = _LOOKS[name]
        values = [day.estimates[name].value for day in days]
        label = name.replace("_", " ")
        axes.plot(
            numbers,
            values,
            line,
            color=colour,
            linewidth=width,
            marker=marker,
            markersize=4,
            label=label,
            alpha=0.6 if width > 2 else 1.0,
        )
    axes.plot(numbers, truth, color=_TRUTH, linewidth=2.2, label="truth")
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 1.13), ncols=6, fontsize=8, frameon=False)
    axes.margins(y=0.08)


def _draw_closer(
    axes: Axes, numbers: NDArray[np.int64], truth: NDArray[np.float64], days: Sequence[WindowResult]
) -> None:
    first = next(iter(days[0].estimates))
    daily = [day.estimates[first] for day in days]
    intervals = np.array([one.interval() for one in daily])
    values = np.array([one.value for one in daily])
    axes.errorbar(
        numbers,
        values,
        # A value may lie outside the range, and then outside its interval.
        yerr=np.maximum([values - intervals[:, 0], intervals[:, 1] - values], 0.0),
        fmt="o",
        color=_LOOKS[first][0],
        alpha=0.8,
        markersize=4,
        elinewidth=1,
        capsize=2,
        label=f"{first.replace('_', ' ')}, each day, 95 % interval",
    )
    colour = _LOOKS["unbiased_mean"][0]
    alone = [day.estimates["unbiased_mean"] for day in days]
    so_far = [window(alone[:count], count)[0] for count in range(1, len(alone) + 1)]
    bands = np.array([one.interval() for one in so_far if one is not None])
    means = [one.value for one in so_far if one is not None]
    axes.fill_between(numbers, bands[:, 0], bands[:, 1], color=colour, alpha=0.15, linewidth=0)
    axes.plot(numbers, means, color=colour, linewidth=2, label="unbiased mean of all days so far")
    axes.plot(numbers, truth, color=_TRUTH, linewidth=2.2, label="truth")
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 1.1), ncols=3, fontsize=8, frameon=False)
    axes.margins(y=0.08)
