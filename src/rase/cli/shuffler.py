"""``rase shuffler``: run the server that hides senders, enrol devices, countersign documents."""

import base64
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.clock import SystemClock, parse_duration_s
from rase.errors import ConfigurationError

if TYPE_CHECKING:
    from rase.shuffler.settings import ShufflerSettings

__all__ = ["command"]


def _config(function: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        default=Path("rase.toml"),
        show_default=True,
        help="Settings file; its section [shuffler] is read.",
    )(function)


@click.group("shuffler", short_help="Run the server that hides senders.")
def command() -> None:
    """Run the server that hides senders.

    It knows who sends and cannot read what.
    """


@command.command("run")
@_config
@click.option("--host", help="Address to listen on; overrules the settings.")
@click.option("--port", type=int, help="Port to listen on, 0 for any free one.")
@click.option(
    "--part",
    type=click.Choice(("all", "intake", "closer")),
    default="all",
    show_default=True,
    help="Both processes, or one of them: only the closer reads the keys that open reports.",
)
def run(config: Path, host: str | None, port: int | None, part: str) -> None:
    """Take reports in, close rounds and forward them, until told to end."""
    from rase.service.telemetry import Telemetry
    from rase.shuffler.processes import (
        closer_command,
        run_closer,
        run_intake,
        stop_with_parent,
    )

    settings = _settings(config, host=host, port=port)
    if part == "closer":
        stop = threading.Event()
        stop_with_parent(stop, sys.stdin)
        run_closer(settings, stop, telemetry=Telemetry("shuffler"))
        return
    missing = [path for path in settings.opening_key_files if not path.is_file()]
    if part == "all" and missing:
        raise ConfigurationError(
            f"shuffler.opening_key_files: {path} must be a file." for path in missing
        )
    run_intake(
        settings,
        telemetry=Telemetry("shuffler"),
        closer_command=closer_command(str(config)) if part == "all" else None,
    )


@command.command("enrol")
@_config
@click.option("--count", type=click.IntRange(1, 100_000), default=1, help="How many tokens (1).")
@click.option("--group", default="", help="Public group of the devices that use them.")
@click.option("--valid", default="7d", show_default=True, help="How long, as 12h or 7d.")
def enrol(config: Path, count: int, group: str, valid: str) -> None:
    """Make single-use enrolment tokens and print them, one a line; they are shown only now."""
    from rase.shuffler.enrolment import make_tokens
    from rase.storage.sqlite import open_sqlite

    try:
        valid_s = parse_duration_s(valid)
    except ValueError as error:
        raise click.UsageError(f"--valid: {error}") from None
    database = open_sqlite(_settings(config).database, migrations="shuffler")
    try:
        expires_s = int(SystemClock().now_s()) + valid_s
        for token in make_tokens(database, count, expires_s=expires_s, group=group):
            click.echo(token)
    finally:
        database.close()


@command.command("countersign")
@click.argument("proposal", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_config
@click.option("--out", type=click.Path(path_type=Path), help="Write the signed document here.")
def countersign(proposal: Path, config: Path, out: Path | None) -> None:
    """Sign a campaign or keyset that the fusion centre proposes, if the policy allows it.

    PROPOSAL holds the CBOR array [document, fusion centre's signature]. Prints the shuffler's
    signature in base64url.
    """
    from rase.cli.output import replacing
    from rase.service.key_settings import read_signing_key
    from rase.shuffler.documents import Countersigner, is_keyset
    from rase.shuffler.settings import pinned_keys
    from rase.storage.sqlite import open_sqlite
    from rase.wire.keys import Role

    settings = _settings(config)
    key = read_signing_key(settings.signing_key_file, role=Role.SHUFFLER)
    database = open_sqlite(settings.database, migrations="shuffler")
    try:
        countersigner = Countersigner(
            database,
            key=key,
            pinned=pinned_keys(settings, key),
            policy=settings.policy.policy(),
        )
        data = proposal.read_bytes()
        signed: Any
        if is_keyset(data):
            signed, _ = countersigner.keyset(data)
        else:
            signed, _ = countersigner.campaign(data, now_s=SystemClock().now_s())
    finally:
        database.close()
    if out is not None:
        with replacing(out) as file:
            file.write(signed.to_bytes())
    click.echo(base64.urlsafe_b64encode(signed.shuffler_signature).decode().rstrip("="))


def _settings(config: Path, **flags: object) -> "ShufflerSettings":
    from rase.service.settings import load_settings
    from rase.shuffler.settings import ShufflerSettings

    return load_settings(ShufflerSettings, "shuffler", path=config, flags=flags)
