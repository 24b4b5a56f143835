"""``rase budget``: what a device has spent of its privacy, what is left, and when it refreshes."""

from pathlib import Path

import click

from rase.cli.arguments import folder_option

__all__ = ["command"]


@click.command(name="budget")
@folder_option
@click.option(
    "--history",
    "count",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Also the last so many entries.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(folder: Path, count: int, as_json: bool) -> None:
    """Show what a device has spent, what is left, and when it refreshes."""
    from rase.device.budget import budget_text

    click.echo(budget_text(folder, history=count, as_json=as_json))
