"""Pictures drawn with matplotlib, without a display: the same values give the same bytes."""

import io
import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, num2date
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from rase.lab.pictures import Chart, HeatMap, Line, Picture

__all__ = ["draw_picture"]

# The palette of Okabe and Ito, which most colour-blind readers can tell apart. What appears in
# several pictures keeps its colour and marker.
_LOOKS = {
    "raw": ("#000000", "s"),
    "br": ("#D55E00", "^"),
    "br-mallows": ("#E69F00", "D"),
    "laplace-fisher": ("#56B4E9", "v"),
    "rase-paper": ("#CC79A7", "o"),
    "rase": ("#009E73", "P"),
    "best": ("#0072B2", "X"),
    "truth": ("#222222", ""),
    "chance": ("#666666", ""),
    "formula": ("#666666", ""),
    "sample_mean": ("#E69F00", "s"),
    "median": ("#009E73", "D"),
    "bootstrap_mean": ("#D55E00", "^"),
    "unbiased_mean": ("#0072B2", "o"),
    "tracked": ("#CC79A7", "X"),
    "history": ("#000000", ""),
    "last": ("#999999", ""),
    "precision": ("#E69F00", "^"),
    "recall": ("#0072B2", "o"),
}
_OTHERS = (
    ("#0072B2", "o"),
    ("#D55E00", "^"),
    ("#009E73", "D"),
    ("#CC79A7", "s"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
    ("#000000", "X"),
    ("#8C6D31", "*"),
)
_MARKS_UP_TO = 40
_DAY_S = 86_400
_LEGEND_ROW_IN = 0.24
_SETTINGS: Any = {
    "svg.hashsalt": "rase",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


def draw_picture(picture: Picture) -> tuple[bytes, bytes]:
    """Draw a picture; return it as SVG, with text as text, and as PNG.

    Example:
        >>> chart = Chart("t", "x", "y", (Line("a", [1, 2], [3, 4]),))
        >>> draw_picture(Picture((chart,))) == draw_picture(Picture((chart,)))
        True
    """
    svg, png = io.BytesIO(), io.BytesIO()
    with mpl.rc_context(_SETTINGS):
        figure = _figure(picture)
        # Without a date or the version of matplotlib, files differ only where pictures do.
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(png, format="png", dpi=110, metadata={"Software": None})
    return svg.getvalue(), png.getvalue()


def _figure(picture: Picture) -> Figure:
    columns = min(picture.columns, len(picture.charts))
    rows = math.ceil(len(picture.charts) / columns)
    width, height = picture.chart_size
    shared = _shared_labels(picture)
    legend_columns = max(min(len(shared), int(columns * width / 1.6)), 1)
    legend_in = _LEGEND_ROW_IN * math.ceil(len(shared) / legend_columns) if shared else 0.0
    figure = Figure(figsize=(columns * width, rows * height + legend_in), layout="constrained")
    axes_grid = figure.subplots(rows, columns, squeeze=False)
    handles: dict[str, Any] = {}
    for place, axes in enumerate(axes_grid.flat):
        if place >= len(picture.charts):
            axes.set_visible(False)
            continue
        chart = picture.charts[place]
        if isinstance(chart, HeatMap):
            _draw_heat(axes, chart)
        else:
            _draw_chart(axes, chart)
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
            if not shared:
                _legend_below(axes, 3 if width > 5.5 else 2)
            if place % columns and _is_repeated(picture, place):
                axes.set_ylabel("")
    if shared:
        figure.legend(
            [handles[label] for label in shared],
            shared,
            loc="outside lower center",
            ncols=legend_columns,
        )
    return figure


def _legend_below(axes: Axes, columns: int) -> None:
    count = len(axes.get_legend_handles_labels()[1])
    if count:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=min(count, columns))


def _shared_labels(picture: Picture) -> list[str]:
    """Return the labels of one legend below all charts, if several charts share series."""
    charts = [chart for chart in picture.charts if isinstance(chart, Chart)]
    labels = [
        [line.label for line in chart.lines if line.label]
        + [level.label for level in chart.levels if not level.is_upright]
        for chart in charts
    ]
    if len(charts) > 1 and any(set(one) & set(labels[0]) for one in labels[1:]):
        return list(dict.fromkeys(label for one in labels for label in one))
    return []


def _is_repeated(picture: Picture, place: int) -> bool:
    """Return whether the chart to the left has the same vertical axis, label and limits."""
    here, left = picture.charts[place], picture.charts[place - 1]
    return isinstance(here, Chart) and isinstance(left, Chart) and here.y_label == left.y_label


def _draw_chart(axes: Axes, chart: Chart) -> None:
    # Places at equal distance are drawn by number and labelled by value.
    places = sorted({x for line in chart.lines for x in line.x}) if chart.x_scale == "even" else []
    for number, line in enumerate(chart.lines):
        _draw_line(axes, line, number, places)
    left_out = ""
    if chart.x_scale == "time":
        left_out = _time_axis(axes)
    elif chart.x_scale == "log":
        _log_axis(axes, sorted({x for line in chart.lines for x in line.x}))
    elif places:
        axes.set_xticks(range(len(places)), [f"{place:g}" for place in places])
    elif all(float(x).is_integer() for line in chart.lines for x in line.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    if chart.y_scale == "log":
        axes.set_yscale("log")
        _few_decades(axes)
    for level in chart.levels:
        if level.is_upright:
            axes.axvline(level.at, color="#666666", linewidth=1, linestyle=":")
            axes.annotate(
                level.label,
                (level.at, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, -2),
                textcoords="offset points",
                va="top",
                color="#444444",
            )
        else:
            axes.axhline(level.at, color="#666666", linewidth=1, linestyle=":", label=level.label)
    if chart.y_limits is not None:
        axes.set_ylim(*chart.y_limits)
    axes.set_title(chart.title, loc="left")
    axes.set_xlabel(f"{chart.x_label}, {left_out}" if left_out else chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.grid(alpha=0.25)


def _draw_line(axes: Axes, line: Line, number: int, places: Sequence[float]) -> None:
    colour, marker = _LOOKS.get(line.look or line.label, _OTHERS[number % len(_OTHERS)])
    x = [places.index(place) for place in line.x] if places else list(line.x)
    if line.low is not None and line.high is not None:
        axes.fill_between(x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    is_dots = line.style == "dots"
    axes.plot(
        x,
        line.y,
        linestyle={"solid": "-", "dashed": "--", "dots": ""}[line.style],
        marker=marker if is_dots or len(x) <= _MARKS_UP_TO else "",
        markersize=3 if is_dots else 4,
        alpha=0.75 if is_dots else 1.0,
        linewidth=1.4,
        color=colour,
        label=line.label,
    )


def _time_axis(axes: Axes) -> str:
    """Label seconds since 1970 with dates and hours in UTC; return what the labels leave out."""
    low, high = axes.get_xlim()
    locator: Any = AutoDateLocator(maxticks=8)  # type: ignore[no-untyped-call]
    formatter: Any = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    ends: Any = num2date([low / _DAY_S, high / _DAY_S])  # type: ignore[no-untyped-call]
    ticks = [float(day) * _DAY_S for day in locator.tick_values(*ends)]
    inside = [tick for tick in ticks if low <= tick <= high]
    labels = formatter.format_ticks([tick / _DAY_S for tick in inside])
    axes.set_xticks(inside, labels)
    left_out = str(formatter.get_offset())
    # Where midnights among hours are labelled with their dates only the year is left out.
    return left_out[:4] if any("-" in label for label in labels) else left_out


def _log_axis(axes: Axes, places: Sequence[float]) -> None:
    """Label a logarithmic axis at the places measured, as far as they leave room."""
    axes.set_xscale("log")
    ticks: list[float] = []
    least = (math.log(places[-1]) - math.log(places[0])) / 13
    for place in places:
        if not ticks or math.log(place) - math.log(ticks[-1]) >= least:
            ticks.append(place)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _few_decades(axes: Axes) -> None:
    """Label 1, 2 and 5 where a logarithmic axis spans so few decades that powers are too rare."""
    low, high = axes.get_ylim()
    if high / low < 300:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.yaxis.set_minor_locator(NullLocator())


def _short(value: float) -> str:
    if value < 1e5:
        return f"{value:g}"
    power = math.floor(math.log10(value) + 1e-9)
    return f"{value / 10**power:g}e{power}"


def _draw_heat(axes: Axes, chart: HeatMap) -> None:
    table = np.array(chart.values, dtype=np.float64)
    low, high = chart.limits
    image = axes.imshow(table, cmap="cividis", vmin=low, vmax=high, aspect="auto")
    for (row, column), value in np.ndenumerate(table):
        if not math.isnan(value):
            is_dark = value < low + 0.55 * (high - low)
            axes.text(
                column,
                row,
                f"{value:.3g}" if value < 99.95 else "100",
                ha="center",
                va="center",
                color="white" if is_dark else "black",
            )
    axes.set_xticks(range(len(chart.columns)), chart.columns)
    axes.set_yticks(range(len(chart.rows)), chart.rows)
    axes.set_title(chart.title, loc="left", fontsize=9)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.spines[:].set_visible(False)
    axes.figure.colorbar(image, ax=axes, label=chart.unit, shrink=0.85)
