"""Guarantees over many rounds."""

import math
from typing import Any

import numpy as np
import pytest
from tests.cases import each_case

from rase import Duchi, Hybrid, LocalDP, PermutationPrivacy, PrivacyRefused, Range
from rase.accounting.accountant.bit import BIT_THEOREM
from rase.accounting.accountant.pair import Sums
from rase.accounting.accountant.rounds import CloneProfile, clone_profile
from rase.accounting.amplification import LOCAL_THEOREM, amplify
from rase.accounting.composition import (
    COMPOSED_THEOREM,
    compose_live,
    compose_local,
    compose_permutation,
    compose_shuffled,
)

# The clone pair of n = 1000, epsilon 0.5, composed at delta = 1e-6 by google's dp_accounting 0.6.0
# (from_two_probability_mass_functions), rounding losses by 1e-5 down and up.
PEER = {24: (0.38589, 0.38613), 168: (1.09568, 1.09734), 720: (2.41831, 2.42540)}
# docs: design table, the same with rounding by 1e-4.
TABLE = {1: 0.071, 24: 0.387, 168: 1.10, 720: 2.46}


def test_local_epsilons_add_up() -> None:
    """24 reports cost 24 times as much."""
    assert compose_local(LocalDP(0.5), 24) == LocalDP(12.0)


def test_alphas_add_up_and_the_attacker_stays() -> None:
    """New permutations tell nothing about old ones."""
    once = PermutationPrivacy(2, 6, attacker_success=0.3, chance=0.01, exposed_success=0.4)
    assert compose_permutation(once, 10) == PermutationPrivacy(
        20, 60, 0.3, 0.01, exposed_success=0.4
    )


@each_case("rounds", list(TABLE))
def test_windows_agree_with_the_design_table(rounds: int) -> None:
    """Epsilon over 1, 24, 168 and 720 rounds is within 2 % of it."""
    result = compose_shuffled(0.5, 1000, rounds=rounds, delta=1e-6)
    assert result.epsilon == pytest.approx(TABLE[rounds], rel=0.02)
    assert result.lower_bound <= result.epsilon <= rounds * 0.5


@each_case("rounds", list(PEER))
def test_windows_lie_between_the_bounds_of_a_peer(rounds: int) -> None:
    """The peer's losses rounded down and rounded up enclose ours."""
    low, high = PEER[rounds]
    assert low <= compose_shuffled(0.5, 1000, rounds=rounds, delta=1e-6).epsilon <= high


def test_one_round_is_plain_amplification() -> None:
    """Nothing is composed, so nothing is lost."""
    assert compose_shuffled(1.0, 500, rounds=1, delta=1e-6) == amplify(1.0, 500, delta=1e-6)


@each_case(("epsilon_local", "n", "rounds"), [(0.5, 4, 2), (1.0, 6, 3), (2.0, 3, 3)])
def test_composed_losses_equal_those_enumerated(epsilon_local: float, n: int, rounds: int) -> None:
    """For a few reports and rounds delta is that of the product of pairs, rounded up a little."""
    first, second = clone_pair(epsilon_local, n)
    joint_first, joint_second = np.ones(1), np.ones(1)
    for _ in range(rounds):
        joint_first = np.outer(joint_first, first).ravel()
        joint_second = np.outer(joint_second, second).ravel()
    for share in (0.2, 0.5, 0.8):
        epsilon = share * rounds * epsilon_local
        wanted = float(np.maximum(joint_first - math.exp(epsilon) * joint_second, 0).sum())
        delta = min(0.5, wanted)
        round_losses = CloneProfile(epsilon_local, n, delta=delta).losses
        losses = Sums([(round_losses, rounds)], delta=delta, widest=epsilon_local)
        assert wanted * (1 - 1e-9) <= losses.delta(epsilon) <= wanted * 1.01 + 1e-12


def test_a_loss_computed_too_small_would_be_noticed() -> None:
    """The composition of a pair with 10 % less budget lies outside the peer's bounds."""
    low, _ = PEER[168]
    assert compose_shuffled(0.45, 1000, rounds=168, delta=1e-6).epsilon < 0.95 * low


def test_below_the_sums_looked_at_nothing_is_promised() -> None:
    """Delta is 1 there, which is always true."""
    one = CloneProfile(1.0, 20, delta=1e-6).losses
    losses = Sums([(one, 10**5)], delta=1e-6, widest=1.0)
    assert losses.delta(0.0) == 1.0
    assert losses.delta(10**5) < 1e-6


@each_case("delta", [1e-3, 1e-12, 1e-30])
def test_two_rounds_cost_between_one_and_twice_one(delta: float) -> None:
    """Also at deltas far below the resolution of plain floating-point sums."""
    once = amplify(0.5, 2000, delta=delta).epsilon
    twice = compose_shuffled(0.5, 2000, rounds=2, delta=delta).epsilon
    assert once < twice < 2 * amplify(0.5, 2000, delta=delta / 2).epsilon


