"""What the owner of a device agreed to when its first campaign was taken, which later ones keep.

A new version may narrow what it asks for by itself. Reports that cost more, or an order that
reveals more, need the owner's consent again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from rase.campaign import Campaign, ShufflePlan

__all__ = ["Consent", "is_weaker", "needs_consent"]


@dataclass(frozen=True, slots=True)
class Consent:
    """What was agreed to: the budget of a report, and how senders are hidden.

    Args:
        epsilon: What one report of this device costs at most.
        limit: The owner's limit for one report when that was agreed to. A higher one since then is
            a new consent of the owner.
        shuffle: How the shuffler hides senders.
    """

    epsilon: float
    limit: float
    shuffle: ShufflePlan

    @classmethod
    def to(cls, campaign: Campaign, epsilon: float, *, limit: float) -> Self:
        """Return the consent to a first campaign."""
        return cls(epsilon, limit, campaign.shuffle)

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> Self:
        """Read what `as_fields` returns.

        Raises:
            ValueError: If it says something else.
            KeyError: If something is missing.
        """
        epsilon, limit = (float(values[name]) for name in ("epsilon", "limit"))
        if not (epsilon > 0 and limit > 0):
            raise ValueError("epsilon and limit must be greater than 0.")
        return cls(epsilon, limit, ShufflePlan(**values["shuffle"]))

    def as_fields(self) -> dict[str, Any]:
        """Return the consent as plain values by name."""
        return {
            "epsilon": self.epsilon,
            "limit": self.limit,
            "shuffle": self.shuffle.as_fields(),
        }

    def widen(self, campaign: Campaign, epsilon: float, *, limit: float) -> Self:
        """Return the consent after a version was taken, which may be more than there was."""
        shuffle = campaign.shuffle if is_weaker(campaign.shuffle, self.shuffle) else self.shuffle
        if epsilon <= self.epsilon:
            return type(self)(self.epsilon, self.limit, shuffle)
        # The higher limit has been made use of: a further rise needs a further word.
        return type(self)(epsilon, limit, shuffle)


def needs_consent(new: Campaign, old: Campaign) -> bool:
    """Return whether devices may refuse a version until their owners have agreed to it.

    Those whose owners said so beforehand take it; so do those that reported at a higher budget.
    """
    return new.epsilon[0] > old.epsilon[0] or is_weaker(new.shuffle, old.shuffle)


def is_weaker(new: ShufflePlan, agreed: ShufflePlan) -> bool:
    """Return whether a plan promises less than another, or something that cannot be compared.

    Args:
        new: The plan in question.
        agreed: The plan it is compared with.

    Example:
        >>> uniform, mallows = ShufflePlan(), ShufflePlan("mallows", 1.0)
        >>> is_weaker(mallows, uniform), is_weaker(uniform, mallows)
        (True, False)
    """
    if new.method == "uniform":
        return False
    return (
        agreed.method == "uniform"
        or new.alpha > agreed.alpha
        # Other groups hide a sender among others, whom nobody was asked about.
        or new.groups != agreed.groups
        # Robust leaves out the orders in which Mallows would not protect.
        or (new.method, agreed.method) == ("mallows", "robust")
    )
