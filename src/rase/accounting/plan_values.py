"""What a plan says, as frozen values, and its JSON form ``rase.plan/1``."""

import html
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from rase.accounting.amplification import Amplification
from rase.accounting.error_model import Error
from rase.accounting.inverse import Answer
from rase.accounting.plan_schedule import ReportSchedule
from rase.estimate.notebook import axes_for, frame_of, table_html
from rase.privacy import LocalDP
from rase.randomize.certificate import Certificate
from rase.shuffle.release import Manifest
from rase.stream import Precision, ValueRange

__all__ = [
    "SCHEMA",
    "CurvePoint",
    "ErrorRow",
    "Period",
    "Plan",
    "PrecisionMet",
    "Recommendation",
    "Request",
    "Sample",
    "Wish",
]

SCHEMA = "rase.plan/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Hold what was asked of the planner, checked.

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
        attacker_cap: How many times better than chance an observer of order may be.
    """

    value_range: ValueRange
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
    """Hold the expected error of an estimator.

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
    """Hold the error of an estimator at a candidate epsilon, per window, for `Plan.curve_readings`.

    Args:
        epsilon: The candidate.
        mechanism: The mechanism used at it.
        estimator: Its name.
        error: The error.
    """

    epsilon: float
    mechanism: str
    estimator: str
    error: Error


