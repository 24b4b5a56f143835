"""How a report is authenticated, and what travels through a broker: topics, answers, the policy.

Whoever ends TLS sees a request, and a broker sees topic and payload, so a credential must not be in
any of them. A device is named by its opaque handle, the part of the credential before the dot. What
proves it is a tag (HMAC-SHA256, RFC 2104) of the report under a key that both ends have: the hash
by which the shuffler knows the secret part. So neither proxy nor broker can send in a device's name
anything but what it sent, and a broker cannot answer in the shuffler's.
"""

import base64
import hashlib
import hmac
import json
from typing import Any, Final, NamedTuple

from rase.errors import Malformed
from rase.wire import cbor

__all__ = [
    "MAX_POLICY_BYTES",
    "TAG_BYTES",
    "Policy",
    "Reply",
    "Topics",
    "answer_frame",
    "authorization_of",
    "broker_password",
    "credential_key",
    "frame_of",
    "handle_of",
    "read_answer",
    "read_authorization",
    "read_report",
    "report_frame",
    "report_id",
]

TAG_BYTES: Final = 16
# The longest versions and the longest keyset, with its signatures, fit.
MAX_POLICY_BYTES: Final = (1 << 20) + (1 << 18)
_REPORT: Final = b"rase/2 report\0"
# Of the header Authorization; schemes have no case (RFC 9110, 11.1).
_SCHEME: Final = "RASE "
_AUTHORIZATION_BYTES: Final = len(_SCHEME) + 16 + 1 + 2 * TAG_BYTES
_ANSWER: Final = b"rase/1 mqtt answer\0"
_PASSWORD: Final = b"rase/1 mqtt password\0"
# The one answer that nobody can tag: the shuffler has no key of the device it is for.
_UNTAGGED: Final = "not-enrolled"


class Topics:
    """Name the topics of a campaign.

    Args:
        campaign: Its id; + for all.

    Example:
        >>> Topics("homes").report("3f2a90c1d45b6e78")
        'rase/homes/report/3f2a90c1d45b6e78'
    """

    def __init__(self, campaign: str) -> None:
        self._root = f"rase/{campaign}"
        self.policy = f"{self._root}/policy"
        self.estimate = f"{self._root}/estimate"

    def report(self, handle: str) -> str:
        """Return where a device sends."""
        return f"{self._root}/report/{handle}"

    def answer(self, handle: str) -> str:
        """Return where a device is answered."""
        return f"{self._root}/answer/{handle}"

    def label(self, label: str) -> str:
        """Return where the mean of the devices of a label is, or their shares."""
        return f"{self.estimate}/label/{label}"

    def alarm(self, name: str) -> str:
        """Return where it says how an alarm stands."""
        return f"{self._root}/alarm/{name}"

    def window(self, w: int) -> str:
        """Return where the mean over w rounds is."""
        return f"{self.estimate}/window/{w}"

    def status(self, role: str) -> str:
        """Return where a server says that it is there."""
        return f"{self._root}/{role}/status"


class Policy(NamedTuple):
    """What devices need: all versions that may matter, and the keyset, each signed by both."""

    versions: bytes
    keyset: bytes

    def to_bytes(self) -> bytes:
        """Return the retained message."""
        return cbor.encode([self.versions, self.keyset])

    @classmethod
    def from_bytes(cls, data: bytes) -> "Policy":
        """Read the retained message.

        Raises:
            WireError: If the bytes are no policy; signatures are checked by whoever uses the parts.
        """
        parts: Any = cbor.decode(data, max_size=MAX_POLICY_BYTES)
        if not isinstance(parts, list) or [type(part) for part in parts] != [bytes, bytes]:
            raise Malformed("a policy must be [versions, keyset].")
        return cls(*parts)


class Reply(NamedTuple):
    """What became of a report: the HTTP status, and the problem's name if there is one."""

    status: int
    problem: str | None = None
    retry_after_s: int | None = None


def handle_of(credential: str) -> str:
    """Return the public part of a credential."""
    return credential.partition(".")[0]


