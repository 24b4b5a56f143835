"""What a fleet of some size can learn at two promises: questions, errors, and an honest no."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from rase.accounting.accountant.calibrate import calibrate, worst_error
from rase.accounting.accountant.claims import claims
from rase.accounting.ledger.limits import UNASKED_DAY_EPSILON, UNASKED_REPORT_EPSILON
from rase.accounting.plan.promises import default_k_min
from rase.domain import Range
from rase.promise import Claim

__all__ = ["ROUGH", "USEFUL", "Answerable", "Learnable", "learnable"]

# Shares of the range: up to the first an answer is useful, up to the second a rough one.
USEFUL: Final = 0.02
ROUGH: Final = 0.07
_UNIT: Final = Range(0, 1)

Verdict = Literal["yes", "roughly", "no"]


@dataclass(frozen=True, slots=True)
class Answerable:
    """Say how well a fleet can answer one question, and what each device gives away for it.

    Args:
        question: What is asked, in words.
        reports: How many reports each device sends for the answer.
        epsilon: The budget of one report.
        claim: What all of them give away together.
        share: The standard error of the answer at its worst, as a share of the range.
    """

    question: str
    reports: int
    epsilon: float
    claim: Claim
    share: float

    @property
    def verdict(self) -> Verdict:
        """Whether the answer is of use: "yes" to `USEFUL` of the range, "roughly" to `ROUGH`."""
        if self.share <= USEFUL:
            return "yes"
        return "roughly" if self.share <= ROUGH else "no"


@dataclass(frozen=True, slots=True)
class Learnable:
    """What a fleet can learn.

    Args:
        devices: How many devices report in each round.
        k_min: The fewest that are released together.
        shuffled_epsilon: What the reports of one promise give away to the fusion centre, at most.
        delta: The delta that belongs to it.
        answers: The questions.
    """

    devices: int
    k_min: int
    shuffled_epsilon: float
    delta: float
    answers: tuple[Answerable, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "devices": self.devices,
            "k_min": self.k_min,
            "shuffled_epsilon": self.shuffled_epsilon,
            "delta": self.delta,
            "useful_share": USEFUL,
            "rough_share": ROUGH,
            "answers": [{**asdict(one), "verdict": one.verdict} for one in self.answers],
        }


# A question, how many reports a device sends for it, how many of these the answer averages, how
# many share the promise, and the most a report may spend.
_QUESTIONS: Final = (
    ("one mean", 1, 1, 1, UNASKED_REPORT_EPSILON),
    ("the hours of a day", 24, 1, 24, UNASKED_DAY_EPSILON / 24),
    ("a week's mean", 7, 7, 7, UNASKED_REPORT_EPSILON),
    ("a month's mean", 30, 30, 30, UNASKED_REPORT_EPSILON),
    ("a month's mean, promised day by day", 30, 30, 1, UNASKED_REPORT_EPSILON),
)


def learnable(
    devices: int, *, shuffled_epsilon: float = 1.0, delta: float = 1e-6, k_min: int | None = None
) -> Learnable:
    """Return what a fleet can learn where every device reports in every round.

    The promise towards the fusion centre holds for all reports of an answer together, but where a
    question says otherwise; owners allow what they allow unasked if both servers work together.

    Guarantee: that of `rase.accounting.accountant.claims.claims`
    (tests/accounting/plan/test_learnable.py).

    Validation: errors are tried by simulation in tests/accounting/plan/test_learnable.py.

    Args:
        devices: How many there are.
        shuffled_epsilon: The promise towards the fusion centre.
        delta: The delta that belongs to it.
        k_min: The fewest reports that are released together; four fifths of the devices unless
            given.

    Raises:
        PrivacyRefused: If nothing keeps the promise.
        ValueError: If a number is out of bounds.

    Example:
        >>> found = learnable(500)
        >>> [one.verdict for one in found.answers]
        ['yes', 'no', 'yes', 'yes', 'yes']
    """
    fewest = default_k_min(devices) if k_min is None else k_min
    if not 2 <= fewest <= devices:
        raise ValueError(f"k_min must be between 2 and the {devices} devices, got {fewest}.")
    answers = []
    for question, reports, averaged, together, most in _QUESTIONS:
        law = calibrate(
            _UNIT,
            shuffled_epsilon=shuffled_epsilon,
            delta=delta,
            n=fewest,
            rounds=together,
            max_local_epsilon=most,
        )
        (claim,) = claims(law, fewest, delta=delta, reports=(reports,))
        share = worst_error(law) / math.sqrt(devices * averaged)
        answers.append(Answerable(question, reports, law.certificate().epsilon, claim, share))
    return Learnable(devices, fewest, shuffled_epsilon, delta, tuple(answers))
