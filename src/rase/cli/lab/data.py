"""``rase lab data``, ``fleet`` and ``prepare``: list, check, generate and prepare data sets."""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.atomic_files import replacing
from rase.cli.arguments import table_options, usage
from rase.cli.output import TextSink, check_out, show_progress
from rase.clock import parse_duration_s
from rase.errors import DataError
from rase.lab.fleet import SyntheticFleet
from rase.lab.sources import CHECKSUMS, SOURCES, check_file, data_folder

if TYPE_CHECKING:
    from rase.lab.datasets import Loaded
    from rase.tables.layouts import Columns

__all__ = ["data_command", "fleet_command", "prepare_command"]

_NOT_PRIVATE = (
    "these come from the readings themselves: a --range chosen from them is not private. Choose it "
    "from what you know of the quantity."
)
_NAMES_SHOWN = 5


@click.command("data", short_help="List data sets, or check one or a file of your own.")
@click.argument("source", required=False)
@click.option("--every", help="Length of a round, such as 1h; by default the data's interval.")
@click.option(
    "--devices", type=int, help="Keep only this many devices, those with the most readings."
)
@click.option("--start", help="Skip everything earlier, such as 2014-06-08 (UTC).")
@click.option("--end", help="Skip this moment and everything later.")
@click.option(
    "--min-coverage",
    type=float,
    default=0.5,
    show_default=True,
    help="Share of a round that must have readings.",
)
@table_options("the table")
@click.option("--mains", is_flag=True, help="Count the mains of the REFIT download as devices.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def data_command(
    *,
    source: str | None,
    every: str | None,
    devices: int | None,
    start: str | None,
    end: str | None,
    min_coverage: float,
    columns: "Columns",
    dialect: dict[str, Any],
    mains: bool,
    as_json: bool,
) -> None:
    """List data sets, or check one or a file of your own.

    Without SOURCE: the prepared data sets, whether they are in the folder that RASE_DATA names, and
    whether they are as published. With SOURCE, a name or a path: how it is read, what is missing
    in it, and Table I of the paper computed from it.
    """
    if source is None:
        _list(as_json=as_json)
        return
    try:
        from rase.lab.datasets import Wanted, load
        from rase.tables.columns import Hints
    except ModuleNotFoundError as error:
        raise DataError('reading data needs pyarrow; pip install "rase-iot[lab]".') from error
    with usage():
        wanted = Wanted(
            every=every,
            devices=devices,
            start=start,
            end=end,
            min_coverage=min_coverage,
            columns=columns,
            hints=Hints(**dialect),
            has_mains=mains,
        )
    with show_progress() as show:
        loaded = load(source, wanted, on_progress=lambda share: show("reading", share))
    found = _check_document(source, loaded)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        _print_statistics(found)


@click.command("fleet", short_help="Write the readings of a synthetic fleet to a file.")
@click.option("--devices", type=int, default=64, show_default=True, help="Appliances.")
@click.option("--days", type=int, default=25, show_default=True, help="Days.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the fleet.")
@click.option("--interval", default="1h", show_default=True, help="Time between readings.")
@click.option(
    "--outages-per-year",
    type=float,
    default=6.0,
    show_default=True,
    help="How often the collection of a home fails.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="The file, .csv or .parquet; it appears when it is complete.",
)
def fleet_command(
    *, devices: int, days: int, seed: int, interval: str, outages_per_year: float, out: Path
) -> None:
    """Write the readings of a synthetic fleet to a file.

    Homes with appliances, routines, weekends, seasons and outages, nobody's in particular. The same
    seed gives the same file.
    """
    if out.suffix not in {".csv", ".parquet"}:
        raise click.BadParameter(f"--out must end in .csv or .parquet, got {out.name!r}.")
    check_out(out)
    with usage():
        fleet = SyntheticFleet(
            devices,
            days,
            seed,
            interval_s=parse_duration_s(interval),
            outages_per_year=outages_per_year,
        )
    try:
        from rase.lab.fleet_file import write_fleet
    except ModuleNotFoundError as error:
        raise DataError('writing tables needs pyarrow; pip install "rase-iot[lab]".') from error
    with show_progress() as show, replacing(out) as file:
        rows = write_fleet(
            fleet,
            file,
            suffix=out.suffix,
            on_progress=lambda share: show("simulating", share),
        )
    click.echo(f"{rows} rows of {devices} devices over {days} days in {out}.", err=True)


