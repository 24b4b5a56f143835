"""The profile of one shuffled round: by the law's own blanket, or by its epsilon alone."""

import math
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from rase.accounting.accountant.bit import bit_profile
from rase.accounting.accountant.pair import Pair, share_upwards
from rase.accounting.accountant.profile import Losses, Profile
from rase.accounting.binomial import probabilities
from rase.accounting.blanket import (
    BLANKET_THEOREM,
    Blanket,
    Covered,
    channel_of,
    has_blanket,
    is_bit,
)
from rase.accounting.checks import checked_delta, checked_epsilon, checked_n
from rase.accounting.clones import CLONE_THEOREM, ClonePair
from rase.accounting.lattice import split
from rase.laws.randomizer import Randomizer
from rase.laws.response import CategoryRandomizer

__all__ = ["BlanketProfile", "CloneProfile", "blanket_profile", "clone_profile", "shuffled_pair"]

# What is left out of a blanket's sum, as a share of the delta asked for.
_NEGLIGIBLE = 1e-10
# The same of a clone pair, small enough for a million rounds.
_NEGLIGIBLE_CLONES = 1e-12
# Numbers of clones this close, as a share, are counted as one; it costs half as much of epsilon.
_CLONE_SHARE = 5e-4
# Places of the lattice of one loss within a standard deviation.
_FINE = 1024


def shuffled_pair(source: Randomizer | float, n: int, *, delta: float = 1e-6) -> Pair:
    """Return a pair that a shuffled round is no easier to tell apart than.

    Guarantee: for two rounds that differ in one contributor's reading, whatever the other readings
    are, and for every round of more reports, because more honest reports never hurt. Assumes a
    uniform shuffle that stays secret, and n contributors who follow the protocol: take off those
    who may not (``k_min - colluding``). Small rounds are enumerated in
    tests/accounting/accountant/test_pair.py.

    Args:
        source: The randomizer all contributors share, or the epsilon of any mechanism they share.
        n: The fewest honest reports of a round.
        delta: About which delta will be asked. What is proven at other deltas holds as well, and
            is less sharp far below.

    Raises:
        TypeError: If the source is neither a randomizer nor a number.
        ValueError: If an argument is out of bounds, or contributors differ in their budgets.

    Example:
        >>> from rase import Optimal, Range
        >>> day = shuffled_pair(Optimal(1.5, Range(0, 1)), 20_000).compose(24)
        >>> round(day.epsilon(1e-6), 3), day.local_epsilon
        (0.274, 36.0)
    """
    n, delta = checked_n(n), checked_delta(delta)
    epsilon = getattr(source, "epsilon", source)
    if isinstance(epsilon, tuple):
        raise ValueError(
            "source must have one budget; contributors with another one are a class of their own."
        )
    if isinstance(source, CategoryRandomizer) or has_blanket(source):
        if is_bit(source):
            return Pair(bit_profile(source.effective_epsilon, n, delta=delta))
        return Pair(blanket_profile(source, n, delta=delta))
    return Pair(clone_profile(checked_epsilon(epsilon), n, delta=delta))


class BlanketProfile(Profile):
    """Bound a round by the blanket of the law that all contributors share.

    The bound is the exact profile of a real pair: one report of the contributor among a random
    number of blanket reports. The round is a post-processing of it, for every epsilon and whatever
    the other readings are, so it composes like any round (docs/explain/shuffling.md).

    Args:
        source: A randomizer whose worst pair of readings is proven.
        n: How many reports.
        delta: About which delta will be asked.
    """

    theorem = BLANKET_THEOREM

    def __init__(self, source: Covered | CategoryRandomizer, n: int, *, delta: float) -> None:
        """Look up the rows of the worst pair."""
        super().__init__(source.guarantee.epsilon, delta=delta)
        self._blanket = Blanket(channel_of(source), n, negligible=_NEGLIGIBLE * delta)

    def delta(self, epsilon: float) -> float:
        """Return the blanket bound at epsilon, rounded up."""
        if epsilon >= self.local_epsilon:
            return 0.0
        return self._blanket.delta(epsilon)


