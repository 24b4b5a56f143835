"""Exact integers from random words."""

import numpy as np
from scipy import stats
from tests.cases import each_case

from rase.kernels.integers import chosen_with, integers_below, threshold
from rase.kernels.table import IntegerTable
from rase.kernels.words import SecureRandom, SeededRandom


class FixedWords(SecureRandom):
    """Hand out a given list of words."""

    def __init__(self, words: list[int]) -> None:
        self.left = words

    def words(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Return the next words of the list."""
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint64)


def test_the_integer_is_the_high_half_of_the_product() -> None:
    """A word is scaled exactly, at bounds up to 2^32."""
    words = [0, 2**64 - 1, 2**63, 123456789123456789]
    for bound in (1, 2, 3, 7, 4096, 2**32 - 1, 2**32):
        good = [word for word in words if word * bound % 2**64 >= 2**64 % bound]
        drawn = integers_below(np.full(len(good), bound), FixedWords(good))
        assert drawn.tolist() == [word * bound >> 64 for word in good]


def test_words_that_would_bias_are_drawn_again() -> None:
    """A word whose low half falls below 2^64 mod bound is replaced, again and again."""
    # 2^64 mod 3 = 1, so the word 0 is the only one refused for bound 3.
    drawn = integers_below(np.array([3, 3]), FixedWords([0, 2**63, 0, 2**64 - 1]))
    assert drawn.tolist() == [2, 1]


def test_integers_are_uniform() -> None:
    """Chi-square at 1e-9 accepts the law and rejects a 30 % error in one weight."""
    seen = np.bincount(integers_below(np.full(70_000, 7), SeededRandom(2026)), minlength=7)
    assert stats.chisquare(seen).pvalue > 1e-9
    tilted = np.full(7, 10_000.0)
    tilted[0] *= 1.3
    assert stats.chisquare(seen, tilted * seen.sum() / tilted.sum()).pvalue < 1e-9


def test_certain_and_impossible_events() -> None:
    """Probability 0 never happens, probability 1 always, whatever the word."""
    always = chosen_with(np.array([0.0, 1.0]), FixedWords([0, 2**64 - 1]))
    assert always.tolist() == [False, True]


def test_thresholds_saturate_below_two_to_the_64() -> None:
    """Probabilities map to words without overflow."""
    assert threshold(np.array([0.0, 0.5, 1.0])).tolist() == [0, 2**63, 2**64 - 1]


@each_case(("word", "index"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 3), (2**64 - 1, 3)])
def test_draws_fall_into_the_weight_of_their_word(word: int, index: int) -> None:
    """A word below the first partial sum gives 0; a weight of zero is never drawn."""
    table = IntegerTable([10, 20, 20])
    assert table.indices(np.array([word], dtype=np.uint64)).tolist() == [index]
