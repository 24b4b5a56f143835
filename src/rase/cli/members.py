"""``rase shuffler members``: which devices may report to which campaigns."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rase.cli.arguments import section_config

if TYPE_CHECKING:
    from rase.storage.interface import Database

__all__ = ["campaigns_option", "members_group"]

_config = section_config("shuffler")
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
_GROUP = click.option("--group", help="Instead of naming them: all devices of a public group.")
_DEVICES = click.argument("handles", metavar="[DEVICE]...", nargs=-1)

campaigns_option = click.option(
    "--campaign",
    "campaigns",
    multiple=True,
    metavar="ID",
    help="The campaign they may report to; may be given several times; every one unless given.",
)
"""For commands that admit devices."""


def members_group(
    open_database: "Callable[[Path], AbstractContextManager[Database]]",
) -> click.Group:
    """Return the group of commands, over databases that `open_database` opens by their settings."""

    @click.group("members")
    def members() -> None:
        """Say which devices may report to which campaigns; every one to every campaign at first."""

    @members.command("list")
    @click.argument("campaign")
    @_config
    @_JSON
    def list_(campaign: str, *, config: Path, as_json: bool) -> None:
        """List the handles of the devices that may report to a campaign, with their groups."""
        from rase.shuffler.membership import list_members

        with open_database(config) as database:
            try:
                found = list_members(database, campaign)
            except LookupError as error:
                raise click.UsageError(str(error.args[0])) from None
        if as_json:
            rows = [asdict(one) for one in found]
            document = {"schema": "rase/members/1", "campaign": campaign, "members": rows}
            click.echo(json.dumps(document))
            return
        for one in found:
            words = (one.device, one.group, "" if one.is_limited else "(every campaign)")
            click.echo(" ".join(word for word in words if word))
        limited = sum(one.is_limited for one in found)
        click.echo(
            f"{len(found)} may report to {campaign}, {limited} of them by name, the others to "
            "every campaign.",
            err=True,
        )

    @members.command("add")
    @click.argument("campaign")
    @_DEVICES
    @_config
    @_GROUP
    @click.option("--only", is_flag=True, help="And to no other campaign from now on.")
    def add(
        campaign: str, handles: tuple[str, ...], *, config: Path, group: str | None, only: bool
    ) -> None:
        """Let devices report to a campaign, all that are named, or none."""
        from rase.shuffler.membership import add_members

        with open_database(config) as database:
            _echo(_apply_change(database, handles, group, add_members, campaign, only=only))

    @members.command("remove")
    @click.argument("campaign")
    @_DEVICES
    @_config
    @_GROUP
    def remove(campaign: str, handles: tuple[str, ...], *, config: Path, group: str | None) -> None:
        """Let devices report to a campaign no more, all that are named, or none.

        What waits of theirs for it is not released. A device that may report to every campaign
        keeps the others that there are now.
        """
        from rase.shuffler.membership import remove_members

        with open_database(config) as database:
            _echo(_apply_change(database, handles, group, remove_members, campaign))

    @members.command("open")
    @_DEVICES
    @_config
    @_GROUP
    def open_(handles: tuple[str, ...], *, config: Path, group: str | None) -> None:
        """Let devices report to every campaign again, those of later days too."""
        from rase.shuffler.membership import open_devices

        with open_database(config) as database:
            _echo(_apply_change(database, handles, group, open_devices))

    return members


def _apply_change(
    database: "Database",
    handles: tuple[str, ...],
    group: str | None,
    change: Callable[..., int],
    *campaign: str,
    **how: bool,
) -> int:
    """Change the devices that are meant, and return how many were not so before."""
    from rase.shuffler.enrolment import device_numbers, enrolled_devices

    if (group is None) == (not handles):
        raise click.UsageError("Name devices by their handles, or by --group, and not both.")
    if group is not None:
        handles = tuple(one.device for one in enrolled_devices(database) if one.group == group)
        if not handles:
            raise click.UsageError(f"--group: no enrolled device is in group {group!r}.")
    try:
        return change(database, *campaign, list(device_numbers(handles).values()), **how)
    except (ValueError, LookupError) as error:
        raise click.UsageError(str(error.args[0])) from None


def _echo(count: int) -> None:
    devices = f"{count} device{'s' * (count != 1)}"
    click.echo(f"{devices} changed; running intakes notice within 5 seconds.", err=True)
