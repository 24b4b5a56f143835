"""Who may send: single-use enrolment tokens, and device credentials kept only as hashes.

A device proves that it has its token and a key of its own; the secret of its credential is agreed
with that key and is in no message (rase.wire.agreement).

A limit on devices per owner keeps one person from being a crowd. Robustness and k_min count
devices. An operator who says whose tokens are whose bounds what one owner can be; an owner's name
is stored as a hash only, never together with what a device sent.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple

from rase.errors import Malformed, WireError
from rase.service.acts import record_act
from rase.shuffler.membership import changes_of, read_campaigns, write_campaigns
from rase.storage.interface import Database, Transaction
from rase.wire.agreement import Agreement, Application, agree, is_proven, read_key
from rase.wire.frames import broker_password, credential_key, read_report
from rase.wire.signed import PinnedKeys, is_signed_by
from rase.wire.tokens import is_certified, list_input

__all__ = [
    "DEVICES_PER_OWNER",
    "Authenticator",
    "Enrolled",
    "EnrolledDevice",
    "NotEnrolled",
    "Sender",
    "broker_users",
    "check_certificate",
    "check_room",
    "check_token",
    "device_numbers",
    "enrol",
    "enrol_many",
    "enrolled_devices",
    "keep_owner",
    "make_tokens",
    "owner_id",
    "prune_tokens",
    "revoke_devices",
]

DEVICES_PER_OWNER: Final = 20
_SECRET_BYTES: Final = 32
_RETRY_S: Final = 600
_BAD_TOKEN: Final = "the enrolment token is wrong, used or expired; ask for another."  # noqa: S105
_ENOUGH: Final = "the owner of this token has as many devices as the operator allows."
_NOT_CERTIFIED: Final = (
    "the registrar has not certified this device: it must be approved there, too."
)
_BAD_TAG: Final = "the tag is not by a device of this shuffler."
_KEY_BYTES: Final = 32
_FIND: Final = (
    "SELECT digest, group_name, expires_s, device, owner, server_key, campaigns "
    "FROM enrolment_token WHERE id = ?"
)
_HANDLE: Final = re.compile("[0-9A-Fa-f]{16}")
_MAX_CACHED: Final = 500_000


class NotEnrolled(WireError):
    """The sender is not known here; the message does not say what was wrong."""

    problem = "not-enrolled"


@dataclass(frozen=True, slots=True)
class Enrolled:
    """What a device gets once; the shuffler keeps only a hash of it.

    Args:
        device: The device's handle.
        credential: What it shows with each report.
    """

    device: str
    credential: str = field(repr=False)


def make_tokens(
    database: Database,
    count: int,
    *,
    expires_s: int,
    group: str = "",
    owner: str = "",
    most: int = DEVICES_PER_OWNER,
    campaigns: Sequence[str] = (),
) -> tuple[str, ...]:
    """Make single-use enrolment tokens; they can be shown only now.

    Args:
        database: The shuffler's.
        count: How many.
        expires_s: The second from which they are refused.
        group: The public group of the devices that use them.
        owner: The operator's word for whose they are, kept as a hash; empty for nobody's.
        most: How many devices an owner may have.
        campaigns: The ids of those that these devices may report to; every one if none is named.

    Raises:
        ValueError: If the count is not at least 1, a campaign's id is none, or the owner would
            have too many devices.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}.")
    whose, served = owner_id(owner), write_campaigns(campaigns)
    tokens = [(secrets.token_hex(8), secrets.token_urlsafe(_SECRET_BYTES)) for _ in range(count)]
    with database.transaction() as transaction:
        if whose is not None:
            keep_owner(transaction, whose)
            check_room(transaction, whose, count=count, most=most)
        transaction.execute_many(
            "INSERT INTO enrolment_token (id, digest, group_name, expires_s, owner, campaigns) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [
                (name, credential_key(secret), group, expires_s, whose, served)
                for name, secret in tokens
            ],
        )
        record_act(transaction, "admit devices", _describe_admission(count, group, served))
    return tuple(f"{name}.{secret}" for name, secret in tokens)


def _describe_admission(count: int, group: str, campaigns: str | None) -> str:
    """Say in the log of acts who was let in."""
    into = "" if campaigns is None else f" to {', '.join(campaigns.split())}"
    return f"{count}{f' in group {group}' if group else ''}{into}"


def check_token(database: Database, asked: Application, *, now_s: float) -> str:
    """Return the public part of a token that was proven to be there; nothing is written.

    Args:
        database: The shuffler's.
        asked: What a device sent.
        now_s: The time.

    Raises:
        NotEnrolled: If the token is wrong or expired, or the device key is none.
    """
    with database.snapshot() as transaction:
        _right_token(transaction, _FIND, asked, now_s=now_s)
    return asked.token


