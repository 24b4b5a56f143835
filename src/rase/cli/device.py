"""``rase device``: enrol a device, run its agent, look at it, pause it, forget it."""

from pathlib import Path
from typing import Any

import click

from rase.cli.arguments import folder_option
from rase.device.commands import (
    DEFAULT_PORT,
    enrol_device,
    enrolled_folder,
    forget_device,
    pause_device,
    resume_device,
    run_agent,
)

__all__ = ["command"]


@click.group(name="device")
def command() -> None:
    """Take part in a campaign with a device."""


@command.command()
@folder_option
@click.option(
    "--token-file",
    type=click.File("r", encoding="utf-8"),
    required=True,
    help="File with the token of the shuffler's operator; - for standard input.",
)
@click.option(
    "--approval-file",
    type=click.File("r", encoding="utf-8"),
    required=True,
    help="File with the approval of the registrar's operator; - for standard input.",
)
@click.option("--shuffler", help="Address of the shuffler.")
@click.option("--campaign", help="Id of the campaign.")
@click.option("--fusion-key", help="Public key of the fusion centre, hex or base64.")
@click.option("--shuffler-key", help="Public key of the shuffler, hex or base64.")
@click.option("--registrar", help="Address of the registrar.")
@click.option("--registrar-key", help="Public key of the registrar, hex or base64.")
@click.option("--report-epsilon", type=float, help="The most one report may spend; 4.5.")
@click.option("--span-epsilon", type=float, help="The most all reports of a day may spend; 8.")
@click.option("--total-epsilon", type=float, help="The most all reports ever may spend; 240.")
@click.option(
    "--shuffled-epsilon",
    type=float,
    help="The most one report may give away to the fusion centre, which sees it shuffled.",
)
@click.option(
    "--span-shuffled-epsilon", type=float, help="The same for all reports of a day together."
)
@click.option(
    "--range",
    "value_range",
    type=(float, float),
    metavar="LOW HIGH",
    help="The widest range of readings to accept.",
)
@click.option(
    "--least-k",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    help="The fewest reports that may be released together.",
)
def enrol(folder: Path, token_file: Any, approval_file: Any, **options: Any) -> None:
    """Enrol a device: write its settings, and give a token for a credential.

    If device.toml is in the folder already it is used as it is, and only the token and
    the approval are needed.
    """
    device = enrol_device(folder, token_file, approval_file, options)
    click.echo(
        f"enrolled as {device}. Set [source] in {folder / 'device.toml'}, then: "
        f"rase device run --folder {folder}",
        err=True,
    )


@command.command()
@folder_option
@click.option(
    "--also",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Folder of one more quantity, run in the same process; may be repeated.",
)
@click.option("--rounds", type=click.IntRange(min=1), help="Stop by itself after so many rounds.")
@click.option(
    "--page",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=DEFAULT_PORT,
    metavar="[PORT]",
    help=f"Serve your page on this machine; on port {DEFAULT_PORT} unless you name one.",
)
def run(folder: Path, also: tuple[Path, ...], rounds: int | None, page: int | None) -> None:
    """Run the agent: read, randomize within the budget, send. Stops on SIGTERM."""
    run_agent(folder, rounds=rounds, page_port=page, more=also)


@command.command()
@folder_option
def page(folder: Path) -> None:
    """Print the address of your page, which a running agent serves on this machine."""
    from rase.device.folder import DeviceFolder

    click.echo(DeviceFolder(folder).page_address())


@command.command()
@click.argument("campaign")
@folder_option
@click.option("--campaign-hash", help="Hash of the first terms to accept, 64 hexadecimal digits.")
@click.option(
    "--range",
    "value_range",
    type=(float, float),
    metavar="LOW HIGH",
    help="The widest range of readings to accept.",
)
@click.option(
    "--turns",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="How many turns of a cycle it has, with the schedule turns.",
)
def add(campaign: str, folder: Path, **options: Any) -> None:
    """Add one more quantity, of the campaign CAMPAIGN, under the same budget and ledger."""
    from rase.device.quantities import add_quantity

    file = add_quantity(enrolled_folder(folder), campaign, **options)
    click.echo(f"Set [source] in {file}, then start the agent again.", err=True)


@command.command("list")
@folder_option
def list_quantities(folder: Path) -> None:
    """List the device's quantities: campaign, source, and whether it is shared."""
    from rase.device.quantities import list_text

    click.echo(list_text(enrolled_folder(folder)))


@command.command()
@folder_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def status(folder: Path, *, as_json: bool) -> None:
    """Show each quantity, whose turn it is, and what all of them have spent."""
    from rase.device.quantities import status_text

    click.echo(status_text(enrolled_folder(folder), as_json=as_json))


_campaign_option = click.option(
    "--campaign", help="One of the device's quantities alone; all unless given."
)


@command.command()
@folder_option
@_campaign_option
def pause(folder: Path, campaign: str | None) -> None:
    """Pause sharing: only cover reports are sent, which carry no reading."""
    pause_device(folder, campaign)
    click.echo("paused; a running agent notices it. rase device resume ends it.", err=True)


@command.command()
@folder_option
@_campaign_option
def resume(folder: Path, campaign: str | None) -> None:
    """Share again."""
    resume_device(folder, campaign)
    click.echo("sharing again.", err=True)


@command.command()
@folder_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(folder: Path, yes: bool) -> None:
    """Erase unsent reports, credential and key; the ledger keeps what was spent."""
    if not yes:
        click.confirm(
            f"Erase unsent reports, credential and key of {folder}?", abort=True, err=True
        )
    click.echo(f"forgotten. {forget_device(folder)} keeps what was spent.", err=True)
