"""Guarantees as frozen values, each with its neighbour relation, assumption and theorem.

A guarantee is what a mechanism promises about its output, whatever an observer knows. It prints one
honest sentence and never claims more than its theorem. Pure Python without NumPy, because the
device agent imports it.
"""

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Final

__all__ = [
    "MAX_EPSILON",
    "MIN_EPSILON",
    "CentralDP",
    "LocalDP",
    "PermutationPrivacy",
    "percent",
    "percent_up",
    "rounded_down",
    "rounded_up",
]

# The budgets a report may have. Below, 2^-64 is no longer small against differences of weights;
# above, nobody is protected.
MIN_EPSILON: Final = 1e-4
MAX_EPSILON: Final = 30.0

# From this certainty on a promise is not dressed up as one.
_HARDLY: Final = 0.99


@dataclass(frozen=True, slots=True)
class LocalDP:
    """Promise ε-local differential privacy of one report (Def. 1).

    Args:
        epsilon: The largest log-ratio; with contributors of different budgets, the largest of them.

    Raises:
        ValueError: If epsilon is negative or not finite.

    Example:
        >>> print(LocalDP(1.0))
        1-LDP per report: an observer who was 50 % sure of a reading becomes at most 73.2 % sure.
        >>> LocalDP(1.0).neighbours
        'any two readings of the public range'
    """

    epsilon: float

    neighbours: ClassVar[str] = "any two readings of the public range"
    assumption: ClassVar[str] = "the device draws its noise from a secure source, and draws it once"
    theorem: ClassVar[str] = (
        "the probabilities of any report under two neighbours differ at most by a factor e^epsilon"
    )

    def __post_init__(self) -> None:
        """Refuse what is not a privacy loss."""
        if not (self.epsilon >= 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"epsilon must be finite and not negative, got {self.epsilon}.")

    def posterior(self, prior: float = 0.5) -> float:
        """Return how sure an observer can become of one of two readings after one report."""
        return _posterior(prior, self.epsilon)

    @property
    def odds(self) -> str:
        """The guarantee as odds: how sure an observer can become."""
        return f"an observer who was 50 % sure of a reading {_becomes(self.posterior())}"

    def __str__(self) -> str:
        """Return the guarantee as one sentence."""
        return f"{self.epsilon:g}-LDP per report: {self.odds}."


