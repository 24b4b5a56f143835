"""The keys of an installed server: published, exchanged with the other server, renewed.

A folder holds ``rase.toml``, the private keys in ``keys``, and ``public.json`` with their public
sides; the fusion centre's also ``keyset.json``, which it publishes.
"""

import base64
import json
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from rase.atomic_files import write_atomic
from rase.errors import ConfigurationError, WireError
from rase.wire.key_schedule import LEAD_CACHES, MAX_PENDING
from rase.wire.keys import KeyConfig, Keyset, OpeningKey, Role
from rase.wire.private_files import write_private

__all__ = [
    "KEYSET_FILE",
    "KEYS_FOLDER",
    "PUBLIC_FILE",
    "REGISTRAR_SCHEMA",
    "SETTINGS_FILE",
    "PublicKeys",
    "Rotation",
    "adopt_keys",
    "fingerprint",
    "keyset_text",
    "opening_key_name",
    "pin_key",
    "pinned_in",
    "public_keys_from_text",
    "public_text",
    "read_keyset",
    "read_public_keys",
    "read_registrar_key",
    "rotate_opening_key",
    "take_keys",
    "with_setting",
]

SETTINGS_FILE: Final = "rase.toml"
KEYS_FOLDER: Final = "keys"
PUBLIC_FILE: Final = "public.json"
KEYSET_FILE: Final = "keyset.json"
REGISTRAR_SCHEMA: Final = "rase/token-keys/1"
"""Of what ``rase registrar keys --json`` prints."""

_SCHEMA: Final = "rase/public-keys/1"
_IDS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKeys:
    """The public keys of one server, as its operator sends them to the other.

    Args:
        role: Whose they are.
        signing_key: The public Ed25519 key, which the others pin.
        cache_s: How long devices may keep a keyset.
        configs: The public HPKE keys.

    Raises:
        ValueError: If the keys do not belong to one server.
    """

    role: Role
    signing_key: bytes = field(repr=False)
    cache_s: int
    configs: tuple[KeyConfig, ...]

    def __post_init__(self) -> None:
        """Check everything once."""
        object.__setattr__(self, "role", Role(self.role))
        if len(self.signing_key) != 32:
            raise ValueError("signing_key must be the 32 bytes of a public Ed25519 key.")
        if type(self.cache_s) is not int or self.cache_s < 1:
            raise ValueError("cache_s must be a whole number of at least 1.")
        numbers = [config.id for config in self.configs]
        if not numbers or len(set(numbers)) != len(numbers):
            raise ValueError("configs must hold keys of different numbers.")
        if any(config.role is not self.role for config in self.configs):
            raise ValueError(f"configs must be keys of the {self.role} only.")

    def to_text(self) -> str:
        """Return them as JSON."""
        document = {
            "schema": _SCHEMA,
            "role": self.role,
            "signing_key": self.signing_key.hex(),
            "cache_s": self.cache_s,
            "configs": [_config_fields(config) for config in self.configs],
        }
        return json.dumps(document, indent=1) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What a rotation did.

    Args:
        public: The public keys of the server now.
        added: The new key.
        key_file: Its private side.
        retired: The private files that no report needs any longer.
        keyset: The new keyset, in the fusion centre's folder.
    """

    public: PublicKeys
    added: KeyConfig
    key_file: Path
    retired: tuple[Path, ...]
    keyset: Keyset | None


def fingerprint(public_key: bytes) -> str:
    """Return what two people compare on the telephone: half of a SHA-256, in groups.

    Example:
        >>> fingerprint(bytes(32))
        '6668 7aad f862 bd77 6c8f c18b 8e9f 8e20'
    """
    digits = sha256(public_key).hexdigest()[:32]
    return " ".join(digits[start : start + 4] for start in range(0, 32, 4))


def public_text(public_key: bytes) -> str:
    """Return a public key in base64url, as all settings files take it."""
    return base64.urlsafe_b64encode(public_key).decode().rstrip("=")


def opening_key_name(key_id: int) -> str:
    """Return where a private opening key lies in its server's folder."""
    return f"{KEYS_FOLDER}/opening-{key_id}.key"


def read_public_keys(path: Path) -> PublicKeys:
    """Read a ``public.json``.

    Raises:
        ConfigurationError: If the file has no public keys.
    """
    return public_keys_from_text(_text(path), str(path))


