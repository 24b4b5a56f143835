"""Measured against sent as a picture: SVG without styles or scripts of its own."""

from collections.abc import Callable
from typing import Final

from rase.campaign import Campaign
from rase.device.mirror import RoundSeen
from rase.device.page.markup import Markup, tag
from rase.look.words import moment, number

__all__ = ["chart"]

_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 12.0, 26.0, 30.0
# The style sheet shows one of them: letters stay as large on a phone as elsewhere.
_SHAPES: Final = {"wide": (720.0, 260.0), "narrow": (340.0, 250.0)}


def chart(rounds: list[RoundSeen], campaign: Campaign) -> list[Markup] | None:
    """Draw both of the last rounds over the campaign's range; None if there is nothing to draw.

    Args:
        rounds: Newest first.
        campaign: Whose range is the height.
    """
    shown = [one for one in reversed(rounds) if one.measured is not None or one.sent is not None]
    if len(shown) < 2:
        return None
    return [_drawn(shown, campaign, shape) for shape in _SHAPES]


def _drawn(shown: list[RoundSeen], campaign: Campaign, shape: str) -> Markup:
    width, height = _SHAPES[shape]
    first, last = shown[0].round, shown[-1].round
    values = [value for one in shown for value in (one.measured, one.sent) if value is not None]
    low, high = min(campaign.low, *values), max(campaign.high, *values)

    def x(round: int) -> float:
        return _LEFT + (width - _LEFT - _RIGHT) * (round - first) / max(last - first, 1)

    def y(value: float) -> float:
        return _TOP + (height - _TOP - _BOTTOM) * (high - value) / (high - low)

    def dot(one: RoundSeen, value: float, kind: str) -> Markup:
        return tag("circle", cx=f"{x(one.round):.1f}", cy=f"{y(value):.1f}", r=3, class_=kind)

    middle = low / 2 + high / 2
    marks = [
        tag(
            "g",
            tag("line", x1=_LEFT, x2=width - _RIGHT, y1=f"{y(at):.1f}", y2=f"{y(at):.1f}"),
            tag("text", number(at), x=_LEFT - 6, y=f"{y(at) + 4:.1f}", text_anchor="end"),
            class_="axis",
        )
        for at in (low, middle, high)
    ]
    form = "%H:%M" if (last - first) * campaign.round_s < 86400 else "%m-%d %H:%M"
    ends = [
        tag(
            "text",
            moment(round * campaign.round_s, form),
            x=f"{x(round):.1f}",
            y=height - 8,
            text_anchor=anchor,
        )
        for round, anchor in ((first, "start"), (last, "end"))
    ]
    return tag(
        "svg",
        marks,
        tag("g", ends, tag("text", campaign.unit, x=4, y=14), class_="axis"),
        # What was measured is a line, what was sent are dots: told apart without colours.
        [tag("path", d=line, class_="measured") for line in _lines(shown, x, y)],
        [dot(one, one.measured, "measured") for one in shown if one.measured is not None],
        [dot(one, one.sent, "sent") for one in shown if one.sent is not None],
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        class_=f"owner-chart {shape}",
        role="img",
        aria_label=(
            f"What was measured and what was sent in {len(shown)} rounds, in "
            f"{campaign.unit or 'their unit'}; the table below has the same numbers."
        ),
    )


def _lines(
    shown: list[RoundSeen], x: Callable[[int], float], y: Callable[[float], float]
) -> list[str]:
    """Return a path for each run of rounds that follow each other and were measured."""
    lines: list[str] = []
    before: int | None = None
    for one in shown:
        if one.measured is None:
            before = None
            continue
        point = f"{x(one.round):.1f} {y(one.measured):.1f}"
        if before == one.round - 1:
            lines[-1] += f" L{point}"
        else:
            lines.append(f"M{point}")
        before = one.round
    return lines
