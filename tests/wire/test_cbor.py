"""Deterministic CBOR: one encoding for each value, and no other is read."""

import math
from typing import Any

import cbor2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.cases import each_case

from rase.errors import Malformed, WireError, WrongSize
from rase.wire.cbor import MAX_DEPTH, decode, encode

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.binary(max_size=300)
    | st.text(max_size=300)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(), inner, max_size=30),
    max_leaves=40,
).filter(lambda value: depth(value) <= MAX_DEPTH)


def depth(value: Any) -> int:
    """Return how deep a value is nested."""
    if isinstance(value, list | dict):
        inside = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth, inside), default=0)
    return 0


@pytest.mark.uncovered
@given(values)
@settings(max_examples=150)
@example([1.1, 1.5, 65504.0, 65505.0, 1e300, 5e-324, -0.0, 2.0**-24, 3.4028234663852886e38])
@example([0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, -1, -24, -25, -256, -257])
@example({"b": 1, "aa": 2, "": 3, "a" * 23: 4, "a" * 24: 5, "a" * 256: 6})
def test_values_come_back_and_cbor2_writes_the_same(value: Any) -> None:
    """Round trip, and the bytes of the best-known implementation."""
    data = encode(value)
    assert data == cbor2.dumps(value, canonical=True)
    found = decode(data, max_size=len(data))
    assert repr(found) == repr(cbor2.loads(data))
    assert encode(found) == data


@each_case(
    ("data", "words"),
    [
        ("", "ends too early"),
        ("18", "ends too early"),
        ("42ff", "ends too early"),
        ("8201", "ends too early"),
        ("9bffffffffffffffff", "ends too early"),
        ("bbffffffffffffffff", "ends too early"),
        ("5bffffffffffffffff00", "ends too early"),
        ("0000", "deterministic"),  # trailing byte
        ("1801", "deterministic"),  # long head
        ("fa3fc00000", "deterministic"),  # 1.5 in four bytes
        ("a2616201616102", "deterministic"),  # unsorted keys
        ("a2616101616102", "key twice"),
        ("a10101", "no text"),
        ("9f01ff", "length that is not given"),
        ("5f41004100ff", "length that is not given"),
        ("1c", "length that is not given"),
        ("c000", "tag"),
        ("c249010000000000000000", "tag"),
        ("f7", "simple value"),
        ("f0", "simple value"),
        ("f820", "simple value"),
        ("ff", "simple value"),
        ("f97e00", "not finite"),
        ("f97c00", "not finite"),
        ("62c328", "UTF-8"),
        ("81" * 10 + "00", "nested deeper"),
    ],
)
def test_everything_else_is_refused(data: str, words: str) -> None:
    """Each kind of other bytes is refused with its reason."""
    with pytest.raises(Malformed, match=words):
        decode(bytes.fromhex(data), max_size=100)


def test_oversized_messages_are_not_looked_at() -> None:
    """The size is checked first."""
    with pytest.raises(WrongSize, match="at most 3 bytes, got 4"):
        decode(b"\xff" * 4, max_size=3)


@each_case("value", [object(), {1, 2}, {1: 2}, 1j])
def test_other_types_cannot_be_written(value: object) -> None:
    """What the protocol has no form for is a TypeError."""
    with pytest.raises(TypeError):
        encode(value)


@each_case("value", [2**64, -(2**64) - 1, math.inf, math.nan])
def test_other_numbers_cannot_be_written(value: float) -> None:
    """What has no deterministic form is a ValueError."""
    with pytest.raises(ValueError, match="must"):
        encode(value)


def test_random_bytes_never_crash_the_decoder() -> None:
    """Twenty thousand random messages are read or refused by name."""
    source = np.random.default_rng(2026)
    read = 0
    for _ in range(20_000):
        data = source.bytes(int(source.integers(0, 25)))
        try:
            value = decode(data, max_size=24)
        except WireError:
            continue
        assert encode(value) == data
        read += 1
    assert read > 100


@each_case("size", [0, 1, 23, 24, 80, 255, 256, 1168])
@each_case("count", [63, 64, 300])
def test_arrays_of_strings_of_one_size_are_like_others(count: int, size: int) -> None:
    """Many byte strings of one size, as in a batch, are written and read as cbor2 does."""
    items = [bytes([number % 251]) * size for number in range(count)]
    data = cbor2.dumps([7, items, b"end"], canonical=True)
    assert encode([7, items, b"end"]) == data
    assert decode(data, max_size=len(data)) == [7, items, b"end"]


@each_case("other", [b"longer", b"", "text", 7, None, [b"same"]])
@each_case("place", [0, 50, 99])
def test_one_item_that_differs_is_kept(place: int, other: Any) -> None:
    """Among many strings of one size one may be of another size or kind."""
    items: list[Any] = [b"same"] * 100
    items[place] = other
    data = encode(items)
    assert data == cbor2.dumps(items, canonical=True)
    assert decode(data, max_size=len(data)) == items


@each_case("cut", [1, 4, 5, 100])
def test_many_strings_that_end_too_early_are_refused(cut: int) -> None:
    """The count of an array is not believed."""
    data = encode([b"same"] * 100)
    with pytest.raises(Malformed, match="too early"):
        decode(data[:-cut], max_size=len(data))


def test_many_strings_with_long_heads_are_refused() -> None:
    """A size that is written longer than need be is not deterministic, for all items as for one."""
    data = encode([b"same"] * 100)[:2] + b"\x58\x04same" * 100
    assert cbor2.loads(data) == [b"same"] * 100
    with pytest.raises(Malformed, match="deterministic"):
        decode(data, max_size=len(data))
