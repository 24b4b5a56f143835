"""Random words as a keyed function of the position in the data, for runs over tables.

Engines recompute tasks and run them in any order. Here noise is AES-256 of the run's key, the
round, the device and the reading, so a task that is run again draws the same words again, nothing
is drawn twice, and every engine gives the same results. Whoever holds the key can take the noise
off: it is made for data one already holds, lives as long as the run and is never stored.
"""

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from rase.kernels.words import KeyedRandom, Keystream, Random, Words, WordStream, source_of

__all__ = [
    "ROWS_AT_ONCE",
    "RoundRandom",
    "RowRandom",
    "RunKey",
    "Tags",
    "public_numbers",
    "text_buffers",
]

# Two words a row: 128 bits that stand for a device.
Tags = NDArray[np.uint64]

# No law of rase.laws takes fewer readings in one piece than this.
ROWS_AT_ONCE = 1 << 13

_BLOCK = 16
_LANE_SHIFT = np.uint64(56)


class RunKey:
    """The key of one batch run; everything random in the run is derived from it.

    Args:
        key: 32 bytes.

    Raises:
        ValueError: If the key has another length.

    Example:
        >>> from rase.kernels.words import SeededRandom
        >>> key = RunKey.draw_key(SeededRandom(1))
        >>> tags, public = key.tags(*text_buffers(["kettle", "fridge", "kettle"]))
        >>> bool((tags[0] == tags[2]).all()), bool((tags[0] == tags[1]).any())
        (True, False)
    """

    def __init__(self, key: bytes) -> None:
        """Keep the key; what is derived from it is made when it is first used."""
        if len(key) != 32:
            raise ValueError(f"key must have 32 bytes, got {len(key)}.")
        self._key = key
        self._last: tuple[NDArray[np.uint8], NDArray[np.int64], Tags, Words] | None = None

    @classmethod
    def draw_key(cls, rng: Random | None) -> "RunKey":
        """Return a fresh key; with a `SeededRandom`, the one that follows from its next words."""
        return cls(source_of(rng).words(4).astype("<u8").tobytes())

    def __reduce__(self) -> tuple[type["RunKey"], tuple[bytes]]:
        """Pickle only the key."""
        return RunKey, (self._key,)

    def __repr__(self) -> str:
        """Never show the key."""
        return "RunKey(...)"

    def tags(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> tuple[Tags, NDArray[np.uint64]]:
        """Return for each device 128 bits under this key, and a public number.

        Both are AES-CBC-MACs of the name with its length first, which makes it a PRF over texts of
        any length (Bellare, Kilian, Rogaway, "The security of the cipher block chaining message
        authentication code", 2000): two devices share a tag with probability 2^-128. The public
        number has a key that is no secret, so that devices stand in one sequence in every round
        and every run, where the order of arrival matters (a Mallows law, groups).

        Args:
            data: The bytes of all names.
            offsets: Where each begins, and where the last ends.
        """
        last = self._last
        # Most parts of a table hold the same devices as the one before.
        if last is None or not (_equal(last[0], data) and _equal(last[1], offsets)):
            own, public = _text_tags([self._derived_keys["device"], _PUBLIC_KEY], data, offsets)
            self._last = last = data, offsets, own, np.ascontiguousarray(public[:, 0])
        return last[2], last[3]

    def rows(
        self, rounds: NDArray[np.int64], tags: Tags, *, readings: NDArray[np.float64]
    ) -> "RowRandom":
        """Return the source of the noise of some readings, row by row.

        The reading itself is part of the place: should a table change under a run, two values of
        one device and round still never share their noise.

        Args:
            rounds: The round of each reading, below 2^55 in size.
            tags: The tag of each device.
            readings: The readings.
        """
        blocks = np.empty((len(rounds), 2), dtype=np.uint64)
        np.bitwise_xor(tags[:, 0], rounds.view(np.uint64), out=blocks[:, 0])
        # Adding 0 makes -0 the 0 it is.
        np.bitwise_xor(tags[:, 1], (readings + 0.0).view(np.uint64), out=blocks[:, 1])
        return RowRandom(self._derived_keys["noise"], blocks)

    def turn_words(self, public: Words, cycles: NDArray[np.int64], *, slots: int) -> Tags:
        """Return a row of words for each device and cycle: the order in which its slots come.

        Args:
            public: The public number of each device.
            cycles: The number of each cycle, below 2^55 in size.
            slots: How many words each has, at most 256.
        """
        blocks = np.empty((len(public), slots, 2), dtype=np.uint64)
        blocks[:, :, 0] = public[:, None]
        blocks[:, :, 1] = (cycles[:, None] << 8 | np.arange(slots)).view(np.uint64)
        words = _encrypt_blocks(self._derived_keys["turns"], blocks.reshape(-1, 2))
        return words[:, 0].reshape(len(public), slots)

    def round(self, number: int) -> "RoundRandom":
        """Return the source of what one round draws as a whole, such as resamples."""
        place = number.to_bytes(16, "big", signed=True)
        return RoundRandom(hashlib.sha256(self._derived_keys["round"] + place).digest())

    @cached_property
    def _derived_keys(self) -> dict[str, bytes]:
        """One key for each use, so that no word is used twice."""
        return {
            use: hashlib.sha256(b"rase run key, " + use.encode() + self._key).digest()
            for use in ("device", "noise", "round", "turns")
        }


class RowRandom(KeyedRandom):
    """Give words row by row: asked for as many words as there are rows, one for each row.

    The law of a mechanism draws in columns: a word for each reading, where that is not enough one
    more for each. Every column is another word of the same rows. Laws take many readings in pieces,
    so `ROWS_AT_ONCE` is the most rows that are drawn together.

    Args:
        key: 32 bytes.
        blocks: The place of each row, 16 bytes; no two places of different readings are equal.

    Raises:
        ValueError: If there are more than `ROWS_AT_ONCE` rows.
    """

    __slots__ = ("_blocks", "_key", "_lane", "_others", "_second")

    def __init__(self, key: bytes, blocks: Tags, lane: int = 0) -> None:
        """Start with the first block of each row."""
        if len(blocks) > ROWS_AT_ONCE:
            raise ValueError(f"rows must be at most {ROWS_AT_ONCE} at once, got {len(blocks)}.")
        self._key = key
        self._blocks = blocks
        self._lane = lane
        self._second: Words | None = None
        self._others = 0

    def words(self, count: int) -> Words:
        """Return the next word of each row; any other count from words of their own.

        Samplers ask for other counts only to replace refused words, once in 2^40 draws or less.
        """
        if count != len(self._blocks):
            return self._more(count)
        if self._second is not None:
            second, self._second = self._second, None
            return second
        blocks = self._blocks
        if self._lane:
            blocks = blocks.copy()
            blocks[:, 0] ^= np.uint64(self._lane) << _LANE_SHIFT
        self._lane += 1
        pairs = _encrypt_blocks(self._key, blocks)
        self._second = np.ascontiguousarray(pairs[:, 1])
        return np.ascontiguousarray(pairs[:, 0])

    def stream(self) -> "RowRandom":
        """Return the source itself: so few rows are one piece of every sweep."""
        return self

    def part(self, chosen: NDArray[np.bool_]) -> "RowRandom":
        """Return the source of some rows, which goes on where this one is."""
        part = RowRandom(self._key, self._blocks[chosen], self._lane)
        part._second = None if self._second is None else self._second[chosen]
        return part

    def _more(self, count: int) -> Words:
        self._others += 1
        place = hashlib.sha256(self._key + self._blocks.tobytes())
        place.update(b"%d %d" % (self._lane, self._others))
        return Keystream(place.digest()).words(count)


class RoundRandom(KeyedRandom):
    """Give the words of one round as one stream, however many are asked for at a time.

    Args:
        key: 32 bytes.
    """

    __slots__ = ("_stream",)

    def __init__(self, key: bytes) -> None:
        """Start with the first word."""
        self._stream = WordStream(key)

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of the stream."""
        return self._stream.words(count)

    def stream(self) -> "RoundRandom":
        """Return the source itself: its words are one stream already."""
        return self

    def part(self, chosen: NDArray[np.bool_]) -> "RoundRandom":
        """Return the source itself: it knows no rows."""
        return self


def public_numbers(names: list[str]) -> Words:
    """Return the public number of each device, as `RunKey.tags` does."""
    return np.ascontiguousarray(_text_tags([_PUBLIC_KEY], *text_buffers(names))[0][:, 0])


def text_buffers(names: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return texts as one row of bytes, with the boundaries between them."""
    encoded = [name.encode() for name in names]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(name) for name in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


_PUBLIC_KEY = hashlib.sha256(b"rase: the order of devices, no secret").digest()


# The first so many bytes of a word.
_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)


