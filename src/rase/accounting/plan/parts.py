"""The parts of a plan as frozen values: what was asked, errors, periods, wishes and advice."""

from dataclasses import dataclass

from rase.accounting.amplification import Amplification
from rase.accounting.error_model import Error
from rase.accounting.plan.inverse import Answer
from rase.accounting.plan.schedule import ReportSchedule
from rase.domain import Precision, Range
from rase.privacy import LocalDP, rounded_up

__all__ = [
    "CurvePoint",
    "ErrorRow",
    "Period",
    "PrecisionMet",
    "Recommendation",
    "Request",
    "Sample",
    "Wish",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked of the planner, checked.

    Args:
        value_range: The public range.
        epsilon: The budget of one report.
        devices: How many devices there are.
        precision: The (beta, rho) asked for.
        alpha: The loss allowed inside a group; None shuffles uniformly.
        group_count: The number of groups alpha is for.
        interval_s: The length of a round; None if not known.
        window: How many rounds are averaged, and share a budget.
        schedule: When a device reports, and with how much.
        delta: The delta of central guarantees.
        mechanism: The mechanism asked for, or ``auto``.
        error: The error wished for, of the window's mean; None without a wish.
        attacker_cap: How many times better than chance an observer of order may be in the most
            exposed slot.
    """

    value_range: Range
    epsilon: float
    devices: int
    precision: Precision
    alpha: float | None
    group_count: int | None
    interval_s: int | None
    window: int
    schedule: ReportSchedule
    delta: float
    mechanism: str
    error: float | None
    attacker_cap: float | None


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """The expected error of an estimator.

    Args:
        estimator: Its name.
        readings: ``worst`` (bias and noise each at its worst), ``uniform`` (spread evenly over the
            range) or ``yours``.
        round: The error of one round.
        window: The error of the mean over the window.
    """

    estimator: str
    readings: str
    round: Error
    window: Error


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The error of an estimator at a candidate epsilon, per window, for `Plan.curve_readings`.

    Args:
        epsilon: The candidate.
        mechanism: The mechanism used at it: that of the plan, at every candidate.
        law: What it draws from there, the name of its law: where that
            changes, errors jump, and no line joins the two sides.
        estimator: Its name.
        error: The error.
    """

    epsilon: float
    mechanism: str
    law: str
    estimator: str
    error: Error


@dataclass(frozen=True, slots=True)
class PrecisionMet:
    """How far the (beta, rho) asked for is met.

    Args:
        epsilon_bound: The bound ε* as printed (Lemma 1); it serves readings at the upper end only.
        epsilon_bound_everywhere: The bound that serves every reading; infinite if 0 is in range.
        is_clamping: Whether reports are clamped: below ε*, budget-aware only.
        share_met: The share of readings whose report meets it.
        readings: Of which readings: ``uniform`` or ``yours``.
    """

    epsilon_bound: float
    epsilon_bound_everywhere: float
    is_clamping: bool
    share_met: float
    readings: str


@dataclass(frozen=True, slots=True)
class Period:
    """What reporting for some time costs a device.

    Args:
        name: ``report``, ``window``, ``day`` or ``month`` (30 days).
        reports: How many reports of a device that is, at most.
        local: What holds whoever looks.
        central: What holds for the shuffled releases; None where refused or not computed.
    """

    name: str
    reports: int
    local: LocalDP
    central: Amplification | None

    def __str__(self) -> str:
        """Return one sentence."""
        what = "one report" if self.reports == 1 else f"a {self.name} of {self.reports} reports"
        sentence = f"{what}: epsilon {self.local.epsilon:g}, {self.local.odds}"
        if self.central is None:
            return f"{sentence}."
        if not self.central.is_amplified:
            return f"{sentence}; no amplification at this n."
        promise = self.central.guarantee
        return (
            f"{sentence}; shuffled, ({rounded_up(promise.epsilon):g}, {promise.delta:g})-DP: it "
            f"{promise.words}."
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """What became of the readings given, without one of them.

    Args:
        count: How many.
        clipped_share: The share outside the range.
        clip_bias: What moving them to its ends adds to the mean.
    """

    count: int
    clipped_share: float
    clip_bias: float


@dataclass(frozen=True, slots=True)
class Wish:
    """An error wished for and what would meet it, each with all else as it is.

    Args:
        error: The root mean square error wished for, of the window's mean.
        readings: For which readings: ``worst`` or ``yours``.
        expected: The error as things are.
        devices: How many devices would do.
        epsilon: Which epsilon would do.
        window: How many rounds would do.
    """

    error: float
    readings: str
    expected: float
    devices: Answer
    epsilon: Answer
    window: Answer

    @property
    def is_met(self) -> bool:
        """Whether nothing need change."""
        return self.expected <= self.error


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What the planner would do, and why.

    Args:
        mechanism: The mechanism.
        estimator: The estimator.
        shuffle: The shuffle: always ``uniform`` for a mean of all.
        reasons: Sentences.
        warnings: Sentences on what will disappoint.
        remedies: Sentences on what would help.
    """

    mechanism: str
    estimator: str
    shuffle: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    remedies: tuple[str, ...]
