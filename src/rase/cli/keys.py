"""``rase keys``: show the keys of an installed server, renew them, pin those of another."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rase.clock import SystemClock, parse_duration_s, time_in_words
from rase.errors import ConfigurationError

if TYPE_CHECKING:
    from rase.wire.keys import KeyConfig, Role

__all__ = ["command"]

_REGISTRAR: Final = "registrar"
_FOLDER = click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))


@click.group("keys", short_help="Show, renew and exchange the keys of a server.")
def command() -> None:
    """Show, renew and exchange the keys of a server. No command prints a private key."""


@command.command("show")
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def show(folder: Path, as_json: bool) -> None:
    """Show the fingerprints of the keys in a server's FOLDER, and when they are used."""
    from rase.service.keyring import PUBLIC_FILE, fingerprint, read_public_keys

    public = read_public_keys(folder / PUBLIC_FILE)
    rows = [_key_row(config) for config in public.configs]
    if as_json:
        document = {
            "schema": "rase/keys/1",
            "role": public.role,
            "signing": {"fingerprint": fingerprint(public.signing_key)},
            "opening": rows,
        }
        click.echo(json.dumps(document))
        return
    click.echo(f"{public.role} signing    {fingerprint(public.signing_key)}")
    for row in rows:
        click.echo(f"{public.role} opening {row['id']:<2} {row['fingerprint']}  {_when(row)}")


@command.command("rotate")
@_FOLDER
@click.option("--valid", default="365d", show_default=True, help="How long the new key is used.")
@click.option("--publish-within", help="How long until it is published, as 1d; the cache time.")
@click.option(
    "--replace-pending",
    is_flag=True,
    help="Drop keys that have not begun and were never published.",
)
def rotate(folder: Path, valid: str, publish_within: str | None, replace_pending: bool) -> None:
    """Make a new opening key for the server in FOLDER, and let the old ones run out.

    The new key becomes active, and the old ones expire, two cache times after the latest moment of
    publishing: then every device has the new keyset, and the shuffler signs no sooner change.
    Expired keys are accepted for twice the cache time.
    """
    from rase.service.keyring import (
        KEYSET_FILE,
        PUBLIC_FILE,
        SETTINGS_FILE,
        read_public_keys,
        rotate_opening_key,
    )
    from rase.wire.keys import Role

    valid_s = _seconds("--valid", valid)
    publish_s = None if publish_within is None else _seconds("--publish-within", publish_within)
    role = read_public_keys(folder / PUBLIC_FILE).role
    done = rotate_opening_key(
        folder,
        _opening_key_files(folder, role),
        now_s=int(SystemClock().now_s()),
        valid_s=valid_s,
        publish_s=publish_s,
        replace_pending=replace_pending,
    )
    for config in done.public.configs:
        row = _key_row(config)
        click.echo(f"{role} opening {row['id']:<2} {row['fingerprint']}  {_when(row)}")
    settings = folder / SETTINGS_FILE
    steps = []
    if role is Role.FUSION:
        steps.append(f"rase fusion publish-keys {folder / KEYSET_FILE} --config {settings}")
    else:
        steps.append(
            f"send {folder / PUBLIC_FILE} to the fusion centre's operator, who runs rase keys "
            "adopt and rase fusion publish-keys"
        )
    steps += [f"erase {path}: no report needs it any longer" for path in done.retired]
    click.echo(
        f"A running {role} reads the key within seconds. Next: " + "; ".join(steps) + ".", err=True
    )


@command.command("adopt")
@_FOLDER
@click.argument("public", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--yes", is_flag=True, help="Do not ask; the fingerprint was compared.")
def adopt(folder: Path, public: Path, yes: bool) -> None:
    """Pin the keys of another server in FOLDER; PUBLIC is that server's public.json.

    Of a registrar it is what rase registrar keys --json prints. FOLDER is a server's or a device's.
    In the fusion centre's, the keyset is renewed, too.
    """
    from rase.service.key_settings import public_key_bytes
    from rase.service.keyring import (
        KEYSET_FILE,
        SETTINGS_FILE,
        adopt_keys,
        fingerprint,
        pin_key,
        pinned_in,
        read_public_keys,
        read_registrar_key,
    )

    registrar = read_registrar_key(public)
    theirs = read_public_keys(public) if registrar is None else None
    role, key = (theirs.role, theirs.signing_key) if theirs else (_REGISTRAR, registrar or b"")
    own = _whose(folder)
    if own == role:
        raise click.UsageError(f"{public} holds keys of the {role} itself; nothing to pin.")
    name = "device.toml" if own == "device" else SETTINGS_FILE
    click.echo(f"{role} signing    {fingerprint(key)}")
    for config in theirs.configs if theirs else ():
        click.echo(f"{role} opening {config.id:<2} {fingerprint(config.public_key)}")
    pinned = pinned_in(folder / name, role)
    is_new = pinned is None or public_key_bytes(pinned) != key
    if is_new and not yes:
        click.confirm(
            f"Another signing key than the pinned one. Does the {role}'s operator, asked by "
            "another way, have the same fingerprint?",
            abort=True,
            err=True,
        )
    keyset = None
    if theirs:
        keyset = adopt_keys(folder, name, theirs)
    else:
        pin_key(folder / name, role, key)
    if keyset is not None:
        click.echo(
            f"keyset {keyset.version}; next: rase fusion publish-keys {folder / KEYSET_FILE} "
            f"--config {folder / SETTINGS_FILE}",
            err=True,
        )
    elif not is_new:
        click.echo("nothing changed.", err=True)


def _whose(folder: Path) -> str:
    """Return whose folder it is: a device's, a server's, or the registrar's, which has no file."""
    from rase.service.keyring import PUBLIC_FILE, SETTINGS_FILE, read_public_keys
    from rase.toml import parse_toml

    if (folder / "device.toml").exists():
        return "device"
    path = folder / SETTINGS_FILE
    if path.exists() and not (folder / PUBLIC_FILE).exists():
        try:
            if _REGISTRAR in parse_toml(path.read_bytes()):
                return _REGISTRAR
        except ValueError:
            raise ConfigurationError([f"{path} must be TOML."]) from None
    return read_public_keys(folder / PUBLIC_FILE).role


def _seconds(option: str, text: str) -> int:
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


def _opening_key_files(folder: Path, role: "Role") -> list[Path]:
    from rase.service.keyring import SETTINGS_FILE
    from rase.toml import parse_toml

    path = folder / SETTINGS_FILE
    try:
        table = parse_toml(path.read_bytes()).get(role, {})
        return [folder / str(name) for name in table["opening_key_files"]]
    except OSError as error:
        raise ConfigurationError([f"{path}: {error.strerror}."]) from None
    except (ValueError, KeyError, TypeError):
        raise ConfigurationError([f"{path} must set {role}.opening_key_files."]) from None


def _key_row(config: "KeyConfig") -> dict[str, Any]:
    from rase.service.keyring import fingerprint

    return {
        "id": config.id,
        "fingerprint": fingerprint(config.public_key),
        "state": config.state(SystemClock().now_s()),
        "not_before_s": config.not_before_s,
        "not_after_s": config.not_after_s,
    }


def _when(row: dict[str, Any]) -> str:
    begin, end = (time_in_words(row[name]) for name in ("not_before_s", "not_after_s"))
    return f"{row['state']}, {begin} to {end}"
