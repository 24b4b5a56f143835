"""The manifest of a batch travels ahead of it, in a header."""

import pytest
from tests.cases import each_case

from rase.errors import WireError
from rase.wire.parcel import MANIFEST_HEADER, header_of, manifest_of


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