@each_case("n", [10**5, 10**7])
def test_large_fleets_are_grouped_without_harm(n: int) -> None:
    """Counting near numbers of clones as one costs next to nothing: epsilon scales as it should."""
    many = compose_shuffled(0.5, n, rounds=100, delta=1e-6)
    scaled = compose_shuffled(0.5, n // 100, rounds=1, delta=1e-6)
    assert many.lower_bound <= many.epsilon
    # 100 rounds shift the odds like one round of a fleet a hundred times smaller.
    assert many.epsilon == pytest.approx(scaled.epsilon, rel=0.15)


def test_without_amplification_the_local_sum_stays() -> None:
    """Five contributors hide nobody."""
    result = compose_shuffled(0.5, 5, rounds=3, delta=1e-6)
    assert (result.epsilon, result.theorem) == (1.5, LOCAL_THEOREM)
    assert str(result) == (
        "No amplification: 5 reports of epsilon 0.5 in each of 3 rounds stay at epsilon 1.5."
    )


def test_mechanisms_compose_by_their_own_pair_and_the_worst_class_decides() -> None:
    """A bit of known law promises a fifth less than any mechanism of its budget."""
    bounds = Range(0, 1)
    known = compose_shuffled(Duchi(0.5, bounds), 1000, rounds=24, delta=1e-6)
    generic = compose_shuffled(0.5, 1000, rounds=24, delta=1e-6)
    assert known.theorem.startswith(BIT_THEOREM)
    assert generic.theorem == COMPOSED_THEOREM
    assert known.lower_bound < known.epsilon < 0.82 * generic.epsilon
    budgets = (0.5,) * 1000 + (0.1,) * 1000
    mixed = compose_shuffled(Duchi(budgets, bounds), 2000, rounds=24, delta=1e-6)
    assert mixed.epsilon == known.epsilon
    assert (mixed.n, mixed.epsilon_local, mixed.rounds) == (2000, 0.5, 24)
    assert "in each of 24 rounds" in str(mixed)
    alone = compose_shuffled(Duchi((*budgets, 0.3), bounds), 2001, rounds=24, delta=1e-6)
    assert known.epsilon < alone.lower_bound <= alone.epsilon <= 24 * 0.3


def test_shuffles_without_a_theorem_are_refused() -> None:
    """As for one round."""
    for rounds in (1, 7):
        with pytest.raises(PrivacyRefused, match="no amplification theorem"):
            compose_shuffled(0.5, 100, rounds=rounds, delta=1e-6, shuffle="mallows")


@each_case("rounds", [0, -3])
def test_no_rounds_are_refused(rounds: int) -> None:
    """A window has at least one round."""
    with pytest.raises(ValueError, match="rounds must be at least 1"):
        compose_shuffled(0.5, 100, rounds=rounds, delta=1e-6)
    with pytest.raises(ValueError, match="rounds must be at least 1"):
        compose_local(LocalDP(0.5), rounds)
    with pytest.raises(ValueError, match="rounds must be at least 1"):
        compose_permutation(PermutationPrivacy(1, 1, 0.5, 0.5, exposed_success=0.5), rounds)


def test_rounds_are_whole_numbers() -> None:
    """Half a round is refused, and so is a truth value."""
    for rounds in (1.5, True):
        wrong: Any = rounds
        with pytest.raises(TypeError, match="rounds must be a whole number"):
            compose_local(LocalDP(0.5), wrong)


def clone_pair(epsilon_local: float, n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return both laws of the clone pair from their definition."""
    lean, chance = 1 / (1 + math.exp(-epsilon_local)), math.exp(-epsilon_local)
    first, second = [], []
    for clones in range(n):
        weight = math.comb(n - 1, clones) * chance**clones * (1 - chance) ** (n - 1 - clones)
        coins = [math.comb(clones, k) / 2**clones for k in range(clones + 1)]
        for likes in range(clones + 2):
            with_it = coins[likes - 1] if likes else 0.0
            without = coins[likes] if likes <= clones else 0.0
            first.append(weight * (lean * with_it + (1 - lean) * without))
            second.append(weight * ((1 - lean) * with_it + lean * without))
    return np.array(first), np.array(second)


@each_case("epsilon", [0.3, 2.0, 7.0])
@each_case("n", [50, 3000, 50_000])
def test_live_bounds_are_never_below_the_full_ones(epsilon: float, n: int) -> None:
    """What a slider shows is a guarantee: at least the full bound, less a rounding of searches."""
    mechanism = Hybrid(epsilon, Range(0, 1))
    for rounds in (1, 30):
        live = compose_live(mechanism, n, rounds=rounds, delta=1e-6)
        full = compose_shuffled(mechanism, n, rounds=rounds, delta=1e-6)
        assert live.epsilon >= full.epsilon * (1 - 1e-5)
        assert live.lower_bound <= full.lower_bound * (1 + 1e-5)
        if rounds == 1 and n <= 20_000 and epsilon <= 6:
            assert live.epsilon == pytest.approx(full.epsilon, rel=1e-5)


def test_a_day_and_a_month_share_their_losses() -> None:
    """The law of one round's loss is computed once for all periods."""
    clone_profile.cache_clear()
    for rounds in (2, 24, 168, 720):
        compose_shuffled(0.7, 500, rounds=rounds, delta=1e-6)
    assert clone_profile.cache_info().misses == 1
