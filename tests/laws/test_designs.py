"""Block designs for categories: the sets, the whole numbers, the draws, the choice of the law."""

import math
from collections import Counter
from itertools import accumulate, product

import numpy as np
import pytest
from scipy import stats
from tests.cases import each_case

from rase import BlockDesign, Categories, RandomizedResponse, SeededRandom
from rase.kernels.entropy import SeededEntropy
from rase.kernels.fixed import WORD
from rase.laws.designs import Design, design_for, response_variance, total_variance
from rase.laws.registry import auto, best_for_shares

NAMES = tuple(f"state {number}" for number in range(64))
EPSILONS = (1e-4, 0.1, 0.5, 1.0, 2.0, 4.0, 12.0, 30.0)
each_size = each_case("count", [2, 3, 7, 8, 16, 40, 64])


def made_for(epsilon: float, count: int) -> BlockDesign:
    """Return the mechanism for so many categories."""
    return BlockDesign(epsilon, Categories(NAMES[:count]))


def used() -> set[Design]:
    """Return every design that some number of categories and some budget get."""
    budgets = [0.1 * step for step in range(1, 61)]
    return {design_for(count, budget) for count, budget in product(range(2, 65, 2), budgets)}


def test_two_points_lie_together_in_as_many_sets() -> None:
    """Of every design in use each residue but 0 is a difference equally often."""
    designs = used()
    assert len(designs) > 12
    for design in designs:
        pairs = product(design.near, design.near)
        apart = Counter((one - other) % design.v for one, other in pairs if one != other)
        assert apart == dict.fromkeys(range(1, design.v), design.both)
        assert sorted((*design.near, *design.away)) == list(range(design.v))


@each_size
@each_case("epsilon", list(EPSILONS))
def test_the_whole_numbers_keep_the_budget(count: int, epsilon: float) -> None:
    """Rows add up to 2^64, and no two readings differ by more than the certificate says."""
    made = made_for(epsilon, count)
    rows = list(made.table_rows())
    assert {sum(row.values()) for row in rows} == {WORD}
    seen = [[row[place] for row in rows] for place in rows[0]]
    worst = max(max(weights) / min(weights) for weights in seen)
    certificate = made.certificate()
    assert math.log(worst) == pytest.approx(certificate.effective_epsilon, rel=1e-9)
    assert epsilon * (1 - 1e-3) < certificate.effective_epsilon <= epsilon
    first, second = (rows[int(place)] for place in certificate.readings)
    assert certificate.ratio == (first[int(certificate.report)], second[int(certificate.report)])


@each_size
@each_case("epsilon", list(EPSILONS))
def test_one_word_gives_one_report(count: int, epsilon: float) -> None:
    """Word for word a device draws what NumPy draws, at the ends of both parts as well."""

    class Words:
        def __init__(self, words: list[int]) -> None:
            self.left = words

        def word(self) -> int:
            return self.left.pop(0)

    made = made_for(epsilon, count)
    readings = np.arange(300) % count
    many = made.draw_many(readings, rng=SeededRandom(7)).tolist()
    words = Words(SeededRandom(7).words(300).tolist())
    assert [made.draw_one(NAMES[reading], words) for reading in readings] == many
    law = made.law(epsilon)
    row = law.weights(1)
    design = design_for(count, epsilon)
    ends = list(accumulate(row[(one + 1) % design.v] for one in (*design.near, *design.away)))
    chosen = [0, *(end + away for end in ends[:-1] for away in (-1, 0)), WORD - 1]
    single = [law.draw(1, 0, Words([word])) for word in chosen]
    out = np.empty(len(chosen), dtype=np.int64)
    grid, places = made.domain.grid, np.ones(len(chosen))
    assert law.fill_numpy(grid, places, np.array(chosen, dtype=np.uint64), out)  # type: ignore[attr-defined]
    assert out.tolist() == single


