"""Who may open a report: the public keyset, and the servers' private keys.

Their files are written and read by rase.wire.private_files.
"""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rase.errors import Malformed, UnknownKey, WrongSize
from rase.wire import cbor
from rase.wire.messages import FORMAT, check_format, check_names, check_whole
from rase.wire.suites import (
    CHACHA20_POLY1305,
    HKDF_SHA256,
    PUBLIC_SIZES,
    SEED_SIZE,
    X25519,
    check_suite,
    public_bytes,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "KeyConfig",
    "KeyState",
    "Keyset",
    "OpeningKey",
    "Role",
    "SigningKey",
]

_MAX_KEYSET_BYTES = 1 << 18
_MAX_S = 2**40
_LINE = "RASE-SECRET-KEY-1 "
_MAX_KEY_BYTES: Final = 1024
_T = TypeVar("_T", "OpeningKey", "SigningKey")


class Role(StrEnum):
    """Name the two servers."""

    SHUFFLER = "shuffler"
    FUSION = "fusion"


class KeyState(StrEnum):
    """Say whether devices seal with a key now."""

    PENDING = "pending"
    ACTIVE = "active"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyConfig:
    """One public HPKE key with its suite and times.

    Args:
        role: Whose key it is.
        id: Its number, 0 to 255, among the keys of its owner.
        kem: The registered number of the key encapsulation.
        kdf: The registered number of the key derivation.
        aead: The registered number of the cipher.
        public_key: The key.
        not_before_s: The second from which devices seal with it.
        not_after_s: The second from which they no longer do.

    Raises:
        Unsupported: If the suite is not one of the protocol.
        ValueError: If a field is out of range.
    """

    role: Role
    id: int
    kem: int = X25519
    kdf: int = HKDF_SHA256
    aead: int = CHACHA20_POLY1305
    public_key: bytes = field(repr=False)
    not_before_s: int
    not_after_s: int

    def __post_init__(self) -> None:
        """Check everything once."""
        object.__setattr__(self, "role", Role(self.role))
        check_whole("id", self.id, 0, 256)
        for name in ("kem", "kdf", "aead", "not_before_s", "not_after_s"):
            check_whole(name, getattr(self, name), 0, _MAX_S)
        check_suite(self.kem, self.kdf, self.aead)
        if self.role is Role.SHUFFLER and self.kem != X25519:
            raise ValueError("kem must be X25519 for the shuffler; X-Wing is for the inner layer.")
        _check_bytes("public_key", self.public_key, PUBLIC_SIZES[self.kem])
        if self.not_before_s >= self.not_after_s:
            raise ValueError("not_before_s must be before not_after_s.")

    def state(self, now_s: float) -> KeyState:
        """Return the key's state at a time."""
        if now_s < self.not_before_s:
            return KeyState.PENDING
        return KeyState.ACTIVE if now_s < self.not_after_s else KeyState.EXPIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyset:
    """The public keys of both servers; devices fetch it again at least every ``cache_s``.

    Args:
        version: One more for each change; a device never goes back.
        cache_s: How long a device may keep it.
        configs: The keys, of both servers.

    Raises:
        ValueError: If a number is used twice, or a server has no key.
    """

    version: int
    cache_s: int
    configs: tuple[KeyConfig, ...]

    def __post_init__(self) -> None:
        """Check everything once."""
        # The number stands in each report, in four bytes.
        check_whole("version", self.version, 1, 2**32)
        check_whole("cache_s", self.cache_s, 1, _MAX_S)
        owners = [(config.role, config.id) for config in self.configs]
        if len(set(owners)) != len(owners):
            raise ValueError("configs must not use a number twice for one server.")
        if {role for role, _ in owners} != set(Role):
            raise ValueError("configs must hold a key of the shuffler and of the fusion centre.")

    def active(
        self, role: Role, now_s: float, *, kem: int | None = None, aead: int | None = None
    ) -> KeyConfig:
        """Return the key to seal with: of those active now, the one that began last.

        Args:
            role: The server.
            now_s: The time.
            kem: Only keys of this KEM; for the fusion centre's key, the campaign's.
            aead: Only keys of this cipher.

        Raises:
            UnknownKey: If none is active.
        """
        found = [
            config
            for config in self.configs
            if config.role is role
            and config.state(now_s) is KeyState.ACTIVE
            and kem in (None, config.kem)
            and aead in (None, config.aead)
        ]
        if not found:
            raise UnknownKey(f"the {role} has no active key of that suite; fetch the keyset again.")
        return max(found, key=lambda config: (config.not_before_s, -config.id))

    def accepted_key(self, role: Role, key_id: int, *, now_s: float) -> KeyConfig:
        """Return the key of a number, if reports sealed with it are accepted now.

        Expired keys are accepted for twice the cache time: a device may have fetched the keyset
        just before the key expired, and may send in the next round.

        Raises:
            UnknownKey: If there is none; the report must be sealed again.
        """
        for config in self.configs:
            if (config.role, config.id) == (role, key_id):
                if config.not_before_s <= now_s < config.not_after_s + 2 * self.cache_s:
                    return config
                raise UnknownKey(f"key {key_id} of the {role} is {config.state(now_s)}.")
        raise UnknownKey(f"the {role} has no key {key_id}.")

    def to_bytes(self) -> bytes:
        """Return the bytes that are signed."""
        configs = [
            {item.name: getattr(config, item.name) for item in fields(config)}
            for config in self.configs
        ]
        values = {"version": self.version, "cache_s": self.cache_s, "configs": configs}
        return cbor.encode({"format": FORMAT, **values})

    @classmethod
    def from_bytes(cls, body: bytes) -> "Keyset":
        """Read a keyset.

        Raises:
            WireError: Named, if it is not such as `to_bytes` writes.
        """
        values = check_format("keyset", cbor.decode(body, max_size=_MAX_KEYSET_BYTES))
        values = check_names("keyset", values, [item.name for item in fields(cls)])
        configs = values.pop("configs")
        if not isinstance(configs, list) or not all(isinstance(item, dict) for item in configs):
            raise Malformed("the configs of a keyset must be an array of maps.")
        try:
            return cls(configs=tuple(_config_of(item) for item in configs), **values)
        except ValueError as error:
            raise Malformed(str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningKey:
    """A server's private HPKE key; it never shows it.

    Args:
        role: Whose key it is.
        id: Its number.
        kem: The registered number of the key encapsulation.
        aead: The registered number of the cipher.
        secret: The 32 secret bytes.
    """

    role: Role
    id: int
    kem: int = X25519
    aead: int = CHACHA20_POLY1305
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check the secret once; the rest is checked with the public key."""
        object.__setattr__(self, "role", Role(self.role))
        check_suite(self.kem, HKDF_SHA256, self.aead)
        _check_bytes("secret", self.secret, SEED_SIZE)

    @classmethod
    def generate(
        cls, role: Role, key_id: int, *, kem: int = X25519, aead: int = CHACHA20_POLY1305
    ) -> "OpeningKey":
        """Return a fresh key."""
        return cls(role=role, id=key_id, kem=kem, aead=aead, secret=os.urandom(SEED_SIZE))

    def config(self, *, not_before_s: int, not_after_s: int) -> KeyConfig:
        """Return the public side, for a keyset."""
        return KeyConfig(
            role=self.role,
            id=self.id,
            kem=self.kem,
            aead=self.aead,
            public_key=public_bytes(self.kem, self.secret),
            not_before_s=not_before_s,
            not_after_s=not_after_s,
        )

    def to_text(self) -> str:
        """Return the key as one line for a private file."""
        return _text_of("opening", self)

    @classmethod
    def from_text(cls, text: str) -> "OpeningKey":
        """Read the line of a private file.

        Raises:
            Malformed: If it is no such key.
            UnknownVersion: If it is of another format than 1.
            Unsupported: If its suite is not one of the protocol.
        """
        return _key_of("opening", text, cls)


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A server's private Ed25519 key; it never shows it.

    Args:
        role: Whose key it is.
        secret: The 32 secret bytes.
    """

    role: Role
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check both once."""
        object.__setattr__(self, "role", Role(self.role))
        _check_bytes("secret", self.secret, SEED_SIZE)

    @classmethod
    def generate(cls, role: Role) -> "SigningKey":
        """Return a fresh key."""
        return cls(role=role, secret=os.urandom(SEED_SIZE))

    def public_bytes(self) -> bytes:
        """Return the public key, which devices pin."""
        return self._private().public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the 64 bytes of a signature."""
        return self._private().sign(message)

    def to_text(self) -> str:
        """Return the key as one line for a private file."""
        return _text_of("signing", self)

    @classmethod
    def from_text(cls, text: str) -> "SigningKey":
        """Read the line of a private file.

        Raises:
            Malformed: If it is no such key.
            UnknownVersion: If it is of another format than 1.
            Unsupported: If its suite is not one of the protocol.
        """
        return _key_of("signing", text, cls)

    def _private(self) -> "Ed25519PrivateKey":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.secret)


