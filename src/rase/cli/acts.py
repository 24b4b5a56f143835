"""``rase shuffler acts``, ``rase fusion acts`` and ``rase registrar acts``: what operators did."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rase.cli.arguments import section_config
from rase.clock import time_in_words

if TYPE_CHECKING:
    from rase.storage.interface import Database

__all__ = ["acts_command"]

_SCHEMA = "rase/acts/1"


def acts_command(
    section: str, open_database: "Callable[[Path], AbstractContextManager[Database]]"
) -> click.Command:
    """Return the command of a server, by its section of the settings.

    Args:
        section: The section.
        open_database: Opens its database by the settings file.
    """

    @click.command("acts")
    @section_config(section)
    @click.option(
        "--since",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="An earlier output of --json: compare, and show only what came since.",
    )
    @click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
    def acts(config: Path, since: Path | None, as_json: bool) -> None:
        """Show what operators did, oldest first: published, admitted, revoked, rotated, retried.

        The log is only added to. Each line holds a hash of all lines before it: keep an export of
        --json on another machine, and --since says whether an older line was changed since.
        """
        from rase.service.acts import check_export, list_acts

        with open_database(config) as database:
            found = list_acts(database)
        new = len(found) if since is None else check_export(found, _read_export(since))
        shown = found[len(found) - new :]
        if as_json:
            # The whole log, so that every export can be compared with the next.
            click.echo(json.dumps({"schema": _SCHEMA, "acts": [asdict(one) for one in found]}))
        else:
            for one in shown:
                click.echo(f"{time_in_words(one.time_s)}  {one.by}  {one.act}: {one.subject}")
        since_then = (
            "" if since is None else f", {new} since {since.name}, which is unchanged in it"
        )
        click.echo(f"{len(found)} act{'s' * (len(found) != 1)}{since_then}.", err=True)

    return acts


def _read_export(file: Path) -> list[object]:
    try:
        document = json.loads(file.read_bytes())
        if document["schema"] == _SCHEMA and isinstance(document["acts"], list):
            return list(document["acts"])
    except (ValueError, TypeError, KeyError):
        pass
    raise click.UsageError(
        f"--since: {file.name} must be what an acts command printed with --json."
    )
