"""Guarantees over many rounds: local epsilons add up, alphas add up, shuffled rounds compose.

A contributor who reports in every round is protected less with each. For shuffled rounds the sum is
far too pessimistic; their privacy losses are added as random numbers instead, by FFT, which is
exact but for a rounding on the safe side.
"""

import math
from dataclasses import replace
from functools import lru_cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rase.accounting.amplification import (
    CLONE_THEOREM,
    Amplification,
    amplify,
    amplify_class,
    budget_classes,
    check_uniform,
    class_bound,
    epsilon_of,
    worst_of,
)
from rase.accounting.binomial import Floats, probabilities
from rase.accounting.blanket import Covered
from rase.accounting.checks import checked_delta, checked_n, checked_rounds
from rase.accounting.clones import ClonePair
from rase.accounting.curve import crossing
from rase.accounting.lattice import Lattice, split
from rase.laws.randomizer import RangeRandomizer
from rase.privacy import LocalDP, PermutationPrivacy
from rase.shuffle.release import Manifest

__all__ = [
    "COMPOSED_THEOREM",
    "LIVE_UP_TO",
    "ComposedClones",
    "compose_live",
    "compose_local",
    "compose_permutation",
    "compose_shuffled",
]

COMPOSED_THEOREM = f"{CLONE_THEOREM}, composed by privacy loss distributions"

_NEGLIGIBLE = 1e-6
# Rounding of sums and of the FFT is far below this.
_SLACK = 1e-6
# Numbers of clones this close, as a share, are counted as one; it costs half as much of epsilon.
_CLONE_SHARE = 5e-4
# Places of the lattice within a standard deviation, at least and at most (half of them where half
# of the width is enough); deviations looked at.
_PER_DEVIATION = 32
_FEWEST, _MOST = 2**14, 2**18
_REACH = 12.0
_NEARLY = 1.05
_LARGEST_EXPONENT = 700.0
# Places of the lattice of one loss within a standard deviation.
_FINE = 1024
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

    The success of an observer of order alone stays: new permutations tell nothing about old ones.
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
        The guarantee by the clone pair, whatever the mechanism; for one round that of `amplify`.

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
    parts = [
        class_bound(
            mechanism,
            size,
            _composed_epsilon(epsilon_of(mechanism), size, rounds=rounds, delta=delta),
            COMPOSED_THEOREM,
            rounds=rounds,
            delta=delta,
        )
        for mechanism, size in budget_classes(source, n)
    ]
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
    epsilon = _composed_epsilon(local, n, rounds=rounds, delta=delta)
    theorem = CLONE_THEOREM if rounds == 1 else COMPOSED_THEOREM
    return class_bound(
        source, n, epsilon, theorem, rounds=rounds, delta=delta, observed=int(is_small)
    )


