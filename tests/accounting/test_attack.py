"""What an observer of many rounds achieves: true lower bounds, near the upper ones."""

import itertools
import math

import numpy as np
from tests.cases import each_case

from rase import Duchi, Laplace, Optimal, Range
from rase.accounting.accountant.rounds import shuffled_pair
from rase.accounting.amplification import lower_bound
from rase.accounting.blanket import Channel, Covered, channel_of
from rase.accounting.lower_bounds import attack_epsilon

PUBLIC = Range(0, 1)


@each_case(
    ("n", "epsilon", "rounds", "known"),
    [(20_000, 1.5, 24, 0.2346), (1000, 2.0, 24, 1.879), (1000, 2.0, 720, 13.17)],
)
def test_bounds_are_as_large_as_computed_beforehand(
    n: int, epsilon: float, rounds: int, known: float
) -> None:
    """Within a percent below figures that were rounded upwards, and below what is proven."""
    law = Optimal(epsilon, PUBLIC)
    found = lower_bound(law, n, rounds=rounds, delta=1e-6)
    assert 0.99 * known < found < known * (1 + 1e-3)
    assert found < shuffled_pair(law, n).compose(rounds).epsilon(1e-6)


@each_case("law", [Duchi(1.0, PUBLIC), Optimal(2.0, PUBLIC), Laplace(1.0, PUBLIC)])
@each_case(("n", "rounds"), [(2, 2), (20, 5), (300, 24)])
def test_no_bound_is_above_what_is_proven(law: Covered, n: int, rounds: int) -> None:
    """Lower and upper bounds never cross, for few reports and many."""
    local = law.guarantee.epsilon
    least = attack_epsilon(channel_of(law), n, rounds=rounds, delta=1e-4, local_epsilon=local)
    assert 0 < least <= shuffled_pair(law, n, delta=1e-4).compose(rounds).epsilon(1e-4)


def test_small_rounds_are_really_that_revealing() -> None:
    """Two rounds of three reports, enumerated: the divergence at the bound is at least delta."""
    rows = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
    channel = Channel(low=rows[0], middle=rows[1], high=rows[2])
    for delta in (0.3, 0.1, 0.03):
        least = attack_epsilon(channel, 3, rounds=2, delta=delta, local_epsilon=math.log(6))
        true = max(
            _divergence(rows[x], rows[z], rows[o], least)
            for x, z in ((0, 2), (2, 0))
            for o in range(3)
        )
        assert least > 0
        assert true >= delta * (1 - 1e-9)


def _divergence(first: np.ndarray, second: np.ndarray, others: np.ndarray, epsilon: float) -> float:
    laws = []
    for own in (first, second):
        law: dict[tuple[int, ...], float] = {}
        for reports in itertools.product(range(3), repeat=3):
            chance = float(own[reports[0]] * others[reports[1]] * others[reports[2]])
            key = tuple(sorted(reports))
            law[key] = law.get(key, 0.0) + chance
        laws.append(law)
    return sum(
        max(laws[0][a] * laws[0][b] - math.exp(epsilon) * laws[1][a] * laws[1][b], 0.0)
        for a in laws[0]
        for b in laws[0]
    )