@dataclass(frozen=True, slots=True)
class PrecisionMet:
    """Hold how far the (beta, rho) asked for is met.

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
    """Hold what reporting for some time costs a device.

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
        sure = 100 * promise.posterior()
        return (
            f"{sentence}; shuffled, ({promise.epsilon:.3g}, {promise.delta:g})-DP: at most "
            f"{math.ceil(sure)} % sure."
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """Hold what became of the readings given, without telling one.

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
    """Hold an error wished for and what would meet it, each with all else as it is.

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
    """Hold what the planner would do, and why.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Hold what a configuration will do: how wrong it is, and what it promises.

    Args:
        request: What was asked.
        mechanism: The name of the mechanism used.
        certificate: The epsilon of the law as it is drawn, and what it was computed from.
        standard_errors: The worst standard error of the unbiased mean of a round, by mechanism.
        errors: The expected errors.
        precision: How far (beta, rho) is met.
        periods: What a report, a window, a day and a month cost.
        refusal: Why no central guarantee can be given; None if one can.
        shuffle: What the shuffler will do.
        attacker_limits: What keeps the attacker's cap: theta, alpha, group_count.
        sample: What became of the readings given.
        wish: What would meet the wished error.
        curve: Errors at candidate epsilons.
        curve_readings: Which readings the curve is for: ``worst`` or ``yours``.
        recommendation: What to do, and why.
        schedule_errors: The error of a round by schedule, split and rotate, for the same budget of
            a window; empty where devices report in every round.
    """

    request: Request
    mechanism: str
    certificate: Certificate
    standard_errors: Mapping[str, float]
    errors: tuple[ErrorRow, ...]
    precision: PrecisionMet
    periods: tuple[Period, ...]
    refusal: str | None
    shuffle: Manifest
    attacker_limits: Mapping[str, Answer] = field(default_factory=lambda: MappingProxyType({}))
    sample: Sample | None = None
    wish: Wish | None = None
    curve: tuple[CurvePoint, ...] = ()
    curve_readings: str = "worst"
    recommendation: Recommendation
    schedule_errors: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def effective_epsilon(self) -> float:
        """The largest log-ratio of the law as it is drawn."""
        return self.certificate.effective_epsilon

    def error(self, estimator: str, readings: str = "worst") -> ErrorRow:
        """Return the expected error of an estimator.

        Raises:
            KeyError: If there is no such row.
        """
        for row in self.errors:
            if (row.estimator, row.readings) == (estimator, readings):
                return row
        raise KeyError(f"there is no error of {estimator!r} for readings {readings!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values; a number that is infinite becomes None."""
        request = asdict(self.request)
        public = request.pop("value_range")
        schedule = self.request.schedule
        del request["schedule"]
        document = {
            "schema": SCHEMA,
            "parameters": {
                "range": [public["low"], public["high"]],
                "steps": public["steps"],
                **request.pop("precision"),
                **request,
            },
            "schedule": {
                **asdict(schedule),
                "reports_per_round": schedule.reports_of_round(self.request.devices),
                "empty_share": schedule.empty_share(self.request.devices),
                "round_errors": dict(self.schedule_errors),
            },
            "mechanism": self.mechanism,
            "effective_epsilon": self.effective_epsilon,
            "certificate": self.certificate.to_json(),
            "standard_errors": dict(self.standard_errors),
            "errors": [
                {
                    "estimator": row.estimator,
                    "readings": row.readings,
                    "round": _split(row.round),
                    "window": _split(row.window),
                }
                for row in self.errors
            ],
            "precision": asdict(self.precision),
            "guarantees": [_period(period) for period in self.periods],
            "refusal": self.refusal,
            "shuffle": {**asdict(self.shuffle), "sentence": str(self.shuffle.guarantee)},
            "attacker_limits": {name: asdict(one) for name, one in self.attacker_limits.items()},
            "sample": None if self.sample is None else asdict(self.sample),
            "wish": None if self.wish is None else asdict(self.wish) | {"is_met": self.wish.is_met},
            "curve": [
                {
                    "epsilon": point.epsilon,
                    "mechanism": point.mechanism,
                    "estimator": point.estimator,
                    **_split(point.error),
                }
                for point in self.curve
            ],
            "curve_readings": self.curve_readings,
            "recommendation": asdict(self.recommendation),
        }
        cleaned: dict[str, Any] = _finite(document)
        return cleaned

    def to_frame(self) -> Any:
        """Return a pandas data frame: the curve by epsilon if there is one, else the errors.

        Raises:
            DataError: If pandas is not installed.
        """
        points: list[tuple[Any, ...]]
        if self.curve:
            points = [(point.epsilon, point.mechanism, point.estimator) for point in self.curve]
            names, told = ("epsilon", "mechanism", "estimator"), [p.error for p in self.curve]
        else:
            points = [(row.estimator, row.readings, "round") for row in self.errors]
            points += [(row.estimator, row.readings, "window") for row in self.errors]
            names = ("estimator", "readings", "over")
            told = [row.round for row in self.errors] + [row.window for row in self.errors]
        columns: dict[str, list[Any]] = {
            name: [point[place] for point in points] for place, name in enumerate(names)
        }
        for part in ("bias", "noise", "total"):
            columns[part] = [getattr(error, part) for error in told]
        return frame_of(columns)

    def plot(self, ax: Any = None) -> Any:
        """Draw the error of each estimator against epsilon, of the window's mean.

        Args:
            ax: Where to draw; None makes a figure.

        Returns:
            The axes, both logarithmic.

        Raises:
            DataError: If a figure is wanted and matplotlib is not installed.
            ValueError: If the plan has no curve.
        """
        if not self.curve:
            raise ValueError("plan must have a curve; give candidate epsilons: plan(…, curve=…).")
        axes = axes_for(ax)
        for name in dict.fromkeys(point.estimator for point in self.curve):
            points = [point for point in self.curve if point.estimator == name]
            totals = [point.error.total for point in points]
            axes.loglog([point.epsilon for point in points], totals, label=name)
        axes.axvline(self.request.epsilon, color="black", linewidth=1, label="epsilon chosen")
        if self.request.error is not None:
            axes.axhline(self.request.error, linestyle=":", color="black", label="error wished for")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        axes.set_xlabel("epsilon of one report")
        axes.set_ylabel("root mean square error")
        axes.legend()
        return axes

    def _repr_html_(self) -> str:
        request = self.request
        rows = [
            [row.estimator, row.readings, *(f"{part:.3g}" for part in _parts(row.window))]
            for row in self.errors
        ]
        over = "one round" if request.window == 1 else f"{request.window} rounds"
        caption = (
            f"error of the mean of {over}: {request.devices:,} devices, epsilon "
            f"{request.epsilon:g}, {self.mechanism}"
        )
        told = table_html(
            ["estimator", "readings", "bias", "noise", "error"], rows, caption=caption
        )
        sentences = [*(str(period) for period in self.periods), *self.recommendation.warnings]
        return told + "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


def _parts(error: Error) -> tuple[float, float, float]:
    return error.bias, error.noise, error.total


def _split(error: Error) -> dict[str, float]:
    return {"bias": error.bias, "noise": error.noise, "total": error.total}


def _period(period: Period) -> dict[str, Any]:
    central = period.central
    return {
        "period": period.name,
        "reports": period.reports,
        "epsilon": period.local.epsilon,
        "posterior": period.local.posterior(),
        "central": None
        if central is None
        else {
            "epsilon": central.epsilon,
            "delta": central.guarantee.delta,
            "posterior": central.guarantee.posterior(),
            "is_amplified": central.is_amplified,
            "lower_bound": central.lower_bound,
            "theorem": central.theorem,
        },
        "sentence": str(period),
    }


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
