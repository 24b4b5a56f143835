"""What is written: a report's header and content, a batch of inner envelopes and its manifest."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple

from rase.errors import Malformed, UnknownVersion, WrongSize
from rase.wire import cbor
from rase.wire.suites import TAG_SIZE, X25519, X_WING, enc_size

__all__ = [
    "CONTENT_SIZE",
    "FORMAT",
    "HEADER_SIZE",
    "INNER_SIZES",
    "MARK_SIZE",
    "MOST_LABELS",
    "PART_BYTES",
    "REPORT_SIZES",
    "REPORT_TYPE",
    "TOKEN_SIZE",
    "VERSION",
    "Batch",
    "BatchManifest",
    "Content",
    "Header",
    "LabelCount",
    "Mark",
    "batch_id",
    "check_format",
    "check_names",
    "check_report_size",
    "check_whole",
    "inner_info",
    "outer_info",
]

# Of reports and batches; documents and private files have a format of their own.
VERSION: Final = 2
FORMAT: Final = 1
REPORT_TYPE: Final = "application/rase-report"
HEADER_SIZE: Final = 18
# A token: its nonce, and the registrar's signature of it.
TOKEN_SIZE: Final = 32 + 256
_PLACE_SIZE: Final = 32
CONTENT_SIZE: Final = _PLACE_SIZE + TOKEN_SIZE
# In front of the inner envelope: flags, label, number of the fusion centre's key.
MARK_SIZE: Final = 3
MOST_LABELS: Final = 16
# Sizes by the KEM of the inner envelope; the outer one is always X25519.
# How many bytes of envelopes are forwarded together; a longer batch is cut into parts.
PART_BYTES: Final = 16 << 20
INNER_SIZES: Final = {kem: enc_size(kem) + CONTENT_SIZE + TAG_SIZE for kem in (X25519, X_WING)}
REPORT_SIZES: Final = {
    kem: HEADER_SIZE + enc_size(X25519) + MARK_SIZE + size + TAG_SIZE
    for kem, size in INNER_SIZES.items()
}
_SIZES: Final = " or ".join(map(str, REPORT_SIZES.values()))
_HEADER = struct.Struct(">BB8sII")
_CONTENT = struct.Struct(">BBqI18x")
_PADDING = bytes(18)
_UNSIGNED = bytes(TOKEN_SIZE)
_COVER = 1
_BATCH = "bad-batch"  # the problem of everything between the two servers
_MAX_BATCH_BYTES = 1 << 30
_MAX_MANIFEST_BYTES = 4096
_MOST_PARTS = 65536
_U32 = 2**32
_I64 = 2**63
_BATCH_PARTS = [bytes, int, int, list, list]


@dataclass(frozen=True, slots=True)
class Header:
    """What the shuffler reads before it opens anything: 18 bytes in the clear.

    Args:
        key_id: The number of the shuffler's key.
        campaign_tag: The first eight bytes of the campaign's hash.
        round: The round of the report.
        keyset: The number of the keyset that both keys were chosen from.
    """

    key_id: int
    campaign_tag: bytes
    round: int
    keyset: int

    def __post_init__(self) -> None:
        """Check the four once."""
        check_whole("key_id", self.key_id, 0, 256)
        check_whole("round", self.round, 0, _U32)
        check_whole("keyset", self.keyset, 0, _U32)
        if len(self.campaign_tag) != 8:
            raise ValueError(f"campaign_tag must have 8 bytes, got {len(self.campaign_tag)}.")

    def to_bytes(self) -> bytes:
        """Return the 18 bytes."""
        return _HEADER.pack(VERSION, self.key_id, self.campaign_tag, self.round, self.keyset)

    @classmethod
    def from_report(cls, report: bytes) -> "Header":
        """Read the header of a whole report.

        Raises:
            WrongSize: If the report has no size that the protocol knows.
            UnknownVersion: If its first byte is another version than 2.
        """
        check_report_size(report)
        version, key_id, tag, round, keyset = _HEADER.unpack_from(report)
        if version != VERSION:
            raise UnknownVersion(f"report version {version} is unknown; this one knows {VERSION}.")
        return cls(key_id, tag, round, keyset)


@dataclass(frozen=True, slots=True)
class Content:
    """What only the fusion centre reads: a noisy value as a place on the public grid.

    Args:
        round: The round of the report; the first of its block where the campaign carries rounds.
        place: The grid place of the noisy value; some mechanisms use places beyond both ends.
        epsilon_class: Which of the campaign's budgets the noise was drawn for.
        token: What the registrar allowed the report with, see `rase.wire.tokens`; empty where
            there is no registrar.
    """

    round: int
    place: int = field(repr=False)
    epsilon_class: int = 0
    token: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        """Check the four once."""
        check_whole("round", self.round, 0, _U32)
        check_whole("epsilon_class", self.epsilon_class, 0, 4)
        check_whole("place", self.place, -_I64, _I64)
        if len(self.token) not in (0, TOKEN_SIZE):
            raise ValueError(f"token must have {TOKEN_SIZE} bytes, got {len(self.token)}.")

    def to_bytes(self) -> bytes:
        """Return the 320 bytes."""
        content = _CONTENT.pack(VERSION, self.epsilon_class, self.place, self.round)
        return content + (self.token or _UNSIGNED)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Content":
        """Read the content of an opened inner envelope.

        Raises:
            WrongSize: If it does not have 320 bytes.
            UnknownVersion: If its first byte is another version than 2.
            Malformed: If the class or the padding is not as it must be.
        """
        if len(data) != CONTENT_SIZE:
            raise WrongSize(f"a report's content must have {CONTENT_SIZE} bytes, got {len(data)}.")
        version, epsilon_class, place, round = _CONTENT.unpack_from(data)
        if version != VERSION:
            raise UnknownVersion(f"content version {version} is unknown; this one knows {VERSION}.")
        if data[14:_PLACE_SIZE] != _PADDING:
            raise Malformed("the padding of a report must be zero; it is not.")
        try:
            rest = data[_PLACE_SIZE:]
            return cls(round, place, epsilon_class, b"" if rest == _UNSIGNED else rest)
        except ValueError as error:
            raise Malformed(str(error)) from None


@dataclass(frozen=True, slots=True)
class Mark:
    """What the shuffler's closer alone reads: three bytes in front of the inner envelope.

    Neither the network nor the intake can open them, and the fusion centre never gets them.

    Args:
        fusion_key_id: The number of the key that the inner envelope was sealed for.
        is_cover: Whether the report only hides that the device had nothing to say; such reports
            count for nothing and are never forwarded.
        label: The public kind of the report, below 16; 0 stands for any other.
    """

    fusion_key_id: int
    is_cover: bool = False
    label: int = 0

    def __post_init__(self) -> None:
        """Check the three once."""
        check_whole("fusion_key_id", self.fusion_key_id, 0, 256)
        check_whole("label", self.label, 0, MOST_LABELS)
        if self.is_cover and self.label:
            raise ValueError("label must be 0 in a cover report.")

    def to_bytes(self) -> bytes:
        """Return the three bytes."""
        return bytes((_COVER * self.is_cover, self.label, self.fusion_key_id))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Mark":
        """Read the three bytes in front of an inner envelope.

        Raises:
            Malformed: If a flag or the label is none of the protocol.
        """
        return _read_mark(data[:MARK_SIZE])


# Nearly all reports of a round have one of very few marks.
@lru_cache(maxsize=256)
def _read_mark(data: bytes) -> Mark:
    flags, label, fusion_key_id = data
    if flags not in (0, _COVER):
        raise Malformed("a report has a flag that the protocol does not know.")
    try:
        return Mark(fusion_key_id, is_cover=flags == _COVER, label=label)
    except ValueError as error:
        raise Malformed(str(error)) from None


class LabelCount(NamedTuple):
    """How many envelopes of a batch have a label."""

    label: int
    reports: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The shuffled inner envelopes of one round and one key of the fusion centre.

    Args:
        campaign_hash: CH, the hash of the campaign.
        round: The round in which they are released; of all reports, or the last of theirs where
            the campaign carries rounds.
        key_id: The number of the fusion centre's key that all were sealed for.
        inner: The envelopes, by label and in the order the shuffler drew; none if the round is
            withheld.
        labels: Each label with how many of the envelopes have it, ascending; all have label 0
            unless given.
    """

    campaign_hash: bytes
    round: int
    key_id: int
    inner: tuple[bytes, ...] = field(repr=False)
    labels: tuple[LabelCount, ...] = ()

    def __post_init__(self) -> None:
        """Check sizes and numbers once."""
        _check_hash("campaign_hash", self.campaign_hash)
        check_whole("round", self.round, 0, _U32)
        check_whole("key_id", self.key_id, 0, 256)
        sizes = {len(envelope) for envelope in self.inner}
        if len(sizes) > 1 or not sizes.issubset(INNER_SIZES.values()):
            raise ValueError("inner must hold envelopes of one size that the protocol knows.")
        if not self.labels and self.inner:
            object.__setattr__(self, "labels", (LabelCount(0, len(self.inner)),))
        _check_labels(self.labels, len(self.inner))

    def to_bytes(self) -> bytes:
        """Return the body; its SHA-256 is the batch's id."""
        return cbor.encode(
            [self.campaign_hash, self.round, self.key_id, self.inner, list(map(list, self.labels))]
        )

    @classmethod
    def from_bytes(cls, body: bytes) -> "Batch":
        """Read a batch.

        Raises:
            WireError: Named, with problem ``bad-batch``, if it is not such as `to_bytes` writes.
        """
        try:
            parts = cbor.decode(body, max_size=_MAX_BATCH_BYTES)
        except (Malformed, WrongSize) as error:
            error.problem = _BATCH
            raise
        _check_batch_parts(parts)
        try:
            labels = tuple(LabelCount(*pair) for pair in parts[4])
            batch = cls(parts[0], parts[1], parts[2], tuple(parts[3]), labels)
        except ValueError as error:
            raise Malformed(str(error), problem=_BATCH) from None
        if batch.labels != labels:
            raise Malformed("a batch must count its labels.", problem=_BATCH)
        return batch


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchManifest:
    """What the shuffler says of a batch; it signs this and stands for it.

    Args:
        batch_id: SHA-256 of the batch's body.
        shuffler: The shuffler's name.
        n: How many reports the batch holds; 0 if the round is withheld, however many came.
        k_min: The fewest that it would have released.
        method: The law the permutation was drawn from, "uniform" or "mallows"; "withheld" if
            fewer than k_min came and nothing is released.
        theta: The spread of the Mallows law; None otherwise.
        alpha: The privacy loss for the groups used.
        real_loss: The privacy loss for the real groups.
        attacker_success: The share of slots the best observer of order alone assigns rightly, a
            mean over the slots. What the most exposed slot gives away follows from ``n`` and
            ``theta``: `rase.shuffle.attacker.exposed_success`.
        members: How many devices were enrolled, not revoked and admitted to the campaign when the
            round was closed; at least ``n``. None if the shuffler does not say, as those of earlier
            releases do not, and for a round that is withheld.
        shuffled_epsilon: What the shuffler promises the device of each report towards the fusion
            centre, as both servers signed it in the campaign; None where it promises nothing, and
            for a round that is withheld.
        delta: The delta that belongs to it; None likewise.
        part: Which part of the reports of a round and key the batch holds, from 0 on; None if it
            holds all. ``n`` and ``batch_id`` are of the part, all else is of the whole.
        parts: How many parts there are; None likewise.
    """

    METHODS: ClassVar = ("uniform", "mallows", "withheld")

    batch_id: bytes
    shuffler: str
    n: int
    k_min: int
    method: str
    theta: float | None
    alpha: float
    real_loss: float
    attacker_success: float
    members: int | None = None
    shuffled_epsilon: float | None = None
    delta: float | None = None
    part: int | None = None
    parts: int | None = None

    def __post_init__(self) -> None:
        """Check everything once."""
        _check_hash("batch_id", self.batch_id)
        check_whole("n", self.n, 0, _U32)
        check_whole("k_min", self.k_min, 1, _U32)
        _check_name("shuffler", self.shuffler)
        if self.method not in self.METHODS:
            raise ValueError(f"method must be one of {', '.join(self.METHODS)}.")
        if (self.n == 0) != (self.method == "withheld"):
            raise ValueError("n must be 0 for withheld, and for nothing else.")
        if self.members is not None:
            check_whole("members", self.members, self.n, _U32)
            if self.method == "withheld":
                raise ValueError("members must be absent for withheld.")
        if (self.theta is None) != (self.method != "mallows"):
            raise ValueError("theta must be given for mallows, and for nothing else.")
        if (self.shuffled_epsilon is None) != (self.delta is None):
            raise ValueError("shuffled_epsilon and delta must be given together.")
        if (self.part is None) != (self.parts is None):
            raise ValueError("part and parts must be given together.")
        if self.part is not None and self.parts is not None:
            check_whole("parts", self.parts, 2, _MOST_PARTS + 1)
            check_whole("part", self.part, 0, self.parts)
            if self.method != "uniform":
                raise ValueError("parts must be absent unless the shuffle is uniform.")
        if self.delta is not None and self.method != "uniform":
            raise ValueError("delta must be absent unless the shuffle is uniform.")
        numbers = ["alpha", "real_loss", "attacker_success"]
        numbers += [] if self.delta is None else ["shuffled_epsilon", "delta"]
        for name in numbers if self.theta is None else ["theta", *numbers]:
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            # Infinite and NaN fail the comparison too.
            if not (is_number and 0 <= value < 1e300):
                raise ValueError(f"{name} must be a finite number of at least 0.")
            object.__setattr__(self, name, float(value) + 0.0)

    def to_bytes(self) -> bytes:
        """Return the bytes that are signed."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        # Absent means not stated: manifests of earlier releases keep their bytes.
        for name in ("members", "shuffled_epsilon", "delta", "part", "parts"):
            if values[name] is None:
                del values[name]
        return cbor.encode({"format": FORMAT, **values})

    @classmethod
    def from_bytes(cls, body: bytes) -> "BatchManifest":
        """Read a manifest.

        Raises:
            WireError: Named, with problem ``bad-batch``, if it is not such as `to_bytes` writes.
        """
        try:
            values = check_format("manifest", cbor.decode(body, max_size=_MAX_MANIFEST_BYTES))
            # Fields with a default may be absent.
            known = [
                one.name for one in fields(cls) if one.name in values or one.default is MISSING
            ]
            manifest = cls(**check_names("manifest", values, known))
        except (Malformed, UnknownVersion, WrongSize) as error:
            error.problem = _BATCH
            raise
        except ValueError as error:
            raise Malformed(str(error), problem=_BATCH) from None
        if manifest.to_bytes() != body:
            raise Malformed("a manifest must write its numbers as floats.", problem=_BATCH)
        return manifest


def inner_info(campaign_hash: bytes, round: int) -> bytes:
    """Return what the inner envelope is bound to: the whole campaign and the content's round."""
    return b"rase/2 inner" + campaign_hash + round.to_bytes(4, "big")


