"""Header, content, batch and manifest: fixed bytes, and refusals by name."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case

from rase.errors import Malformed, UnknownVersion, WireError, WrongSize
from rase.wire import cbor
from rase.wire.frames import TAG_BYTES
from rase.wire.messages import (
    INNER_SIZES,
    REPORT_SIZES,
    TOKEN_SIZE,
    Batch,
    BatchManifest,
    Content,
    Header,
    LabelCount,
    Mark,
    batch_id,
    inner_info,
    outer_info,
)
from rase.wire.suites import X25519, X_WING

MANIFEST = BatchManifest(
    batch_id=bytes(32),
    shuffler="one",
    n=64,
    k_min=20,
    method="uniform",
    theta=None,
    alpha=0,
    real_loss=0,
    attacker_success=1 / 64,
)


def test_the_sizes_are_those_of_the_protocol() -> None:
    """437 bytes, or 1525 with X-Wing inside."""
    assert INNER_SIZES == {X25519: 368, X_WING: 1456}
    assert REPORT_SIZES == {X25519: 437, X_WING: 1525}
    assert len(Header(1, bytes(8), 5, 6).to_bytes()) == 18
    assert len(Content(5, 7).to_bytes()) == 320
    # With the tag that a broker carries, as two pages say.
    bare, wide = (REPORT_SIZES[kem] + TAG_BYTES for kem in (X25519, X_WING))
    reference = Path(__file__).parents[2] / "docs/reference"
    for page in ("mqtt-topics.md", "wire-format.md"):
        text = (reference / page).read_text()
        assert f"tag: {bare} bytes, or {wide} with X-Wing" in text


def test_contexts_bind_campaign_round_and_header() -> None:
    """The info strings are fixed bytes."""
    assert inner_info(b"H" * 32, 258) == b"rase/2 inner" + b"H" * 32 + b"\0\0\1\2"
    assert outer_info(b"H" * 32, b"h" * 14) == b"rase/2 outer" + b"H" * 32 + b"h" * 14


@given(st.integers(0, 255), st.binary(min_size=8, max_size=8), *2 * [st.integers(0, 2**32 - 1)])
def test_headers_come_back(key_id: int, tag: bytes, round: int, keyset: int) -> None:
    """What is written is read."""
    header = Header(key_id, tag, round, keyset)
    assert Header.from_report(header.to_bytes() + bytes(419)) == header


@each_case(
    ("arguments", "words"),
    [
        ((256, bytes(8), 1, 1), "key_id must be a whole number from 0 to 255"),
        ((1, bytes(7), 1, 1), "campaign_tag must have 8 bytes, got 7"),
        ((1, bytes(8), 2**32, 1), "round must be"),
        ((1, bytes(8), -1, 1), "round must be"),
        ((1, bytes(8), 1, 2**32), "keyset must be"),
        ((True, bytes(8), 1, 1), "key_id must be"),
    ],
)
def test_bad_headers_cannot_be_made(arguments: tuple[Any, Any, Any, Any], words: str) -> None:
    """Numbers out of range are wrong arguments."""
    with pytest.raises(ValueError, match=words):
        Header(*arguments)


@each_case("size", [0, 1, 18, 433, 436, 438, 1524, 1526, 100_000])
def test_truncated_and_oversized_reports_are_refused(size: int) -> None:
    """Only two sizes exist."""
    with pytest.raises(WrongSize, match=f"437 or 1525 bytes, got {size}"):
        Header.from_report(b"\x01" * size)


@each_case("version", [0, 1, 255])
def test_unknown_versions_of_reports_are_named(version: int) -> None:
    """The version byte is checked before anything else is read."""
    with pytest.raises(UnknownVersion, match=f"report version {version} is unknown"):
        Header.from_report(bytes([version]) + bytes(436))
    data = bytes([version]) + Content(5, 7).to_bytes()[1:]
    with pytest.raises(UnknownVersion, match=f"content version {version} is unknown"):
        Content.from_bytes(data)


@given(st.integers(0, 2**32 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(0, 3))
def test_contents_come_back(round: int, place: int, epsilon_class: int) -> None:
    """Every place, below and beyond the range too."""
    content = Content(round, place, epsilon_class)
    assert Content.from_bytes(content.to_bytes()) == content


@given(st.integers(0, 255), st.booleans(), st.integers(0, 15))
def test_marks_come_back(key: int, is_cover: bool, label: int) -> None:
    """Three bytes: flags, label, key; a cover report has no label."""
    mark = Mark(key, is_cover=is_cover, label=0 if is_cover else label)
    assert mark.to_bytes() == bytes((is_cover, mark.label, key))
    assert Mark.from_bytes(mark.to_bytes() + b"and the envelope") == mark


@each_case(
    ("data", "words"), [(b"\2\0\7", "flag"), (b"\0\x10\7", "label must be"), (b"\1\1\7", "cover")]
)
def test_bad_marks_are_refused(data: bytes, words: str) -> None:
    """Unknown flags, labels beyond the last, and covers with a label are refused."""
    with pytest.raises(Malformed, match=words):
        Mark.from_bytes(data)


@each_case("place", range(14, 32))
def test_padding_must_be_zero(place: int) -> None:
    """Nobody can hide anything in a report."""
    data = bytearray(Content(5, 7).to_bytes())
    data[place] = 1
    with pytest.raises(Malformed, match="padding"):
        Content.from_bytes(bytes(data))


@each_case("size", [1, TOKEN_SIZE - 1, TOKEN_SIZE + 1])
def test_tokens_have_one_size(size: int) -> None:
    """Or a report would show by its size whose it is."""
    with pytest.raises(ValueError, match=rf"token must have {TOKEN_SIZE} bytes, got {size}\."):
        Content(5, 7, token=bytes(size))


def test_bad_contents_are_refused() -> None:
    """Unknown classes are refused."""
    with pytest.raises(Malformed, match="epsilon_class must be"):
        Content.from_bytes(struct.pack(">BBqI306x", 2, 4, 5, 9))


@each_case("size", [0, 319, 321])
def test_contents_have_one_size(size: int) -> None:
    """320 bytes."""
    with pytest.raises(WrongSize, match=f"320 bytes, got {size}"):
        Content.from_bytes(bytes(size))


def test_a_place_is_shown_in_no_repr_and_no_message() -> None:
    """The noisy value stays out of logs."""
    assert "31337" not in repr(Content(5, 31337))
    with pytest.raises(ValueError, match="place") as refused:
        Content(5, 2**63 + 31337)
    assert str(2**63 + 31337) not in str(refused.value)


@given(st.lists(st.binary(min_size=368, max_size=368), min_size=1, max_size=5))
def test_batches_come_back(inner: list[bytes]) -> None:
    """The body decides the id."""
    batch = Batch(bytes(range(32)), 7, 9, tuple(inner))
    assert Batch.from_bytes(batch.to_bytes()) == batch
    assert len(batch_id(batch.to_bytes())) == 32
    assert inner[0].hex() not in repr(batch)


ENVELOPE = bytes(368)


@each_case(
    "parts",
    [
        None,
        [],
        {},
        [bytes(32), 7, 9],
        [bytes(32), 7, 9, [ENVELOPE]],
        [bytes(32), 7, 9, [ENVELOPE], 0],
        [bytes(32), 7, 9, [ENVELOPE], [[0, 1]], 0],
        [bytes(31), 7, 9, [ENVELOPE], [[0, 1]]],
        [bytes(32), -1, 9, [ENVELOPE], [[0, 1]]],
        [bytes(32), True, 9, [ENVELOPE], [[0, 1]]],
        [bytes(32), 7, 256, [ENVELOPE], [[0, 1]]],
        [bytes(32), 7, 9, ["text"], [[0, 1]]],
        [bytes(32), 7, 9, [b"short"], [[0, 1]]],
        [bytes(32), 7, 9, [ENVELOPE, bytes(1456)], [[0, 2]]],
        ["hash", 7, 9, [ENVELOPE], [[0, 1]]],
        [bytes(32), 7, 9, [ENVELOPE], []],
        [bytes(32), 7, 9, [ENVELOPE], [0]],
        [bytes(32), 7, 9, [ENVELOPE], [[0, 1, 2]]],
        [bytes(32), 7, 9, [ENVELOPE], [[0, 2]]],
        [bytes(32), 7, 9, [ENVELOPE], [[16, 1]]],
        [bytes(32), 7, 9, [ENVELOPE], [[0, 0], [1, 1]]],
        [bytes(32), 7, 9, [ENVELOPE, ENVELOPE], [[1, 1], [0, 1]]],
        [bytes(32), 7, 9, [ENVELOPE, ENVELOPE], [[1, 1], [1, 1]]],
        [bytes(32), 7, 9, [], [[0, 1]]],
    ],
)
def test_bad_batches_are_refused(parts: Any) -> None:
    """What is no batch is a bad batch."""
    with pytest.raises(Malformed) as refused:
        Batch.from_bytes(cbor.encode(parts))
    assert refused.value.problem == "bad-batch"


def test_labels_of_a_batch_come_back() -> None:
    """Which envelopes have which label is in the body, and so in the id."""
    labels = (LabelCount(0, 1), LabelCount(15, 2))
    batch = Batch(bytes(32), 7, 9, (ENVELOPE,) * 3, labels)
    assert Batch.from_bytes(batch.to_bytes()) == batch
    assert Batch.from_bytes(batch.to_bytes()).labels == labels
    assert Batch(bytes(32), 7, 9, (ENVELOPE,) * 3).labels == (LabelCount(0, 3),)


def test_a_withheld_round_is_a_batch_without_envelopes() -> None:
    """An empty batch has a body and an id like any other."""
    batch = Batch(bytes(32), 7, 9, ())
    assert Batch.from_bytes(batch.to_bytes()) == batch


def test_a_batch_that_is_no_cbor_is_refused() -> None:
    """The decoder's refusals carry the right problem too."""
    with pytest.raises(Malformed) as refused:
        Batch.from_bytes(b"\xff")
    assert refused.value.problem == "bad-batch"


