"""Exact integers from random words: numbers below a bound, coins, and products of 128 bits."""

import numpy as np
from numpy.typing import NDArray

from rase.kernels import backend
from rase.kernels.words import Random, Resampling, Words

__all__ = [
    "chosen_with",
    "high_product",
    "integers_below",
    "integers_from",
    "threshold",
]

_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def integers_below(bounds: NDArray[np.int64], source: Random | Resampling) -> NDArray[np.int64]:
    """Draw one uniform integer from ``[0, bound)`` for each bound, without any bias.

    Lemire's multiply-and-reject: the high half of word x bound is the integer; words whose low half
    falls below 2^64 mod bound are drawn again (probability below 2^-32).

    Args:
        bounds: Bounds from 1 to 2^32.
        source: Where the words come from.

    Validation: chi-square in tests/kernels/test_integers.py.
    """
    return integers_from(source.words(bounds.size).reshape(bounds.shape), bounds, source=source)


def integers_from(
    words: Words, bounds: NDArray[np.int64], *, source: Random | Resampling
) -> NDArray[np.int64]:
    """Turn words into uniform integers below their bounds.

    Args:
        words: One word for each bound.
        bounds: Bounds from 1 to 2^32, in the shape of the words.
        source: Where words come from that replace the refused ones.
    """
    if backend.native is not None:
        drawn = np.empty(bounds.shape, dtype=np.int64)
        flat = np.ascontiguousarray(bounds, dtype=np.int64)
        if backend.native.integers_below(np.ascontiguousarray(words), flat, drawn):
            return drawn
    wide = bounds.astype(np.uint64)
    result, rejected = _scale_words(words, wide)
    while rejected.any():
        again, still = _scale_words(source.words(int(rejected.sum())), wide[rejected])
        places = np.nonzero(rejected)
        result[places] = again
        rejected[places] = still
    return result.astype(np.int64)


def threshold(probability: NDArray[np.float64]) -> Words:
    """Return the words below which an event of this probability happens, saturating near 1."""
    clipped = np.clip(probability, 0.0, 1.0)
    top = clipped >= 1 - 2.0**-53
    words = np.where(top, 0.0, clipped) * 2.0**64
    return np.where(top, np.uint64(0xFFFFFFFFFFFFFFFF), words.astype(np.uint64))


def chosen_with(probability: NDArray[np.float64], source: Random) -> NDArray[np.bool_]:
    """Toss one coin for each probability; 0 and 1 are certain."""
    tossed: NDArray[np.bool_] = source.words(probability.size).reshape(
        probability.shape
    ) < threshold(probability)
    return tossed | (probability >= 1)


def high_product(a: Words, b: Words | np.uint64) -> Words:
    """Return the high half of the 128-bit product of each pair of words.

    Example:
        >>> high_product(np.array([1 << 63], np.uint64), np.array([6], np.uint64)).tolist()
        [3]
    """
    low_a, high_a = a & _LOW_HALF, a >> _HALF
    low_b, high_b = b & _LOW_HALF, b >> _HALF
    high: Words = high_a * high_b
    middle = low_a * low_b
    middle >>= _HALF
    high_a *= low_b
    middle += high_a
    low_a *= high_b
    low_a += middle & _LOW_HALF
    middle >>= _HALF
    high += middle
    low_a >>= _HALF
    high += low_a
    return high


def _scale_words(words: Words, bounds: Words) -> tuple[Words, NDArray[np.bool_]]:
    high = (words >> _HALF) * bounds + (((words & _LOW_HALF) * bounds) >> _HALF)
    # The product's low 64 bits are what uint64 multiplication keeps.
    rejected = words * bounds < (np.uint64(0) - bounds) % bounds
    return high >> _HALF, rejected
