"""Run the same work on the compiled kernels and on their NumPy twins."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rase.kernels import backend
from rase.kernels.words import SeededRandom, Words

__all__ = ["FixedWords", "assert_same", "twice"]


class FixedWords(SeededRandom):
    """Return the given words first, then random ones."""

    def __init__(self, first: list[int]) -> None:
        super().__init__(2026)
        self.first = first

    def words(self, count: int) -> Words:
        """Return what is left of the given words, then random ones."""
        given_words, self.first = self.first[:count], self.first[count:]
        return np.concatenate(
            [np.array(given_words, np.uint64), super().words(count - len(given_words))]
        )


def twice(work: Callable[[], Any]) -> tuple[Any, Any]:
    """Do the same on the compiled and on the NumPy kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "native", backend.compiled)
        compiled = work()
        patch.setattr(backend, "native", None)
        return compiled, work()


def assert_same(work: Callable[[], NDArray[Any] | None]) -> NDArray[Any]:
    """Check that both give the same array, type and shape included."""
    compiled, by_numpy = twice(work)
    assert compiled.dtype == by_numpy.dtype
    assert compiled.shape == by_numpy.shape
    assert np.array_equal(compiled, by_numpy)
    return np.asarray(compiled)