def test_manifests_come_back() -> None:
    """With and without theta, and for a round of which nothing is released."""
    mallows = replace(MANIFEST, method="mallows", theta=0.1, alpha=30, real_loss=60)
    withheld = replace(MANIFEST, method="withheld", n=0)
    for manifest in (MANIFEST, mallows, withheld):
        assert BatchManifest.from_bytes(manifest.to_bytes()) == manifest


def test_manifests_that_do_not_count_members_have_the_bytes_they_always_had() -> None:
    """The field is absent, not null; where it is there it comes back."""
    assert b"members" not in MANIFEST.to_bytes()
    counted = replace(MANIFEST, members=MANIFEST.n)
    assert BatchManifest.from_bytes(counted.to_bytes()) == counted
    assert len(counted.to_bytes()) > len(MANIFEST.to_bytes())


@each_case(
    ("changes", "words"),
    [
        ({"batch_id": b""}, "batch_id must be the 32 bytes"),
        ({"shuffler": ""}, "shuffler must be a name"),
        ({"shuffler": 5}, "shuffler must be a name"),
        ({"n": 0}, "n must be"),
        ({"k_min": -1}, "k_min must be"),
        ({"method": "cyclic"}, "method must be one of uniform, mallows"),
        ({"method": "mallows"}, "theta must be given for mallows"),
        ({"method": "withheld"}, "n must be 0 for withheld"),
        ({"theta": 1.0}, "theta must be given for mallows"),
        ({"alpha": -1.0}, "alpha must be a finite number"),
        ({"real_loss": None}, "real_loss must be a finite number"),
        ({"attacker_success": True}, "attacker_success must be a finite number"),
        ({"colour": "red"}, "unknown fields: colour"),
        ({"n": ...}, "missing fields: n"),
        ({"alpha": 0}, "floats"),
        ({"members": MANIFEST.n - 1}, "members must be a whole number from"),
        ({"members": 2**32}, "members must be a whole number from"),
        ({"members": None}, "a manifest must write"),
        ({"method": "withheld", "n": 0, "members": 9}, "members must be absent for withheld"),
    ],
)
def test_bad_manifests_are_refused(changes: dict[str, Any], words: str) -> None:
    """Each wrong field is named."""
    fields = cbor.decode(MANIFEST.to_bytes(), max_size=1000) | changes
    body = cbor.encode({name: value for name, value in fields.items() if value is not ...})
    with pytest.raises(Malformed, match=words) as refused:
        BatchManifest.from_bytes(body)
    assert refused.value.problem == "bad-batch"


