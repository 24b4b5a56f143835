"""A batch travels with its manifest, which is also told ahead."""

import pytest
from tests.cases import each_case

from rase.errors import WireError
from rase.wire import cbor
from rase.wire.parcel import MANIFEST_HEADER, header_of, manifest_of, pack, unpack


def test_what_is_packed_is_unpacked() -> None:
    """Batch and manifest arrive as they left."""
    assert unpack(pack(b"body", b"manifest"), max_size=100) == (b"body", b"manifest")


@each_case(
    "payload",
    [b"", b"\xff", cbor.encode([]), cbor.encode([b"", "x"]), cbor.encode(b"x"), bytes(200)],
)
def test_other_bytes_are_bad_batches(payload: bytes) -> None:
    """Whatever is wrong has one name."""
    with pytest.raises(WireError) as refused:
        unpack(payload, max_size=100)
    assert refused.value.problem == "bad-batch"


def test_a_manifest_survives_its_header() -> None:
    """Every byte can be told."""
    every = bytes(range(256))
    assert manifest_of(header_of(every)[MANIFEST_HEADER]) == every


@each_case("header", [None, "", "x", "ab*=", "äöü=", "YQ==\n"])
def test_other_headers_are_bad_batches(header: str | None) -> None:
    """A header that is missing or garbled is refused by name."""
    with pytest.raises(WireError, match=MANIFEST_HEADER) as refused:
        manifest_of(header)
    assert refused.value.problem == "bad-batch"