def enrol(
    database: Database,
    asked: Application,
    *,
    now_s: float,
    certificate: str,
    pinned: PinnedKeys,
    most: int = DEVICES_PER_OWNER,
) -> Agreement:
    """Agree with a device on its credential, for a token.

    The registrar's certificate must come with it: a device needs the word of both operators.

    If the answer is lost on its way, the same device, known by its key, may ask again within ten
    minutes; it gets the same answer, so whoever repeats its request changes nothing.

    Args:
        database: The shuffler's.
        asked: What the device sent.
        now_s: The time.
        certificate: The registrar's signature of the device's key, in base64url.
        pinned: The public signing keys, the registrar's among them.
        most: How many devices the owner of the token may have.

    Raises:
        NotEnrolled: If the token is wrong, used or expired, the key is none, taken or not
            certified, or the owner has enough devices.
    """
    check_certificate(asked.device_key, certificate, pinned)
    with database.share() as transaction:
        found = _right_token(transaction, f"{_FIND} FOR UPDATE", asked, now_s=now_s)
        if found.device is not None:
            return _repeat(transaction, found, asked)
        _check_owner(transaction, found.owner, most=most)
        try:
            server_key, key = agree(asked, found.digest)
        except Malformed as error:
            raise NotEnrolled(str(error)) from None
        device = _add_device(transaction, key, device_key=read_key(asked.device_key), token=found)
        transaction.execute(
            "UPDATE enrolment_token SET device = ?, expires_s = ?, server_key = ? WHERE id = ?",
            (device, min(found.expires_s, int(now_s) + _RETRY_S), server_key, asked.token),
        )
    return Agreement.of(f"{device:016x}", server_key=server_key, key=key)


def _repeat(transaction: Transaction, found: "_Token", asked: Application) -> Agreement:
    """Answer a device that asks again as the first time."""
    rows = transaction.execute(
        "SELECT digest FROM device WHERE id = ? AND device_key = ?",
        (found.device, read_key(asked.device_key)),
    )
    if not rows or found.server_key is None:
        raise NotEnrolled(_BAD_TOKEN)
    return Agreement.of(f"{found.device:016x}", server_key=found.server_key, key=bytes(rows[0][0]))


def check_certificate(device_key: str, certificate: str, pinned: PinnedKeys) -> None:
    """Refuse a device that the pinned registrar did not certify.

    Args:
        device_key: The device's public key in base64url.
        certificate: The registrar's signature of it likewise.
        pinned: The public signing keys, the registrar's among them.

    Raises:
        NotEnrolled: If so.
    """
    try:
        signature = base64.b64decode(certificate + "==", altchars=b"-_")
    except (ValueError, binascii.Error):
        signature = b""
    try:
        key = read_key(device_key)
    except Malformed as error:
        raise NotEnrolled(str(error)) from None
    if not is_certified(key, signature, pinned):
        raise NotEnrolled(_NOT_CERTIFIED)


def enrol_many(
    database: Database,
    device_keys: Sequence[bytes],
    *,
    certificate: bytes,
    pinned: PinnedKeys,
    group: str = "",
    campaigns: Sequence[str] = (),
    keep: Callable[[Sequence[Enrolled]], None] | None = None,
) -> tuple[Enrolled, ...]:
    """Enrol a whole fleet whose public keys the operator already has, in one transaction.

    Args:
        database: The shuffler's.
        device_keys: The public Ed25519 key of each device.
        certificate: The registrar's signature of the whole list.
        pinned: The public signing keys, the registrar's among them.
        group: The public group of all of them.
        campaigns: The ids of those that they may report to; every one if none is named.
        keep: Stores what each device gets; if it fails, none is enrolled.

    Returns:
        What each device gets, in the order of the keys; it can be shown only now.

    Raises:
        ValueError: If a key does not have 32 bytes, occurs twice, or belongs to an enrolled device;
            then none is enrolled.
        NotEnrolled: If the registrar did not certify the list.
    """
    if not is_signed_by(pinned.registrar, list_input(device_keys), certificate):
        raise NotEnrolled(_NOT_CERTIFIED)
    if any(len(key) != _KEY_BYTES for key in device_keys):
        raise ValueError("device_keys must be public Ed25519 keys of 32 bytes each.")
    # Random, so that the number reveals nothing about when the device came.
    made = [(secrets.randbits(63), secrets.token_urlsafe(_SECRET_BYTES)) for _ in device_keys]
    served = write_campaigns(campaigns)
    rows = [
        (device, credential_key(secret), key, group, served)
        for (device, secret), key in zip(made, device_keys, strict=True)
    ]
    with database.transaction() as transaction:
        added = transaction.execute_many(
            "INSERT INTO device (id, digest, device_key, group_name, campaigns) "
            "VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            rows,
        )
        if added != len(rows):
            raise ValueError(
                f"{len(rows) - added} of {len(rows)} device_keys occur twice or belong to devices "
                "that are enrolled; none was enrolled."
            )
        record_act(transaction, "enrol devices", _describe_admission(len(rows), group, served))
        found = tuple(
            Enrolled(f"{device:016x}", f"{device:016x}.{secret}") for device, secret in made
        )
        if keep is not None:
            keep(found)
    return found