def outer_info(campaign_hash: bytes, header: bytes) -> bytes:
    """Return what the outer envelope is bound to: the whole campaign and the header."""
    return b"rase/2 outer" + campaign_hash + header


def batch_id(body: bytes) -> bytes:
    """Return the id of a batch: the SHA-256 of its body."""
    return sha256(body).digest()


def check_report_size(report: bytes) -> None:
    """Refuse bytes that cannot be a report.

    Raises:
        WrongSize: If their number is not one of `REPORT_SIZES`.
    """
    if len(report) not in REPORT_SIZES.values():
        raise WrongSize(f"a report must have {_SIZES} bytes, got {len(report)}.")


def check_format(kind: str, values: Any) -> dict[str, Any]:
    """Return the fields of a document whose format this release knows.

    Raises:
        Malformed: If it is no map, or has no format.
        UnknownVersion: If the format is another than 1; it is named.
    """
    if not isinstance(values, dict) or type(values.get("format")) is not int:
        raise Malformed(f"a {kind} must be a map with a format; this is not.")
    if values["format"] != FORMAT:
        raise UnknownVersion(
            f"{kind} format {values['format']} is unknown; this release knows {FORMAT}."
        )
    return {name: value for name, value in values.items() if name != "format"}


def check_names(kind: str, values: Mapping[str, Any], known: list[str]) -> dict[str, Any]:
    """Return the fields of a document that has all the fields it must have and no other.

    Raises:
        Malformed: Naming what is unknown or missing.
    """
    unknown = sorted(set(values) - set(known))
    missing = sorted(set(known) - set(values))
    for words, names in (("unknown", unknown), ("missing", missing)):
        if names:
            raise Malformed(f"a {kind} has {words} fields: {', '.join(names)[:200]}.")
    return dict(values)


