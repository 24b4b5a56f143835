"""``rase shuffler``: run the server that hides senders, enrol and revoke devices, countersign.

``rase shuffler outbox`` lists, retries and discards batches that the fusion centre has not taken.
"""

import base64
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.cli.acts import acts_command
from rase.cli.arguments import read_device_keys, section_config
from rase.cli.local_pages import browser_option, port_option, serve_locally
from rase.cli.members import campaigns_option, members_group
from rase.clock import SystemClock, parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rase.shuffler.enrolment import Enrolled
    from rase.shuffler.settings import ShufflerSettings
    from rase.storage.interface import Database

__all__ = ["command"]


_config = section_config("shuffler")


@click.group("shuffler", short_help="Run the server that hides senders.")
def command() -> None:
    """Run the server that hides senders.

    It knows who sends; what they send is sealed from it.
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
    help="Both processes, or one of them: only the closer reads private keys.",
)
def run(config: Path, host: str | None, port: int | None, part: str) -> None:
    """Take reports in, close rounds and forward them, until asked to stop."""
    from rase.service.telemetry import Telemetry
    from rase.shuffler.program import (
        check_private_keys,
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
    if part == "all":
        check_private_keys(settings)
    run_intake(
        settings,
        telemetry=Telemetry("shuffler"),
        closer_command=closer_command(str(config)) if part == "all" else None,
    )


@command.command("page")
@_config
@port_option
@browser_option
def page(config: Path, *, port: int, no_browser: bool) -> None:
    """Show participation, what waits and who may send in a browser, on this machine alone.

    The address holds a secret that is new at each start. The page makes enrolment tokens, revokes
    devices and has batches sent again; it reads the shuffler's database and needs no key.
    """
    from rase.dashboard.shuffler_fleet import shuffler_pages
    from rase.storage.opening import open_database

    settings = _settings(config)
    with closing(open_database(settings.database, migrations="shuffler")) as database:
        serve_locally(
            lambda port: shuffler_pages(
                database,
                SystemClock(),
                port=port,
                most_per_owner=settings.limits.devices_per_owner,
            ),
            port=port,
            no_browser=no_browser,
            name="the page",
        )


@command.command("enrol")
@_config
@click.option("--count", type=click.IntRange(1, 100_000), default=1, help="How many tokens (1).")
@click.option("--group", default="", help="Public group of the devices that use them.")
@click.option("--owner", default="", help="Whose they are: counts against devices_per_owner.")
@click.option("--valid", default="7d", show_default=True, help="How long, as 12h or 7d.")
@campaigns_option
def enrol(
    config: Path, *, count: int, group: str, owner: str, valid: str, campaigns: tuple[str, ...]
) -> None:
    """Make single-use enrolment tokens and print them, one a line; they are shown only now."""
    from rase.shuffler.enrolment import make_tokens
    from rase.storage.opening import open_database

    try:
        valid_s = parse_duration_s(valid)
    except ValueError as error:
        raise click.UsageError(f"--valid: {error}") from None
    settings = _settings(config)
    with closing(open_database(settings.database, migrations="shuffler")) as database:
        try:
            tokens = make_tokens(
                database,
                count,
                expires_s=int(SystemClock().now_s()) + valid_s,
                group=group,
                owner=owner,
                most=settings.limits.devices_per_owner,
                campaigns=campaigns,
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    for token in tokens:
        click.echo(token)


@command.command("enrol-list")
@click.argument("keys", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_config
@click.option(
    "--certificate",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What rase registrar certify wrote for the same list.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Write the credentials here, as CSV that only you can read.",
)
@click.option("--group", default="", help="Public group of all these devices.")
@campaigns_option
def enrol_list(
    keys: Path,
    *,
    config: Path,
    certificate: Path | None,
    out: Path,
    group: str,
    campaigns: tuple[str, ...],
) -> None:
    """Admit a whole fleet whose device keys you have, all of it or nothing.

    KEYS holds the public Ed25519 key of a device on each line, as 64 hexadecimal digits. The
    registrar's operator certifies the same list first. Each line of the CSV has a key and the
    credential of its device, which are shown only now.
    """
    from rase.shuffler.enrolment import NotEnrolled, enrol_many
    from rase.shuffler.settings import pinned_keys
    from rase.storage.opening import open_database
    from rase.wire.private_files import write_private

    settings = _settings(config)
    listed = read_device_keys(keys)
    try:
        signed = b"" if certificate is None else bytes.fromhex(certificate.read_text().strip())
    except ValueError:
        raise click.UsageError(
            f"--certificate: {certificate} must be what rase registrar certify wrote."
        ) from None

    def keep(made: "Sequence[Enrolled]") -> None:
        rows = (f"{key.hex()},{one.credential}\n" for key, one in zip(listed, made, strict=True))
        write_private(out, "device_key,credential\n" + "".join(rows))

    with closing(open_database(settings.database, migrations="shuffler")) as database:
        try:
            enrol_many(
                database,
                listed,
                group=group,
                campaigns=campaigns,
                certificate=signed,
                pinned=pinned_keys(settings),
                keep=keep,
            )
        except FileExistsError:
            raise click.UsageError(f"--out: {out} must not exist; nothing was enrolled.") from None
        except NotEnrolled:
            raise click.UsageError(
                "--certificate must be the registrar's for exactly this list; it is not."
            ) from None
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    click.echo(f"enrolled {len(listed)} devices.", err=True)


@command.command("devices")
@_config
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def devices(config: Path, as_json: bool) -> None:
    """List the handles of the enrolled devices with their groups; nothing of what they sent."""
    from rase.shuffler.enrolment import enrolled_devices
    from rase.storage.opening import open_database

    with closing(open_database(_settings(config).database, migrations="shuffler")) as database:
        found = enrolled_devices(database)
    groups = Counter(item.group for item in found)
    if as_json:
        rows = [{"device": item.device, "group": item.group} for item in found]
        document = {
            "schema": "rase/devices/1",
            "count": len(found),
            "groups": dict(sorted(groups.items())),
            "devices": rows,
        }
        click.echo(json.dumps(document))
        return
    for item in found:
        click.echo(f"{item.device} {item.group}".rstrip())
    each = "".join(f"; {groups[name]} in group {name}" for name in sorted(groups) if name)
    click.echo(f"{len(found)} enrolled{each}.", err=True)


@command.command("revoke")
@click.argument("handles", metavar="DEVICE...", nargs=-1, required=True)
@_config
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def revoke(handles: tuple[str, ...], config: Path, as_json: bool) -> None:
    """Let devices send no more, as when one was lost; all that are named, or none.

    DEVICE is a handle, the 16 hexadecimal digits that enrolment and rase shuffler devices print.
    Reports that wait for their round to close are erased. A new token enrols the device again.
    """
    from rase.shuffler.enrolment import revoke_devices
    from rase.storage.opening import open_database

    with closing(open_database(_settings(config).database, migrations="shuffler")) as database:
        try:
            revoked = revoke_devices(database, handles)
        except (ValueError, LookupError) as error:
            raise click.UsageError(str(error)) from None
    if as_json:
        click.echo(json.dumps({"schema": "rase/revoked/1", "revoked": list(revoked)}))
        return
    for handle in revoked:
        click.echo(handle)
    click.echo("revoked; running intakes notice within 5 seconds.", err=True)


@command.command("broker-users")
@_config
def broker_users(config: Path) -> None:
    """Print a password file for mosquitto with all enrolled devices, to be read by the broker only.

    The passwords follow from the credentials, so that a device needs no other secret; whoever
    learns one can connect, but make no report. Add the users of the servers with mosquitto_passwd.
    """
    from rase.shuffler.enrolment import broker_users
    from rase.shuffler.mosquitto import password_line
    from rase.storage.opening import open_database

    with closing(open_database(_settings(config).database, migrations="shuffler")) as database:
        users = broker_users(database)
    for name, password in users:
        click.echo(password_line(name, password))
    click.echo(f"{len(users)} devices; have the broker read it again (SIGHUP).", err=True)


@command.command("countersign")
@click.argument("proposal", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_config
@click.option("--out", type=click.Path(path_type=Path), help="Write the signed document here.")
def countersign(proposal: Path, config: Path, out: Path | None) -> None:
    """Sign a campaign or keyset that the fusion centre proposes, if the policy allows it.

    PROPOSAL holds the CBOR array [document, fusion centre's signature]. Prints the shuffler's
    signature in base64url.
    """
    from rase.atomic_files import replacing
    from rase.shuffler.documents import Countersigner
    from rase.shuffler.proposals import is_keyset
    from rase.shuffler.settings import own_signing_key
    from rase.storage.opening import open_database

    settings = _settings(config)
    key, pinned = own_signing_key(settings)
    database = open_database(settings.database, migrations="shuffler")
    try:
        countersigner = Countersigner(
            database,
            key=key,
            pinned=pinned,
            policy=settings.policy.policy(),
        )
        data, now_s = proposal.read_bytes(), SystemClock().now_s()
        signed: Any
        if is_keyset(data):
            signed, _ = countersigner.keyset(data, now_s=now_s)
        else:
            signed, _ = countersigner.campaign(data, now_s=now_s)
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


_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


@command.group("outbox")
def outbox() -> None:
    """See batches that the fusion centre has not taken, and have them sent again."""


@outbox.command("list")
@_config
@_JSON
def list_(config: Path, as_json: bool) -> None:
    """List the batches that wait, the oldest first: which rounds, and why; never what is in them.

    A batch that is refused is not sent again before rase shuffler outbox retry.
    """
    from rase.shuffler.outbox import list_outbox

    with _open_database(config) as database:
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


@outbox.command("retry")
@click.argument("batches", metavar="[BATCH]...", nargs=-1)
@_config
@_JSON
def retry(batches: tuple[str, ...], config: Path, as_json: bool) -> None:
    """Have batches sent again, unchanged and at once; all of them if none is named.

    BATCH is an id as rase shuffler outbox list prints it, or how it begins.
    """
    from rase.shuffler.outbox import retry_batches

    with _open_database(config) as database:
        try:
            chosen = retry_batches(database, batches)
        except LookupError as error:
            raise click.UsageError(str(error.args[0])) from None
    _echo(chosen, as_json=as_json, schema="rase/outbox-retried/1", word="sent again")


@outbox.command("discard")
@click.argument("batches", metavar="BATCH...", nargs=-1, required=True)
@_config
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
    with _open_database(config) as database:
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
def _open_database(config: Path) -> "Iterator[Database]":
    from rase.service.settings import load_settings
    from rase.shuffler.settings import ShufflerSettings
    from rase.storage.opening import open_database

    settings = load_settings(ShufflerSettings, "shuffler", path=config)
    database = open_database(settings.database, migrations="shuffler")
    try:
        yield database
    finally:
        database.close()


command.add_command(acts_command("shuffler", _open_database))
command.add_command(members_group(_open_database))