def prune_tokens(database: Database, *, now_s: float) -> None:
    """Forget tokens that have expired."""
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM enrolment_token WHERE expires_s <= ?", (int(now_s),))


@dataclass(frozen=True, slots=True, order=True)
class EnrolledDevice:
    """Name one device that may send.

    Args:
        group: Its public group.
        device: Its handle.
    """

    group: str
    device: str


def enrolled_devices(database: Database) -> list[EnrolledDevice]:
    """Return all devices that may send, by group and handle; nothing of what they sent."""
    with database.snapshot() as transaction:
        rows = transaction.execute("SELECT group_name, id FROM device")
    return sorted(EnrolledDevice(group, f"{device:016x}") for group, device in rows)


def broker_users(database: Database) -> list[tuple[str, str]]:
    """Return the handle and the broker's password of each device that may send."""
    with database.snapshot() as transaction:
        rows = transaction.execute("SELECT id, digest FROM device ORDER BY id")
    return [(f"{device:016x}", broker_password(bytes(digest))) for device, digest in rows]


def revoke_devices(database: Database, handles: Sequence[str]) -> tuple[str, ...]:
    """Let devices send no more: their credentials end, and what waits of theirs is erased.

    A round that is being closed at this moment may still hold a report of theirs.

    Args:
        database: The shuffler's.
        handles: Theirs.

    Returns:
        The handles, each once.

    Raises:
        ValueError: If a handle is none; nothing is revoked then.
        LookupError: If a device is not enrolled; then nothing is revoked.
    """
    numbers = device_numbers(handles)
    with database.transaction() as transaction:
        for handle, number in numbers.items():
            found = transaction.execute("DELETE FROM device WHERE id = ? RETURNING id", (number,))
            if not found:
                raise LookupError(f"device {handle} is not enrolled; nothing was revoked.")
            transaction.execute("INSERT INTO revoked_device (id) VALUES (?)", (number,))
            transaction.execute("DELETE FROM report WHERE device = ?", (number,))
            transaction.execute("DELETE FROM enrolment_token WHERE device = ?", (number,))
            record_act(transaction, "revoke device", handle)
    return tuple(numbers)


def device_numbers(handles: Sequence[str]) -> dict[str, int]:
    """Return the numbers of devices by their handles in lower case.

    Raises:
        ValueError: If a handle is none.
    """
    found = {}
    for handle in handles:
        number = _number(handle)
        if number is None:
            raise ValueError(f"a device must have 16 hexadecimal digits, got {handle.lower()!r}.")
        found[handle.lower()] = number
    return found