@each_case("body", [[], {}, {"format": "1"}, {"format": True}, {"format": 2}, "x"])
def test_manifests_of_other_formats_are_refused(body: Any) -> None:
    """Format 2 is named; what has no format is malformed."""
    with pytest.raises(WireError) as refused:
        BatchManifest.from_bytes(cbor.encode(body))
    assert isinstance(refused.value, UnknownVersion) == (body == {"format": 2})
    assert refused.value.problem == "bad-batch"


def test_infinite_losses_cannot_be_stated() -> None:
    """A shuffle without a guarantee is never released."""
    with pytest.raises(ValueError, match="alpha must be a finite number"):
        replace(MANIFEST, alpha=float("inf"))


def test_a_manifest_may_be_of_a_part() -> None:
    """Its number and how many there are, or neither; only where no order is to be kept."""
    part = replace(MANIFEST, part=1, parts=3)
    assert BatchManifest.from_bytes(part.to_bytes()) == part
    with pytest.raises(ValueError, match="part and parts must be given together"):
        replace(MANIFEST, part=1)
    with pytest.raises(ValueError, match="part must be a whole number"):
        replace(MANIFEST, part=3, parts=3)
    with pytest.raises(ValueError, match="parts must be absent unless the shuffle is uniform"):
        replace(MANIFEST, method="mallows", theta=1.0, part=1, parts=3)


def test_a_manifest_may_state_a_promise() -> None:
    """Both numbers or none, for a uniform shuffle; without them its bytes are as they were."""
    uniform = replace(MANIFEST, method="uniform", theta=None)
    promising = replace(uniform, shuffled_epsilon=1, delta=1e-6)
    assert BatchManifest.from_bytes(promising.to_bytes()) == promising
    assert b"delta" not in uniform.to_bytes()
    with pytest.raises(ValueError, match="shuffled_epsilon and delta must be given together"):
        replace(uniform, delta=1e-6)
    with pytest.raises(ValueError, match="shuffled_epsilon must be a finite number"):
        replace(uniform, shuffled_epsilon=-1.0, delta=1e-6)
    with pytest.raises(ValueError, match="delta must be absent unless the shuffle is uniform"):
        replace(promising, method="mallows", theta=0.5)
