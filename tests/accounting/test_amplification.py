"""Amplification by shuffling, as one asks for it."""

import math
from typing import Any

import pytest
from tests.cases import each_case

from rase import (
    BudgetAware,
    Duchi,
    Hybrid,
    Laplace,
    MallowsShuffle,
    Piecewise,
    Precision,
    PrivacyRefused,
    Range,
    Uniform,
)
from rase.accounting.accountant.bit import BIT_THEOREM
from rase.accounting.amplification import (
    BLANKET_THEOREM,
    CLONE_THEOREM,
    CLOSED_FORM_THEOREM,
    LOCAL_THEOREM,
    Method,
    amplify,
    lower_bound,
)
from rase.accounting.blanket import Covered
from rase.privacy import CentralDP, LocalDP

RANGE = Range(0, 3000)
MECHANISMS: list[Covered] = [
    BudgetAware(1.0, RANGE, Precision(beta=0.5, rho=0.9)),
    Laplace(1.0, RANGE),
    Duchi(1.0, RANGE),
    Piecewise(1.0, RANGE),
    Hybrid(1.0, RANGE),
]


def test_a_bare_epsilon_is_amplified_by_the_clone_pair() -> None:
    """Any mechanism will do, and the theorem is named."""
    result = amplify(0.5, 1000, delta=1e-6)
    assert result.epsilon == pytest.approx(0.0705, rel=0.02)
    assert result.theorem == CLONE_THEOREM
    assert result.is_amplified
    assert result.guarantee == CentralDP(
        result.epsilon, 1e-6, theorem=CLONE_THEOREM, epsilon_local=0.5
    )
    assert (result.n, result.delta, result.epsilon_local, result.rounds) == (1000, 1e-6, 0.5, 1)


@pytest.mark.uncovered
@each_case("mechanism", MECHANISMS)
@each_case("n", [20, 2000])
def test_a_mechanism_of_ours_is_amplified_more(mechanism: Covered, n: int) -> None:
    """The best bound is chosen, above the lower bound and not above the generic one."""
    best = amplify(mechanism, n, delta=1e-6)
    generic = amplify(mechanism, n, delta=1e-6, method="clone")
    blanket = amplify(mechanism, n, delta=1e-6, method="blanket")
    least = min(generic.epsilon, blanket.epsilon)
    if isinstance(mechanism, Duchi):
        assert best.lower_bound <= best.epsilon <= least
        assert best.theorem == (BIT_THEOREM if best.is_amplified else LOCAL_THEOREM)
        return
    assert best.lower_bound <= best.epsilon == pytest.approx(least, rel=2e-6)
    assert best.lower_bound > 0.78 * best.epsilon
    if n == 2000:
        assert best.theorem == BLANKET_THEOREM
        assert generic.theorem == CLONE_THEOREM


@each_case("epsilon", [0.1, 1.0, 4.0])
@each_case("n", [2, 64, 10**4])
@each_case("delta", [0.05, 1e-6, 1e-30])
def test_no_bound_crosses_another(epsilon: float, n: int, delta: float) -> None:
    """Lower bound, upper bound and local epsilon keep their order."""
    result = amplify(epsilon, n, delta=delta)
    assert 0 <= result.lower_bound <= result.epsilon <= epsilon


def test_without_amplification_the_local_guarantee_stays() -> None:
    """Too few reports, too large an epsilon: the sentence says so, and no delta is spent."""
    result = amplify(4.0, 64, delta=1e-6)
    assert not result.is_amplified
    assert (result.epsilon, result.theorem) == (4.0, LOCAL_THEOREM)
    assert result.guarantee == CentralDP(4.0, 0.0, theorem=LOCAL_THEOREM, epsilon_local=4.0)
    assert str(result) == "No amplification: 64 reports of epsilon 4 stay at epsilon 4."


def test_the_sentence_names_theorem_and_lower_bound() -> None:
    """Nobody has to look up where the number comes from."""
    sentence = str(amplify(Laplace(1.0, RANGE), 1000, delta=1e-6))
    assert "1000 reports of epsilon 1, shuffled uniformly, are (" in sentence
    assert "by FFT. Epsilon is at least 0.11." in sentence
    # Of a bare epsilon a smaller one may hold, but not for every mechanism.
    assert str(amplify(1.0, 1000, delta=1e-6)).endswith("at least 0.126 for some mechanism.")


def test_the_closed_form_can_be_asked_for() -> None:
    """It is the weakest bound; outside its condition there is no amplification."""
    result = amplify(1.0, 10**6, delta=1e-6, method="closed_form")
    assert result.theorem == CLOSED_FORM_THEOREM
    assert result.epsilon == pytest.approx(0.0235, rel=0.01)
    assert not amplify(1.0, 100, delta=1e-6, method="closed_form").is_amplified


def test_a_generous_delta_needs_no_epsilon() -> None:
    """If two releases differ by less than delta in all, epsilon is 0."""
    assert amplify(0.1, 10**4, delta=0.5).epsilon == 0.0


def test_contributors_hide_among_those_of_the_same_budget() -> None:
    """The result is the worst class; one who is alone in a class is not amplified."""
    budgets = (0.5,) * 300 + (1.0,) * 200
    mixed = amplify(Duchi(budgets, RANGE), 500, delta=1e-6)
    assert mixed.epsilon == amplify(Duchi(1.0, RANGE), 200, delta=1e-6).epsilon
    assert (mixed.n, mixed.epsilon_local) == (500, 1.0)
    alone = amplify(Duchi((*budgets, 0.7), RANGE), 501, delta=1e-6)
    assert alone.epsilon == 0.7
    assert alone.theorem == LOCAL_THEOREM
    assert alone.lower_bound == pytest.approx(0.7, rel=1e-3)


