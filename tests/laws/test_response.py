"""K-ary randomized response: the first law for categories."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase import Categories, Duchi, RandomizedResponse, Range, SeededRandom
from rase.kernels.entropy import SeededEntropy
from rase.kernels.fixed import WORD
from rase.laws.registry import auto, mechanisms_of, randomizer_named

NAMES = tuple(f"state {number}" for number in range(64))
each_size = each_case("count", [2, 3, 5, 16, 64])
each_epsilon = each_case("epsilon", [1e-4, 0.1, 1.0, 4.0, 12.0, 30.0])


def response(epsilon: float, count: int) -> RandomizedResponse:
    """Return the mechanism for so many categories."""
    return RandomizedResponse(epsilon, Categories(NAMES[:count]))


@each_size
@each_epsilon
def test_the_whole_numbers_keep_the_budget(count: int, epsilon: float) -> None:
    """Rows add up to 2^64, and no two readings differ by more than the certificate says."""
    made = response(epsilon, count)
    rows = list(made.table_rows())
    assert {sum(row.values()) for row in rows} == {WORD}
    assert all(set(row) == set(range(count)) for row in rows)
    worst = max(
        row[place] / min(other[place] for other in rows) for row in rows for place in range(count)
    )
    certificate = made.certificate()
    assert math.log(worst) == pytest.approx(certificate.effective_epsilon, rel=1e-9)
    assert certificate.effective_epsilon <= epsilon
    assert certificate.effective_epsilon > epsilon * (1 - 1e-3)
    assert certificate.law == "randomized-response"


@each_case("count", [2, 5, 16])
def test_reports_follow_the_law(count: int) -> None:
    """Chi-square at 1e-9 of many draws and of single ones; a budget 30 % off is rejected."""
    for reading in (0, count - 1):
        row = response(1.0, count).law(1.0).weights(reading)
        expected = np.array([row[place] for place in range(count)]) / WORD

        def pvalue(places: list[int], mass: np.ndarray = expected) -> float:
            seen = np.bincount(places, minlength=len(mass))
            return float(stats.chisquare(seen, mass * len(places)).pvalue)

        for epsilon, is_right in ((1.0, True), (1.3, False)):
            made = response(epsilon, count)
            many = made.draw_many(np.full(40_000, reading), rng=SeededRandom(2026)).tolist()
            entropy = SeededEntropy(2026)
            name = NAMES[reading]
            single = [made.draw_one(name, entropy) for _ in range(40_000)]
            assert [pvalue(drawn) > 1e-9 for drawn in (many, single)] == [is_right, is_right]


@each_size
@each_epsilon
def test_one_word_gives_one_report(count: int, epsilon: float) -> None:
    """Word for word a device draws what NumPy and the compiled kernel draw."""

    class Words:
        def __init__(self, words: list[int]) -> None:
            self.left = words

        def word(self) -> int:
            return self.left.pop(0)

    made = response(epsilon, count)
    readings = np.arange(300) % count
    many = made.draw_many(readings, rng=SeededRandom(7)).tolist()
    words = Words(SeededRandom(7).words(300).tolist())
    assert [made.draw_one(NAMES[reading], words) for reading in readings] == many


def test_shares_are_decoded_without_bias() -> None:
    """The expectation of a decoded report is 1 for the true category and 0 for the others."""
    made = response(2.0, 4)
    decoded = made.decode_shares(np.arange(4))
    for reading in range(4):
        row = made.law(2.0).weights(reading)
        chances = np.array([row[place] for place in range(4)]) / WORD
        assert chances @ decoded == pytest.approx(np.eye(4)[reading], abs=1e-12)


def test_reports_are_names() -> None:
    """Names in, names out; a name that is not a category is refused and not shown."""
    made = response(8.0, 3)
    reports = made.randomize(["state 1"] * 50, rng=SeededRandom(1))
    assert set(reports) <= set(NAMES[:3])
    assert reports.count("state 1") > 40
    with pytest.raises(ValueError, match="one of the 3 categories"):
        made.randomize(["state 3"])


def test_domains_and_mechanisms_must_fit() -> None:
    """A law for numbers refuses categories, and the other way round."""
    state = Categories(("on", "off"))
    with pytest.raises(TypeError, match="domain must be of type Range for duchi"):
        Duchi(1.0, state)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="of type Categories for randomized-response"):
        RandomizedResponse(1.0, Range(0, 1))  # type: ignore[arg-type]
    assert isinstance(auto(1.0, state), RandomizedResponse)  # two categories
    assert isinstance(
        randomizer_named("randomized-response", 1.0, domain=state), RandomizedResponse
    )
    with pytest.raises(
        ValueError, match="one of auto, randomized-response, block-design, got 'duchi'"
    ):
        randomizer_named("duchi", 1.0, domain=state)
    assert mechanisms_of(Categories) == ("randomized-response", "block-design")
