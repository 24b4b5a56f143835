import itertools
import math

import numpy as np
import pytest

from rase.kernels.words import SeededRandom
from rase.lab.order_law import OrderLaw
from rase.shuffle.mallows import Mallows
from rase.shuffle.paper import Line9, PaperPlan
from rase.shuffle.permutation import inverse
from rase.shuffle.release import cyclic_manifest, mallows_manifest

ARRIVAL = np.array([3, 0, 4, 1, 2])


@pytest.mark.parametrize("line9", Line9)
@pytest.mark.parametrize("theta", [None, 0.6])
def test_paper_mode_draws_what_algorithm_2_draws(line9: Line9, theta: float | None) -> None:
    """From the same words the law and `PaperPlan` draw the same order, in every reading."""
    manifest = (
        cyclic_manifest(5, "")
        if theta is None
        else mallows_manifest(5, "", theta=theta, sensitivity=1, alpha=1.0, real_loss=1.0)
    )
    law = OrderLaw("cyclic" if theta is None else "mallows", theta, line9)
    plan = PaperPlan(inverse(ARRIVAL), line9, manifest)
    for seed in range(30):
        drawn = law.draw(1, ARRIVAL, SeededRandom(seed))[0]
        assert drawn.tolist() == plan.draw(rng=SeededRandom(seed)).tolist()


def test_the_sequence_of_those_who_report_is_what_counts() -> None:
    """Device numbers may have gaps: only their sequence matters."""
    law = OrderLaw("mallows", 0.6, Line9.RIGHT_FIRST_BY_PLACE)
    few, many = ARRIVAL, 10 * ARRIVAL + 7
    assert np.array_equal(law.draw(4, few, SeededRandom(1)), law.draw(4, many, SeededRandom(1)))


LAWS = [
    OrderLaw("kept"),
    OrderLaw("uniform"),
    OrderLaw("cyclic"),
    OrderLaw("mallows", 0.5),
    *(OrderLaw("mallows", 0.5, line9) for line9 in Line9),
    *(OrderLaw("cyclic", None, line9) for line9 in Line9),
]


def test_draws_follow_the_marginals() -> None:
    """Places of 20,000 draws fit the marginals within 6 deviations; the seed is fixed.

    The marginals of a Mallows law with theta 30 % larger do not fit.
    """
    for law in LAWS:
        check_marginals(law)


def check_marginals(law: OrderLaw) -> None:
    """Check the draws of one law against its marginals, and against wrong ones."""
    count = 20_000
    drawn = law.draw(count, ARRIVAL, SeededRandom(2026))
    shares = np.stack([(drawn == place).mean(axis=0) for place in range(5)], axis=1)

    def deviation(marginals: np.ndarray) -> float:
        spread = np.sqrt(np.maximum(marginals * (1 - marginals), 1e-9) / count)
        return float((np.abs(shares - marginals) / spread).max())

    marginals = law.place_marginals(ARRIVAL)
    assert np.allclose(marginals.sum(axis=0), 1)
    assert np.allclose(marginals.sum(axis=1), 1)
    assert deviation(marginals) < 6, law
    if law.theta is not None:
        wrong = OrderLaw("mallows", 1.3 * law.theta, law.line9)
        assert deviation(wrong.place_marginals(ARRIVAL)) > 6, law


def test_the_marginals_are_those_of_the_enumerated_law() -> None:
    """Mallows marginals equal the sum over all orders, for slots and places the right way round."""
    mallows = Mallows(4, 0.7)
    expected = np.zeros((4, 4))
    for order in itertools.permutations(range(4)):
        expected[np.arange(4), order] += math.exp(mallows.log_probability(order))
    assert np.allclose(OrderLaw("mallows", 0.7).place_marginals(np.arange(4)), expected)


@pytest.mark.parametrize("count", [3, 40])
def test_cyclic_orders_are_single_cycles(count: int) -> None:
    """Few rounds and many rounds run the loop differently, to the same law."""
    drawn = OrderLaw("cyclic").draw(count, np.arange(7), SeededRandom(1))
    for order in drawn:
        place, length = int(order[0]), 1
        while place:
            place, length = int(order[place]), length + 1
        assert length == 7


def test_cyclic_orders_from_the_same_words_agree() -> None:
    """One round alone and the batch's vectorised loop give the same orders."""
    many = OrderLaw("cyclic").draw(8, np.arange(4), SeededRandom(5))
    words = SeededRandom(5)
    # Words are drawn for the whole batch in row order, so single rounds continue the stream;
    # an odd number of words would skip one at each call.
    single = [OrderLaw("cyclic").draw(2, np.arange(4), words) for _ in range(4)]
    assert np.array_equal(many, np.concatenate(single))


def test_a_single_report_stays() -> None:
    """A round of one report has one order."""
    for law in LAWS:
        assert law.draw(3, np.array([4]), SeededRandom(1)).tolist() == [[0], [0], [0]], law
        assert law.place_marginals(np.array([4])).tolist() == [[1.0]], law


@pytest.mark.parametrize(("method", "theta"), [("mallows", None), ("uniform", 1.0)])
def test_theta_belongs_to_mallows(method: str, theta: float | None) -> None:
    """Theta without Mallows, or Mallows without theta, is refused."""
    with pytest.raises(ValueError, match="mallows alone"):
        OrderLaw(method, theta)  # type: ignore[arg-type]
