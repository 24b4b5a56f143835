"""Amplification by uniform shuffling: what a shuffled round promises to each contributor.

A report is epsilon-LDP whoever looks. Once n of them are shuffled uniformly, an observer of the
release cannot know whose report is whose, and the round as a whole is (epsilon, delta)-DP with a
smaller epsilon. Each number names its theorem and stands next to a proven lower bound.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from rase.accounting.accountant.bit import BIT_THEOREM, bit_profile
from rase.accounting.blanket import (
    BLANKET_MAX_EPSILON,
    BLANKET_THEOREM,
    Blanket,
    Covered,
    channel_of,
    epsilon_of,
    has_blanket,
    is_bit,
    is_covered,
)
from rase.accounting.checks import checked_delta, checked_epsilon, checked_n
from rase.accounting.clones import CLONE_THEOREM, ClonePair, closed_form
from rase.accounting.curve import crossing
from rase.accounting.lower_bounds import (
    CountingObserver,
    attack_epsilon,
    best_questions,
    observed_epsilon,
    response_question,
)
from rase.errors import PrivacyRefused
from rase.laws.randomizer import RangeRandomizer
from rase.privacy import CentralDP, rounded_down, rounded_up
from rase.shuffle.release import Manifest

__all__ = [
    "BLANKET_THEOREM",
    "CLONE_THEOREM",
    "CLOSED_FORM_THEOREM",
    "LOCAL_THEOREM",
    "Amplification",
    "Method",
    "amplify",
    "amplify_class",
    "budget_classes",
    "check_uniform",
    "class_bound",
    "epsilon_of",
    "lower_bound",
    "worst_of",
]

Method = Literal["auto", "clone", "blanket", "closed_form"]

CLOSED_FORM_THEOREM = "closed form (Feldman, McMillan, Talwar 2021, Theorem 3.1)"
LOCAL_THEOREM = "local guarantee alone"

# Errors are kept below this share of delta, and added to it.
_NEGLIGIBLE = 1e-6
# A lower bound of this share of the epsilon proves that nothing better can be said.
_TIGHT = 0.99
# An epsilon smaller by less than this share is not worth the delta it costs.
_WORTH_A_DELTA = 1e-3


@dataclass(frozen=True, slots=True)
class Amplification:
    """What shuffling n reports promises, with its theorem and a lower bound.

    Args:
        epsilon: The central epsilon; never above what the local guarantees give.
        delta: The delta it was asked for.
        n: How many reports are shuffled in a round.
        epsilon_local: The largest budget of one report.
        theorem: Which theorem the epsilon rests on.
        lower_bound: An epsilon that no theorem can go below: for a mechanism, what the best
            observer achieves against it among others whose readings are alike; for a bare
            epsilon, what one achieves against randomized response.
        rounds: Over how many rounds, with new noise and a new shuffle in each.
        is_generic: Whether nothing but the budget of the reports is known; the lower bound is then
            that of some mechanism of this budget.
    """

    epsilon: float
    delta: float
    n: int
    epsilon_local: float
    theorem: str
    lower_bound: float
    rounds: int = 1
    is_generic: bool = False

    @property
    def is_amplified(self) -> bool:
        """Whether shuffling improves on the local guarantees."""
        return self.epsilon < self.rounds * self.epsilon_local

    @property
    def is_tight(self) -> bool:
        """Whether the lower bound meets epsilon within a hundredth."""
        return self.lower_bound >= _TIGHT * self.epsilon

    @property
    def guarantee(self) -> CentralDP:
        """The promise of the release; with no amplification the local one, which has no delta."""
        delta = self.delta if self.is_amplified else 0.0
        local = self.rounds * self.epsilon_local
        return CentralDP(self.epsilon, delta, theorem=self.theorem, epsilon_local=local)

    def __str__(self) -> str:
        """Return one sentence."""
        times = f" in each of {self.rounds} rounds" if self.rounds > 1 else ""
        what = f"{self.n} reports of epsilon {self.epsilon_local:g}{times}"
        if not self.is_amplified:
            return f"No amplification: {what} stay at epsilon {self.epsilon:g}."
        least = rounded_down(self.lower_bound)
        whose = " for some mechanism" if self.is_generic else ""
        tight = ", so no theorem can promise much less" if self.is_tight else ""
        return (
            f"{what}, shuffled uniformly, are ({rounded_up(self.epsilon):g}, {self.delta:g})-DP: "
            f"{self.theorem}. Epsilon is at least {least:.3g}{whose}{tight}."
        )


def amplify(
    source: RangeRandomizer | float,
    n: int,
    *,
    delta: float,
    method: Method = "auto",
    shuffle: Manifest | Literal["uniform", "mallows", "cyclic"] = "uniform",
) -> Amplification:
    """Return the central guarantee of n uniformly shuffled reports.

    Guarantee: (epsilon, delta)-DP of the release for two rounds that differ in one contributor's
    reading. Assumes that the shuffler keeps its permutation secret, and that all n contributors
    follow the protocol: those who lie or reveal their reports hide nobody, so count them out. Small
    rounds are enumerated in tests/statistical/test_channel_audit.py.

    Contributors with different budgets hide only among those with the same one; the result is the
    worst of these classes.

    Args:
        source: The randomizer all contributors use, or the epsilon of any epsilon-LDP mechanism
            they share.
        n: How many reports are shuffled together.
        delta: The delta allowed, well below 1 / n.
        method: ``clone`` holds for any mechanism, ``blanket`` for those of this package,
            ``closed_form`` needs no sum; ``auto`` takes the best that applies.
        shuffle: How the reports were shuffled: the release's manifest, or the name of a law.

    Returns:
        The amplification; ``is_amplified`` is false where there is none.

    Raises:
        PrivacyRefused: If the shuffle is not uniform; nothing is known for it.
        ValueError: If an argument is out of bounds.

    Example:
        >>> result = amplify(1.0, 1000, delta=1e-6)
        >>> print(result)
        1000 reports of epsilon 1, shuffled uniformly, are (0.183, 1e-06)-DP: clone pair (Feldman,
        McMillan, Talwar 2021, Theorem 3.2), summed exactly. Epsilon is at least 0.126
        for some mechanism.
        >>> print(amplify(4.0, 64, delta=1e-6))
        No amplification: 64 reports of epsilon 4 stay at epsilon 4.
    """
    n, delta = checked_n(n), checked_delta(delta)
    if method not in ("auto", "clone", "blanket", "closed_form"):
        raise ValueError(f"method must be auto, clone, blanket or closed_form, got {method!r}.")
    check_uniform(shuffle, n)
    parts = [
        amplify_class(mechanism, size, delta=delta, method=method)
        for mechanism, size in budget_classes(source, n)
    ]
    return worst_of(parts, n)


def amplify_class(
    mechanism: Covered | float,
    n: int,
    *,
    delta: float,
    method: Method = "auto",
    is_quick: bool = False,
) -> Amplification:
    """Return the amplification of contributors with one budget, for one round.

    Args:
        mechanism: What they share.
        n: How many they are.
        delta: The delta allowed.
        method: As for `amplify`.
        is_quick: As for `lower_bound`.
    """
    bound, theorem = min(_upper_bounds(mechanism, n, delta=delta, method=method))
    return class_bound(
        mechanism, n, bound, theorem, rounds=1, delta=delta, observed=1 if is_quick else None
    )


def check_uniform(shuffle: Manifest | Literal["uniform", "mallows", "cyclic"], n: int) -> None:
    """Refuse every shuffle for which no amplification theorem is known here.

    Raises:
        PrivacyRefused: If the law is not uniform.
        ValueError: If the manifest is one of another number of reports, or the name unknown.
    """
    law = shuffle.method if isinstance(shuffle, Manifest) else shuffle
    if law == "mallows":
        raise PrivacyRefused(
            "a Mallows shuffle keeps reports near their places; no amplification theorem covers "
            "it. It has its d_σ guarantee, and each report its local one. Shuffle uniformly."
        )
    if law == "cyclic":
        raise PrivacyRefused(
            "the cyclic shuffle never leaves a report in its place, so an observer can exclude "
            "senders with certainty; it amplifies nothing. Shuffle uniformly."
        )
    if law != "uniform":
        raise ValueError(f"shuffle must be uniform, mallows or cyclic, got {law!r}.")
    if isinstance(shuffle, Manifest) and shuffle.n != n:
        raise ValueError(f"n must be the number of reports shuffled, {shuffle.n}, got {n}.")


def budget_classes(source: RangeRandomizer | float, n: int) -> list[tuple[Covered | float, int]]:
    """Return the mechanism of each different budget and how many contributors share it.

    A mechanism whose blanket is not known here counts with its epsilon alone.

    Raises:
        TypeError: If the source is neither a randomizer nor a number.
        ValueError: If the randomizer has budgets for another number of contributors.
    """
    epsilon = getattr(source, "epsilon", source)
    if not isinstance(epsilon, tuple):
        return [(source if is_covered(source) else checked_epsilon(epsilon), n)]
    if len(epsilon) != n:
        raise ValueError(
            f"n must be the number of contributors with a budget, {len(epsilon)}, got {n}."
        )
    return [
        (replace(source, epsilon=budget), size)
        if is_covered(source)
        else (checked_epsilon(budget), size)
        for budget, size in sorted(Counter(epsilon).items())
    ]


@lru_cache(maxsize=64)
def lower_bound(
    mechanism: Covered | float, n: int, *, rounds: int, delta: float, is_quick: bool = False
) -> float:
    """Return an epsilon that the release really has at least, at this delta.

    For one round that of the best observer of it, by the likelihood ratio (`observed_epsilon`);
    for many, of one who adds up scores (`attack_epsilon`), who counts, or who looks at a single
    round. The truth may be above:
    others whose readings differ can hide a contributor worse than others who are alike.

    Args:
        mechanism: A randomizer with one budget; or an epsilon, and the bound holds for some
            mechanism of that epsilon, namely randomized response.
        n: How many reports share it; where budgets differ they are released with the reports.
        rounds: How many rounds.
        delta: The delta allowed.
        is_quick: Whether milliseconds count more than the last percents, as for sliders.

    Returns:
        The bound; 0, which is always true, for a mechanism with an epsilon above 16.
    """
    local = epsilon_of(mechanism)
    if isinstance(mechanism, float):
        questions = [response_question(local)]
    else:
        # Above the limit the chances of rare reports have too few digits for a proof.
        questions = best_questions(channel_of(mechanism)) if has_blanket(mechanism) else []
    found = 0.0
    for question in questions:
        observer = CountingObserver(question, n, rounds, negligible=_NEGLIGIBLE * delta)
        found = max(found, crossing(observer.delta, delta, highest=rounds * local)[0])
    if not has_blanket(mechanism):
        return found
    if rounds > 1:
        attack = attack_epsilon(
            channel_of(mechanism), n, rounds=rounds, delta=delta, local_epsilon=local
        )
        return max(found, attack, lower_bound(mechanism, n, rounds=1, delta=delta))
    if found > (1 - _WORTH_A_DELTA) * local:
        return found
    return observed_epsilon(
        channel_of(mechanism), n, delta=delta, highest=local, least=found, is_quick=is_quick
    )


def class_bound(
    mechanism: Covered | float,
    n: int,
    epsilon: float,
    theorem: str,
    *,
    rounds: int,
    delta: float,
    observed: int | None = None,
) -> Amplification:
    """Return the amplification of contributors with one budget, from an upper bound on epsilon.

    Args:
        mechanism: What they share.
        n: How many they are.
        epsilon: The upper bound.
        theorem: Where it comes from.
        rounds: Over how many rounds.
        delta: The delta allowed.
        observed: In how many of the rounds the lower bound's observer looks, and quickly; all
            unless given. An observer of none achieves nothing.
    """
    local = epsilon_of(mechanism)
    if epsilon > (1 - _WORTH_A_DELTA) * rounds * local:
        epsilon, theorem = rounds * local, LOCAL_THEOREM
    looked, is_quick = (rounds, False) if observed is None else (observed, True)
    lower = 0.0
    if looked:
        lower = lower_bound(mechanism, n, rounds=looked, delta=delta, is_quick=is_quick)
    is_generic = isinstance(mechanism, float)
    return Amplification(epsilon, delta, n, local, theorem, lower, rounds, is_generic)


def worst_of(parts: list[Amplification], n: int) -> Amplification:
    """Return what holds for all classes of budgets together."""
    worst = max(parts, key=lambda part: part.epsilon)
    return replace(
        worst,
        n=n,
        epsilon_local=max(part.epsilon_local for part in parts),
        lower_bound=max(part.lower_bound for part in parts),
    )


def _upper_bounds(
    mechanism: Covered | float, n: int, *, delta: float, method: Method
) -> Iterator[tuple[float, str]]:
    local, negligible = epsilon_of(mechanism), _NEGLIGIBLE * delta
    if method == "closed_form":
        closed = closed_form(local, n, delta=delta)
        yield (local if closed is None else closed), CLOSED_FORM_THEOREM
        return
    highest = local
    if method in ("auto", "clone"):
        pair = ClonePair(local, n, negligible=negligible)
        highest = crossing(pair.delta, delta, highest=local)[1]
        yield highest, CLONE_THEOREM
    if method == "auto" and has_blanket(mechanism) and is_bit(mechanism):
        bits = bit_profile(mechanism.effective_epsilon, n, delta=delta)
        yield crossing(bits.delta, delta, highest=highest)[1], BIT_THEOREM
    elif method in ("auto", "blanket") and has_blanket(mechanism):
        blanket = Blanket(channel_of(mechanism), n, negligible=negligible)
        worth = (1 - _WORTH_A_DELTA) * local
        if highest > worth and blanket.delta(worth) > delta:
            yield local, LOCAL_THEOREM
        else:
            # Where the clones are as good, the search ends at their bound, and theirs it is.
            yield crossing(blanket.delta, delta, highest=highest)[1], BLANKET_THEOREM
    elif method == "blanket":
        raise ValueError(
            "source must be a randomizer of this package with an epsilon of at most "
            f"{BLANKET_MAX_EPSILON:g} for the blanket; use clone, which holds for any mechanism."
        )
