"""Categories by the one accountant: bounds against enumeration, and the figures that were asked."""

import itertools
import math
from collections.abc import Mapping

import pytest
from tests.cases import each_case

from rase import BlockDesign, Categories, Duchi, PrivacyRefused, RandomizedResponse, Range
from rase.accounting.accountant.calibrate import calibrate, worst_error
from rase.accounting.accountant.claims import claims
from rase.accounting.accountant.rounds import shuffled_pair
from rase.kernels.fixed import WORD
from rase.laws.response import CategoryRandomizer

NAMES = tuple(f"state {number}" for number in range(16))


def made_for(kind: str, epsilon: float, count: int) -> CategoryRandomizer:
    """Return a mechanism for so many categories."""
    domain = Categories(NAMES[:count])
    return (BlockDesign if kind == "sets" else RandomizedResponse)(epsilon, domain)


def law_of_round(
    made: CategoryRandomizer, readings: tuple[int, ...]
) -> dict[tuple[int, ...], float]:
    """Return the law of the shuffled reports of a round: how often each place was reported."""
    law: dict[tuple[int, ...], float] = {(): 1.0}
    for reading in readings:
        row = made.law(made.guarantee.epsilon).weights(reading)
        found: dict[tuple[int, ...], float] = {}
        for (places, chance), (place, weight) in itertools.product(law.items(), row.items()):
            key = tuple(sorted((*places, place)))
            found[key] = found.get(key, 0.0) + chance * weight / WORD
        law = found
    return law


def delta_of(
    first: Mapping[tuple[int, ...], float], second: Mapping[tuple[int, ...], float], epsilon: float
) -> float:
    """Return the hockey-stick divergence of two laws."""
    return sum(
        max(chance - math.exp(epsilon) * second.get(key, 0.0), 0.0) for key, chance in first.items()
    )


@each_case(
    ("kind", "count", "n"), [("single", 2, 4), ("single", 3, 3), ("sets", 3, 2), ("sets", 5, 2)]
)
@each_case("local", [1.0, 3.0])
def test_no_round_gives_away_more_than_is_proven(
    kind: str, count: int, n: int, local: float
) -> None:
    """Enumerated: every pair of readings, every readings of the others, several epsilons."""
    made = made_for(kind, local, count)
    pair = shuffled_pair(made, n, delta=1e-3)
    worst = dict.fromkeys((0.2 * local, 0.8 * local), 0.0)
    for others in itertools.combinations_with_replacement(range(count), n - 1):
        laws = [law_of_round(made, (own, *others)) for own in range(count)]
        for (one, other), epsilon in itertools.product(itertools.permutations(laws, 2), worst):
            worst[epsilon] = max(worst[epsilon], delta_of(one, other, epsilon))
    for epsilon, found in worst.items():
        assert found <= pair.delta(epsilon) * (1 + 1e-9) + 1e-12


def test_two_categories_are_a_bit() -> None:
    """Both have one law, and the same exact curve."""
    response = shuffled_pair(made_for("single", 3.0, 2), 1000).epsilon(1e-6)
    assert response == pytest.approx(shuffled_pair(Duchi(3.0, Range(0, 1)), 1000).epsilon(1e-6))


def test_16_categories_at_10_000_devices() -> None:
    """What was asked: 0.0020 at local 4.1; 0.0010 within shuffled epsilon 1, local at most 5.6."""
    at_4 = made_for("single", 4.1, 16)
    assert shuffled_pair(at_4, 10_000).epsilon(1e-6) < 0.39
    assert worst_error(at_4) / 100 < 0.0020
    fitted = calibrate(at_4.domain, shuffled_epsilon=1, delta=1e-6, n=10_000)
    assert fitted.name == "randomized-response"
    assert 5.4 < fitted.guarantee.epsilon < 5.6
    assert worst_error(fitted) / 100 < 0.0010
    (claim,) = claims(fitted, 10_000, delta=1e-6, reports=[1])
    assert 0.98 < claim.epsilon <= 1
    private = calibrate(at_4.domain, shuffled_epsilon=1, delta=1e-6, n=10_000, max_local_epsilon=1)
    assert private.name == "block-design"
    assert worst_error(private) / 100 < 0.0184


def test_a_promise_that_cannot_be_kept_is_refused() -> None:
    """As for numbers; a mechanism for numbers is none for categories."""
    domain = Categories(NAMES[:3])
    with pytest.raises(ValueError, match="one of auto, randomized-response, block-design, got"):
        calibrate(domain, shuffled_epsilon=1, delta=1e-6, n=100, mechanism="duchi")
    with pytest.raises(PrivacyRefused, match="no local epsilon"):
        calibrate(domain, shuffled_epsilon=1e-5, delta=1e-9, n=2, rounds=1000)