@dataclass(frozen=True, slots=True)
class CentralDP:
    """Promise (ε, δ)-differential privacy of what is released about all contributors together.

    Under two neighbours the probability of any event differs at most by a factor e^ε and a summand
    δ. That is *not* a limit to how sure an observer becomes, but for an event of probability δ:
    such a limit may be passed many times as often (tests/test_central_words.py computes 29.7 δ for
    a real round). What does follow, for an observer who finds two readings equally likely, is how
    often the best guess is right (`guess`), and how seldom a certainty is passed
    (`surer_chance`, `certainty`).

    Args:
        epsilon: The log of the factor.
        delta: The summand.
        theorem: Where the numbers come from.
        epsilon_local: The sum of the budgets of the contributor's own reports, which hold besides
            (ε, δ) in every event; None if it is not known.

    Raises:
        ValueError: If epsilon is negative or not finite, delta outside [0, 1), or epsilon_local
            below epsilon.

    Example:
        >>> print(CentralDP(0.0705, 1e-6, epsilon_local=0.5))
        (0.0705, 1e-06)-DP of the release: an observer who finds two readings of a contributor
        equally likely guesses right at most 51.8 % of the time, and becomes more than 51.9 % sure
        with a probability of 0.001 at most; even then the noise of its own reports, epsilon 0.5,
        keeps it at 62.3 % or less.
    """

    epsilon: float
    delta: float
    theorem: str = (
        "the probability of any event under two neighbours differs at most by a factor e^epsilon "
        "and a summand delta"
    )
    epsilon_local: float | None = None

    neighbours: ClassVar[str] = (
        "two fleets of the same size that differ in the readings of one contributor"
    )
    assumption: ClassVar[str] = (
        "all contributors draw secure noise and show nobody their reports, and the shuffler keeps "
        "its permutation secret"
    )

    def __post_init__(self) -> None:
        """Refuse what is not a privacy loss."""
        if not (self.epsilon >= 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"epsilon must be finite and not negative, got {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, got {self.delta}.")
        local = self.epsilon_local
        if local is not None and not (local >= self.epsilon and math.isfinite(local)):
            raise ValueError(f"epsilon_local must be finite and at least epsilon, got {local}.")

    def guess(self, prior: float = 0.5) -> float:
        """Return how often the best observer names the right one of two readings, at most.

        Whoever asks the release a question has Pr[yes | x] <= e^epsilon Pr[yes | x'] + delta, and
        the same for no; this is the most that these inequalities leave. At evens it is
        (e^epsilon + delta) / (1 + e^epsilon).

        Args:
            prior: How likely the first of the two readings is beforehand.
        """
        _check_prior(prior)
        rest = math.exp(-self.epsilon)
        both = (1 + self.delta * rest) / (1 + rest)
        always = max(prior + (1 - prior) * self.delta, (1 - prior) + prior * self.delta)
        found = min(1.0, max(both, always))
        if self.epsilon_local is None:
            return found
        return min(found, max(_posterior(0.5, self.epsilon_local), prior, 1 - prior))

    def surer_chance(self, certainty: float) -> float:
        """Return how probable it is, at most, that an observer becomes surer than ``certainty``.

        Sure of either of two readings that it found equally likely, rightly or wrongly; and
        whichever of them is true.

        Proof: Let P and Q be the laws of the release under the two readings and L = ln P/Q. The
        posterior of the first is 1 / (1 + e^-L), and exceeds c = 1 / (1 + e^-l) on A = {L > l}.
        There Q(A) <= e^-l P(A), so P(A) <= e^epsilon Q(A) + delta <= e^(epsilon - l) P(A) + delta:
        P(A) <= delta / (1 - e^(epsilon - l)). The same holds for Q on B = {L < -l}, where the
        second reading seems that sure, and P(B) <= e^-l Q(B). Together
        P(A) + P(B) <= (1 + e^-l) delta / (1 - e^(epsilon - l)) = delta / (c - e^epsilon (1 - c)),
        and so is Q(A) + Q(B).

        Args:
            certainty: A probability of at least 1/2.

        Returns:
            The bound; 1 for certainties up to e^epsilon / (1 + e^epsilon), of which (epsilon,
            delta) says nothing, and 0 for those that the local epsilon excludes.

        Raises:
            ValueError: If the certainty is not between 1/2 and 1.
        """
        if not 0.5 <= certainty <= 1:
            raise ValueError(f"certainty must be between 0.5 and 1, got {certainty}.")
        if certainty >= self._most:
            return 0.0
        # With e^-epsilon taken out: (delta e^-epsilon) / (c e^-epsilon - (1 - c)).
        rest = math.exp(-self.epsilon)
        room = certainty * rest - (1 - certainty)
        return min(1.0, self.delta * rest / room) if room > 0 else 1.0

    def certainty(self, chance: float) -> float:
        """Return a certainty that an observer at evens passes with this probability at most.

        The inverse of `surer_chance`: (e^epsilon + delta / chance) / (1 + e^epsilon), or what the
        local epsilon allows, if that is less.

        Args:
            chance: The probability, above 0.

        Raises:
            ValueError: If the chance is not a probability above 0.
        """
        if not 0 < chance <= 1:
            raise ValueError(f"chance must be above 0 and at most 1, got {chance}.")
        rest = math.exp(-self.epsilon)
        return min(self._most, (1 + self.delta / chance * rest) / (1 + rest))

    @property
    def stated_chance(self) -> float:
        """The probability for which `odds` states a certainty: 0.001, or the power of ten above √δ.

        With less, delta would decide on the certainty rather than epsilon.
        """
        if self.delta <= 1e-6:
            return 1e-3
        return float(10.0 ** math.ceil(math.log10(self.delta) / 2))

    @property
    def words(self) -> str:
        """What an observer does who finds two readings of a contributor equally likely."""
        guess, chance = self.guess(), self.stated_chance
        sentence = f"guesses right at most {percent_up(guess)} of the time"
        if guess >= _HARDLY:
            return f"{sentence}, which is hardly any protection"
        if chance == 1:
            return sentence
        sure = percent_up(self.certainty(chance))
        return (
            f"{sentence}, and becomes more than {sure} sure with a probability of {chance:g} at "
            "most"
        )

    @property
    def odds(self) -> str:
        """The guarantee as odds: how often an observer guesses right, how sure it can become."""
        if self.delta == 0:
            sure = _becomes(_posterior(0.5, self.epsilon))
            return f"an observer who was 50 % sure of a contributor's reading {sure}"
        sentence = (
            f"an observer who finds two readings of a contributor equally likely {self.words}"
        )
        if self.epsilon_local is None:
            return sentence
        local = f"the noise of its own reports, epsilon {self.epsilon_local:g}"
        if self._most >= _HARDLY:
            return f"{sentence}; even then {local}, still holds"
        return f"{sentence}; even then {local}, keeps it at {percent_up(self._most)} or less"

    @property
    def _most(self) -> float:
        """What no event can make an observer surer than."""
        return 1.0 if self.epsilon_local is None else _posterior(0.5, self.epsilon_local)

    def __str__(self) -> str:
        """Return the guarantee as one sentence."""
        return f"({rounded_up(self.epsilon):g}, {self.delta:g})-DP of the release: {self.odds}."