def _list(*, as_json: bool) -> None:
    folder = data_folder()
    states = {file: "absent" if folder is None else check_file(folder / file) for file in CHECKSUMS}
    if as_json:
        document = {
            "schema": "rase.lab.data/1",
            "folder": None if folder is None else str(folder),
            "sources": [
                {**asdict(source), "sha256": source.sha256, "state": states[source.file]}
                for source in SOURCES.values()
            ],
            "files": [
                {"file": file, "sha256": checksum, "state": states[file]}
                for file, checksum in CHECKSUMS.items()
            ],
        }
        click.echo(json.dumps(document, indent=2))
        return
    widths = {"name": 13, "state": 7, "devices": 7, "interval": 8, "rows": 9, "span": 24}
    sink = TextSink(sys.stdout, {**widths, "licence": 12, "holds": 20}, decimals=0)
    for source in SOURCES.values():
        sink.add(
            {
                **asdict(source),
                "state": states[source.file],
                "span": " to ".join(source.span),
                "holds": source.title,
            }
        )
    synthetic = {"name": "fleet", "state": "made", "devices": 64, "interval": "1h", "rows": 38_400}
    sink.add({**synthetic, "span": "25 days", "licence": "-", "holds": "synthetic appliances"})
    sink.finish({})
    for line in _words(folder, states):
        click.echo(line, err=True)


def _words(folder: Path | None, states: dict[str, str]) -> list[str]:
    lines = [""]
    if folder is None:
        lines.append(
            "RASE_DATA names no folder: set it to the one with the data files. rase lab prepare "
            "makes refit-64x25d from a public download."
        )
    differing = [file for file, state in states.items() if state == "differs"]
    if differing:
        lines.append(f"not as published: {', '.join(differing)}; fetch them again.")
    lines.append(
        "Any CSV or Parquet file, wide table or REFIT folder will do too: rase lab data PATH."
    )
    return lines


def _check_document(source: str, loaded: "Loaded") -> dict[str, Any]:
    from rase.lab.resample import gaps_of
    from rase.lab.summary import summary_of
    from rase.lab.table_one import table_one

    panel = loaded.panel
    gaps = gaps_of(panel.values)
    summary = asdict(summary_of(panel))
    warnings = []
    if panel.n < 2:
        warnings.append("there is one device: nobody to confuse it with, so attacks refuse it.")
    if gaps.constant:
        named = ", ".join(panel.devices[place] for place in gaps.constant[:_NAMES_SHOWN])
        warnings.append(f"{len(gaps.constant)} devices never change, such as {named}.")
    return {
        "schema": "rase.lab.data.check/1",
        "source": source,
        "layout": loaded.layout,
        "rows": loaded.rows,
        "null_rows": loaded.nulls,
        "devices": panel.n,
        "unit": panel.unit,
        "interval_s": loaded.interval_ms / 1000,
        "own_interval_s": (
            None if loaded.own_interval_ms is None else loaded.own_interval_ms / 1000
        ),
        "rounds": panel.rounds,
        "first": _moment(int(panel.times_ms[0])),
        "last": _moment(int(panel.times_ms[-1])),
        "null_share": gaps.null_share,
        "empty_rounds": gaps.empty_rounds,
        "longest_gap_rounds": gaps.longest_empty,
        "constant_devices": len(gaps.constant),
        # JSON has no NaN: what is not known is null.
        "statistics": {
            name: None if math.isnan(value) else value for name, value in summary.items()
        },
        "statistics_warning": _NOT_PRIVATE,
        "table_one": [asdict(row) for row in table_one(panel)],
        "notes": list(loaded.notes),
        "warnings": warnings,
    }


