"""Random words one at a time."""

from collections import Counter

import numpy as np
from scipy import stats
from tests.cases import each_case

from rase.kernels.entropy import (
    SecureEntropy,
    SeededEntropy,
    integer_below,
    is_chosen,
)
from rase.kernels.integers import chosen_with, integers_below
from rase.kernels.words import SeededRandom

EDGES = [0.0, 1e-12, 0.3, 0.5, 1 - 2.0**-52, 1 - 2.0**-53, 1.0]


class Words:
    """Give the words of a NumPy source one by one."""

    def __init__(self, seed: int) -> None:
        self.source = SeededRandom(seed)

    def word(self) -> int:
        """Return the next word."""
        return int(self.source.words(1)[0])


class Fixed:
    """Give words from a list."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def word(self) -> int:
        """Return the next word."""
        return self.words.pop(0)


def test_secure_words_are_fresh() -> None:
    """A hundred words differ (false alarm below 1e-15) and fill 64 bits."""
    words = [SecureEntropy().word() for _ in range(100)]
    assert len(set(words)) == 100
    assert max(words) >> 60


def test_seeded_words_repeat_and_show_their_seed() -> None:
    """The same seed gives the same words, another seed others; the seed is visible."""
    one, two, other = SeededEntropy(1), SeededEntropy(1), SeededEntropy("1")
    assert [one.word() for _ in range(5)] == [two.word() for _ in range(5)]
    assert one.word() != other.word()
    assert repr(other) == "SeededEntropy('1')"


@each_case("bound", [1, 2, 3, 7, 4097, 2**32 - 5])
def test_integers_are_those_of_numpy(bound: int) -> None:
    """Fed with the same words, both forms give the same integers."""
    for seed in range(50):
        expected = integers_below(np.array([bound]), SeededRandom(seed))
        assert integer_below(bound, Words(seed)) == int(expected[0])


def test_integers_are_uniform() -> None:
    """Chi-square at 1e-9 accepts 7 values, and would reject one that is 30 % too frequent."""
    source = SeededEntropy(2026)
    seen = Counter(integer_below(7, source) for _ in range(40_000))
    counts = [seen[value] for value in range(7)]
    assert stats.chisquare(counts).pvalue > 1e-9
    wrong = [int(counts[0] * 1.3), *counts[1:]]
    assert stats.chisquare(wrong).pvalue < 1e-9


def test_words_that_would_bias_are_drawn_again() -> None:
    """Words in the incomplete last interval are rejected."""
    assert integer_below(3, Fixed(0, 2**63)) == 1


@each_case("probability", EDGES)
def test_coins_are_those_of_numpy(probability: float) -> None:
    """Fed with the same word, both forms toss the same coin, at the edges, too."""
    for seed in range(50):
        expected = chosen_with(np.array([probability]), SeededRandom(seed))
        assert is_chosen(probability, Words(seed)) == bool(expected[0])
    assert is_chosen(1.0, Fixed(2**64 - 1))
    assert not is_chosen(1 - 2.0**-53, Fixed(2**64 - 1))
    assert not is_chosen(0.0, Fixed(0))
    assert not is_chosen(-1.0, Fixed(0))