def _text_tags(
    keys: list[bytes], data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> list[Tags]:
    starts, lengths = offsets[:-1], np.diff(offsets)
    begin = np.zeros((len(lengths), 2), dtype=np.uint64)
    begin[:, 0] = lengths
    states = [_encrypt_blocks(key, begin) for key in keys]
    # Eight bytes from every place on, as one number; what is behind the end of a text is masked.
    padded = np.append(data, np.zeros(_BLOCK, dtype=np.uint8))
    words = np.ndarray((len(data) + 9,), dtype="<u8", buffer=padded, strides=(1,))
    for first in range(0, int(lengths.max(initial=0)), _BLOCK):
        active = np.flatnonzero(lengths > first)
        places, left = starts[active] + first, lengths[active] - first
        texts = np.empty((len(active), 2), dtype=np.uint64)
        texts[:, 0] = words[places] & _FIRST_BYTES[np.minimum(left, 8)]
        texts[:, 1] = words[places + 8] & _FIRST_BYTES[np.clip(left - 8, 0, 8)]
        if len(active) == len(lengths):
            states = [
                _encrypt_blocks(key, state ^ texts) for key, state in zip(keys, states, strict=True)
            ]
            continue
        for key, state in zip(keys, states, strict=True):
            state[active] = _encrypt_blocks(key, state.take(active, axis=0) ^ texts)
    return states


def _equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one is other or (one.shape == other.shape and bool((one == other).all()))


def _encrypt_blocks(key: bytes, blocks: Tags) -> Tags:
    """Return AES-256 of each block separately (ECB), as a keyed function, not to hide anything."""
    plain = np.ascontiguousarray(blocks).astype("<u8", copy=False)
    # The library asks for room for one more block, which it does not use.
    out = np.empty(plain.nbytes + _BLOCK, dtype=np.uint8)
    if len(plain):
        mode = modes.ECB()  # noqa: S305 - the blocks are distinct places, and AES is the PRF
        encryptor = Cipher(algorithms.AES256(key), mode).encryptor()
        encryptor.update_into(plain.view(np.uint8).reshape(-1).data, out.data)
    words: Tags = out[: plain.nbytes].view("<u8").astype(np.uint64, copy=False)
    return words.reshape(-1, 2)
