"""``rase device``: enrol a device, run its agent, pause it, forget it."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from rase.cli.agent import DEFAULT_FOLDER, DEFAULT_PORT, run_agent
from rase.errors import ConfigurationError

__all__ = ["command", "folder_option"]

_OWNER = ("shuffler", "campaign", "fusion_key", "shuffler_key")
_LONGEST_TOKEN = 512
_BUDGETS = ("report_epsilon", "span_epsilon", "total_epsilon")


def folder_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that names the device's folder."""
    return click.option(
        "--folder",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(DEFAULT_FOLDER),
        show_default=True,
        help="The device's folder.",
    )(function)


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
@click.option("--shuffler", help="Address of the shuffler.")
@click.option("--campaign", help="Id of the campaign.")
@click.option("--fusion-key", help="Public key of the fusion centre, hex or base64.")
@click.option("--shuffler-key", help="Public key of the shuffler, hex or base64.")
@click.option("--report-epsilon", type=float, help="The most one report may spend.")
@click.option("--span-epsilon", type=float, help="The most all reports of a day may spend.")
@click.option("--total-epsilon", type=float, help="The most all reports ever may spend.")
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
def enrol(folder: Path, token_file: Any, **options: Any) -> None:
    """Enrol a device: write its settings, and give a token for a credential.

    If device.toml is in the folder already it is used as it is, and only the token is needed.
    """
    from rase.device.enrolment import enrol, settings_text
    from rase.device.folder import DeviceFolder
    from rase.device.program import transport_of
    from rase.device.settings import settings_of
    from rase.toml import parse_toml
    from rase.wire.private_files import write_private

    place = DeviceFolder(folder)
    token = _token_in(token_file)
    if place.settings_file.exists():
        _check_same(place.settings_file, options)
    else:
        missing = [f"{name} is missing." for name in _missing(options)]
        if missing:
            raise ConfigurationError(missing)
        text = settings_text(**options)
        # Whoever mistyped an option types it again, and must not find a file in the way.
        settings_of(parse_toml(text.encode()), os.environ)
        place.make()
        write_private(place.settings_file, text)
    settings = place.settings(os.environ)
    device = enrol(place, token, transport=transport_of(settings, folder))
    click.echo(
        f"enrolled as {device}. Set [source] in {place.settings_file}, then: "
        f"rase device run --folder {folder}",
        err=True,
    )


@command.command()
@folder_option
@click.option("--rounds", type=click.IntRange(min=1), help="Stop by itself after so many rounds.")
@click.option(
    "--page",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=DEFAULT_PORT,
    metavar="[PORT]",
    help=f"Serve your page on this machine; on port {DEFAULT_PORT} unless you name one.",
)
def run(folder: Path, rounds: int | None, page: int | None) -> None:
    """Run the agent: read, randomize within the budget, send. Stops on SIGTERM."""
    run_agent(folder, rounds=rounds, page_port=page)


@command.command()
@folder_option
def page(folder: Path) -> None:
    """Print the address of your page, which a running agent serves on this machine."""
    from rase.device.folder import DeviceFolder

    click.echo(DeviceFolder(folder).page_address())


@command.command()
@folder_option
def pause(folder: Path) -> None:
    """Pause sharing: only cover reports are sent, which tell nothing."""
    _enrolled(folder).pause()
    click.echo("paused; a running agent notices it. rase device resume ends it.", err=True)


@command.command()
@folder_option
def resume(folder: Path) -> None:
    """Share again."""
    place = _enrolled(folder)
    place.resume()
    if place.is_off:
        place.switch(is_on=True)
    click.echo("sharing again.", err=True)


@command.command()
@folder_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(folder: Path, yes: bool) -> None:
    """Erase unsent reports, credential and key; the ledger keeps what was spent."""
    from rase.device.folder import DeviceFolder

    if not yes:
        click.confirm(
            f"Erase unsent reports, credential and key of {folder}?", abort=True, err=True
        )
    place = DeviceFolder(folder)
    place.forget(place.settings(os.environ))
    click.echo(f"forgotten. {place.ledger_file} keeps what was spent.", err=True)


def _missing(options: Mapping[str, Any]) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in (*_OWNER, *_BUDGETS) if options[name] is None]


def _check_same(file: Path, options: Mapping[str, Any]) -> None:
    """Refuse options that say something else than the settings that are there."""
    from rase.device.enrolment import settings_text

    given = [f"--{name.replace('_', '-')}" for name in (*_OWNER, *_BUDGETS) if options[name]]
    given += ["--range"] if options["value_range"] else []
    if not given:
        return
    # After an attempt that failed the same command is given again.
    if _missing(options) or file.read_text(encoding="utf-8") != settings_text(**options):
        raise click.UsageError(
            f"{file} is there already; give --token-file alone to use it, or edit it instead of "
            f"{', '.join(given)}."
        )


def _token_in(file: Any) -> str:
    from rase.wire.private_files import secret_of

    token: str | None
    try:
        token = secret_of(file, most=_LONGEST_TOKEN + 1)
    except ValueError:
        token = None
    if token == "":
        raise click.UsageError("--token-file must hold a token; it is empty.")
    if token is None or len(token) > _LONGEST_TOKEN or not token.isprintable() or " " in token:
        raise click.UsageError(
            "--token-file must hold one token and nothing else; rase shuffler enrol prints one a "
            "line."
        )
    return token


def _enrolled(folder: Path) -> Any:
    from rase.device.folder import DeviceFolder

    place = DeviceFolder(folder)
    if not place.is_enrolled:
        raise ConfigurationError([f"{folder} is not enrolled; run rase device enrol first."])
    return place
