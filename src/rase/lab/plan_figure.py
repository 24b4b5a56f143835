"""The picture of a plan: error against epsilon, split into bias and noise, for each estimator."""

import math
from itertools import pairwise
from typing import IO

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from rase.accounting.plan.parts import CurvePoint
from rase.accounting.plan.values import Plan

__all__ = ["draw_plan"]

# The palette of Okabe and Ito. The bootstrap mean has the bias of the sample mean, and no panel.
_PANELS = {
    "unbiased_mean": ("unbiased mean", "#0072B2"),
    "sample_mean": ("sample mean", "#D55E00"),
    "median": ("median", "#009E73"),
}
_BOUND = "#777777"
_CHOSEN = "#222222"
_LAWS = {"duchi": "one bit", "unbounded": "unclamped"}
_READINGS = {"worst": "worst case of the readings", "yours": "on your readings"}


def draw_plan(plan: Plan, file: IO[bytes], *, kind: str = "png") -> None:
    """Draw the error of each estimator against epsilon.

    Both axes are logarithmic. Broad is the whole error, dashed the bias, dotted the noise; vertical
    lines show the epsilon chosen, the bound ε* of budget-aware noise, and where the mechanism
    begins to draw from another law. The mechanism is that of the plan all along.

    Args:
        plan: A plan with a curve.
        file: Where the picture goes.
        kind: ``png`` or ``svg``.

    Raises:
        ValueError: If the plan has no curve.
    """
    if not plan.curve:
        raise ValueError("plan must have a curve; give candidate epsilons.")
    figure = Figure(figsize=(11, 4.6), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(_PANELS), sharex=True, sharey=True)
    for axes, name in zip(panels, _PANELS, strict=True):
        _draw(axes, plan, name)
    _limits(panels[0], plan)
    for axes in panels:
        _label_lines(axes, plan)
    panels[0].set_ylabel("root mean square error, unit of the readings")
    figure.supxlabel("epsilon of one report", fontsize=10)
    figure.suptitle(_title(plan), fontsize=11)
    panels[0].legend(
        [
            Line2D([], [], color="#444444", linestyle="-", linewidth=5, alpha=0.35),
            Line2D([], [], color="#444444", linestyle="--", linewidth=1.4),
            Line2D([], [], color="#444444", linestyle=":", linewidth=1.8),
        ],
        ["error", "bias", "noise"],
        loc="upper right",
        bbox_to_anchor=(1.0, 0.86),
        fontsize=9,
        edgecolor="none",
        framealpha=0.9,
    )
    # Fixed names and no date, so that the same plan gives the same file.
    with rc_context({"svg.hashsalt": "rase"}):
        figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None)


def _draw(axes: Axes, plan: Plan, name: str) -> None:
    title, colour = _PANELS[name]
    pieces = plan.curve_of(name)
    for points in pieces:
        _draw_piece(axes, points, colour, least=1e-6 * plan.request.value_range.width)
    for before, after in pairwise(pieces):
        _mark_change(axes, before[-1], after[0])
    # The number of the table, not one between its neighbours on the curve.
    chosen, at = plan.request.epsilon, plan.error(name, plan.curve_readings).window.total
    axes.plot([chosen], [at], "o", color=_CHOSEN, markersize=6, zorder=5)
    is_far_right = _is_far_right(chosen, plan)
    axes.annotate(
        f"{at:.3g}" if at < 1000 else f"{at:,.0f}",
        (chosen, at),
        xytext=(-8, -12) if is_far_right else (7, 5),
        textcoords="offset points",
        ha="right" if is_far_right else "left",
        fontsize=9,
        color=_CHOSEN,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1},
    )
    axes.set_title(title, loc="left", fontsize=10, color=colour)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(labelsize=9)


def _draw_piece(axes: Axes, points: list[CurvePoint], colour: str, *, least: float) -> None:
    """Draw a piece of the curve in which nothing but epsilon changes."""
    epsilons = [point.epsilon for point in points]
    bias = np.array([abs(point.error.bias) for point in points])
    total = np.array([point.error.total for point in points])
    # On a logarithmic axis nothing is infinitely far below; rounding is no bias.
    bias[bias < least] = np.nan
    # The whole error is broad and pale: bias or noise often lies on it.
    axes.loglog(epsilons, total, color=colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
    axes.loglog(epsilons, bias, color=colour, linewidth=1.4, linestyle="--")
    axes.loglog(
        epsilons,
        [point.error.noise for point in points],
        color=colour,
        linewidth=1.8,
        linestyle=":",
    )


def _mark_change(axes: Axes, before: CurvePoint, after: CurvePoint) -> None:
    """Mark where the mechanism switches to another law; no line is drawn across it."""
    axes.axvline(after.epsilon, color=_BOUND, linewidth=1, linestyle=":", alpha=0.7)
    for point, side, align in ((before, -3, "right"), (after, 3, "left")):
        axes.annotate(
            _LAWS.get(point.law, point.law),
            (after.epsilon, 0.015),
            xycoords=axes.get_xaxis_transform(),
            xytext=(side, 0),
            textcoords="offset points",
            color=_BOUND,
            fontsize=7.5,
            ha=align,
            va="bottom",
        )


def _limits(axes: Axes, plan: Plan) -> None:
    totals = [point.error.total for point in plan.curve]
    axes.set_xlim(plan.curve[0].epsilon, plan.curve[-1].epsilon)
    axes.set_ylim(min(totals) / 2.5, max(totals) * 2)


def _label_lines(axes: Axes, plan: Plan) -> None:
    first, last = axes.get_xlim()
    lines = [(plan.request.epsilon, "-", _CHOSEN, f"ε = {plan.request.epsilon:g}")]
    bound = plan.precision.epsilon_bound
    if plan.mechanism == "budget-aware" and first < bound < last:
        lines.append((bound, "--", _BOUND, f"ε* = {bound:.3g}"))
    for row, (place, style, colour, label) in enumerate(lines):
        axes.axvline(place, color=colour, linewidth=1, linestyle=style, alpha=0.7)
        is_far_right = _is_far_right(place, plan)
        axes.annotate(
            label,
            (place, 0.99 - 0.06 * row),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-4 if is_far_right else 4, 0),
            textcoords="offset points",
            color=colour,
            fontsize=9,
            ha="right" if is_far_right else "left",
            va="top",
        )
    wish = plan.request.error
    if wish is not None:
        axes.axhline(wish, color="#CC79A7", linewidth=1.2)
        axes.text(
            0.02,
            wish,
            f"wished: {wish:g}",
            transform=axes.get_yaxis_transform(),
            color="#CC79A7",
            fontsize=9,
            va="bottom",
        )


def _is_far_right(epsilon: float, plan: Plan) -> bool:
    """Return whether a label next to an epsilon must stand to its left."""
    first, last = plan.curve[0].epsilon, plan.curve[-1].epsilon
    return math.log(epsilon / first) > 0.7 * math.log(last / first)


def _title(plan: Plan) -> str:
    request = plan.request
    over = "one round" if request.window == 1 else f"a window of {request.window} rounds"
    how = plan.mechanism
    if request.mechanism == "auto":
        how += f" (the best at epsilon {request.epsilon:g})"
    return (
        f"Error of the mean of {over}, {request.devices} devices, {how}, "
        f"{_READINGS[plan.curve_readings]}"
    )
