"""What ``rase run`` draws: a picture of its rounds, and a page that needs no other file."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

import click

from rase.atomic_files import write_atomic
from rase.cli.output import WITHOUT, Row, as_json
from rase.errors import DataError
from rase.version import __version__

__all__ = ["check_pictures", "drawn_run"]

_PICTURES = (".png", ".svg")
# A page with more rows would be slow to open; the rest belongs in --out.
_ROWS_SHOWN = 1000
_SHOWN: Final[Sequence[str]] = (
    *("quantity", "time", "label", "of_rounds", "category", "method"),
    *("value", "low", "high", "n", "truth"),
)
# Columns that are left out where no row has one of it.
_SELDOM: Final = frozenset({"quantity", "label", "category"})


def check_pictures(plot: Path | None, page: Path | None, *, trials: int) -> None:
    """Refuse places for pictures that cannot be written, before any work is done.

    Raises:
        click.UsageError: If an ending is unknown, a folder is missing, or trials are many.
        DataError: If matplotlib is not installed.
    """
    if plot is None and page is None:
        return
    for option, path, endings in (("plot", plot, _PICTURES), ("html", page, (".html", ".htm"))):
        if path is None:
            continue
        if path.suffix.lower() not in endings:
            raise click.UsageError(f"--{option} must end in {' or '.join(endings)}, got {path}.")
        if path.is_dir() or not path.parent.is_dir():
            raise click.UsageError(
                f"--{option} must be a file in a folder that exists, got {path}."
            )
    if trials > 1:
        raise click.UsageError("--plot and --html show one run, not --trials.")
    try:
        import rase.lab.plots  # noqa: F401 - whether it can be imported
    except ModuleNotFoundError:
        raise DataError(
            'a picture needs matplotlib; install it with: pip install "rase-iot[plot]".'
        ) from None


def drawn_run(
    place: str,
    head: Mapping[str, Any],
    *,
    decimals: int | Mapping[str, int],
    plot: Path | None,
    page: Path | None,
) -> list[_DrawnRun]:
    """Return what draws a run; nothing where nothing is to be drawn.

    Args:
        place: What the table is called.
        head: What was asked, as in a JSON document.
        decimals: How many decimals numbers have; by quantity where there are several.
        plot: Where the picture goes.
        page: Where the page goes.
    """
    if plot is None and page is None:
        return []
    return [_DrawnRun(place, head, decimals, plot, page)]


class _DrawnRun:
    """Keep the rows of a run, and draw them at its end."""

    def __init__(
        self,
        place: str,
        head: Mapping[str, Any],
        decimals: int | Mapping[str, int],
        plot: Path | None,
        page: Path | None,
    ) -> None:
        self._place, self._head, self._decimals = place, head, decimals
        self._plot, self._page = plot, page
        self._rows: list[Row] = []
        self.written: list[Path] = []

    def add(self, row: Row) -> None:
        """Take the next row."""
        self._rows.append(row)

    def finish(self, tail: Mapping[str, Any]) -> None:
        """Draw the picture and write the page; neither if every round was withheld."""
        if not self._rows:
            return
        from rase.lab.plots import draw_picture

        vectors, pixels = draw_picture(_picture(self._rows, self._place))
        if self._plot is not None:
            is_svg = self._plot.suffix.lower() == ".svg"
            write_atomic(self._plot, vectors if is_svg else pixels)
            self.written.append(self._plot)
        if self._page is not None:
            write_atomic(self._page, self._html(vectors.decode(), tail).encode())
            self.written.append(self._page)

    def _html(self, svg: str, tail: Mapping[str, Any]) -> str:
        from rase.lab.report import STYLE, inline_svg

        title = f"{self._place}: means of the fleet"
        closing = "".join(
            f"<dt>{_CLOSING[name]}</dt><dd>{_text(sentence).replace(chr(10), '<br>')}</dd>"
            for name, sentence in tail["closing"].items()
        )
        notes = [*tail.get("promises", [tail["guarantee"]]), tail["publish_once"]]
        promised = "".join(f"<li>{_text(one)}</li>" for one in notes)
        summary = "".join(
            f"<dt>{_text(name.replace('_', ' '))}</dt><dd>{_text(str(value))}</dd>"
            for name, value in tail["summary"].items()
            if value is not None
        )
        seeded = self._head["parameters"]["seed"] is not None
        study = "<p><strong>Seeded noise: for study only, protects nobody.</strong></p>"
        return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{_text(title)}</title><style>{STYLE}{_WIDE}</style></head><body>
<h1>{_text(title)}</h1>
<p class="where">{_text(_span(self._rows))} · RASE {__version__}</p>
{study if seeded else ""}<dl>{closing}</dl>
<figure>{inline_svg(svg, "run", title)}
<figcaption>{_text(_caption(self._head))}</figcaption></figure>
<section><h2>What was promised</h2><ul>{promised}</ul></section>
<section><h2>Rounds</h2>{self._table()}</section>
<section><h2>What was done</h2><dl>{summary}</dl>
<details><summary>Every setting</summary><p><code>{_text(as_json(self._head["parameters"]))}</code>
</p></details></section>
</body></html>
"""

    def _table(self) -> str:
        # Rounds by themselves need no column that says so.
        has_windows = any(row["of_rounds"] > 1 for row in self._rows)
        idle = () if has_windows else ("rounds", "of_rounds")
        there = {name for name in _SELDOM if any(row[name] is not None for row in self._rows)}
        names = [
            name
            for name in _SHOWN
            if name in self._rows[0] and name not in idle and (name in there or name not in _SELDOM)
        ]
        head = "".join(f"<th>{_text(name.replace('_', ' '))}</th>" for name in names)
        body = "".join(
            f"<tr>{''.join(f'<td>{_text(self._cell(row, name))}</td>' for name in names)}</tr>"
            for row in self._rows[:_ROWS_SHOWN]
        )
        more = len(self._rows) - _ROWS_SHOWN
        left = f"<p>{more} more rows are left out; --out writes all.</p>" if more > 0 else ""
        return (
            f'<div class="scroll tall" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>{left}"
        )

    def _cell(self, row: Row, name: str) -> str:
        value, decimals = row[name], self._decimals
        if not isinstance(decimals, int):
            decimals = decimals[row["quantity"]]
        if value is None:
            return WITHOUT.get(name, "unknown")
        return f"{value:.{decimals}f}" if isinstance(value, float) else str(value)


