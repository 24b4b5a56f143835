"""Guarantees as frozen values, each with its neighbour relation, assumption and theorem.

A guarantee is what a mechanism promises about its output, whatever an observer knows. It prints one
honest sentence and never claims more than its theorem. Pure Python without NumPy, because the
device agent imports it.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Final

__all__ = [
    "MAX_EPSILON",
    "MIN_EPSILON",
    "CentralDP",
    "LocalDP",
    "PermutationPrivacy",
    "percent",
]

# The budgets a report may have. Below, 2^-64 is no longer small against differences of weights;
# above, nobody is protected.
MIN_EPSILON: Final = 1e-4
MAX_EPSILON: Final = 30.0


@dataclass(frozen=True, slots=True)
class LocalDP:
    """Promise ε-local differential privacy of one report (Def. 1).

    Args:
        epsilon: The largest log-ratio; with contributors of different budgets, the largest of them.

    Raises:
        ValueError: If epsilon is negative or not finite.

    Example:
        >>> print(LocalDP(1.0))
        1-LDP per report: an observer who was 50 % sure of a reading becomes at most 73 % sure.
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

    Args:
        epsilon: The largest log-ratio, but for delta.
        delta: The probability for which nothing is promised.
        theorem: Where the numbers come from.

    Raises:
        ValueError: If epsilon is negative or not finite, or delta outside [0, 1).

    Example:
        >>> print(CentralDP(0.0705, 1e-6))
        (0.0705, 1e-06)-DP of the release: an observer who was 50 % sure of a contributor's reading
        becomes at most 52 % sure, but for an event of probability 1e-06, in which all may be lost.
    """

    epsilon: float
    delta: float
    theorem: str = (
        "the probability of any event under two neighbours differs at most by a factor e^epsilon "
        "and a summand delta"
    )

    neighbours: ClassVar[str] = (
        "two fleets of the same size that differ in the readings of one contributor"
    )
    assumption: ClassVar[str] = (
        "all contributors draw secure noise and tell nobody their reports, and the shuffler keeps "
        "its permutation secret"
    )

    def __post_init__(self) -> None:
        """Refuse what is not a privacy loss."""
        if not (self.epsilon >= 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"epsilon must be finite and not negative, got {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, got {self.delta}.")

    def posterior(self, prior: float = 0.5) -> float:
        """Return how sure an observer can become of one of two readings, but for delta."""
        return _posterior(prior, self.epsilon)

    def guess(self, prior: float = 0.5) -> float:
        """Return how often the best observer names the right one of two readings, delta included.

        Whoever asks the release a question has Pr[yes | x] <= e^epsilon Pr[yes | x'] + delta, and
        the same for no; this is the most that these inequalities leave.
        """
        _check_prior(prior)
        # (e^epsilon + delta) / (e^epsilon + 1), in a form that cannot overflow.
        rest = math.exp(-self.epsilon)
        both = (1 + self.delta * rest) / (1 + rest)
        always = max(prior + (1 - prior) * self.delta, (1 - prior) + prior * self.delta)
        return min(1.0, max(both, always))

    @property
    def odds(self) -> str:
        """The guarantee as odds: how sure an observer can become."""
        sentence = (
            f"an observer who was 50 % sure of a contributor's reading {_becomes(self.posterior())}"
        )
        if self.delta == 0:
            return sentence
        return (
            f"{sentence}, but for an event of probability {self.delta:g}, in which all may be lost"
        )

    def __str__(self) -> str:
        """Return the guarantee as one sentence."""
        return f"({self.epsilon:.3g}, {self.delta:g})-DP of the release: {self.odds}."


@dataclass(frozen=True, slots=True)
class PermutationPrivacy:
    """Promise (alpha, partition)-d_σ privacy of one shuffled round (Def. 3, Meehan et al.).

    Alpha alone says little; ``attacker_success`` says what it means.

    Args:
        alpha: The loss for the groups the shuffler worked with; infinite if nothing is promised.
        real_loss: The loss for the contributors' real groups, which may be larger.
        attacker_success: Share of slots the best observer of order alone assigns rightly.
        chance: What guessing achieves, ``1 / n``.

    Raises:
        ValueError: If a loss is negative or NaN, or a share outside [0, 1].
    """

    alpha: float
    real_loss: float
    attacker_success: float
    chance: float

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
        for name in ("attacker_success", "chance"):
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
            f"slots rightly, guessing {percent(self.chance)}."
        )


def percent(share: float) -> str:
    """Return a share in two figures, and never as a power of ten.

    Example:
        >>> percent(1 / 64), percent(0.333), percent(1.0)
        ('1.6 %', '33 %', '100 %')
    """
    return f"{100 * share:.{2 if share < 0.995 else 3}g} %"


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
    sure = math.floor(1000 * posterior) / 10
    if sure < 99:
        return f"becomes at most {sure:.0f} % sure"
    return f"may become {sure:g} % sure; this is hardly any protection"
