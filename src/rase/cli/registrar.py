"""``rase registrar``: run the server that gives devices tokens, approve and revoke devices."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rase.cli.acts import acts_command
from rase.cli.arguments import read_device_keys, section_config
from rase.clock import SystemClock, parse_duration_s

if TYPE_CHECKING:
    from rase.registrar.settings import RegistrarSettings
    from rase.storage.interface import Database

__all__ = ["command"]

_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


_config = section_config("registrar")


@click.group("registrar", short_help="Run the server that gives devices their tokens.")
def command() -> None:
    """Run the server that gives devices their tokens.

    It certifies devices and signs their tokens blindly: it knows who takes part, and cannot
    recognise a token. Its operator must not be the shuffler's.
    """


@command.command("run")
@_config
@click.option("--host", help="Address to listen on; overrules the settings.")
@click.option("--port", type=int, help="Port to listen on, 0 for any free one.")
def run(config: Path, host: str | None, port: int | None) -> None:
    """Certify devices, make keys of token windows and issue tokens, until asked to stop."""
    settings = _settings(config, host=host, port=port)
    from rase.registrar.program import open_registrar
    from rase.service.http import serve
    from rase.service.telemetry import Telemetry
    from rase.wire.issuing import has_libcrypto

    telemetry = Telemetry("registrar")
    with open_registrar(settings, SystemClock(), telemetry=telemetry) as app:
        telemetry.event("signs_with", method="libcrypto" if has_libcrypto() else "python")
        serve(
            app,
            host=settings.host,
            port=settings.port,
            telemetry=telemetry,
            limits=settings.limits,
        )


@command.command("approve")
@_config
@click.option("--count", type=click.IntRange(1, 100_000), default=1, help="How many devices (1).")
@click.option("--valid", default="7d", show_default=True, help="How long, as 12h or 7d.")
def approve(config: Path, count: int, valid: str) -> None:
    """Approve devices: print a secret for each, one a line, shown only now.

    A device enrols with it and with a token of the shuffler's operator: neither is enough.
    """
    from rase.registrar.devices import make_approvals

    try:
        valid_s = parse_duration_s(valid)
    except ValueError as error:
        raise click.UsageError(f"--valid: {error}") from None
    with _open_database(config) as database:
        expires_s = int(SystemClock().now_s()) + valid_s
        for approval in make_approvals(database, count, expires_s=expires_s):
            click.echo(approval)


@command.command("certify")
@click.argument("keys", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_config
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Write the certificate here, for the shuffler's operator.",
)
def certify(keys: Path, config: Path, out: Path) -> None:
    """Certify a whole fleet whose device keys you have, with one signature.

    KEYS holds the public Ed25519 key of a device on each line, as 64 hexadecimal digits. The
    shuffler's operator admits the same list with rase shuffler enrol-list.
    """
    from rase.atomic_files import replacing
    from rase.registrar.devices import certify_list
    from rase.registrar.settings import own_secret

    secret, _ = own_secret(_settings(config))
    listed = read_device_keys(keys)
    with _open_database(config) as database, replacing(out) as file:
        file.write(certify_list(database, listed, secret=secret).hex().encode() + b"\n")
    click.echo(f"certified {len(listed)} devices.", err=True)


@command.command("devices")
@_config
@_JSON
def devices(config: Path, as_json: bool) -> None:
    """List the public keys of the devices that were certified; nothing of what they sent."""
    from rase.registrar.devices import known_devices

    with _open_database(config) as database:
        found = known_devices(database)
    if as_json:
        rows = [{"device_key": one.device_key, "revoked": one.is_revoked} for one in found]
        click.echo(json.dumps({"schema": "rase/certified-devices/1", "devices": rows}))
        return
    for one in found:
        click.echo(f"{one.device_key}{' revoked' if one.is_revoked else ''}")
    revoked = sum(one.is_revoked for one in found)
    click.echo(f"{len(found)} certified, {revoked} of them revoked.", err=True)


@command.command("revoke")
@click.argument("device_keys", metavar="DEVICE_KEY...", nargs=-1, required=True)
@_config
@_JSON
def revoke(device_keys: tuple[str, ...], config: Path, as_json: bool) -> None:
    """Give devices no more tokens; those that they have count until their window ends.

    DEVICE_KEY is a public key as rase registrar devices prints it, or how it begins. The shuffler's
    operator stops reports at once: rase shuffler revoke.
    """
    from rase.registrar.devices import revoke_devices

    with _open_database(config) as database:
        try:
            revoked = revoke_devices(database, device_keys)
        except LookupError as error:
            raise click.UsageError(str(error.args[0])) from None
    if as_json:
        click.echo(json.dumps({"schema": "rase/revoked/1", "revoked": list(revoked)}))
        return
    for one in revoked:
        click.echo(one)
    click.echo("revoked: they get no tokens of a later window.", err=True)


@command.command("keys")
@_config
@_JSON
def keys(config: Path, as_json: bool) -> None:
    """Show the registrar's public key, which others pin, and the keys of token windows."""
    from rase.registrar.issuing import window_rows
    from rase.registrar.settings import own_secret
    from rase.service.keyring import REGISTRAR_SCHEMA, fingerprint, public_text

    settings = _settings(config)
    _, pinned = own_secret(settings)
    public = pinned.registrar
    with _open_database(config) as database:
        rows = window_rows(database)
    if as_json:
        document = {
            "schema": REGISTRAR_SCHEMA,
            "registrar_key": public_text(public),
            "windows": [row._asdict() for row in rows],
        }
        click.echo(json.dumps(document))
        return
    click.echo(f"registrar {public_text(public)}  {fingerprint(public)}")
    for row in rows:
        state = "published" if row.is_signed else "waits for the shuffler's signature"
        click.echo(
            f"{row.campaign} rounds {row.first_round} to {row.last_round}: {state}, "
            f"{row.devices} devices fetched"
        )


def _settings(config: Path, **flags: object) -> "RegistrarSettings":
    from rase.registrar.settings import RegistrarSettings
    from rase.service.settings import load_settings

    return load_settings(RegistrarSettings, "registrar", path=config, flags=flags)


@contextmanager
def _open_database(config: Path) -> "Iterator[Database]":
    from rase.storage.opening import open_database

    with closing(open_database(_settings(config).database, migrations="registrar")) as database:
        yield database


command.add_command(acts_command("registrar", _open_database))