# The one picture of the page is as wide as its text.
_WIDE = "figure svg{width:100%}"
_CLOSING = {"says": "What it says", "sure": "How sure", "promised": "What was promised"}


def _picture(rows: Sequence[Row], place: str) -> Any:
    """Return the picture of all rounds, or of all windows where these were asked for."""
    from rase.lab.pictures import Picture

    names = dict.fromkeys(row["quantity"] for row in rows)
    charts = [
        _chart([row for row in rows if row["quantity"] == name], name or place) for name in names
    ]
    return Picture(tuple(charts), chart_size=(9.0, 4.2))


def _chart(rows: Sequence[Row], title: str) -> Any:
    """Return the chart of one quantity, a line for each estimator or category, and for labels."""
    from rase.lab.pictures import Chart, Line

    is_share = rows[0]["category"] is not None
    lines = []
    for (name, label, is_window), some in _by_line(rows).items():
        of_label = "" if label is None else f", {label}"
        lines.append(_line(some, f"{name}{of_label}{', windows' if is_window else ''}", Line))
    first = next(iter(_by_line(rows).values()))
    if "truth" in first[0]:
        moments = [_seconds(row) for row in first]
        lines.append(Line("truth", moments, [row["truth"] for row in first], look="truth"))
    what = "share" if is_share else "mean"
    return Chart(
        f"{title}: {what} of the reporting devices, with its interval",
        "time (UTC)",
        what,
        tuple(lines),
        x_scale="time",
    )


def _by_line(rows: Sequence[Row]) -> dict[tuple[str, str | None, bool], list[Row]]:
    """Return rows by what they are of: estimator or category, label, and whether a window."""
    found: dict[tuple[str, str | None, bool], list[Row]] = {}
    for row in rows:
        is_window = row["of_rounds"] > 1
        found.setdefault((row["category"] or row["estimator"], row["label"], is_window), []).append(
            row
        )
    # Windows are drawn for the first estimator alone, and behind the rounds.
    first = next(iter(found))[0]
    shown = [one for one in found if not one[2]] + [
        one for one in found if one[2] and (one[0] == first or rows[0]["category"])
    ]
    return {one: found[one] for one in shown}


def _line(rows: Sequence[Row], label: str, make: Any) -> Any:
    """Return one series; where rounds are missing it has a gap instead of a slope."""
    x = [_seconds(row) for row in rows]
    usual = median(later - earlier for earlier, later in pairwise(x)) if len(x) > 1 else 0.0
    columns: dict[str, list[float]] = {"x": [], "y": [], "low": [], "high": []}
    for place, row in enumerate(rows):
        if place and x[place] - x[place - 1] > 1.5 * usual:
            for name in ("y", "low", "high"):
                columns[name].append(math.nan)
            columns["x"].append((x[place] + x[place - 1]) / 2)
        columns["x"].append(x[place])
        columns["y"].append(row["value"])
        for name in ("low", "high"):
            bound = row[name]
            columns[name].append(math.nan if bound is None else bound)
    return make(label, **columns, look=label)


def _seconds(row: Row) -> float:
    return datetime.fromisoformat(row["time"]).timestamp()


def _span(rows: Sequence[Row]) -> str:
    return f"{rows[0]['time']} to {rows[-1]['until'] or rows[-1]['time']}"


def _caption(head: Mapping[str, Any]) -> str:
    level = 100 * head["parameters"]["level"]
    return (
        f"Line: the estimate of each round. Band: its {level:g} % interval. Gaps: rounds of which "
        "nothing was released."
    )


def _text(text: str) -> str:
    return html.escape(text, quote=True)
