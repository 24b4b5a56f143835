"""``rase fleet``: synthetic tables of any size."""

from pathlib import Path
from typing import Any

import click

from rase.cli.arguments import usage
from rase.cli.output import show_progress
from rase.clock import parse_duration_s

__all__ = ["command"]


@click.group("fleet", short_help="Write synthetic tables of any size.")
def command() -> None:
    """Write synthetic tables of any size."""


@command.command()
@click.option("--devices", type=click.IntRange(min=1), required=True, help="How many meters.")
@click.option("--days", type=click.IntRange(min=1), required=True, help="How many days.")
@click.option("--every", default="15min", show_default=True, help="Time between readings.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The world.")
@click.option("--gaps", type=float, default=0.0, help="Share of readings that are missing.")
@click.option("--duplicates", type=float, default=0.0, help="Share of rows that come twice.")
@click.option("--skew", type=float, default=1.0, help="Size of one round against the others.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["parquet", "csv", "csv.gz"]),
    default="parquet",
    show_default=True,
    help="Of the files.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder, which must not be there yet.",
)
def generate(*, every: str, kind: str, out: Path, **asked: Any) -> None:
    """Write a synthetic fleet as a folder of files, a day each.

    Simulated homes stand for the meters; nobody lives there. Rows come by time and then meter,
    in the columns time (UTC), device and value (W), in the memory of a batch.

    Example: rase fleet generate --devices 100000 --days 7 --out fleet
    """
    from rase.lab.large_fleet import LargeFleet, write_large_fleet

    with usage():
        fleet = LargeFleet(interval_s=parse_duration_s(every), **asked)
    if out.exists():
        raise click.BadParameter(f"--out must be a folder that is not there yet, got {out}.")
    with show_progress() as show:
        rows = write_large_fleet(
            fleet, out, kind=kind, on_progress=lambda share: show("writing", share)
        )
    click.echo(f"written   {rows} rows of {fleet.devices} devices to {out}", err=True)
