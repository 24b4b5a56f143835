"""Keys and addresses as settings: what both servers read, and check alike."""

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from rase.address import split_address
from rase.errors import ConfigurationError, WireError
from rase.wire.keys import OpeningKey, Role, SigningKey
from rase.wire.private_files import read_private

__all__ = [
    "AddressSetting",
    "PublicKeySetting",
    "public_key_bytes",
    "read_opening_keys",
    "read_secret_key",
    "read_signing_key",
]


def public_key_bytes(text: str) -> bytes:
    """Return the bytes of a key written in hex or base64url; none if it is neither."""
    try:
        if len(text) == 64:
            return bytes.fromhex(text)
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return b""


def _public_key(text: str) -> str:
    if len(public_key_bytes(text)) != 32:
        raise ValueError("must be the 32 bytes of a public Ed25519 key, in hex or base64url.")
    return text


def _address(text: str) -> str:
    split_address(text, plain="http", secure="https")
    return text


PublicKeySetting = Annotated[str, AfterValidator(_public_key)]
"""The public Ed25519 key of a peer, in hex or base64url."""

AddressSetting = Annotated[str, AfterValidator(_address)]
"""Where a peer listens; without TLS on this machine alone."""


def read_signing_key(path: Path, *, role: Role) -> SigningKey:
    """Return a server's signing key; the setting is ``signing_key_file``.

    Raises:
        ConfigurationError: If the file cannot be read, or is not a signing key of that role.
    """
    name = f"{role}.signing_key_file"
    try:
        key = SigningKey.from_text(_private_text(path, name))
    except WireError as error:
        raise ConfigurationError([f"{name}: {path}: {error}"]) from None
    if key.role is not role:
        raise ConfigurationError([f"{name}: {path} is of the {key.role}."])
    return key


def read_secret_key(path: Path, name: str) -> bytes:
    """Return the 32 secret bytes of an Ed25519 key in base64, as a registrar keeps its own.

    Args:
        path: The file, for its owner only.
        name: The setting that names it.

    Raises:
        ConfigurationError: If the file cannot be read, or is no such key.
    """
    try:
        secret = base64.b64decode(_private_text(path, name).strip(), validate=True)
    except (ValueError, binascii.Error):
        secret = b""
    if len(secret) != 32:
        raise ConfigurationError([f"{name}: {path} must hold the 32 bytes of a key in base64."])
    return secret


def read_opening_keys(paths: Sequence[Path], *, role: Role) -> tuple[OpeningKey, ...]:
    """Return a server's opening keys; the setting is ``opening_key_files``.

    Raises:
        ConfigurationError: With every file that is not one, and if two have the same number.
    """
    name = f"{role}.opening_key_files"
    keys: list[OpeningKey] = []
    mistakes: list[str] = []
    for path in paths:
        try:
            key = OpeningKey.from_text(_private_text(path, name))
        except ConfigurationError as error:
            mistakes += error.mistakes
        except WireError as error:
            mistakes.append(f"{name}: {path}: {error}")
        else:
            keys.append(key)
            if key.role is not role:
                mistakes.append(f"{name}: {path} is of the {key.role}.")
    if len({key.id for key in keys}) != len(keys):
        mistakes.append(f"{name} must hold keys of different numbers.")
    if mistakes:
        raise ConfigurationError(mistakes)
    return tuple(keys)


def _private_text(path: Path, name: str) -> str:
    try:
        return read_private(path)
    except OSError as error:
        # A file that is open to others is named already.
        reason = f"{path}: {error.strerror}." if error.strerror else str(error)
        raise ConfigurationError([f"{name}: {reason}"]) from None
