"""A plan as one frozen value, and its forms: JSON ``rase.plan/1``, frame, picture, page."""

import html
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import Any

from rase.accounting.error_model import Error
from rase.accounting.plan.inverse import Answer
from rase.accounting.plan.parts import (
    CurvePoint,
    ErrorRow,
    Period,
    PrecisionMet,
    Recommendation,
    Request,
    Sample,
    Wish,
)
from rase.answer import without_infinities
from rase.laws.certificate import Certificate
from rase.series.notebook import axes_for, frame_of, table_html
from rase.shuffle.release import Manifest

__all__ = ["SCHEMA", "Plan"]

SCHEMA = "rase.plan/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a configuration will do: how wrong it is, and what it promises.

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

    def curve_of(self, estimator: str) -> list[list[CurvePoint]]:
        """Return the curve of an estimator in pieces of one law each, which a line may join."""
        points = [point for point in self.curve if point.estimator == estimator]
        return [list(piece) for _, piece in groupby(points, key=lambda point: point.law)]

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
                    "law": point.law,
                    "estimator": point.estimator,
                    **_split(point.error),
                }
                for point in self.curve
            ],
            "curve_readings": self.curve_readings,
            "recommendation": asdict(self.recommendation),
        }
        cleaned: dict[str, Any] = without_infinities(document)
        return cleaned

    def to_frame(self) -> Any:
        """Return a pandas data frame: the curve by epsilon if there is one, else the errors.

        Raises:
            DataError: If pandas is not installed.
        """
        points: list[tuple[Any, ...]]
        if self.curve:
            points = [(point.epsilon, point.mechanism, point.estimator) for point in self.curve]
            names, shown = ("epsilon", "mechanism", "estimator"), [p.error for p in self.curve]
        else:
            points = [(row.estimator, row.readings, "round") for row in self.errors]
            points += [(row.estimator, row.readings, "window") for row in self.errors]
            names = ("estimator", "readings", "over")
            shown = [row.round for row in self.errors] + [row.window for row in self.errors]
        columns: dict[str, list[Any]] = {
            name: [point[place] for point in points] for place, name in enumerate(names)
        }
        for part in ("bias", "noise", "total"):
            columns[part] = [getattr(error, part) for error in shown]
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
        for place, name in enumerate(dict.fromkeys(point.estimator for point in self.curve)):
            for number, points in enumerate(self.curve_of(name)):
                totals = [point.error.total for point in points]
                label = name if number == 0 else None
                axes.loglog(
                    [point.epsilon for point in points], totals, color=f"C{place}", label=label
                )
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
        shown = table_html(
            ["estimator", "readings", "bias", "noise", "error"], rows, caption=caption
        )
        sentences = [*(str(period) for period in self.periods), *self.recommendation.warnings]
        return shown + "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


def _parts(error: Error) -> tuple[float, float, float]:
    return error.bias, error.noise, error.total


def _split(error: Error) -> dict[str, float]:
    return {"bias": error.bias, "noise": error.noise, "total": error.total}


def _period(period: Period) -> dict[str, Any]:
    central = period.central
    promise = None if central is None else central.guarantee
    return {
        "period": period.name,
        "reports": period.reports,
        "epsilon": period.local.epsilon,
        "posterior": period.local.posterior(),
        "central": None
        if central is None or promise is None
        else {
            "epsilon": central.epsilon,
            "delta": promise.delta,
            "best_guess": promise.guess(),
            # An observer at evens becomes surer than the first with the second's probability.
            "certainty": promise.certainty(promise.stated_chance),
            "certainty_passed": promise.stated_chance if promise.delta else 0.0,
            "is_amplified": central.is_amplified,
            "lower_bound": central.lower_bound,
            "theorem": central.theorem,
        },
        "sentence": str(period),
    }
