"""Deterministic CBOR (RFC 8949 section 4.2.1), the form of all that is signed or hashed.

Only what the protocol uses: whole numbers, floats, byte and text strings, arrays, maps with text
keys, true, false and null. Written here because the cbor2 wheel needs a compiler on the same small
machines that have no cryptography wheel, and because a decoder without tags has less to attack.
The tests compare it with cbor2.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

from rase.errors import Malformed, WrongSize

__all__ = ["MAX_DEPTH", "decode", "encode"]

MAX_DEPTH: Final = 8

_UINT, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
# From here on an array is looked at as a whole before its items are.
_MANY = 64
_CONSTANTS = {20: False, 21: True, 22: None}
_BYTE = tuple(bytes((number,)) for number in range(256))
_LISTS = (list, tuple)
_FLOATS = {25: ">e", 26: ">f", 27: ">d"}


def encode(value: Any) -> bytes:
    """Return the one deterministic encoding of a value.

    Raises:
        TypeError: If the protocol has no form for a value.
        ValueError: If a number cannot be written.

    Example:
        >>> encode({"n": 64, "alpha": 0.5}).hex()
        'a2616e184065616c706861f93800'
    """
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def decode(data: bytes, *, max_size: int) -> Any:
    """Return the value of a deterministic encoding, and refuse every other encoding of it.

    Args:
        data: The bytes.
        max_size: The most bytes to look at.

    Raises:
        WrongSize: If there are more bytes.
        Malformed: If the bytes are no CBOR, not deterministic, or use what the protocol does not.
    """
    if len(data) > max_size:
        raise WrongSize(f"the message must have at most {max_size} bytes, got {len(data)}.")
    reader = _Reader(data)
    try:
        value = reader.read(0)
    except IndexError:
        raise Malformed("the message ends too early.") from None
    except UnicodeDecodeError:
        raise Malformed("the message holds a text that is not UTF-8.") from None
    # One comparison refuses long heads, unsorted keys, trailing bytes and all the rest.
    if encode(value) != data:
        raise Malformed("the message must be deterministic CBOR (RFC 8949, 4.2.1); it is not.")
    return value


def _write(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, bytes):
        parts += (_head(_BYTES, len(value)), value)
    elif isinstance(value, bool) or value is None:
        parts.append(b"\xf6" if value is None else b"\xf5" if value else b"\xf4")
    elif isinstance(value, int):
        parts.append(_head(_UINT, value) if value >= 0 else _head(_NEGATIVE, -1 - value))
    elif isinstance(value, float):
        parts.append(_float(value))
    elif isinstance(value, str):
        text = value.encode()
        parts += (_head(_TEXT, len(text)), text)
    elif isinstance(value, _LISTS):
        parts.append(_head(_ARRAY, len(value)))
        size = _common_size(value)
        if size is None:
            for item in value:
                _write(item, parts)
        else:
            head = _head(_BYTES, size)
            parts += (head, head.join(value))
    elif isinstance(value, dict):
        parts.append(_head(_MAP, len(value)))
        items = {_key(key): item for key, item in value.items()}
        for name in sorted(items):
            parts.append(name)
            _write(items[name], parts)
    else:
        raise TypeError(f"the protocol has no form for a {type(value).__name__}.")


def _common_size(items: Sequence[Any]) -> int | None:
    """Return the size of byte strings that are many and all of one size; None for all else.

    A batch is an array of such, and they are written and read as one.
    """
    if len(items) < _MANY or set(map(type, items)) != {bytes}:
        return None
    sizes = set(map(len, items))
    return sizes.pop() if len(sizes) == 1 else None


def _key(key: Any) -> bytes:
    if not isinstance(key, str):
        raise TypeError(f"a map's keys must be texts, got a {type(key).__name__}.")
    text = key.encode()
    return _head(_TEXT, len(text)) + text


def _head(major: int, number: int) -> bytes:
    first = major << 5
    if number < 24:
        return _BYTE[first | number]
    for code, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 1 << 8 * size:
            return _BYTE[first | code] + number.to_bytes(size, "big")
    raise ValueError("a whole number must fit into 64 bits.")


def _float(value: float) -> bytes:
    if not math.isfinite(value):
        raise ValueError("a float must be finite.")
    for code, form in ((25, ">e"), (26, ">f")):
        try:
            packed = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, packed)[0] == value:
            return _BYTE[_SIMPLE << 5 | code] + packed
    return b"\xfb" + struct.pack(">d", value)


class _Reader:
    """Read one value after another, without believing any length."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def read(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise Malformed(f"the message is nested deeper than {MAX_DEPTH} levels.")
        first = self._data[self._place]
        self._place += 1
        major, code = first >> 5, first & 31
        if major == _SIMPLE:
            return self._simple(code)
        number = self._number(code)
        if major == _UINT:
            return number
        if major == _NEGATIVE:
            return -1 - number
        if major == _BYTES:
            return self._take(number)
        if major == _TEXT:
            return self._take(number).decode()
        return self._container(major, number, depth + 1)

    def _container(self, major: int, number: int, depth: int) -> Any:
        if major == _ARRAY:
            self._check_left(number)
            items = self._alike(number) if number >= _MANY else None
            return [self.read(depth) for _ in range(number)] if items is None else items
        if major == _MAP:
            self._check_left(number)
            pairs: dict[str, Any] = {}
            for _ in range(number):
                key = self.read(depth)
                if not isinstance(key, str):
                    raise Malformed("a map of the message has a key that is no text.")
                if key in pairs:
                    raise Malformed("a map of the message has a key twice.")
                pairs[key] = self.read(depth)
            return pairs
        raise Malformed("the message holds a CBOR tag; the protocol has none.")

    def _alike(self, number: int) -> list[bytes] | None:
        """Read an array of byte strings that all have the head of the first; None if not so."""
        start = self._place
        if self._data[start] >> 5 != _BYTES:
            return None
        size = len(self.read(MAX_DEPTH))
        head = self._data[start : self._place - size]
        step = len(head) + size
        end = start + number * step
        is_alike = end <= len(self._data) and all(
            self._data[start + place : end : step] == head[place : place + 1] * number
            for place in range(len(head))
        )
        if not is_alike:
            self._place = start
            return None
        self._place = end
        return [self._data[place + len(head) : place + step] for place in range(start, end, step)]

    def _simple(self, code: int) -> Any:
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code not in _FLOATS:
            raise Malformed("the message holds a simple value that the protocol does not use.")
        value = struct.unpack(_FLOATS[code], self._take(1 << code - 24))[0]
        if not math.isfinite(value):
            raise Malformed("the message holds a float that is not finite.")
        return value

    def _number(self, code: int) -> int:
        if code < 24:
            return code
        if code > 27:
            raise Malformed("the message holds a length that is not given, or reserved.")
        return int.from_bytes(self._take(1 << code - 24), "big")

    def _take(self, count: int) -> bytes:
        self._check_left(count)
        start = self._place
        self._place += count
        return self._data[start : self._place]

    def _check_left(self, count: int) -> None:
        if count > len(self._data) - self._place:
            raise Malformed("the message ends too early.")
