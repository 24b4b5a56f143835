"""``rase storage``: copy a server's state, to a file or to PostgreSQL."""

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rase.cli.arguments import server_config, server_databases
from rase.errors import ConfigurationError

if TYPE_CHECKING:
    from rase.storage.address import DatabaseAddress

__all__ = ["command"]


@click.group("storage", short_help="Back up a server's state, or move it to another database.")
def command() -> None:
    """Back up a server's state, or move it to another database."""


@command.command("copy")
@server_config
@click.option("--to", "url", help="The empty target: postgresql://user@host/database.")
@click.option(
    "--to-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file that holds the target's address, for one with a password.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def copy(config: Path, url: str | None, to_file: Path | None, as_json: bool) -> None:
    """Copy the state of a stopped server from its file to PostgreSQL, and compare.

    All of it is copied or nothing; afterwards no server opens the file again. Set database to the
    target then.
    """
    from rase.storage.copy import copy_database
    from rase.storage.opening import open_database
    from rase.storage.sqlite import SqliteDatabase, open_sqlite

    target = _target(url, to_file)
    found = []
    for role, address in server_databases(config).items():
        if not isinstance(address, Path):
            raise ConfigurationError([f"{role}.database must be a file, got {address}."])
        if not address.exists():
            raise ConfigurationError([f"{role}.database must be a file that exists: {address}."])
        with closing(SqliteDatabase(address)) as file:
            file.check_unused()
        with (
            closing(open_sqlite(address, migrations=role)) as source,
            closing(open_database(target, migrations=role)) as copied,
        ):
            tables = copy_database(source, copied, role=role)
        found.append({"role": role, "tables": [asdict(table) for table in tables]})
        if not as_json:
            for table in tables:
                click.echo(f"{role} {table.name}: {table.rows} rows, {table.digest[:16]}")
            click.echo(f'set {role}.database = "{target}" in {config}', err=True)
    if as_json:
        document = {"schema": "rase/storage-copy/1", "target": str(target), "copied": found}
        click.echo(json.dumps(document))


@command.command("backup")
@server_config
@click.argument("target", type=click.Path(path_type=Path))
def backup(config: Path, target: Path) -> None:
    """Copy the SQLite file of a server into the new file TARGET while the server runs.

    Only its owner can read the copy (mode 0600). A registrar's has no private keys in it: put back,
    it lets no device fetch a second set of tokens. A shuffler's has no reports in it, which would
    say who reported, and no enrolment tokens, which would be good once more.
    """
    from rase.registrar.issuing import WITHOUT_KEYS
    from rase.shuffler.intake import WITHOUT_REPORTS
    from rase.storage.backup import back_up

    found = list(server_databases(config).items())
    if len(found) > 1:
        named = " and ".join(f"[{role}]" for role, _ in found)
        problem = (
            f"{config} must have one of [fusion], [shuffler] and [registrar], got {named}; give "
            "each a file of settings."
        )
        raise ConfigurationError([problem])
    ((role, address),) = found
    if not isinstance(address, Path):
        raise ConfigurationError([f"{role}.database must be a file, got {address}; use pg_dump."])
    erased = {"registrar": WITHOUT_KEYS, "shuffler": WITHOUT_REPORTS}
    back_up(address, target, erase=erased.get(role))
    click.echo(f"{target}: a copy of {address}, for its owner only.", err=True)


def _target(url: str | None, to_file: Path | None) -> "DatabaseAddress":
    from rase.storage.address import PostgresAddress
    from rase.wire.private_files import read_secret

    if (url is None) == (to_file is None):
        raise click.UsageError("give the target, with either --to or --to-file.")
    try:
        if to_file is not None:
            url = read_secret(to_file)
        target = PostgresAddress(url or "")
    except UnicodeDecodeError:
        raise click.UsageError("--to-file must hold a text in UTF-8; it does not.") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if target.has_password and to_file is None:
        raise click.UsageError(
            "--to must have no password, for all users of a machine see arguments; write the "
            "address into a file and name it with --to-file, or use PGPASSFILE."
        )
    return target
