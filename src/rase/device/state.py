"""What a device remembers besides its ledger: accepted terms, and cover reports not yet done with.

One small file that is replaced as a whole. It never holds a reading; noisy values that are still
to be sent lie in the ledger, paid for.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rase.device.consent import Consent
from rase.errors import RaseError
from rase.wire.private_files import replace_private

__all__ = ["Cover", "DeviceState", "StateFile", "StateStore", "StateUnusable"]

_SCHEMA = "rase/device-state/1"


class StateUnusable(RaseError):
    """The state cannot be read or written; says what to do."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Cover:
    """A cover report: its bytes, and whether the shuffler acknowledged them."""

    envelope: bytes = field(repr=False)
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class DeviceState:
    """Everything that a device remembers.

    Args:
        campaigns: The accepted versions of the campaign as they were published, ascending.
        keyset: The accepted keyset as it was published.
        covers: Cover reports by round.
        consent: What the owner agreed to; None before the first campaign, or if it was not kept.
        keyset_seen_s: When the keyset was last the one to go by; None before the first, or if it
            was not kept.
    """

    campaigns: tuple[bytes, ...] = ()
    keyset: bytes | None = None
    covers: Mapping[int, Cover] = field(default_factory=dict)
    consent: Consent | None = None
    keyset_seen_s: float | None = None


class StateStore(Protocol):
    """Keep the state."""

    def load(self) -> DeviceState:
        """Return what was saved last."""
        ...

    def save(self, state: DeviceState) -> None:
        """Keep a state, durably, all of it or nothing.

        Raises:
            StateUnusable: If the state cannot be written; the previous one is still there.
        """
        ...


class StateFile:
    """Keep the state in a file for its owner only, with a checksum.

    Args:
        path: The file; `save` makes it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> DeviceState:
        """Read the file.

        Raises:
            StateUnusable: If the state is missing, damaged, or of another version.
        """
        try:
            document = json.loads(self._path.read_text(encoding="ascii"))
            body = document["state"]
            schema, checksum = document["schema"], document["sha256"]
        except FileNotFoundError:
            raise StateUnusable(
                f"there is no state at {self._path}; enrolment makes it. Without it a device "
                "could be talked into an older campaign: enrol again."
            ) from None
        except OSError as error:
            raise StateUnusable(f"{self._path} cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise self._damage_error() from None
        if schema != _SCHEMA:
            raise StateUnusable(f"{self._path} must be of {_SCHEMA}. Use a newer program.")
        if checksum != _checksum(body):
            raise self._damage_error()
        try:
            return _state_of(body)
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
            raise self._damage_error() from None

    def save(self, state: DeviceState) -> None:
        """Replace the file.

        Raises:
            StateUnusable: If the state cannot be written; the old one is still there.
        """
        body = _fields_of(state)
        text = json.dumps({"schema": _SCHEMA, "sha256": _checksum(body), "state": body}, indent=1)
        try:
            replace_private(self._path, text + "\n")
        except OSError as error:
            raise StateUnusable(
                f"{self._path} cannot be written: {error.strerror}. See that the disk has space."
            ) from None

    def _damage_error(self) -> StateUnusable:
        return StateUnusable(
            f"{self._path} is damaged. Keep ledger.db, remove the file and enrol again; "
            "what was spent stays counted."
        )


def _checksum(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _fields_of(state: DeviceState) -> dict[str, Any]:
    return {
        "campaigns": [_text(data) for data in state.campaigns],
        "keyset": None if state.keyset is None else _text(state.keyset),
        "covers": {
            str(round): [_text(cover.envelope), cover.is_done]
            for round, cover in sorted(state.covers.items())
        },
        "consent": None if state.consent is None else state.consent.as_fields(),
        "keyset_seen_s": state.keyset_seen_s,
    }


def _state_of(body: Any) -> DeviceState:
    # Absent in files of programs that asked for no consent, or kept no such time.
    consent, seen_s = body.get("consent"), body.get("keyset_seen_s")
    return DeviceState(
        campaigns=tuple(_bytes(text) for text in body["campaigns"]),
        keyset=None if body["keyset"] is None else _bytes(body["keyset"]),
        covers={
            int(round): Cover(_bytes(text), bool(is_done))
            for round, (text, is_done) in body["covers"].items()
        },
        consent=None if consent is None else Consent.from_fields(consent),
        keyset_seen_s=None if seen_s is None else float(seen_s),
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
