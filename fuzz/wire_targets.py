"""Targets for what devices and servers send each other: only named refusals may come out.

Where a format is deterministic, what was read must be written as the same bytes.
"""

import functools
import hmac
from collections.abc import Callable
from typing import Any, Final, TypeVar

from rase.errors import Malformed, UnknownVersion, Unsupported, WireError
from rase.shuffler.report_handler import read_reports
from rase.wire import cbor
from rase.wire.frames import TAG_BYTES, Policy, read_answer, read_report, report_frame
from rase.wire.inner import InnerOpener
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.messages import Batch, BatchManifest, Content, Header, inner_info
from rase.wire.outer import OuterOpener
from rase.wire.parcel import MANIFEST_HEADER, header_of, manifest_of
from rase.wire.problems import Problem, problem_of
from rase.wire.signed import (
    PinnedKeys,
    SignedCampaign,
    SignedKeyset,
    SignedManifest,
    campaign_bytes,
    campaign_from_bytes,
    versions_bytes,
    versions_from_bytes,
)
from rase.wire.suites import public_bytes, public_key, suite

__all__ = ["CAMPAIGN_HASH", "HANDLE", "TAG_KEY", "WIRE_TARGETS", "opening_key", "signing_key"]

CAMPAIGN_HASH: Final = bytes(range(32))
HANDLE: Final = "3f2a90c1d45b6e78"
TAG_KEY: Final = bytes(32)
_ANSWER: Final = b"rase/1 mqtt answer\0"
_MOST: Final = 1 << 16
_PLACE: Final = {"key_id": 7, "round": 495_123}
_T = TypeVar("_T")


def opening_key(role: Role) -> OpeningKey:
    """Return the key of a server under which targets open."""
    return OpeningKey(role=role, id=7, secret=bytes([len(role)]) * 32)


def signing_key(role: Role) -> SigningKey:
    """Return the key of a server that targets pin."""
    return SigningKey(role=role, secret=bytes([len(role)]) * 32)


def decode_cbor(data: bytes) -> None:
    """Read CBOR; there is one encoding of a value."""
    try:
        value = cbor.decode(data, max_size=_MOST)
    except WireError:
        return
    assert cbor.encode(value) == data


def read_header(data: bytes) -> None:
    """Read the clear header of a report."""
    try:
        header = Header.from_report(data)
    except WireError:
        return
    assert data.startswith(header.to_bytes())


def read_content(data: bytes) -> None:
    """Read what an inner envelope holds."""
    try:
        content = Content.from_bytes(data)
    except WireError:
        return
    assert content.to_bytes() == data


def open_report(data: bytes) -> None:
    """Open a report as the shuffler does; nobody sealed these bytes."""
    try:
        _outer().open(data)
    except WireError as error:
        problem_of(error).to_json()


def open_content(data: bytes) -> None:
    """Open an envelope whose sealed content is these bytes, as a lying device makes it."""
    hpke, public, info, opener = _inner()
    try:
        content = opener.open(hpke.encrypt(data[:32].ljust(32, b"\0"), public, info), **_PLACE)
    except WireError as error:
        problem_of(error).to_json()
        return
    assert content.round == _PLACE["round"]


def open_inner(data: bytes) -> None:
    """Open an inner envelope; nobody sealed these bytes."""
    try:
        _inner()[3].open(data, **_PLACE)
    except WireError:
        return


def read_batch(data: bytes) -> None:
    """Read a batch."""
    _same(Batch.from_bytes, Batch.to_bytes, data)


def read_manifest(data: bytes) -> None:
    """Read a manifest."""
    _same(BatchManifest.from_bytes, BatchManifest.to_bytes, data)


def read_keyset(data: bytes) -> None:
    """Read a keyset."""
    _same(Keyset.from_bytes, Keyset.to_bytes, data)


def read_campaign(data: bytes) -> None:
    """Read a campaign."""
    _same(campaign_from_bytes, campaign_bytes, data)