def public_keys_from_text(text: str, name: str) -> PublicKeys:
    """Read the text of a ``public.json``.

    Args:
        text: The text.
        name: What messages call it.

    Raises:
        ConfigurationError: If it has no public keys.
    """
    document = _document(text, name)
    try:
        if document.get("schema") != _SCHEMA:
            raise ValueError(f"schema must be {_SCHEMA}")
        return PublicKeys(
            role=document["role"],
            signing_key=bytes.fromhex(document["signing_key"]),
            cache_s=document["cache_s"],
            configs=_configs(document["configs"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, WireError) as error:
        raise ConfigurationError([f"{name} holds no public keys: {_reason(error)}."]) from None


def read_registrar_key(path: Path) -> bytes | None:
    """Return the registrar's public key out of what ``rase registrar keys --json`` printed.

    Returns:
        The key; None if the file is of another kind.

    Raises:
        ConfigurationError: If it is of this kind, and has no key.
    """
    document = _document(_text(path), str(path))
    if document.get("schema") != REGISTRAR_SCHEMA:
        return None
    try:
        key = base64.urlsafe_b64decode(document["registrar_key"] + "=")
    except (KeyError, TypeError, ValueError):
        key = b""
    if len(key) != 32:
        raise ConfigurationError([f"{path} holds no public key of a registrar."])
    return key


def read_keyset(path: Path) -> Keyset:
    """Read a ``keyset.json``.

    Raises:
        ConfigurationError: If the file has no keyset.
    """
    document = _document(_text(path), str(path))
    try:
        unknown = sorted(set(document) - {item.name for item in fields(Keyset)})
        if unknown:
            raise ValueError(f"{', '.join(unknown)} is not a field of one")
        return Keyset(
            version=document["version"],
            cache_s=document["cache_s"],
            configs=_configs(document["configs"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, WireError) as error:
        raise ConfigurationError([f"{path} holds no keyset: {_reason(error)}."]) from None


def keyset_text(keyset: Keyset) -> str:
    """Return a keyset as JSON, as ``rase fusion publish-keys`` reads it."""
    document = {
        "version": keyset.version,
        "cache_s": keyset.cache_s,
        "configs": [_config_fields(config) for config in keyset.configs],
    }
    return json.dumps(document, indent=1) + "\n"


def rotate_opening_key(
    folder: Path,
    key_files: Sequence[Path],
    *,
    now_s: int,
    valid_s: int,
    publish_s: int | None = None,
    replace_pending: bool = False,
    published: Keyset | None = None,
    keeps_replaced: bool = False,
) -> Rotation:
    """Give a server a new opening key; the one in use stays until every device has the new one.

    The new key becomes active, and the old ones expire, two cache times after the keyset was
    published, as shuffler and devices demand; and no sooner than two cache times after the key
    before it. Expired keys are accepted for twice the cache time. Keys beyond that leave the
    settings.

    Args:
        folder: The server's folder.
        key_files: The private files that its settings name.
        now_s: The time.
        valid_s: How long devices seal with the new key.
        publish_s: How long it may take until the keyset is published; devices that did not have it
            when the key became active would seal for another key than the others, and too few for
            one key are not released. The cache time if None.
        replace_pending: Whether the new key takes the place of keys that have not begun, which were
            never published; two of them are the most otherwise.
        published: What is published, if that is known: then those are replaced that are not in it,
            also if they have begun meanwhile, and no others.
        keeps_replaced: Whether the settings still name the private files of keys that are replaced.

    Raises:
        ConfigurationError: If a file is not as ``rase init`` made it, or too many keys are pending;
            nothing is changed then.
    """
    public = read_public_keys(folder / PUBLIC_FILE)
    old_keyset = None
    if public.role is Role.FUSION:
        old_keyset = read_keyset(folder / KEYSET_FILE)
    lead_s = LEAD_CACHES * public.cache_s
    begin_s = now_s + (public.cache_s if publish_s is None else publish_s) + lead_s
    pending = [config for config in public.configs if now_s < config.not_before_s]
    if replace_pending:
        if published is not None:
            known = {config.public_key for config in published.configs}
            pending = [config for config in public.configs if config.public_key not in known]
        kept = [config for config in public.configs if config not in pending]
        # They were to end when the key that is replaced began; now they last until the new one.
        ends = {config.not_before_s for config in pending}
        kept = [_lasting(config, begin_s, ends) for config in kept]
    elif len(pending) >= MAX_PENDING:
        text = (
            f"{folder} has {len(pending)} keys that have not begun, the most there may be: wait "
            "for the next, or use --replace-pending if they were never published."
        )
        raise ConfigurationError([text])
    else:
        kept = list(public.configs)
        begin_s = max([begin_s, *(config.not_before_s + lead_s for config in pending)])
    held = [
        _ending(config, begin_s)
        for config in kept
        if now_s < config.not_after_s + 2 * public.cache_s
    ]
    dropped = {config.id for config in public.configs} - {config.id for config in held}
    if keeps_replaced and replace_pending:
        dropped -= {config.id for config in pending}
    newest = max(public.configs, key=lambda config: config.not_before_s)
    key = OpeningKey.generate(
        public.role, _free_id(folder, public.configs), kem=newest.kem, aead=newest.aead
    )
    added = key.config(not_before_s=begin_s, not_after_s=begin_s + valid_s)
    public = replace(public, configs=(*held, added))
    keyset = None
    if old_keyset is not None:
        keyset = _keyset_with(old_keyset, public)
    retired = tuple(
        path for path in key_files if path.name in {Path(opening_key_name(i)).name for i in dropped}
    )
    key_file = folder / opening_key_name(key.id)
    names = [
        os.path.relpath(path, folder) for path in (*key_files, key_file) if path not in retired
    ]
    settings = with_setting(
        folder / SETTINGS_FILE, "opening_key_files", f"[{', '.join(map(json.dumps, names))}]"
    )
    # In this order a death in between leaves a key too many, never a public key without its file.
    write_private(key_file, key.to_text())
    _replace(folder / SETTINGS_FILE, settings)
    _replace(folder / PUBLIC_FILE, public.to_text())
    if keyset is not None:
        _replace(folder / KEYSET_FILE, keyset_text(keyset))
    return Rotation(public=public, added=added, key_file=key_file, retired=retired, keyset=keyset)


def adopt_keys(folder: Path, settings_file: str, public: PublicKeys) -> Keyset | None:
    """Pin the signing key of another server, and take its opening keys into the keyset.

    Args:
        folder: The folder of a device, or of the server on the other side.
        settings_file: The name of its settings file.
        public: The keys, compared with what their operator says by another way.

    Returns:
        The new keyset in the fusion centre's folder, or None if nothing changed or it has none.

    Raises:
        ConfigurationError: If a file is not as ``rase init`` made it; nothing is changed then.
    """
    if (folder / KEYSET_FILE).exists():
        # Read before anything is written.
        read_keyset(folder / KEYSET_FILE)
    pin_key(folder / settings_file, public.role, public.signing_key)
    return take_keys(folder, public) if (folder / KEYSET_FILE).exists() else None


def pin_key(path: Path, name: str, signing_key: bytes) -> None:
    """Pin the public signing key of a server in a settings file.

    Raises:
        ConfigurationError: If the file does not set it on one line; nothing is changed then.
    """
    text = with_setting(path, f"{name}_key", json.dumps(public_text(signing_key)))
    _replace(path, text)


def take_keys(folder: Path, public: PublicKeys) -> Keyset | None:
    """Take the other server's opening keys into the fusion centre's keyset.

    Args:
        folder: The fusion centre's.
        public: The keys.

    Returns:
        The new keyset, or None if it has these keys.
    """
    old = read_keyset(folder / KEYSET_FILE)
    keyset = _keyset_with(old, public)
    if set(keyset.configs) == set(old.configs):
        return None
    _replace(folder / KEYSET_FILE, keyset_text(keyset))
    return keyset


def pinned_in(path: Path, role: str) -> str | None:
    """Return the text of a pinned key in a settings file, None if there is none."""
    found = re.findall(rf'^{role}_key = "(.*)"$', _text(path), re.MULTILINE)
    return str(found[0]) if len(found) == 1 else None


def with_setting(path: Path, name: str, value: str) -> str:
    """Return a settings file's text with another value on the one line that sets a name.

    Raises:
        ConfigurationError: If there is not exactly one such line.
    """
    text, count = re.subn(
        rf"^{name} = .*$", lambda _: f"{name} = {value}", _text(path), flags=re.MULTILINE
    )
    if count != 1:
        raise ConfigurationError(
            [f"{path} must set {name} on one line of its own; write there: {name} = {value}"]
        )
    return text


def _keyset_with(keyset: Keyset, public: PublicKeys) -> Keyset:
    others = tuple(config for config in keyset.configs if config.role is not public.role)
    return replace(keyset, version=keyset.version + 1, configs=(*others, *public.configs))


def _lasting(config: KeyConfig, end_s: int, ends: Collection[int]) -> KeyConfig:
    return replace(config, not_after_s=end_s) if config.not_after_s in ends else config


def _ending(config: KeyConfig, end_s: int) -> KeyConfig:
    return replace(config, not_after_s=min(config.not_after_s, end_s))


def _free_id(folder: Path, configs: Iterable[KeyConfig]) -> int:
    used = {config.id for config in configs}
    last = max(used)
    for step in range(1, _IDS):
        number = (last + step) % _IDS
        if number not in used and not (folder / opening_key_name(number)).exists():
            return number
    raise ConfigurationError(
        [f"{folder / KEYS_FOLDER} holds a key of every number; erase old ones."]
    )


def _config_fields(config: KeyConfig) -> dict[str, Any]:
    values = {item.name: getattr(config, item.name) for item in fields(config)}
    return {**values, "public_key": config.public_key.hex()}


def _configs(items: Iterable[dict[str, Any]]) -> tuple[KeyConfig, ...]:
    return tuple(
        KeyConfig(**{**item, "public_key": bytes.fromhex(item["public_key"])}) for item in items
    )


def _document(text: str, name: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ConfigurationError([f"{name} must be a JSON object."])
    return document


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError([f"{path} must be a text in UTF-8."]) from None
    except OSError as error:
        raise ConfigurationError([f"{path}: {error.strerror}; rase init makes it."]) from None


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    return str(error).rstrip(".")


def _replace(path: Path, text: str) -> None:
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    write_atomic(path, text, mode=mode)