def _check_batch_parts(parts: Any) -> None:
    if not isinstance(parts, list) or [type(part) for part in parts] != _BATCH_PARTS:
        raise Malformed(
            "a batch must be [hash, round, key id, [envelope …], [[label, count] …]].",
            problem=_BATCH,
        )
    if not all(isinstance(envelope, bytes) for envelope in parts[3]):
        raise Malformed("a batch must hold envelopes as byte strings.", problem=_BATCH)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in parts[4]):
        raise Malformed("a batch must hold labels as pairs [label, count].", problem=_BATCH)


def _check_labels(labels: Sequence[LabelCount], envelopes: int) -> None:
    for label, count in labels:
        check_whole("label", label, 0, MOST_LABELS)
        check_whole("count", count, 1, _U32)
    if any(one.label >= following.label for one, following in pairwise(labels)):
        raise ValueError("labels must ascend.")
    if sum(count for _, count in labels) != envelopes:
        raise ValueError("labels must count every envelope once.")


def check_whole(name: str, value: object, low: int, below: int) -> None:
    """Refuse what is no whole number from ``low`` to one less than ``below``.

    Raises:
        ValueError: If so; the value is not quoted, it may be of any length.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < below:
        raise ValueError(f"{name} must be a whole number from {low} to {below - 1}.")


def _check_name(name: str, value: object) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= 64:
        raise ValueError(f"{name} must be a name of 1 to 64 characters.")


def _check_hash(name: str, value: object) -> None:
    if not isinstance(value, bytes) or len(value) != 32:
        raise ValueError(f"{name} must be the 32 bytes of a SHA-256.")