def read_signed(data: bytes) -> None:
    """Read all that is signed; nobody signed these bytes, unless they are of the corpus."""
    pinned = _pinned()
    _same(lambda one: SignedCampaign.from_bytes(one, pinned), SignedCampaign.to_bytes, data)
    _same(lambda one: SignedKeyset.from_bytes(one, pinned), SignedKeyset.to_bytes, data)
    _same(lambda one: SignedManifest.from_bytes(one, pinned), SignedManifest.to_bytes, data)


def read_policy(data: bytes) -> None:
    """Read what a broker retains, and the versions in it."""
    _same(Policy.from_bytes, Policy.to_bytes, data)
    _same(versions_from_bytes, versions_bytes, data)


def read_manifest_header(data: bytes) -> None:
    """Read the header that tells a manifest, as HTTP hands it over."""
    text = data.decode("latin-1")
    try:
        manifest = manifest_of(text)
    except Malformed:
        return
    assert manifest_of(header_of(manifest)[MANIFEST_HEADER]) == manifest


def read_gateway(data: bytes) -> None:
    """Read the reports of a gateway."""
    try:
        read_reports(data, most=100)
    except WireError as error:
        problem_of(error).to_json()


def read_frame(data: bytes) -> None:
    """Read a report as it comes through a broker; only tagged ones are believed."""
    found = read_report(data, HANDLE, TAG_KEY)
    assert found is None or report_frame(found, HANDLE, TAG_KEY) == data
    assert read_report(report_frame(data, HANDLE, TAG_KEY), HANDLE, TAG_KEY) == data


def read_reply(data: bytes) -> None:
    """Read an answer out of a broker, as anybody sends it there, and as the shuffler tags it."""
    tag = hmac.digest(TAG_KEY, _ANSWER + HANDLE.encode() + b"\0" + data, "sha256")[:TAG_BYTES]
    for frame in (data, data + tag):
        found = read_answer(frame, HANDLE, TAG_KEY)
        if found is not None:
            report, reply = found
            assert type(report) is str
            assert type(reply.status) is int
            assert reply.problem is None or type(reply.problem) is str
            assert reply.retry_after_s is None or type(reply.retry_after_s) is int


def read_problem(data: bytes) -> None:
    """Read problem details."""
    try:
        problem = Problem.from_json(data)
    except Malformed:
        return
    problem.to_json()


def read_key_text(data: bytes) -> None:
    """Read the text of a private file; no refusal quotes it."""
    text = data.decode("ascii", errors="replace")
    for kind in (OpeningKey, SigningKey):
        try:
            key = kind.from_text(text)
        except (Malformed, UnknownVersion, Unsupported):
            continue
        assert kind.from_text(key.to_text()) == key


WIRE_TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "cbor": decode_cbor,
    "header": read_header,
    "content": read_content,
    "outer": open_report,
    "inner": open_inner,
    "sealed_content": open_content,
    "batch": read_batch,
    "manifest": read_manifest,
    "keyset": read_keyset,
    "campaign": read_campaign,
    "signed": read_signed,
    "policy": read_policy,
    "manifest_header": read_manifest_header,
    "gateway": read_gateway,
    "frame": read_frame,
    "reply": read_reply,
    "problem": read_problem,
    "key_text": read_key_text,
}


def _same(read: Callable[[bytes], _T], write: Callable[[_T], bytes], data: bytes) -> None:
    """Read and write; a refusal must be one that can be told to the other side."""
    try:
        value = read(data)
    except WireError as error:
        problem_of(error).to_json()
        return
    assert write(value) == data


@functools.cache
def _outer() -> OuterOpener:
    return OuterOpener(CAMPAIGN_HASH, [opening_key(Role.SHUFFLER)])


@functools.cache
def _inner() -> tuple[Any, Any, bytes, InnerOpener]:
    key = opening_key(Role.FUSION)
    public = public_key(key.kem, public_bytes(key.kem, key.secret))
    info = inner_info(CAMPAIGN_HASH, _PLACE["round"])
    opener = InnerOpener(CAMPAIGN_HASH, [key], class_count=2)
    return suite(key.kem, key.aead), public, info, opener


@functools.cache
def _pinned() -> PinnedKeys:
    fusion, shuffler = (signing_key(role) for role in (Role.FUSION, Role.SHUFFLER))
    return PinnedKeys(fusion.public_bytes(), shuffler.public_bytes(), bytes(32))