@each_case("count", [3, 16])
def test_reports_follow_the_law(count: int) -> None:
    """Chi-square at 1e-9 of many draws and of single ones; a budget 30 % off is rejected."""
    for reading in (0, count - 1):
        row = made_for(1.0, count).law(1.0).weights(reading)
        expected = np.array([row[place] for place in range(len(row))]) / WORD

        def pvalue(places: list[int], mass: np.ndarray = expected) -> float:
            seen = np.bincount(places, minlength=len(mass))
            return float(stats.chisquare(seen, mass * len(places)).pvalue)

        for epsilon, is_right in ((1.0, True), (1.3, False)):
            if design_for(count, epsilon) != design_for(count, 1.0):
                continue
            made = made_for(epsilon, count)
            many = made.draw_many(np.full(40_000, reading), rng=SeededRandom(2026)).tolist()
            entropy = SeededEntropy(2026)
            single = [made.draw_one(NAMES[reading], entropy) for _ in range(40_000)]
            assert [pvalue(drawn) > 1e-9 for drawn in (many, single)] == [is_right, is_right]


@each_size
@each_case("epsilon", [0.1, 1.0, 4.0])
def test_shares_are_decoded_without_bias_and_with_the_variance_of_the_choice(
    count: int, epsilon: float
) -> None:
    """By the exact law; the variances add up to one number whatever the reading is."""
    for made in (made_for(epsilon, count), RandomizedResponse(epsilon, Categories(NAMES[:count]))):
        law = made.law(epsilon)
        places = np.array(sorted(law.weights(0)))
        decoded = made.decode_shares(places)
        is_block = isinstance(made, BlockDesign)
        stated = (
            total_variance(design_for(count, epsilon), count, epsilon)
            if is_block
            else response_variance(count, epsilon)
        )
        for reading in (0, count // 2, count - 1):
            row = law.weights(reading)
            chances = np.array([row[place] for place in places.tolist()]) / WORD
            assert chances @ decoded == pytest.approx(np.eye(count)[reading], abs=1e-9)
            spread = chances @ np.square(decoded) - np.square(chances @ decoded)
            assert float(spread.sum()) == pytest.approx(stated, rel=2e-3)
        assert law.is_place(places).all()
        assert not law.is_place(np.array([-1, len(places)])).any()


def test_shares_of_16_categories_are_as_good_as_was_asked() -> None:
    """Error of a share among 10,000 even readings: 0.020 at epsilon 1, 0.0020 at 4.1."""

    def error(epsilon: float) -> float:
        best = min(
            response_variance(16, epsilon),
            total_variance(design_for(16, epsilon), 16, epsilon),
        )
        return math.sqrt(best / 16 / 10_000)

    assert error(1.0) < 0.0184
    assert error(4.1) < 0.0020
    assert error(5.5) < 0.0010


def test_the_design_is_near_the_best_there_is() -> None:
    """Within 10 % of the error of subset selection, which takes all sets of the best size."""

    def subset_selection(count: int, epsilon: float) -> float:
        found = []
        for size in range(1, count):
            inner, outer = math.comb(count - 1, size - 1), math.comb(count - 1, size)
            whole = inner * math.exp(epsilon) + outer
            both = math.comb(count - 2, size - 2) if size > 1 else 0
            often = inner * math.exp(epsilon) / whole
            seldom = (both * math.exp(epsilon) + math.comb(count - 2, size - 1)) / whole
            others = (count - 1) * seldom * (1 - seldom)
            found.append((often * (1 - often) + others) / (often - seldom) ** 2)
        return min(found)

    for count, epsilon in product((8, 16, 24, 32, 48, 64), (0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)):
        best = min(
            response_variance(count, epsilon),
            total_variance(design_for(count, epsilon), count, epsilon),
        )
        assert 1 - 1e-9 < best / subset_selection(count, epsilon) < 1.21


def test_auto_takes_the_law_of_least_variance() -> None:
    """Designs at small epsilon, single categories at large; one law where budgets differ."""
    state = Categories(NAMES[:16])
    assert isinstance(auto(1.0, state), BlockDesign)
    assert isinstance(auto(3.0, state), RandomizedResponse)
    assert isinstance(auto(1.0, Categories(NAMES[:2])), RandomizedResponse)
    assert best_for_shares([1.0, 8.0], 16) == "block-design"
    assert best_for_shares([6.0, 8.0], 16) == "randomized-response"
    assert isinstance(auto((1.0, 8.0), state), BlockDesign)
