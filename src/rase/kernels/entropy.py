"""Random words one at a time, without NumPy, for a device's noise and sending times.

As in rase.kernels.words, the secure source and the one for study differ by type.
"""

import hashlib
import os
from typing import Protocol, final

__all__ = [
    "Entropy",
    "SecureEntropy",
    "SeededEntropy",
    "checked_entropy",
    "integer_below",
    "is_chosen",
]

_WORD = 1 << 64


class Entropy(Protocol):
    """Give random 64-bit words."""

    def word(self) -> int:
        """Return a fresh word."""
        ...


@final
class SecureEntropy:
    """Draw unpredictable words from the operating system."""

    __slots__ = ()

    def word(self) -> int:
        """Return a fresh word."""
        return int.from_bytes(os.urandom(8), "big")


class SeededEntropy:
    """Draw reproducible words for study. Never for production: who knows the seed knows the noise.

    Args:
        seed: A whole number or a text.

    Example:
        >>> SeededEntropy(1).word() == SeededEntropy(1).word()
        True
    """

    __slots__ = ("_count", "_key", "seed")

    def __init__(self, seed: int | str) -> None:
        """Derive the key from the seed."""
        self.seed = seed
        self._key = hashlib.sha256(f"rase entropy {seed!r}".encode()).digest()
        self._count = 0

    def word(self) -> int:
        """Return the next word of the stream."""
        self._count += 1
        digest = hashlib.sha256(self._key + self._count.to_bytes(8, "big")).digest()
        return int.from_bytes(digest[:8], "big")

    def __repr__(self) -> str:
        """Show the seed, so that seeded noise is visible wherever it is used."""
        return f"SeededEntropy({self.seed!r})"


def checked_entropy(entropy: Entropy, *, study: bool) -> Entropy:
    """Return the source if it may be drawn from: only the secure one may, unless for study.

    Args:
        entropy: Where the words come from.
        study: Whether what is drawn is for study, and says so wherever it is shown.

    Raises:
        TypeError: If the source is not the secure one, and this is not for study.

    Example:
        >>> checked_entropy(SeededEntropy(1), study=True)
        SeededEntropy(1)
    """
    if not study and not isinstance(entropy, SecureEntropy):
        raise TypeError(
            f"entropy must be a SecureEntropy, got {type(entropy).__name__}: "
            "who knows a seed knows the noise. For simulations say study=True."
        )
    return entropy


def integer_below(bound: int, entropy: Entropy) -> int:
    """Draw one uniform integer from ``[0, bound)`` without any bias; bounds up to 2^32.

    Lemire's multiply-and-reject, word for word as in rase.kernels.integers.

    Validation: chi-square in tests/kernels/test_entropy.py.
    """
    while True:
        product = entropy.word() * bound
        if product % _WORD >= _WORD % bound:
            return product // _WORD


def is_chosen(probability: float, entropy: Entropy) -> bool:
    """Toss one coin; 0 and 1 are certain."""
    word = entropy.word()
    if probability >= 1 - 2.0**-53:
        return probability >= 1 or word < _WORD - 1
    return word < int(max(probability, 0.0) * 2.0**64)
