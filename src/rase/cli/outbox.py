"""``rase shuffler outbox``: batches that the fusion centre has not taken, and how to go on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rase.clock import SystemClock

if TYPE_CHECKING:
    from rase.storage.face import Database

__all__ = ["command"]

_CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=Path("rase.toml"),
    show_default=True,
    help="Settings file; its section [shuffler] is read.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


@click.group("outbox")
def command() -> None:
    """See batches that the fusion centre has not taken, and have them sent again."""


@command.command("list")
@_CONFIG
@_JSON
def list_(config: Path, as_json: bool) -> None:
    """List the batches that wait, the oldest first: which rounds, and why; never what is in them.

    A batch that is refused is not sent again before rase shuffler outbox retry.
    """
    from rase.shuffler.outbox import list_outbox

    with _opened(config) as database:
        found = list_outbox(database, now_s=SystemClock().now_s())
    if as_json:
        rows = [asdict(one) for one in found]
        click.echo(json.dumps({"schema": "rase/outbox/1", "batches": rows}))
        return
    for one in found:
        click.echo(
            f"{one.batch[:16]}  {one.state:<8} {one.campaign} round {one.round}  {one.age_s} s old"
            f"  sent {one.attempts}x, refused {one.refusals}x  {one.problem}".rstrip()
        )
    refused = sum(one.state == "refused" for one in found)
    click.echo(f"{len(found)} in the outbox, {refused} of them refused.", err=True)


@command.command("retry")
@click.argument("batches", metavar="[BATCH]...", nargs=-1)
@_CONFIG
@_JSON
def retry(batches: tuple[str, ...], config: Path, as_json: bool) -> None:
    """Have batches sent again, unchanged and at once; all of them if none is named.

    BATCH is an id as rase shuffler outbox list prints it, or how it begins.
    """
    from rase.shuffler.outbox import retry_batches

    with _opened(config) as database:
        try:
            chosen = retry_batches(database, batches)
        except LookupError as error:
            raise click.UsageError(str(error.args[0])) from None
    _echo(chosen, as_json=as_json, schema="rase/outbox-retried/1", word="sent again")


@command.command("discard")
@click.argument("batches", metavar="BATCH...", nargs=-1, required=True)
@_CONFIG
@_JSON
@click.option("--yes", is_flag=True, help="Do not ask.")
def discard(batches: tuple[str, ...], config: Path, as_json: bool, yes: bool) -> None:
    """Erase batches for good. Their reports are lost, though owners have paid for them."""
    from rase.shuffler.outbox import discard_batches

    if not yes:
        click.confirm(
            f"Erase {len(batches)} of the batches, and with them their reports?",
            abort=True,
            err=True,
        )
    with _opened(config) as database:
        try:
            chosen = discard_batches(database, batches)
        except LookupError as error:
            raise click.UsageError(str(error.args[0])) from None
    _echo(chosen, as_json=as_json, schema="rase/outbox-discarded/1", word="discarded")


def _echo(chosen: list[str], *, as_json: bool, schema: str, word: str) -> None:
    if as_json:
        click.echo(json.dumps({"schema": schema, "batches": chosen}))
        return
    for batch in chosen:
        click.echo(batch)
    click.echo(f"{len(chosen)} {word}.", err=True)


@contextmanager
def _opened(config: Path) -> "Iterator[Database]":
    from rase.service.settings import load_settings
    from rase.shuffler.settings import ShufflerSettings
    from rase.storage.opening import open_database

    settings = load_settings(ShufflerSettings, "shuffler", path=config)
    database = open_database(settings.database, migrations="shuffler")
    try:
        yield database
    finally:
        database.close()