class CloneProfile(Profile):
    """Bound a round of any mechanism by its clone pair.

    Args:
        local_epsilon: The epsilon of one report.
        n: How many reports.
        delta: About which delta will be asked.
    """

    theorem = CLONE_THEOREM

    def __init__(self, local_epsilon: float, n: int, *, delta: float) -> None:
        """Find the numbers of clones that matter."""
        super().__init__(local_epsilon, delta=delta)
        self._negligible = _NEGLIGIBLE_CLONES * delta
        self._clones = ClonePair(local_epsilon, n, negligible=self._negligible)

    def delta(self, epsilon: float) -> float:
        """Return the divergence of the clone pair at epsilon, rounded up."""
        return self._clones.delta(epsilon)

    @cached_property
    def losses(self) -> Losses:
        """The losses of the clone pair itself, without a detour over its curve.

        Fewer clones are a pair that is easier to tell apart, so numbers of clones that differ
        little are counted as the smallest of them. Many losses are moved to a fine lattice.
        """
        pair, negligible = self._clones, self._negligible
        starts = _classes(pair)
        weights = np.add.reduceat(pair.weights, starts)
        reports = pair.clones[starts] + 1
        # Hoeffding: of the reports, all but 4 exp(-2 h^2 / m) lie within h of the middle. The laws
        # are symmetric about it, so the upper half gives the lower one.
        half = np.sqrt(reports * (math.log(4 / negligible) / 2))
        first = np.ceil(reports / 2)
        counts = (np.ceil(np.minimum(reports, reports / 2 + half)) - first + 1).astype(np.int64)
        offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        total = np.repeat(reports, counts)
        likes = np.repeat(first, counts) + offsets
        # Of m reports k look like the first candidate: P/Q = (1 + t x) / (1 - t x), x = 2k/m - 1.
        lean = math.tanh(self.local_epsilon / 2) * (2 * likes / total - 1)
        upper = 2 * np.arctanh(lean)
        common = np.repeat(weights, counts) * probabilities(likes, total, 0.5)
        # Half of the reports is its own mirror image and counts once.
        mirrored = np.where(2 * likes == total, 0.0, common * (1 - lean))
        losses = np.concatenate((upper, -upper))
        masses = np.concatenate((common * (1 + lean), mirrored))
        step = math.sqrt(float((masses * np.square(losses)).sum())) / _FINE
        if 2 * float(upper.max()) < step * losses.size:
            fine = split(losses, masses, step, upper_share=partial(share_upwards, step=step))
            losses, masses = fine.values, fine.masses
        return Losses(losses, masses, pair.lost + negligible)


@lru_cache(maxsize=32)
def blanket_profile(
    source: Covered | CategoryRandomizer, n: int, *, delta: float
) -> BlanketProfile:
    """Return the profile of a round by its blanket, kept between calls."""
    return BlanketProfile(source, n, delta=delta)


@lru_cache(maxsize=32)
def clone_profile(local_epsilon: float, n: int, *, delta: float) -> CloneProfile:
    """Return the profile of a round by its clones, kept between calls."""
    return CloneProfile(local_epsilon, n, delta=delta)


def _classes(pair: ClonePair) -> NDArray[np.int64]:
    """Return where each class of numbers of clones begins: narrow where most of the mass lies."""
    mean = float(pair.weights @ pair.clones)
    deviation = math.sqrt(float(pair.weights @ np.square(pair.clones - mean))) + 1
    width = _CLONE_SHARE * pair.clones[0] * (1 + np.square((pair.clones - mean) / deviation) / 4)
    label = np.floor(np.cumsum(1 / np.maximum(width, 1.0)))
    return np.flatnonzero(np.diff(label, prepend=-1.0))
