"""Who may have tokens: approvals, certificates of devices' keys, revocation.

An approval is a secret for one device, as the shuffler's enrolment token is. A device needs both:
the registrar's certificate makes the shuffler admit it, and neither operator adds one alone.
"""

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from rase.errors import WireError
from rase.service.acts import record_act
from rase.storage.interface import Database, Transaction
from rase.wire.signed import is_signed_by, sign_with
from rase.wire.tokens import certificate_input, list_input, proof_input

__all__ = [
    "KnownDevice",
    "NotApproved",
    "certify",
    "certify_list",
    "is_known",
    "known_devices",
    "make_approvals",
    "prune_approvals",
    "revoke_devices",
]

_SECRET_BYTES: Final = 32
_RETRY_S: Final = 600
_LONGEST: Final = 128
_BAD: Final = "the approval is wrong, used or expired; ask the registrar's operator for another."


class NotApproved(WireError):
    """The registrar does not know the device; the message does not say what was wrong."""

    problem = "not-enrolled"


@dataclass(frozen=True, slots=True, order=True)
class KnownDevice:
    """Name one certified device.

    Args:
        device_key: Its public key, in hex.
        is_revoked: Whether it gets no more tokens.
    """

    device_key: str
    is_revoked: bool


def make_approvals(database: Database, count: int, *, expires_s: int) -> tuple[str, ...]:
    """Make secrets for one device each; they can be shown only now.

    Raises:
        ValueError: If the count is not at least 1.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}.")
    made = [(secrets.token_hex(8), secrets.token_urlsafe(_SECRET_BYTES)) for _ in range(count)]
    with database.transaction() as transaction:
        transaction.execute_many(
            "INSERT INTO approval (id, digest, expires_s) VALUES (?, ?, ?)",
            [(name, _digest(secret), expires_s) for name, secret in made],
        )
        record_act(transaction, "approve devices", str(count))
    return tuple(f"{name}.{secret}" for name, secret in made)


def certify(
    database: Database,
    approval: str,
    *,
    device_key: bytes,
    proof: bytes,
    secret: bytes,
    now_s: float,
) -> bytes:
    """Turn an approval into the certificate of a device's key.

    The same device may ask again within ten minutes, as when the answer was lost.

    Args:
        database: The registrar's.
        approval: As made by `make_approvals`.
        device_key: The device's public Ed25519 key.
        proof: The device's signature, which shows that the key is its own.
        secret: The registrar's signing key.
        now_s: The time.

    Raises:
        NotApproved: If the approval is wrong, used or expired, the proof is not by the key, or the
            device was revoked.
    """
    if not is_signed_by(device_key, proof_input(device_key), proof):
        raise NotApproved("the proof must be signed by the device's key; it is not.")
    name, _, hidden = approval[:_LONGEST].partition(".")
    with database.transaction() as transaction:
        rows = transaction.execute(
            "SELECT digest, expires_s, device_key FROM approval WHERE id = ?", (name,)
        )
        digest, expires_s, used_by = rows[0] if rows else (bytes(32), 0, None)
        is_right = hmac.compare_digest(bytes(digest), _digest(hidden))
        if not is_right or now_s >= expires_s or used_by not in (None, device_key):
            raise NotApproved(_BAD)
        transaction.execute(
            "UPDATE approval SET device_key = ?, expires_s = ? WHERE id = ?",
            (device_key, min(expires_s, int(now_s) + _RETRY_S), name),
        )
        _add(transaction, [device_key])
        if not is_known(transaction, device_key):
            raise NotApproved(_BAD)
    return sign_with(secret, certificate_input(device_key))


def certify_list(database: Database, device_keys: Sequence[bytes], *, secret: bytes) -> bytes:
    """Certify a whole fleet whose public keys the operator already has, with one signature.

    Args:
        database: The registrar's.
        device_keys: The public Ed25519 key of each device.
        secret: The registrar's signing key.

    Returns:
        The certificate of the list, for the shuffler's operator.
    """
    with database.transaction() as transaction:
        _add(transaction, device_keys)
        record_act(transaction, "certify devices", str(len(device_keys)))
    return sign_with(secret, list_input(device_keys))


def revoke_devices(database: Database, device_keys: Sequence[str]) -> tuple[str, ...]:
    """Give devices no more tokens; those they have count until their window ends.

    Args:
        database: The registrar's.
        device_keys: Their public keys in hex, or how these begin.

    Returns:
        The whole keys.

    Raises:
        LookupError: If a key is unknown or fits several devices; then nothing is revoked.
    """
    chosen: list[str] = []
    with database.transaction() as transaction:
        known = [
            bytes(key).hex() for (key,) in transaction.execute("SELECT device_key FROM device")
        ]
        for asked in device_keys:
            found = [key for key in known if asked and key.startswith(asked.lower())]
            if len(found) != 1:
                count = "no" if not found else "more than one"
                raise LookupError(
                    f"{count} certified device has a key that begins with {asked!r}; nothing was "
                    "revoked."
                )
            chosen += found
        transaction.execute_many(
            "UPDATE device SET is_revoked = 1 WHERE device_key = ?",
            [(bytes.fromhex(key),) for key in chosen],
        )
        for key in dict.fromkeys(chosen):
            record_act(transaction, "revoke device", key)
    return tuple(dict.fromkeys(chosen))


def known_devices(database: Database) -> list[KnownDevice]:
    """Return all devices that were certified."""
    with database.snapshot() as transaction:
        rows = transaction.execute("SELECT device_key, is_revoked FROM device")
    return sorted(KnownDevice(bytes(key).hex(), bool(revoked)) for key, revoked in rows)


def is_known(transaction: Transaction, device_key: bytes) -> bool:
    """Return whether a device is certified and not revoked."""
    return bool(
        transaction.execute(
            "SELECT 1 FROM device WHERE device_key = ? AND is_revoked = 0", (device_key,)
        )
    )


def prune_approvals(database: Database, *, now_s: float) -> None:
    """Forget approvals that have expired."""
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM approval WHERE expires_s <= ?", (int(now_s),))


def _add(transaction: Transaction, device_keys: Sequence[bytes]) -> None:
    transaction.execute_many(
        "INSERT INTO device (device_key, is_revoked) VALUES (?, 0) ON CONFLICT DO NOTHING",
        [(key,) for key in device_keys],
    )


def _digest(secret: str) -> bytes:
    return sha256(b"rase/2 approval\0" + secret.encode()).digest()