class Authenticator:
    """Say which device made the tag of a report; hashes are kept in memory, up to a limit.

    Args:
        database: The shuffler's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._digests: dict[int, bytes] = {}
        # Of devices that may not report to every campaign alone; most may.
        self._campaigns: dict[int, frozenset[str]] = {}
        self._changes = 0

    def preload(self) -> None:
        """Read the hashes of all devices, up to the most that are kept."""
        with self._database.snapshot() as transaction:
            self._changes = changes_of(transaction)
            rows = transaction.execute(
                "SELECT id, digest, campaigns FROM device LIMIT ?", (_MAX_CACHED,)
            )
        # The limits first: another task may look meanwhile.
        self._campaigns = {
            device: served
            for device, _, stored in rows
            if (served := read_campaigns(stored)) is not None
        }
        self._digests = {device: bytes(digest) for device, digest, _ in rows}

    def renew(self) -> None:
        """Notice who was revoked or given other campaigns meanwhile, perhaps by another process."""
        with self._database.snapshot() as transaction:
            rows = transaction.execute("SELECT id FROM revoked_device")
            is_changed = changes_of(transaction) != self._changes
        if is_changed:
            self.preload()
        for (device,) in rows:
            self._digests.pop(device, None)

    def known_sender(self, handle: str, frame: bytes) -> "Sender | None":
        """Return who made the tag of a frame if its hash is in memory; None otherwise.

        Args:
            handle: The device's.
            frame: The report with its tag.

        Raises:
            NotEnrolled: If the handle is none.
        """
        device = _number(handle)
        if device is None:
            raise NotEnrolled(_BAD_TAG)
        key = self._digests.get(device)
        wire = None if key is None else read_report(frame, handle, key)
        if key is None or wire is None:
            return None
        return Sender(device, key, wire, self._campaigns.get(device))

    def look_up_sender(self, handle: str, frame: bytes) -> "Sender":
        """Return who made the tag of a frame, asking the database.

        Raises:
            NotEnrolled: If no enrolled device of that handle did.
        """
        device = int(handle, 16)
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                "SELECT digest, campaigns FROM device WHERE id = ?", (device,)
            )
            is_news = changes_of(transaction) != self._changes
        key = bytes(rows[0][0]) if rows else bytes(32)
        wire = read_report(frame, handle, key)
        if not rows or wire is None:
            raise NotEnrolled(_BAD_TAG)
        campaigns = read_campaigns(rows[0][1])
        if not is_news:
            # Otherwise what is kept could be older than what is read when the change is noticed.
            self._keep(device, key, campaigns)
        return Sender(device, key, wire, campaigns)

    def _keep(self, device: int, digest: bytes, campaigns: frozenset[str] | None) -> None:
        if len(self._digests) >= _MAX_CACHED:
            self._digests.clear()
            self._campaigns.clear()
        if campaigns is not None:
            self._campaigns[device] = campaigns
        self._digests[device] = digest


class Sender(NamedTuple):
    """A report, its device, the key to tag an answer with, and the campaigns of the device.

    None stands for every campaign.
    """

    device: int
    key: bytes
    wire: bytes
    campaigns: frozenset[str] | None = None


class _Token(NamedTuple):
    """What is known of a token: its hash, what it is for, its end, its use."""

    digest: bytes
    group: str
    expires_s: int
    device: int | None
    owner: bytes | None
    server_key: bytes | None
    campaigns: str | None


def _right_token(
    transaction: Transaction, question: str, asked: Application, *, now_s: float
) -> _Token:
    is_name = _HANDLE.fullmatch(asked.token) is not None
    rows = transaction.execute(question, (asked.token,)) if is_name else []
    # An unknown token is compared too, so that it takes as long as a wrong one.
    digest, *rest = rows[0] if rows else (bytes(32), "", 0, None, None, None, None)
    found = _Token(bytes(digest), *rest)
    try:
        is_right = is_proven(asked, found.digest)
    except Malformed as error:
        raise NotEnrolled(str(error)) from None
    if not is_right or now_s >= found.expires_s:
        raise NotEnrolled(_BAD_TOKEN)
    return found


def _check_owner(transaction: Transaction, owner: bytes | None, *, most: int) -> None:
    if owner is not None:
        try:
            check_room(transaction, owner, count=1, most=most)
        except ValueError:
            raise NotEnrolled(_ENOUGH) from None


def _add_device(transaction: Transaction, key: bytes, *, device_key: bytes, token: _Token) -> int:
    # Random, so that the number reveals nothing about when the device came.
    device = secrets.randbits(63)
    made = transaction.execute(
        "INSERT INTO device (id, digest, device_key, group_name, owner, campaigns) "
        "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
        (device, key, device_key, token.group, token.owner, token.campaigns),
    )
    if not made:
        raise NotEnrolled("the device key is used by another device; make a new one.")
    return device


def _number(handle: str) -> int | None:
    """Return the number behind a device's handle; None if it is not a handle."""
    if not _HANDLE.fullmatch(handle):
        return None
    number = int(handle, 16)
    return number if number < 1 << 63 else None


_LONGEST: Final = 200


def owner_id(name: str) -> bytes | None:
    """Return what is stored for an owner; None if no name was given.

    Whoever can guess the name can find it, so a customer number is better than a name.

    Args:
        name: The operator's word for the owner.

    Raises:
        ValueError: If the name is too long.
    """
    if len(name) > _LONGEST:
        raise ValueError(f"owner must have at most {_LONGEST} characters, got {len(name)}.")
    return sha256(b"rase owner\0" + name.encode()).digest() if name else None


def keep_owner(transaction: Transaction, owner: bytes) -> None:
    """Make a row for an owner, unless there is one."""
    transaction.execute("INSERT INTO owner (id) VALUES (?) ON CONFLICT DO NOTHING", (owner,))


def check_room(transaction: Transaction, owner: bytes, *, count: int, most: int) -> None:
    """Refuse devices beyond what an owner may have; until the transaction's end nobody adds one.

    Args:
        transaction: That in which the devices are added.
        owner: As returned by `owner_id`.
        count: How many are to be added.
        most: How many the owner may have.

    Raises:
        ValueError: If there would be too many.
    """
    # The row is held, so that two at once do not both find the last place free.
    transaction.execute("SELECT id FROM owner WHERE id = ? FOR UPDATE", (owner,))
    ((found,),) = transaction.execute("SELECT count(*) FROM device WHERE owner = ?", (owner,))
    if found + count > most:
        raise ValueError(
            f"an owner must have at most {most} devices, got {found + count}; revoke one that is "
            "no longer used, or raise shuffler.limits.devices_per_owner."
        )