def credential_key(secret: str) -> bytes:
    """Return the hash by which the shuffler knows the secret part of a credential."""
    # Secrets have 256 random bits: a slow hash would add nothing but time.
    return hashlib.sha256(b"rase/1 credential\0" + secret.encode()).digest()


def broker_password(key: bytes) -> str:
    """Return what a device shows to the broker; whoever learns it cannot make a tag."""
    digest = hmac.digest(key, _PASSWORD, "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def report_id(wire: bytes) -> str:
    """Return by which name an answer refers to a report."""
    return hashlib.sha256(wire).hexdigest()[:16]


def frame_of(wire: bytes, credential: str) -> bytes:
    """Return a report with the tag that only the holder of a credential makes."""
    handle, _, secret = credential.partition(".")
    return report_frame(wire, handle, credential_key(secret))


def authorization_of(wire: bytes, credential: str) -> str:
    """Return the header Authorization of a report: the handle and the tag, never the secret.

    Example:
        >>> authorization_of(bytes(437), "3f2a90c1d45b6e78.secret")[:30]
        'RASE 3f2a90c1d45b6e78.e49b75c0'
    """
    return f"{_SCHEME}{handle_of(credential)}.{frame_of(wire, credential)[-TAG_BYTES:].hex()}"


def read_authorization(value: bytes) -> tuple[str, bytes] | None:
    """Return handle and tag of the header Authorization of a report; None if it is no such header.

    Args:
        value: The header's.
    """
    scheme, rest = value[: len(_SCHEME)], value[len(_SCHEME) :]
    if len(value) != _AUTHORIZATION_BYTES or scheme.upper() != _SCHEME.encode():
        return None
    try:
        handle, _, tag = rest.decode("ascii").partition(".")
        return handle, bytes.fromhex(tag)
    except ValueError:
        return None


def report_frame(wire: bytes, handle: str, key: bytes) -> bytes:
    """Return a report as it travels: its bytes and the tag, always of one size."""
    return wire + _tag(_REPORT, handle, wire, key)


def read_report(frame: bytes, handle: str, key: bytes) -> bytes | None:
    """Return the report in a frame; None if the tag is not by this device."""
    wire, tag = frame[:-TAG_BYTES], frame[-TAG_BYTES:]
    return wire if hmac.compare_digest(tag, _tag(_REPORT, handle, wire, key)) else None


def answer_frame(report: str, handle: str, reply: Reply, key: bytes | None) -> bytes:
    """Return the answer to a report as it is published.

    Args:
        report: The report's `report_id`.
        handle: The device.
        reply: What it is sent.
        key: The device's; None if the shuffler has none, and the device is not enrolled.
    """
    fields = {name: value for name, value in reply._asdict().items() if value is not None}
    text = json.dumps({"report": report, **fields}, separators=(",", ":")).encode()
    return text + (bytes(TAG_BYTES) if key is None else _tag(_ANSWER, handle, text, key))


def read_answer(frame: bytes, handle: str, key: bytes) -> tuple[str, Reply] | None:
    """Return the report that an answer is about, and the answer; None if it is not to be believed.

    That a device is not enrolled is believed without a tag: it makes the device wait and send the
    same bytes again, as silence does.
    """
    text, tag = frame[:-TAG_BYTES], frame[-TAG_BYTES:]
    try:
        document = json.loads(text)
        report = document.pop("report")
        reply = Reply(**document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if not _is_reply(report, *reply):
        return None
    is_tagged = hmac.compare_digest(tag, _tag(_ANSWER, handle, text, key))
    if not is_tagged and reply.problem != _UNTAGGED:
        return None
    return report, reply


def _is_reply(report: object, status: object, problem: object, retry_after_s: object) -> bool:
    """Return whether all members of an answer have their types; JSON has others."""
    return (
        isinstance(report, str)
        and type(status) is int
        and isinstance(problem, str | None)
        and type(retry_after_s) in (int, type(None))
    )


def _tag(purpose: bytes, handle: str, data: bytes, key: bytes) -> bytes:
    return hmac.digest(key, purpose + handle.encode() + b"\0" + data, "sha256")[:TAG_BYTES]
