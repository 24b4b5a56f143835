"""Sources of random 64-bit words: one for production, one for study, different by type.

Every random choice in RASE is a function of such words. Both sources are AES-256-CTR keystreams;
they differ in where the key comes from. Batch runs take their words by place in the data instead
(rase.kernels.keyed).
"""

import hashlib
import os
from abc import ABC, abstractmethod
from typing import final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

__all__ = [
    "KeyedRandom",
    "Keystream",
    "Random",
    "Resampling",
    "SecureRandom",
    "SeededRandom",
    "WordStream",
    "Words",
    "checked_secure",
    "resampling_source_of",
    "source_of",
]

Words = NDArray[np.uint64]

_FROM_THE_START = modes.CTR(bytes(16))
_PIECE = 1 << 16
_ZEROS = memoryview(bytes(_PIECE))
_LITTLE = np.dtype("<u8")


class SecureRandom:
    """Draw unpredictable words; the default wherever noise or order is drawn.

    Each call takes a fresh key from the operating system, so nothing is shared between calls,
    threads, or the two sides of a fork.

    Validation: statistical tests of every law in tests/statistical run on the same keystream.
    """

    __slots__ = ()

    def words(self, count: int) -> Words:
        """Return ``count`` fresh words."""
        return self.stream().words(count)

    def stream(self) -> "Keystream":
        """Return a keystream under a fresh key, for one batch of work. Never keep it."""
        return Keystream(os.urandom(32))

    def part(self, chosen: NDArray[np.bool_]) -> "SecureRandom":
        """Return the source for some of the rows: itself, for it knows no rows."""
        return self


class SeededRandom:
    """Draw reproducible words for study. Never for production: who knows the seed knows the noise.

    The words are one stream, however many are asked for at a time.

    Args:
        seed: A whole number or a text.

    Example:
        >>> bool((SeededRandom(1).words(4) == SeededRandom(1).words(4)).all())
        True
    """

    __slots__ = ("_stream", "seed")

    def __init__(self, seed: int | str) -> None:
        """Derive the key from the seed."""
        if isinstance(seed, bool) or not isinstance(seed, int | str):
            raise TypeError(f"seed must be a whole number or a text, got {seed!r}.")
        self.seed = seed
        self._stream = WordStream(f"rase seed {seed!r}")

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of the stream."""
        return self._stream.words(count)

    def stream(self) -> "SeededRandom":
        """Return the source itself: its words are one stream already."""
        return self

    def part(self, chosen: NDArray[np.bool_]) -> "SeededRandom":
        """Return the source for some of the rows: itself, for it knows no rows."""
        return self

    def child(self, label: int | str) -> "SeededRandom":
        """Return an independent source for a part of the work, such as one trial."""
        return SeededRandom(f"{self.seed!r}/{label!r}")

    def __repr__(self) -> str:
        """Show the seed, so that seeded noise is visible wherever it is used."""
        return f"SeededRandom({self.seed!r})"


@final
class Resampling:
    """Draw words that decide how reports are resampled: the same ones for the same release.

    They are needed in production, because a step that is done again after a crash must give the
    same interval; what they decide on is public already. Noise and orders are never drawn from it:
    randomizers and shufflers refuse it by its type.

    Args:
        release: What is resampled, or its hash.
    """

    __slots__ = ("_stream",)

    def __init__(self, release: bytes) -> None:
        """Derive the key."""
        self._stream = WordStream(f"rase resampling {release.hex()}")

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of the stream."""
        return self._stream.words(count)


class KeyedRandom(ABC):
    """Sources whose words follow from a run's key and a place in its data."""

    __slots__ = ()

    @abstractmethod
    def words(self, count: int) -> Words:
        """Return the next ``count`` words."""

    @abstractmethod
    def stream(self) -> "KeyedRandom":
        """Return the source for a sweep that takes its words in pieces."""

    @abstractmethod
    def part(self, chosen: NDArray[np.bool_]) -> "KeyedRandom":
        """Return the source for some of the rows."""


Random = SecureRandom | SeededRandom | KeyedRandom


def resampling_source_of(rng: Random | Resampling | None) -> Random | Resampling:
    """Return ``rng`` or by default the secure source, for choices that protect nobody.

    Raises:
        TypeError: If ``rng`` is something else, such as a NumPy generator.
    """
    return rng if isinstance(rng, Resampling) else source_of(rng)


def checked_secure(rng: SecureRandom | None) -> SecureRandom:
    """Return the secure source, and refuse any other; for everything in production.

    Raises:
        TypeError: If ``rng`` is another source, such as a `SeededRandom`.
    """
    if rng is None:
        return SecureRandom()
    # By its very type: a source derived from the secure one may be anything.
    if type(rng) is not SecureRandom:
        raise TypeError(
            f"rng must be a SecureRandom here, got {type(rng).__name__}: "
            "who knows a seed knows the order. Leave it out."
        )
    return rng


def source_of(rng: Random | None) -> Random:
    """Return ``rng``, or the secure source if none was given.

    Raises:
        TypeError: If ``rng`` is something else, such as a NumPy generator.
    """
    if rng is None:
        return SecureRandom()
    if not isinstance(rng, SecureRandom | SeededRandom | KeyedRandom):
        raise TypeError(
            "rng must be None (secure), a SecureRandom or a SeededRandom, "
            f"got {type(rng).__name__}."
        )
    return rng


class WordStream:
    """Give the words of a key as one stream, however many are asked for at a time.

    Args:
        key: 32 bytes, or a text to derive them from.
    """

    __slots__ = ("_key", "_position")

    def __init__(self, key: bytes | str) -> None:
        """Start with the first word."""
        self._key = hashlib.sha256(key.encode()).digest() if isinstance(key, str) else key
        self._position = 0

    def words(self, count: int) -> Words:
        """Return the next ``count`` words."""
        block, used = divmod(self._position, 2)
        self._position += count
        return Keystream(self._key, block).words(used + count)[used:]


class Keystream:
    """Turn a key into words by AES-256-CTR, in pieces that follow each other.

    Args:
        key: 32 bytes.
        block: The first block of two words.
    """

    __slots__ = ("_encryptor",)

    def __init__(self, key: bytes, block: int = 0) -> None:
        """Set the cipher to the first block."""
        mode = modes.CTR(block.to_bytes(16, "big")) if block else _FROM_THE_START
        self._encryptor = Cipher(algorithms.AES256(key), mode).encryptor()

    def words(self, count: int) -> Words:
        """Return the next ``count`` words."""
        size = 8 * count
        stream = np.empty(size, dtype=np.uint8)
        place = stream.data
        # Piece by piece into its place: no second copy, and the zeros stay in the cache.
        if size <= _PIECE:
            self._encryptor.update_into(_ZEROS[:size], place)
        else:
            for start in range(0, size, _PIECE):
                piece = place[start : start + _PIECE]
                self._encryptor.update_into(_ZEROS[: len(piece)], piece)
        words: Words = stream.view(_LITTLE).astype(np.uint64, copy=False)
        return words
