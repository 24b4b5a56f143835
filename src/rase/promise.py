"""What shuffled reports of one device promise: a row of numbers, and the sentence that follows.

Pure Python without NumPy, because campaigns carry these rows signed, and devices read them.
"""

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Self

from rase.privacy import percent_up, rounded_up

__all__ = ["Claim", "claim_for", "reports_within"]

# From this chance of a right guess on a promise is not presented as one.
_HARDLY = 0.99
# What computed bounds may lie above a cap by rounding.
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Claim:
    """What the shuffled reports of one device in a span give away, all together.

    Every number holds for two histories that differ in this device's readings of the span, against
    an observer who knows all other readings and sees every shuffled report. The last one holds
    against everybody.

    Args:
        reports: How many reports the device sends in the span.
        epsilon: Their shuffled epsilon, all together.
        delta: The delta that belongs to it, for all together.
        guess: How often the best guess between two histories is right, at most.
        loss_in_100: The log-odds that the observer's belief exceeds with a probability of 1 in 100
            at most.
        loss_in_1000: The same for 1 in 1,000.
        local_epsilon: The sum of the reports' own epsilons: what is left if the shuffler and the
            fusion centre work together.

    Raises:
        ValueError: If a number is out of bounds, or the shuffled epsilon above the local one.

    Example:
        >>> claim = Claim(1, 0.986, 1e-6, 0.543, 0.645, 0.807, 3.3)
        >>> print(claim.sentence())
        Somebody who knows every other reading and sees all shuffled reports of a round guesses
        which of two values yours was at most 54.3 % of the time (a coin: 50 %). In at most 1 round
        of 1,000 the reports make them more than 69.2 % sure. If both servers work together: up to
        96.5 %.
    """

    reports: int
    epsilon: float
    delta: float
    guess: float
    loss_in_100: float
    loss_in_1000: float
    local_epsilon: float

    def __post_init__(self) -> None:
        """Refuse what cannot be a claim."""
        if type(self.reports) is not int or self.reports < 1:
            raise ValueError(f"reports must be a whole number from 1 on, got {self.reports!r}.")
        for name in ("epsilon", "loss_in_100", "loss_in_1000", "local_epsilon"):
            value = getattr(self, name)
            if not (_is_number(value) and value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be finite and not negative, got {value!r}.")
        if not (_is_number(self.delta) and 0 <= self.delta < 1):
            raise ValueError(f"delta must be at least 0 and below 1, got {self.delta!r}.")
        if not (_is_number(self.guess) and 0.5 <= self.guess <= 1):
            raise ValueError(f"guess must be between 0.5 and 1, got {self.guess!r}.")
        if not self.loss_in_100 <= self.loss_in_1000 <= self.local_epsilon:
            raise ValueError(
                "loss_in_100, loss_in_1000 and local_epsilon must ascend, got "
                f"{self.loss_in_100}, {self.loss_in_1000} and {self.local_epsilon}."
            )
        if self.epsilon > self.local_epsilon:
            raise ValueError(
                f"epsilon must be at most local_epsilon {self.local_epsilon}, got {self.epsilon}."
            )

    def surer(self, one_in: int = 1000) -> float:
        """Return the certainty that an observer at evens passes in at most one of so many spans.

        Args:
            one_in: 100 or 1000.

        Raises:
            ValueError: If it is another number.
        """
        if one_in not in (100, 1000):
            raise ValueError(f"one_in must be 100 or 1000, got {one_in}.")
        return _certainty(self.loss_in_100 if one_in == 100 else self.loss_in_1000)

    @property
    def colluding_certainty(self) -> float:
        """How sure an observer at evens can become if both servers work together."""
        return _certainty(self.local_epsilon)

    def sentence(self, span: str = "round") -> str:
        """Return what the numbers mean, in words that are true.

        Args:
            span: What the reports belong to: "round", "day", "month".
        """
        what = "which of two values yours was"
        if self.reports > 1:
            what = "which of two series of values yours was"
        hardly = ", which is hardly any protection" if self.guess >= _HARDLY else ""
        both = self.colluding_certainty
        limit = f"up to {percent_up(both)}"
        if both >= _HARDLY:
            limit += ", which is hardly any protection"
        sure = percent_up(self.surer())
        seldom = f"In at most 1 {span} of 1,000 the reports make them more than {sure} sure. "
        return (
            "Somebody who knows every other reading and sees all shuffled reports of a "
            f"{span} guesses {what} at most {percent_up(self.guess)} of the time (a coin: 50 %)"
            f"{hardly}. {'' if sure == percent_up(1.0) else seldom}"
            f"If both servers work together: {limit}."
        )

    @property
    def summary(self) -> str:
        """Both promises in one short line."""
        return (
            f"towards the fusion centre: ({rounded_up(self.epsilon):g}, {self.delta:g})-DP; "
            f"if both servers work together: epsilon {rounded_up(self.local_epsilon):g}"
        )

    def to_numbers(self) -> tuple[int | float, ...]:
        """Return the numbers in the order of the fields, as they are signed."""
        return astuple(self)

    @classmethod
    def from_numbers(cls, numbers: Sequence[int | float]) -> Self:
        """Read a row of a signed table.

        Raises:
            ValueError: If the numbers are not a claim.
        """
        if len(numbers) != 7:
            raise ValueError(f"a claim must be 7 numbers, got {len(numbers)}.")
        reports, *rest = numbers
        return cls(reports, *(float(number) for number in rest))  # type: ignore[arg-type]


def claim_for(claims: Sequence[Claim], reports: int) -> Claim | None:
    """Return the claim that covers a number of reports: its own row, or the next larger one.

    Args:
        claims: A table, ascending in the number of reports.
        reports: How many reports.

    Returns:
        The row; None where the table ends before.

    Example:
        >>> table = [Claim(1, 0.1, 1e-6, 0.51, 0.1, 0.2, 1.0), Claim(4, 0.2, 1e-6, 0.52, 1, 2, 4.0)]
        >>> claim_for(table, 3).epsilon, claim_for(table, 5)
        (0.2, None)
    """
    return next((claim for claim in claims if claim.reports >= reports), None)


def reports_within(
    claims: Sequence[Claim],
    *,
    shuffled_epsilon: float | None = None,
    local_epsilon: float | None = None,
) -> int:
    """Return the most reports for which a table keeps both caps; 0 if not even one does.

    Args:
        claims: A table, ascending in the number of reports.
        shuffled_epsilon: The cap on the shuffled epsilon; none unless given.
        local_epsilon: The cap on the sum of the reports' own epsilons; none unless given.

    Example:
        >>> table = [Claim(1, 0.1, 1e-6, 0.51, 0.1, 0.2, 1.0), Claim(2, 0.2, 1e-6, 0.52, 1, 2, 2.0)]
        >>> reports_within(table, shuffled_epsilon=0.15), reports_within(table, local_epsilon=9)
        (1, 2)
    """
    kept = 0
    for claim in claims:
        is_over = (
            shuffled_epsilon is not None and claim.epsilon > shuffled_epsilon * (1 + _CLOSE)
        ) or (local_epsilon is not None and claim.local_epsilon > local_epsilon * (1 + _CLOSE))
        if is_over:
            break
        kept = claim.reports
    return kept


def _certainty(loss: float) -> float:
    return 1 / (1 + math.exp(-loss))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
