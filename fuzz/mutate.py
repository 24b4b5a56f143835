"""A small mutator in plain Python: what the test run does instead of atheris, from a seed."""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

__all__ = ["mutations"]

_LONGEST: Final = 1 << 14
# Heads, signs, numbers and brackets that parsers decide by.
_WORDS: Final = (
    b"\0", b"\xff", b"\x80", b"\n", b"\r", b'"', b",", b";", b".", b"=", b"[", b"]", b"{", b"}",
    b"\xf9\x7c\x00", b"\xfb\x7f\xf0\0\0\0\0\0\0", b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", b"\xed\xa0\x80", b"\\ud800", b"nan", b"inf", b"1e400",
    b"-9223372036854775808", b"9" * 400, b"9" * 5000, b"0x" + b"f" * 5000, b"[" * 3000,
    b"{\"a\":" * 3000, b"true", b"null", b"[]", b"{}", b"\xef\xbb\xbf", b"\x1f\x8b", b"PAR1",
)  # fmt: skip


def mutations(seeds: Sequence[bytes], count: int, *, seed: int) -> Iterator[bytes]:
    """Yield inputs made of the seeds: changed, cut, doubled, joined, with telling bytes put in.

    Args:
        seeds: Inputs to begin with; those made may be taken up again.
        count: How many.
        seed: The same seed makes the same inputs.

    Example:
        >>> len(list(mutations([b"abc"], 3, seed=1)))
        3
    """
    rng = np.random.default_rng(seed)
    pool = list(seeds) or [b""]
    for _ in range(count):
        data = bytearray(pool[int(rng.integers(len(pool)))])
        for _ in range(1 + int(rng.geometric(0.5))):
            _change(data, pool, rng)
        made = bytes(data[:_LONGEST])
        if rng.random() < 0.05 and len(made) < 2000:
            pool.append(made)
        yield made


def _change(data: bytearray, pool: Sequence[bytes], rng: np.random.Generator) -> None:
    place = int(rng.integers(len(data) + 1))
    end = min(place + int(rng.geometric(0.2)), len(data))
    match int(rng.integers(8)):
        case 0:
            if data:
                data[place % len(data)] ^= 1 << int(rng.integers(8))
        case 1:
            if data:
                data[place % len(data)] = int(rng.integers(256))
        case 2:
            del data[place:end]
        case 3:
            data[place:place] = data[place:end]
        case 4:
            data[place:end] = _WORDS[int(rng.integers(len(_WORDS)))]
        case 5:
            data[place:place] = _WORDS[int(rng.integers(len(_WORDS)))]
        case 6:
            number = int(rng.choice([0, 1, 23, 24, 255, 256, 2**31, 2**32 - 1]))
            data[place:end] = struct.pack(">I", number)[-int(rng.integers(1, 5)) :]
        case _:
            other = pool[int(rng.integers(len(pool)))]
            start = int(rng.integers(len(other) + 1))
            data[place:end] = other[start : start + int(rng.integers(1, 64))]
