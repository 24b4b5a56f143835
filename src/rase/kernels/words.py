"""Sources of random 64-bit words: one for production, one for study, different by type.

Every random choice in RASE is a function of such words. Both sources are AES-256-CTR keystreams;
they differ in where the key comes from.
"""

import hashlib
import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

__all__ = ["Random", "SecureRandom", "SeededRandom", "Words", "source_of"]

Words = NDArray[np.uint64]


class SecureRandom:
    """Draw unpredictable words; the default wherever noise or order is drawn.

    Each call takes a fresh key from the operating system, so nothing is shared between calls,
    threads, or the two sides of a fork.

    Validation: statistical tests of every law in tests/statistical run on the same keystream.
    """

    __slots__ = ()

    def words(self, count: int) -> Words:
        """Return ``count`` fresh words."""
        return _keystream(os.urandom(32), bytes(16), count)


class SeededRandom:
    """Draw reproducible words for study. Never for production: who knows the seed knows the noise.

    Args:
        seed: A whole number or a text.

    Example:
        >>> bool((SeededRandom(1).words(4) == SeededRandom(1).words(4)).all())
        True
    """

    __slots__ = ("_block", "_key", "seed")

    def __init__(self, seed: int | str) -> None:
        """Derive the key from the seed."""
        if isinstance(seed, bool) or not isinstance(seed, int | str):
            raise TypeError(f"seed must be a whole number or a text, got {seed!r}.")
        self.seed = seed
        self._key = hashlib.sha256(f"rase seed {seed!r}".encode()).digest()
        self._block = 0

    def words(self, count: int) -> Words:
        """Return the next ``count`` words of the stream."""
        start = self._block.to_bytes(16, "big")
        self._block += (count + 1) // 2
        return _keystream(self._key, start, count)

    def child(self, label: int | str) -> "SeededRandom":
        """Return an independent source for a part of the work, such as one trial."""
        return SeededRandom(f"{self.seed!r}/{label!r}")

    def __repr__(self) -> str:
        """Show the seed, so that seeded noise is visible wherever it is used."""
        return f"SeededRandom({self.seed!r})"


Random = SecureRandom | SeededRandom


def source_of(rng: Random | None) -> Random:
    """Return ``rng``, or the secure source if none was given.

    Raises:
        TypeError: If ``rng`` is something else, such as a NumPy generator.
    """
    if rng is None:
        return SecureRandom()
    if not isinstance(rng, SecureRandom | SeededRandom):
        raise TypeError(
            "rng must be None (secure), a SecureRandom or a SeededRandom, "
            f"got {type(rng).__name__}."
        )
    return rng


def _keystream(key: bytes, first_block: bytes, count: int) -> Words:
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(first_block)).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)
