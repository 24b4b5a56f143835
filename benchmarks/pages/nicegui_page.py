"""The Live page in NiceGUI: figures, a chart with its band, the ranges, both tables, live.

Started as ``python -m benchmarks.pages.nicegui_page FILE PORT``; FILE holds the answers of the
fusion centre that our page shows. A line on stdin lets a round come: everybody's page changes.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

from benchmarks.harness import peer

ui, app = peer("nicegui").ui, peer("nicegui").app

DATA = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
CHARTS: list[Any] = []
FIGURES: list[Any] = []


def options() -> dict[str, Any]:
    """Return the chart: a line in a band, over time."""
    points = DATA["points"]
    low = [[one["time"], one["low"]] for one in points]
    width = [
        [one["time"], None if one["value"] is None else one["high"] - one["low"]] for one in points
    ]
    band = {"type": "line", "stack": "band", "symbol": "none", "lineStyle": {"opacity": 0}}
    return {
        "animation": False,
        "tooltip": {"trigger": "axis"},
        "legend": {"data": ["estimate"]},
        "xAxis": {"type": "time"},
        "yAxis": {"type": "value", "name": DATA["unit"], "scale": True},
        "series": [
            {**band, "data": low},
            {**band, "data": width, "areaStyle": {"opacity": 0.2}},
            {
                "name": "estimate",
                "type": "line",
                "symbol": "none",
                "data": [[one["time"], one["value"]] for one in points],
            },
        ],
    }


def live() -> None:
    """Show everything."""
    newest = DATA["rounds"][0]
    ui.label("Live").classes("text-2xl")
    with ui.row():
        for name, value in (
            ("Estimate", f"{newest['mean']:.1f} {DATA['unit']}"),
            ("Reports", str(newest["n"])),
            ("Epsilon of a report", "1"),
            ("Newest round", newest["time"]),
        ):
            with ui.card():
                ui.label(name)
                FIGURES.append((name, ui.label(value)))
    with ui.card().classes("w-full"):
        ui.toggle(["5 min", "1 h", "6 h", "24 h", "7 days", "25 days"], value="7 days")
        CHARTS.append(ui.echart(options()))
        names = ("time", "status", "value", "low", "high", "n_low")
        columns = [{"name": name, "label": name, "field": name} for name in names]
        with ui.expansion("Show as a table"):
            rows = [{name: one[name] for name in names} for one in DATA["points"]]
            ui.table(columns=columns, rows=rows, pagination=10)
    with ui.card():
        ui.label("Last rounds")
        shown = ("time", "status", "mean", "n")
        columns = [{"name": name, "label": name, "field": name} for name in shown]
        rows = [{name: one.get(name) for name in shown} for one in DATA["rounds"][:8]]
        ui.table(columns=columns, rows=rows)


def obey() -> None:
    """Let a round come for each line."""
    for _ in sys.stdin:
        DATA["points"].append({**DATA["points"][-1]})
        for chart in CHARTS:
            chart.options.update(options())
            chart.update()
        for name, label in FIGURES:
            if name == "Reports":
                label.set_text(str(int(label.text) + 1))


ui.page("/")(live)
app.on_startup(lambda: threading.Thread(target=obey, daemon=True).start())
app.on_startup(lambda: print("listening", flush=True))
ui.run(
    host="127.0.0.1",
    port=int(sys.argv[2]),
    show=False,
    reload=False,
    show_welcome_message=False,
)
