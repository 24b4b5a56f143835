"""Guarantees over many rounds: local epsilons add up, alphas add up, shuffled rounds compose.

A contributor who reports in every round is protected less with each. For shuffled rounds the sum is
far too pessimistic; their privacy losses are added as random numbers instead, by FFT, which is
exact but for a rounding on the safe side.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from rase.accounting.accountant.pair import Pair
from rase.accounting.accountant.rounds import clone_profile, shuffled_pair
from rase.accounting.amplification import (
    Amplification,
    amplify,
    amplify_class,
    budget_classes,
    check_uniform,
    class_bound,
    worst_of,
)
from rase.accounting.blanket import Covered, epsilon_of, has_blanket
from rase.accounting.checks import checked_delta, checked_n, checked_rounds
from rase.accounting.clones import CLONE_THEOREM
from rase.laws.randomizer import RangeRandomizer
from rase.privacy import LocalDP, PermutationPrivacy
from rase.shuffle.release import Manifest

__all__ = [
    "COMPOSED_THEOREM",
    "LIVE_UP_TO",
    "compose_live",
    "compose_local",
    "compose_permutation",
    "compose_shuffled",
]

COMPOSED_THEOREM = f"{CLONE_THEOREM}, composed by privacy loss distributions"

# Above, the blanket of a round takes more than some tens of milliseconds.
LIVE_UP_TO = 20_000
_LIVE_EPSILON = 6.0


def compose_local(guarantee: LocalDP, rounds: int) -> LocalDP:
    """Return what a device promises after one report in each round: epsilons add up.

    Args:
        guarantee: What one report promises.
        rounds: How many reports.

    Example:
        >>> compose_local(LocalDP(0.5), 24)
        LocalDP(epsilon=12.0)
    """
    return LocalDP(checked_rounds(rounds) * guarantee.epsilon)


def compose_permutation(guarantee: PermutationPrivacy, rounds: int) -> PermutationPrivacy:
    """Return what the shuffler promises for the same groups over many rounds: alphas add up.

    The success of an observer of order alone stays: new permutations reveal nothing about old ones.
    An observer of values that recur can do better, and the larger alpha says so.

    Args:
        guarantee: What one round promises.
        rounds: How many rounds.

    Example:
        >>> once = PermutationPrivacy(2, 5, 0.1, 0.01, exposed_success=0.2)
        >>> compose_permutation(once, 10).alpha
        20
    """
    count = checked_rounds(rounds)
    return replace(guarantee, alpha=count * guarantee.alpha, real_loss=count * guarantee.real_loss)


def compose_shuffled(
    source: RangeRandomizer | float,
    n: int,
    *,
    rounds: int,
    delta: float,
    shuffle: Manifest | Literal["uniform", "mallows", "cyclic"] = "uniform",
) -> Amplification:
    """Return the central guarantee of many rounds, each with new noise and a new uniform shuffle.

    Guarantee: (epsilon, delta)-DP of all releases together, for two histories that differ in the
    readings of one contributor, in any or all rounds. Assumes what `amplify` assumes, in each
    round. Rounds may depend on what earlier ones released. Few reports and rounds are enumerated
    in tests/accounting/test_composition.py, many are held to a peer's bounds.

    Args:
        source: As for `amplify`.
        n: How many reports are shuffled together in each round.
        rounds: How many rounds.
        delta: The delta allowed for all rounds together.
        shuffle: As for `amplify`.

    Returns:
        The guarantee by the law's own pair, or by the clone pair for a bare epsilon or where that
        is less; for one round that of `amplify`.

    Raises:
        PrivacyRefused: If the shuffle is not uniform.
        ValueError: If an argument is out of bounds.

    Example:
        >>> day = compose_shuffled(0.5, 1000, rounds=24, delta=1e-6)
        >>> round(day.epsilon, 3), 24 * 0.5
        (0.386, 12.0)
    """
    rounds, n, delta = checked_rounds(rounds), checked_n(n), checked_delta(delta)
    if rounds == 1:
        return amplify(source, n, delta=delta, shuffle=shuffle)
    check_uniform(shuffle, n)
    parts = []
    for mechanism, size in budget_classes(source, n):
        epsilon, theorem = min(_upper_bounds(mechanism, size, rounds=rounds, delta=delta))
        parts.append(class_bound(mechanism, size, epsilon, theorem, rounds=rounds, delta=delta))
    return worst_of(parts, n)


def compose_live(source: Covered | float, n: int, *, rounds: int, delta: float) -> Amplification:
    """Return what `compose_shuffled` returns, or for many devices a bound, within milliseconds.

    For sliders that move. Up to 20,000 reports of an epsilon up to 6 a single round is that of
    `amplify`; above, it has the clone pair's bound, whatever the mechanism, which is larger, and
    so still a guarantee. The lower bound is what one observer of one round achieves, not searched
    for to the last percents, or 0, which is always true, above.

    Guarantee: as for `compose_shuffled`, which it is never below
    (tests/accounting/test_composition.py).

    Args:
        source: A randomizer with one budget, or the budget of any.
        n: As for `compose_shuffled`.
        rounds: As for `compose_shuffled`.
        delta: As for `compose_shuffled`.

    Example:
        >>> from rase.laws.windows import Duchi
        >>> from rase.domain import Range
        >>> day = compose_live(Duchi(0.5, Range(0, 1)), 1000, rounds=24, delta=1e-6)
        >>> round(day.epsilon, 3)
        0.386
    """
    local = epsilon_of(source)
    is_small = n <= LIVE_UP_TO and local <= _LIVE_EPSILON
    if rounds == 1 and is_small:
        return amplify_class(source, n, delta=delta, is_quick=True)
    epsilon = Pair(clone_profile(local, n, delta=delta), rounds).epsilon(delta)
    theorem = CLONE_THEOREM if rounds == 1 else COMPOSED_THEOREM
    return class_bound(
        source, n, epsilon, theorem, rounds=rounds, delta=delta, observed=int(is_small)
    )


def _upper_bounds(
    mechanism: Covered | float, n: int, *, rounds: int, delta: float
) -> Iterator[tuple[float, str]]:
    clones = clone_profile(epsilon_of(mechanism), n, delta=delta)
    yield Pair(clones, rounds).epsilon(delta), COMPOSED_THEOREM
    # Whoever is alone with a budget hides among nobody.
    if n > 1 and has_blanket(mechanism):
        own = shuffled_pair(mechanism, n, delta=delta).compose(rounds)
        yield own.epsilon(delta), own.theorem
