"""Options that several commands share, sizes, and wrong arguments as usage errors."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.device.commands import DEFAULT_FOLDER
from rase.errors import ConfigurationError

if TYPE_CHECKING:
    from rase.storage.address import DatabaseAddress

__all__ = [
    "folder_option",
    "parse_size",
    "read_device_keys",
    "section_config",
    "server_config",
    "server_databases",
    "subscriber_options",
    "table_options",
    "token_of",
    "usage",
]


_KEY_BYTES = 32


@contextmanager
def usage() -> Iterator[None]:
    """Turn a wrong argument into a usage error: one line and exit code 2."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from error


def parse_size(text: str) -> int:
    """Return how many bytes a text such as 512MB, 4GB or 4GiB stands for.

    Raises:
        ValueError: If the text is not a size.

    Example:
        >>> parse_size("512MB"), parse_size("2GiB")
        (512000000, 2147483648)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)[bB]?\s*", text)
    if found is None:
        raise ValueError(f"a size must look like 512MB, 4GB or 4GiB, got {text!r}.")
    number, prefix, binary = found.groups()
    power = " KMGT".index(prefix.upper() or " ")
    return int(float(number) * (1024 if binary else 1000) ** power)


def read_device_keys(file: Path) -> list[bytes]:
    """Read public keys of devices, one on each line in hexadecimal digits.

    Raises:
        click.UsageError: With the first line that is not a key, or has the same key again.
    """
    found: dict[bytes, int] = {}
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            text = line.strip()
            if not text:
                continue
            try:
                key = bytes.fromhex(text)
            except ValueError:
                key = b""
            if len(key) != _KEY_BYTES:
                raise click.UsageError(
                    f"{file.name}: line {number} must be a key of 64 hexadecimal digits."
                )
            if key in found:
                raise click.UsageError(
                    f"{file.name}: line {number} has the key of line {found[key]} again."
                )
            found[key] = number
    if not found:
        raise click.UsageError(f"{file.name} must hold at least one key.")
    return list(found)


def table_options(of: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds the options that say how a table is written.

    The command gets ``columns``, their names, and ``dialect``, the arguments of `Hints`.

    Args:
        of: What the command calls the table.
    """
    options = [
        *(
            click.option(
                f"--{role}-column",
                default=role,
                show_default=True,
                help=f"Its name in {of}; - where there is none.",
            )
            for role in ("time", "device")
        ),
        click.option(
            "--value-column", default="value", show_default=True, help=f"Its name in {of}."
        ),
        click.option(
            "--decimal",
            type=click.Choice(["point", "comma"]),
            help=f"How {of} writes decimals, where its numbers leave it open.",
        ),
        click.option(
            "--dates",
            type=click.Choice(["day-first", "month-first"]),
            help=f"How {of} writes dates such as 03/04/2024, where they leave it open.",
        ),
        click.option(
            "--layout",
            type=click.Choice(["long", "wide"]),
            help="A row for each reading, or a column for each device, where the header leaves it "
            "open.",
        ),
        click.option("--sheet", help=f"Which sheet is the table, if {of} is a spreadsheet."),
        click.option(
            "--times-in", help="Zone of times without one, as Europe/Berlin.  [default: UTC]"
        ),
    ]

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(**asked: Any) -> Any:
            # Servers read their options here as well, and load no tables.
            from rase.tables.layouts import Columns

            columns = Columns(*(asked.pop(f"{role}_column") for role in Columns._fields))
            dialect = {
                "decimal": asked.pop("decimal"),
                "dates": asked.pop("dates"),
                "form": asked.pop("layout"),
                "timezone": asked.pop("times_in"),
                "sheet": asked.pop("sheet"),
            }
            return function(columns=columns, dialect=dialect, **asked)

        found: Callable[..., Any] = command
        for option in reversed(options):
            found = option(found)
        return found

    return add


def folder_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that names the device's folder."""
    return click.option(
        "--folder",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(DEFAULT_FOLDER),
        show_default=True,
        help="The device's folder.",
    )(function)


def subscriber_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that every question needs."""
    for option in (
        click.option("--method", help="The estimator; the campaign's first if not given."),
        click.option("--campaign", help="The campaign; may be left out if there is one."),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path),
            help="File with the token; RASE_SUBSCRIBER__TOKEN_FILE or RASE_SUBSCRIBER__TOKEN.",
        ),
        click.option(
            "--url",
            envvar="RASE_SUBSCRIBER__URL",
            default="http://127.0.0.1:8702",
            show_default=True,
            help="The fusion centre's address; also RASE_SUBSCRIBER__URL.",
        ),
    ):
        function = option(function)
    return function


def token_of(token_file: Path | None) -> str:
    """Return the subscriber's token, which is never typed on the command line.

    Raises:
        ConfigurationError: If there is none.
    """
    named = token_file or os.environ.get("RASE_SUBSCRIBER__TOKEN_FILE")
    if named:
        from rase.wire.private_files import read_secret

        try:
            return read_secret(Path(named))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not a text"
            raise ConfigurationError([f"--token-file {named}: {reason}."]) from None
    token = os.environ.get("RASE_SUBSCRIBER__TOKEN", "").strip()
    if not token:
        raise ConfigurationError(
            ["give a token: --token-file, RASE_SUBSCRIBER__TOKEN_FILE or RASE_SUBSCRIBER__TOKEN."]
        )
    return token


def server_config(function: Callable[..., None]) -> Callable[..., None]:
    """Add the option that names the settings file of a server."""
    return _config("sections [shuffler], [fusion] and [registrar] are")(function)


def section_config(section: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what adds the option that names the settings file, for one of its sections."""
    return _config(f"section [{section}] is")


def _config(sections: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        default=Path("rase.toml"),
        show_default=True,
        help=f"Settings file; its {sections} read.",
    )


def server_databases(config: Path) -> "dict[str, DatabaseAddress]":
    """Return where each server of a settings file keeps its state.

    Raises:
        ConfigurationError: With all that is wrong with the settings.
    """
    from rase.fusion.settings import FusionSettings
    from rase.registrar.settings import RegistrarSettings
    from rase.service.settings import load_settings
    from rase.shuffler.settings import ShufflerSettings
    from rase.toml import parse_toml

    try:
        sections = parse_toml(config.read_bytes())
    except OSError as error:
        raise ConfigurationError([f"{config}: {error.strerror}."]) from None
    except ValueError as error:
        raise ConfigurationError([f"{config} is not TOML: {error}."]) from None
    found: dict[str, DatabaseAddress] = {}
    if "shuffler" in sections:
        found["shuffler"] = load_settings(ShufflerSettings, "shuffler", path=config).database
    if "fusion" in sections:
        found["fusion"] = load_settings(FusionSettings, "fusion", path=config).database
    if "registrar" in sections:
        found["registrar"] = load_settings(RegistrarSettings, "registrar", path=config).database
    if not found:
        raise ConfigurationError(
            [f"{config} must have a section [shuffler], [fusion] or [registrar]."]
        )
    return found
