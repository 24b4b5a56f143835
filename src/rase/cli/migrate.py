"""``rase migrate``: bring a server's database to the newest form, after saying what that takes."""

import json
from pathlib import Path
from typing import Any

import click

from rase.cli.arguments import server_config, server_databases

__all__ = ["command"]


@click.command("migrate", short_help="Bring the databases of a server to the newest form.")
@server_config
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(config: Path, dry_run: bool, as_json: bool) -> None:
    """Bring the databases of a server to the newest form.

    A server does the same when it starts. With several processes on one database this lets an
    operator do it once, before them, with a user who may change tables.
    """
    from rase.errors import StorageUnusable
    from rase.storage.migrate import migrations_of
    from rase.storage.opening import look_at, open_database

    found: list[dict[str, Any]] = []
    for role, address in server_databases(config).items():
        before, newest = look_at(address, role=role), migrations_of(role)[-1].number
        if before > newest:
            raise StorageUnusable(
                f"the database of the {role} has version {before}; this release knows up to "
                f"{newest}. Install the newer release again."
            )
        steps = [step.name for step in migrations_of(role) if step.number > before]
        if steps and not dry_run:
            open_database(address, migrations=role).close()
        row = {"role": role, "database": str(address), "version": before, "newest": newest}
        found.append({**row, "steps": steps, "is_applied": bool(steps) and not dry_run})
    if as_json:
        click.echo(json.dumps({"schema": "rase/migrate/1", "databases": found}))
        return
    for one in found:
        click.echo(f"{one['role']}: {one['database']}, version {one['version']}")
        for step in one["steps"]:
            click.echo(f"  {'would apply' if dry_run else 'applied'} {step}")
        if not one["steps"]:
            click.echo("  nothing to do")
