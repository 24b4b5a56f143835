"""``rase lab prepare``: make a prepared data set from a public download, and check it."""

from pathlib import Path

import click

from rase.atomic_files import replacing
from rase.cli.output import check_out
from rase.cli.progress import Progress
from rase.errors import DataError

__all__ = ["prepare_command"]


@click.command("prepare", short_help="Make a data set from a public download, and check it.")
@click.argument("name", type=click.Choice(["refit-64x25d"]))
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

    FOLDER holds the original houses, CLEAN_House1.csv and so on, or the published tables of their
    events, house1 and so on. The readings are compared with the published ones by a SHA-256 that
    does not depend on who writes the file; where they differ nothing is written.
    """
    if out.suffix != ".parquet":
        raise click.BadParameter(f"--out must end in .parquet, got {out.name!r}.")
    check_out(out)
    try:
        import pyarrow.parquet

        from rase.lab.refit_events import events_in
        from rase.lab.refit_recipe import (
            CONTENT_SHA256,
            content_sha256,
            hourly_means,
            recipe_table,
        )
    except ModuleNotFoundError as error:
        raise DataError('reading data needs pyarrow; pip install "rase-iot[lab]".') from error
    with Progress() as progress:
        events = events_in(folder, on_progress=lambda share: progress.show("reading", share))
    means = hourly_means(events)
    found = content_sha256(means)
    is_published = found == CONTENT_SHA256
    if not is_published and not unchecked:
        raise DataError(
            f"the readings made from {folder} are not the published ones of {name}: their SHA-256 "
            f"is {found}, that of the published {CONTENT_SHA256}. Compare the download with its "
            "source, or write them as they are with --unchecked."
        )
    with replacing(out) as file:
        pyarrow.parquet.write_table(recipe_table(means), file, compression="zstd")
    click.echo(f"{means.size} readings of {len(means)} devices in {out}.", err=True)
    if is_published:
        click.echo(f"They are the published ones: SHA-256 of the readings {found}.", err=True)
    else:
        click.echo(f"They are NOT the published ones: SHA-256 of the readings {found}.", err=True)