@dataclass(frozen=True, slots=True)
class PermutationPrivacy:
    """Promise (alpha, partition)-d_σ privacy of one shuffled round (Def. 3, Meehan et al.).

    Alpha alone says little; the two successes say what it means: on average over the slots, and in
    the slot that is worst off.

    Args:
        alpha: The loss for the groups the shuffler worked with; infinite if nothing is promised.
        real_loss: The loss for the contributors' real groups, which may be larger.
        attacker_success: Share of slots the best observer of order alone assigns rightly, a mean
            over the slots.
        chance: What guessing achieves, ``1 / n``.
        exposed_success: The probability with which that observer names the sender of the most
            exposed slot.

    Raises:
        ValueError: If a loss is negative or NaN, or a share outside [0, 1].
    """

    alpha: float
    real_loss: float
    attacker_success: float
    chance: float
    _: KW_ONLY
    exposed_success: float

    neighbours: ClassVar[str] = (
        "two arrival orders that differ by rearranging the members of one group among their places"
    )
    assumption: ClassVar[str] = "the shuffler draws its permutation secretly, and once"
    theorem: ClassVar[str] = (
        "the probabilities of any released sequence under two neighbours differ at most by a "
        "factor e^alpha"
    )

    def __post_init__(self) -> None:
        """Refuse what is not a loss or a share."""
        for name in ("alpha", "real_loss"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}.")
        for name in ("attacker_success", "chance", "exposed_success"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {getattr(self, name)}.")

    def posterior(self, prior: float = 0.5) -> float:
        """Return how sure an observer can become of one of two neighbouring orders.

        For the real groups: what the loss for the groups used promises them may not hold.
        """
        return _posterior(prior, self.real_loss)

    @property
    def odds(self) -> str:
        """The guarantee as odds: how sure an observer can become."""
        return (
            "an observer who was 50 % sure of the order of a real group "
            f"{_becomes(self.posterior())}"
        )

    def __str__(self) -> str:
        """Return the guarantee as one sentence."""
        return (
            f"{self.alpha:g}-d_σ privacy for the groups used ({self.real_loss:g} for the real "
            f"groups): an observer of the order assigns {percent(self.attacker_success)} of the "
            f"slots rightly (the most exposed slot: {percent(self.exposed_success)}), guessing "
            f"{percent(self.chance)}."
        )


def percent(share: float) -> str:
    """Return a share in two figures, and never as a power of ten.

    Example:
        >>> percent(1 / 64), percent(0.333), percent(1.0)
        ('1.6 %', '33 %', '100 %')
    """
    return f"{100 * share:.{2 if share < 0.995 else 3}g} %"


def percent_up(share: float) -> str:
    """Return an upper bound on a share as one: rounded up to a tenth of a percent.

    Example:
        >>> percent_up(0.51761), percent_up(0.5), percent_up(0.99999)
        ('51.8 %', '50 %', '100 %')
    """
    return f"{math.ceil(1000 * share) / 10:g} %"


def rounded_down(bound: float, figures: int = 3) -> float:
    """Return a lower bound on a loss as one: in a few figures, rounded down.

    Example:
        >>> rounded_down(0.13289), rounded_down(0.05688, 2), rounded_down(0.0)
        (0.132, 0.056, 0.0)
    """
    if bound <= 0:
        return 0.0
    scale = 10.0 ** (figures - 1 - math.floor(math.log10(bound)))
    return math.floor(bound * scale) / scale


def rounded_up(bound: float, figures: int = 3) -> float:
    """Return an upper bound on a loss as one: in a few figures, rounded up.

    Example:
        >>> rounded_up(0.13281), rounded_up(0.05612, 2), rounded_up(0.05), rounded_up(0.0)
        (0.133, 0.057, 0.05, 0.0)
    """
    shown = float(f"{bound:.{figures}g}")
    if shown >= bound:
        return shown
    return float(f"{shown + 10.0 ** (math.floor(math.log10(bound)) + 1 - figures):.{figures}g}")


def _posterior(prior: float, loss: float) -> float:
    """Return the largest posterior that a likelihood ratio of e^loss leads to."""
    _check_prior(prior)
    if prior == 0:
        return 0.0
    return 1 / (1 + (1 - prior) / prior * math.exp(-loss))


def _check_prior(prior: float) -> None:
    if not 0 <= prior <= 1:
        raise ValueError(f"prior must be between 0 and 1, got {prior}.")


def _becomes(posterior: float) -> str:
    """Return how sure in words; a posterior near 1 is not dressed up as a promise."""
    if posterior < _HARDLY:
        # A bound is never rounded down.
        return f"becomes at most {percent_up(posterior)} sure"
    sure = math.floor(1000 * posterior) / 10
    return f"may become {sure:g} % sure; this is hardly any protection"