def _config_of(values: Mapping[str, Any]) -> KeyConfig:
    return KeyConfig(
        **check_names("key configuration", values, [item.name for item in fields(KeyConfig)])
    )


def _check_bytes(name: str, value: object, size: int) -> None:
    if not isinstance(value, bytes) or len(value) != size:
        raise ValueError(f"{name} must have {size} bytes.")


def _text_of(kind: str, key: OpeningKey | SigningKey) -> str:
    values = {item.name: getattr(key, item.name) for item in fields(key)}
    body = cbor.encode({"format": FORMAT, "kind": kind, **values})
    return f"{_LINE}{base64.b64encode(body).decode()}\n"


def _key_of(kind: str, text: str, cls: type[_T]) -> _T:
    try:
        body = base64.b64decode(text.strip().removeprefix(_LINE).encode(), validate=True)
        values = check_format("key", cbor.decode(body, max_size=_MAX_KEY_BYTES))
        names = ["kind", *(item.name for item in fields(cls))]
        values = check_names("key", values, names)
        if values.pop("kind") != kind:
            raise Malformed(f"the file must hold a key for {kind}; it holds another.")
        return cls(**values)
    except (ValueError, TypeError, WrongSize):
        # What went wrong may quote the file, and with it the secret.
        raise Malformed(f"the file must hold one {kind} key; it does not.") from None