class Foreign:
    """A randomizer of somebody else, of which only the guarantee is known."""

    def __init__(self, epsilon: float | tuple[float, ...]) -> None:
        """Keep the budget."""
        self.epsilon = epsilon
        self.guarantee = LocalDP(max(epsilon) if isinstance(epsilon, tuple) else epsilon)


def test_a_foreign_mechanism_counts_with_its_epsilon() -> None:
    """Nothing is assumed of its law."""
    foreign: Any = Foreign(0.5)
    assert amplify(foreign, 1000, delta=1e-6) == amplify(0.5, 1000, delta=1e-6)
    mixed: Any = Foreign((0.5,) * 1000 + (0.1,) * 1000)
    assert amplify(mixed, 2000, delta=1e-6).epsilon == amplify(0.5, 1000, delta=1e-6).epsilon


def test_above_epsilon_sixteen_the_blanket_is_not_tried() -> None:
    """Its digits would not suffice; the generic bound remains."""
    result = amplify(Laplace(20.0, RANGE), 1000, delta=1e-6)
    assert not result.is_amplified
    assert result.lower_bound == 0.0
    with pytest.raises(ValueError, match="at most 16 for the blanket"):
        amplify(Laplace(20.0, RANGE), 1000, delta=1e-6, method="blanket")
    with pytest.raises(ValueError, match="source must be a randomizer of this package"):
        amplify(1.0, 1000, delta=1e-6, method="blanket")


def test_shuffles_without_a_theorem_are_refused() -> None:
    """Unknown is unsupported: no number for Mallows and cyclic shuffles."""
    with pytest.raises(PrivacyRefused, match="no amplification theorem"):
        amplify(1.0, 1000, delta=1e-6, shuffle="mallows")
    with pytest.raises(PrivacyRefused, match="cyclic shuffle"):
        amplify(1.0, 1000, delta=1e-6, shuffle="cyclic")
    manifest = MallowsShuffle(theta=0.1).shuffle(list(range(50))).manifest
    with pytest.raises(PrivacyRefused, match="Mallows"):
        amplify(1.0, 50, delta=1e-6, shuffle=manifest)


def test_the_manifest_of_a_uniform_shuffle_is_taken() -> None:
    """If it is one of as many reports."""
    manifest = Uniform().shuffle(list(range(50))).manifest
    assert amplify(1.0, 50, delta=1e-6, shuffle=manifest) == amplify(1.0, 50, delta=1e-6)
    with pytest.raises(ValueError, match="n must be the number of reports shuffled, 50, got 60"):
        amplify(1.0, 60, delta=1e-6, shuffle=manifest)


@each_case("epsilon", [0.0, -1.0, math.nan, math.inf, 31.0, 1e-5])
def test_impossible_epsilons_are_refused(epsilon: float) -> None:
    """A budget is positive, finite and of a sensible size."""
    with pytest.raises(ValueError, match="epsilon must be"):
        amplify(epsilon, 100, delta=1e-6)


@each_case("delta", [0.0, -1e-6, 1.0, 2.0, math.nan, 1e-200])
def test_impossible_deltas_are_refused(delta: float) -> None:
    """Delta lies strictly between 0 and 1."""
    with pytest.raises(ValueError, match="delta must be between"):
        amplify(1.0, 100, delta=delta)


@each_case("n", [1, 0, -5, 10**9 + 1])
def test_impossible_numbers_of_reports_are_refused(n: int) -> None:
    """One report cannot hide."""
    with pytest.raises(ValueError, match="n must be between 2 and 1000000000, got"):
        amplify(1.0, n, delta=1e-6)


def test_arguments_of_another_kind_are_refused() -> None:
    """Words and booleans are not numbers."""
    wrong: list[dict[str, Any]] = [
        {"source": "1", "n": 10, "delta": 1e-6},
        {"source": True, "n": 10, "delta": 1e-6},
        {"source": None, "n": 10, "delta": 1e-6},
        {"source": 1.0, "n": 10.5, "delta": 1e-6},
        {"source": 1.0, "n": True, "delta": 1e-6},
        {"source": 1.0, "n": 10, "delta": "small"},
    ]
    for arguments in wrong:
        with pytest.raises(TypeError, match="must be a"):
            amplify(**arguments)


def test_unknown_words_are_refused() -> None:
    """Methods and shuffles have names."""
    method: Any = "magic"
    with pytest.raises(ValueError, match="method must be auto, clone, blanket or closed_form"):
        amplify(1.0, 10, delta=1e-6, method=method)
    with pytest.raises(ValueError, match="shuffle must be uniform, mallows or cyclic"):
        amplify(1.0, 10, delta=1e-6, shuffle=method)


def test_budgets_of_another_number_of_contributors_are_refused() -> None:
    """There is one budget for each report."""
    with pytest.raises(ValueError, match="n must be the number of contributors with a budget, 2"):
        amplify(Duchi((1.0, 2.0), RANGE), 3, delta=1e-6)


def test_methods_agree_on_the_lower_bound() -> None:
    """It depends on the mechanism and not on how the upper bound was found."""
    methods: tuple[Method, ...] = ("auto", "clone", "blanket", "closed_form")
    found = {amplify(MECHANISMS[0], 500, delta=1e-6, method=m).lower_bound for m in methods}
    assert found == {lower_bound(MECHANISMS[0], 500, rounds=1, delta=1e-6)}