def _print_statistics(found: dict[str, Any]) -> None:
    statistics, unit = found["statistics"], found["unit"]
    own = found["own_interval_s"]
    lines = [
        ("read as", found["layout"]),
        ("rows", f"{found['rows']}, {found['null_rows']} of them without a reading"),
        ("devices", str(found["devices"])),
        (
            "rounds",
            f"{found['rounds']} of {found['interval_s']:g} s; the data's own interval is "
            + ("irregular" if own is None else f"{own:g} s"),
        ),
        ("span", f"{found['first']} to {found['last']}"),
        ("gaps", _gap_line(found)),
        ("smallest", f"{statistics['low']:g} {unit}".rstrip()),
        ("largest", f"{statistics['high']:g} {unit}".rstrip()),
        *(("Table I", _table_line(row)) for row in found["table_one"]),
    ]
    for name, text in lines:
        click.echo(f"{name:9} {text}")
    for line in (*found["notes"], *found["warnings"], f"smallest and largest: {_NOT_PRIVATE}"):
        click.echo(line, err=True)


def _gap_line(found: dict[str, Any]) -> str:
    return (
        f"{100 * found['null_share']:.1f} % of readings missing, {found['empty_rounds']} rounds "
        f"without any, {found['longest_gap_rounds']} of them in a row"
    )


def _table_line(row: dict[str, Any]) -> str:
    houses = len(row["houses"]) or "unknown"
    kinds = "unknown" if row["device_types"] is None else row["device_types"]
    return (
        f"{row['group']}: houses {houses}, device types {kinds}, sensors {row['sensors']}, range "
        f"of means [{row['low']:.3f}, {row['high']:.3f}], months {row['months']}"
    )


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


@click.command("prepare", short_help="Make a data set from a public download, and check it.")
@click.argument("name", type=click.Choice(["refit-64x25d", "beijing"]))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="The Parquet file; it appears when it is complete and checked.",
)
@click.option(
    "--unchecked", is_flag=True, help="Write it even if its readings are not the published ones."
)
def prepare_command(*, name: str, folder: Path, out: Path, unchecked: bool) -> None:
    """Make a data set from a public download, and check it.

    For refit-64x25d, FOLDER holds the original houses, CLEAN_House1.csv and so on, or the published
    tables of their events, house1 and so on; for beijing, the unpacked files of the twelve
    stations. The readings are compared with the published ones by a SHA-256 that does not depend on
    who writes the file; where they differ nothing is written.
    """
    if out.suffix != ".parquet":
        raise click.BadParameter(f"--out must end in .parquet, got {out.name!r}.")
    check_out(out)
    try:
        import pyarrow.parquet

        make = _make_refit if name == "refit-64x25d" else _make_beijing
    except ModuleNotFoundError as error:
        raise DataError('reading data needs pyarrow; pip install "rase-iot[lab]".') from error
    with show_progress() as show:
        table, found, published = make(folder, lambda share: show("reading", share))
    is_published = found == published
    if not is_published and not unchecked:
        raise DataError(
            f"the readings made from {folder} are not the published ones of {name}: their SHA-256 "
            f"is {found}, that of the published {published}. Compare the download with its "
            "source, or write them as they are with --unchecked."
        )
    with replacing(out) as file:
        pyarrow.parquet.write_table(table, file, compression="zstd")
    devices = len(table.column("device").unique())
    click.echo(f"{table.num_rows} rows of {devices} devices in {out}.", err=True)
    verb = "are" if is_published else "are NOT"
    click.echo(f"They {verb} the published ones: SHA-256 of the readings {found}.", err=True)


def _make_refit(folder: Path, on_progress: Callable[[float], None]) -> tuple[Any, str, str]:
    """Return the table, the checksum of its readings, and that of the published ones."""
    from rase.lab import refit_recipe
    from rase.lab.refit_events import events_in

    means = refit_recipe.hourly_means(events_in(folder, on_progress=on_progress))
    found = refit_recipe.content_sha256(means)
    return refit_recipe.recipe_table(means), found, refit_recipe.CONTENT_SHA256


def _make_beijing(folder: Path, on_progress: Callable[[float], None]) -> tuple[Any, str, str]:
    from rase.lab import beijing_recipe

    table = beijing_recipe.read_stations(folder, on_progress=on_progress)
    return table, beijing_recipe.content_sha256(table), beijing_recipe.CONTENT_SHA256