class ComposedClones:
    """Hold the privacy loss of many clone pairs and tell its delta, never too small.

    The loss of one round is ln P/Q of the pair at the counts observed; that of many rounds is a sum
    of independent losses (adaptive composition of dominating pairs: Zhu, Dong, Wang 2022). Losses
    between two lattice points are split so that the masses of P and of Q both stay, which keeps the
    pair a coarsening of the one computed with, hence the result an upper bound.

    Args:
        epsilon_local: The budget of one report.
        n: How many reports a round.
        rounds: How many rounds.
        delta: The delta about which epsilon will be asked.
    """

    def __init__(self, epsilon_local: float, n: int, *, rounds: int, delta: float) -> None:
        """Compute the law of the summed loss, tilted to where delta is decided."""
        # Rounded to millions of rounds, so that a window, a day and a month share their losses.
        millions = 1e6 ** max(1, math.ceil(math.log10(rounds) / 6))
        losses, masses, lost = _losses(epsilon_local, n, _NEGLIGIBLE * delta / millions)
        deviation = math.sqrt(float((masses * np.square(losses)).sum()))
        for wide in (2, 4):
            cycle = wide * _REACH * math.sqrt(rounds) * deviation + 2 * epsilon_local
            wished = _PER_DEVIATION * cycle / deviation
            most = wide * _MOST // 4
            size = min(max(wide * _FEWEST // 4, 1 << math.ceil(math.log2(wished))), most)
            step = cycle / size
            law = split(losses, masses, step, upper_share=partial(_share, step=step))
            tilt = _best_tilt(law, rounds, delta=delta, scale=deviation)
            mean, spread = law.moments(tilt)
            # Losses with long tails are spread wider where delta is decided than elsewhere.
            if 2 * _REACH * math.sqrt(rounds) * spread <= cycle:
                break
        top = math.ceil((rounds * mean + _REACH * math.sqrt(rounds) * spread) / step)
        places = np.arange(top - size + 1, top + 1)
        tilted, log_factor = law.sum_of(rounds, tilt=tilt, size=size)
        self._sums = step * places
        # Sums far below the middle have a factor without bound; no answer lies there.
        exponent = np.minimum(log_factor - tilt * self._sums, _LARGEST_EXPONENT)
        self._masses = tilted[places % size] * np.exp(exponent)
        beyond = math.exp(law.log_tail(rounds, float(self._sums[-1])))
        self._lost = beyond + rounds * lost

    def delta(self, epsilon: float) -> float:
        """Return the hockey-stick divergence of the composed pairs at epsilon, rounded up."""
        if epsilon < self._sums[0]:
            return 1.0
        first = int(np.searchsorted(self._sums, epsilon, side="right"))
        above = (-np.expm1(epsilon - self._sums[first:]) * self._masses[first:]).sum()
        return min(1.0, float(above) * (1 + _SLACK) + self._lost)


def _composed_epsilon(epsilon_local: float, n: int, *, rounds: int, delta: float) -> float:
    losses = ComposedClones(epsilon_local, n, rounds=rounds, delta=delta)
    return crossing(losses.delta, delta, highest=rounds * epsilon_local)[1]


@lru_cache(maxsize=16)
def _losses(epsilon_local: float, n: int, negligible: float) -> tuple[Floats, Floats, float]:
    """Return the losses ln P/Q of a clone pair, their masses under P, and what mass is left out.

    Fewer clones are a pair that is easier to tell apart, so numbers of clones that differ little
    are counted as the smallest of them. Many losses are moved to a fine lattice. Kept between
    calls: a day and a month ask the same.
    """
    pair = ClonePair(epsilon_local, n, negligible=negligible)
    starts = _classes(pair)
    weights = np.add.reduceat(pair.weights, starts)
    reports = pair.clones[starts] + 1
    # Hoeffding: of the reports, all but 4 exp(-2 h^2 / m) lie within h of the middle. The laws are
    # symmetric about it, so the upper half tells the lower one.
    half = np.sqrt(reports * (math.log(4 / negligible) / 2))
    first = np.ceil(reports / 2)
    counts = (np.ceil(np.minimum(reports, reports / 2 + half)) - first + 1).astype(np.int64)
    offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    total = np.repeat(reports, counts)
    likes = np.repeat(first, counts) + offsets
    # Of m reports k look like the first candidate: P/Q = (1 + t x) / (1 - t x), x = 2k/m - 1.
    lean = math.tanh(epsilon_local / 2) * (2 * likes / total - 1)
    upper = 2 * np.arctanh(lean)
    common = np.repeat(weights, counts) * probabilities(likes, total, 0.5)
    # Half of the reports is its own mirror image and counts once.
    mirrored = np.where(2 * likes == total, 0.0, common * (1 - lean))
    losses = np.concatenate((upper, -upper))
    masses = np.concatenate((common * (1 + lean), mirrored))
    step = math.sqrt(float((masses * np.square(losses)).sum())) / _FINE
    if 2 * float(upper.max()) < step * losses.size:
        fine = split(losses, masses, step, upper_share=partial(_share, step=step))
        losses, masses = fine.values, fine.masses
    return losses, masses, pair.lost + negligible


def _classes(pair: ClonePair) -> NDArray[np.int64]:
    """Return where each class of numbers of clones begins: narrow where most of the mass lies."""
    mean = float(pair.weights @ pair.clones)
    deviation = math.sqrt(float(pair.weights @ np.square(pair.clones - mean))) + 1
    width = _CLONE_SHARE * pair.clones[0] * (1 + np.square((pair.clones - mean) / deviation) / 4)
    label = np.floor(np.cumsum(1 / np.maximum(width, 1.0)))
    return np.flatnonzero(np.diff(label, prepend=-1.0))


def _share(gone: Floats, step: float) -> Floats:
    """Return the share of P's mass that goes up so that Q's mass, e^-loss of it, stays too."""
    share: Floats = np.expm1(-step * gone) / math.expm1(-step)
    return share


def _best_tilt(law: Lattice, rounds: int, *, delta: float, scale: float) -> float:
    """Return the smallest tilt at which the Chernoff bound on epsilon is nearly its least.

    A larger tilt would look too far out and lose the digits of what lies below.
    """
    middle = math.sqrt(-2 * math.log(delta) / rounds) / scale
    tilts = middle * np.logspace(-1.5, 1.5, 61)
    bounds = np.array([(rounds * law.log_mgf(tilt) - math.log(delta)) / tilt for tilt in tilts])
    return float(tilts[int(np.argmax(bounds <= _NEARLY * bounds.min()))])
