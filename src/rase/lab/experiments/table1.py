"""Table I again, from whatever readings are used."""

import numpy as np

from rase.lab.experiments.study import Check, Experiment, Findings, Row, Setup, Steps
from rase.lab.pictures import Chart, Level, Line, Picture
from rase.lab.table_one import TableOneRow, table_one

__all__ = ["TABLE1"]


def data_table(setup: Setup) -> Steps:
    """Describe the readings by the columns of Table I."""
    yield []
    panel = setup.panel
    rows = table_one(panel)
    means = np.nanmean(panel.values, axis=0)
    largest = np.nanmax(panel.values, axis=0)
    ranked = np.argsort(means, kind="stable")
    numbers = np.arange(1, panel.n + 1)
    chart = Chart(
        "",
        "device, sorted by its mean",
        f"reading ({panel.unit})",
        tuple(
            Line(
                label,
                numbers[values[ranked] > 0].tolist(),
                values[ranked][values[ranked] > 0].tolist(),
                style="dots",
            )
            for label, values in (("mean of a device", means), ("its largest reading", largest))
        ),
        levels=(
            Level(setup.table_high, f"upper end of the range, {setup.table_high:g} {panel.unit}"),
        ),
        y_scale="log",
    )
    return Findings(
        tuple(_row(row) for row in rows),
        Picture((chart,)),
        " ".join(_words(row, panel.unit) for row in rows),
        (
            Check(
                "Single readings leave the printed data range: it fits means of houses at best.",
                bool(np.nanmax(panel.values) > setup.table_high),
                is_departure=True,
            ),
        ),
    )


def _row(row: TableOneRow) -> Row:
    return {
        "part": row.group,
        "houses": f"{len(row.houses)}" if row.houses else "unknown",
        "device_types": "unknown" if row.device_types is None else row.device_types,
        "sensors": row.sensors,
        "fewest_of_a_house": "unknown" if row.sensors_per_house is None else row.sensors_per_house,
        "mean_low": round(row.low, 3),
        "mean_high": round(row.high, 3),
        "reading_low": round(row.reading_low, 3),
        "reading_high": round(row.reading_high, 3),
        "months": row.months,
    }


def _words(row: TableOneRow, unit: str) -> str:
    kinds = "an unknown number of" if row.device_types is None else row.device_types
    return (
        f"{row.group.capitalize()} houses: {row.sensors} sensors of {kinds} types, means of a "
        f"round in [{row.low:.3f}, {row.high:.3f}] {unit}, single readings in "
        f"[{row.reading_low:g}, {row.reading_high:g}] {unit}, {row.months} calendar months."
    )


TABLE1 = Experiment(
    name="table1",
    figure="Table I",
    title="Statistics of the data",
    paper_says="Training houses 1 to 17: 24 device types, at least 11 sensors, data range [3.9, "
    "178.3], 8 months. Test houses 18 to 21: 11 types, at least 13 sensors, [11.8, 99.027], 14 "
    "months.",
    why="Power of appliances goes from 0 to some kilowatts, so the printed range cannot be that of "
    "readings; the mean of a group in a round has about that size. REFIT has no house 14, and nine "
    "appliances a house, not 11 or 13 sensors. The table describes whatever readings are used.",
    choices={
        "data range": "of the mean of a group in a round; single readings beside it",
        "houses": "1 to 17 and 18 on, by device name",
    },
    steps=data_table,
)
