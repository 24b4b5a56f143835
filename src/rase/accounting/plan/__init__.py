"""The planner: parameters in, what they will do out, before a single device reports.

Pure mathematics without drawing anything.

It includes what reporting for some time costs a device, by itself and among the others of its
rounds. The slow part, the central guarantees, is cached between calls, so that moving one slider
does not pay for all.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rase.accounting.amplification import Amplification, amplify
from rase.accounting.binomial import Floats
from rase.accounting.checks import MOST_REPORTS, checked_delta, checked_epsilon
from rase.accounting.composition import LIVE_UP_TO, compose_live, compose_local, compose_shuffled
from rase.accounting.error_model import (
    COMPARED,
    PREDICTED,
    ErrorModel,
    FleetReadings,
    distinct,
)
from rase.accounting.plan.advice import recommend
from rase.accounting.plan.inverse import (
    Setting,
    attacker_limits,
    checked_error,
    devices_needed,
    epsilon_needed,
    rounds_needed,
)
from rase.accounting.plan.parts import (
    CurvePoint,
    ErrorRow,
    Period,
    PrecisionMet,
    Request,
    Sample,
    Wish,
)
from rase.accounting.plan.promises import Promises
from rase.accounting.plan.schedule import (
    errors_by_schedule,
    report_schedule,
    turn_error,
)
from rase.accounting.plan.values import Plan
from rase.domain import Precision, Range
from rase.errors import PrivacyRefused
from rase.laws.geometric import BudgetAware, Laplace
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import FOR_MEANS, best_mechanism, randomizer_named
from rase.shuffle.release import Manifest, uniform_manifest

__all__ = ["Detail", "periods_of", "plan"]

Detail = Literal["full", "quick", "live"]
# Readings that stand for all where each is looked at by itself.
_LOOKED_AT = 128


def plan(
    value_range: Range,
    epsilon: float | None = None,
    *,
    devices: int,
    beta: float = 0.5,
    rho: float = 0.9,
    alpha: float | None = None,
    group_count: int | None = None,
    interval_s: int | None = None,
    window: int = 1,
    schedule: str = "every",
    window_budget: float | None = None,
    delta: float = 1e-6,
    mechanism: str = "auto",
    readings: ArrayLike | None = None,
    error: float | None = None,
    attacker_cap: float | None = None,
    curve: Sequence[float] = (),
    detail: Detail = "full",
    promises: Promises | None = None,
) -> Plan:
    """Return what a configuration will do: errors, guarantees, the shuffler, a recommendation.

    Args:
        value_range: The public range of a reading.
        epsilon: The budget of one report; None if it follows from ``window_budget``.
        devices: How many devices there are.
        beta: Half-width of the precision interval asked for.
        rho: Probability of meeting it.
        alpha: The loss allowed inside a group; None shuffles uniformly.
        group_count: The number of groups alpha is for.
        interval_s: The length of a round in seconds, for what a day and a month cost.
        window: How many rounds are averaged, and share a budget.
        schedule: ``every`` round; ``split``, every round with a share of the window's budget; or
            ``rotate``, one round of each window with all of it.
        window_budget: What a device may spend in any window. To split and to rotate, give it or
            epsilon.
        delta: The delta of central guarantees.
        mechanism: ``auto`` for the best at this epsilon, or a name in `FOR_MEANS`.
        readings: A sample of readings; the result reveals something of them.
        error: A root mean square error wished for, of the window's mean.
        attacker_cap: How many times better than chance an observer of order may be in the most
            exposed slot, the first or last; 2 unless given.
        curve: Candidate epsilons for which errors are wanted too, with the mechanism of the plan.
        detail: ``quick`` leaves out the central guarantees of more than one round, and takes that
            of one round from the clone pair, which holds for any mechanism. ``live`` has all of
            them, within tens of milliseconds: see `compose_live` for what it gives up.
        promises: Both promises, if devices get two; the recommendation judges by both then.

    Returns:
        The plan.

    Raises:
        TypeError: If an argument is not of its kind.
        ValueError: If an argument is out of bounds.

    Example:
        >>> power = plan(Range(0, 3000), 1.0, devices=1000, interval_s=3600, window=24)
        >>> power.mechanism, round(power.error("unbiased_mean").window.total, 1)
        ('optimal', 19.3)
        >>> print(power.periods[0])
        one report: epsilon 1, an observer who was 50 % sure of a reading becomes at most 73.2 %
        sure; shuffled, (0.147, 1e-06)-DP: it guesses right at most 53.7 % of the time, and becomes
        more than 53.8 % sure with a probability of 0.001 at most.
    """
    rounds = _checked_count("window", window)
    planned = report_schedule(
        schedule,
        rounds,
        epsilon=None if epsilon is None else checked_epsilon(epsilon),
        window_budget=window_budget,
    )
    request = Request(
        value_range=_checked_range(value_range),
        epsilon=checked_epsilon(planned.epsilon),
        devices=_checked_count("devices", devices, least=2, most=MOST_REPORTS),
        precision=Precision(beta, rho),
        alpha=alpha,
        group_count=_checked_groups(alpha, group_count),
        interval_s=None if interval_s is None else _checked_count("interval_s", interval_s),
        window=rounds,
        schedule=planned,
        delta=checked_delta(delta),
        mechanism=mechanism,
        error=None if error is None else checked_error(error),
        attacker_cap=attacker_cap,
    )
    if detail not in ("full", "quick", "live"):
        raise ValueError(f"detail must be full, quick or live, got {detail!r}.")
    return _make_plan(request, readings, curve, detail=detail, promises=promises)


def _make_plan(
    request: Request,
    readings: ArrayLike | None,
    curve: Sequence[float],
    *,
    detail: Detail,
    promises: Promises | None,
) -> Plan:
    public, n = request.value_range, _in_a_round(request)
    drawn = randomizer_named(
        request.mechanism, request.epsilon, domain=public, precision=request.precision
    )
    sample = None if readings is None else FleetReadings.of(readings, public)
    uniform = _uniform(public)
    setting = _setting(request, sample)
    limits = {}
    if request.attacker_cap is not None:
        limits = attacker_limits(
            n, request.attacker_cap, alpha=request.alpha, group_count=request.group_count
        )
    manifest = _plan_shuffle(request)
    periods, refusal = periods_of(request, drawn, manifest, detail=detail)
    rows = list(_error_rows(request, ErrorModel(drawn), uniform=uniform, sample=sample))
    standard_errors = _standard_errors(request)
    wish = _wish(setting, request.error, rows)
    by_schedule = errors_by_schedule(
        request.schedule,
        lambda epsilon: randomizer_named(
            request.mechanism, epsilon, domain=public, precision=request.precision
        ),
        devices=request.devices,
        readings=sample,
    )
    best = best_mechanism(request.epsilon)
    return Plan(
        request=request,
        mechanism=_mechanism(request),
        certificate=drawn.certificate(),
        standard_errors=MappingProxyType(standard_errors),
        errors=tuple(rows),
        precision=_precision(request, drawn, sample or uniform),
        periods=periods,
        refusal=refusal,
        shuffle=manifest,
        attacker_limits=MappingProxyType(limits),
        sample=None
        if sample is None
        else Sample(sample.count, sample.clipped_share, sample.clip_bias),
        wish=wish,
        curve=tuple(_curve(request, curve, sample)),
        curve_readings=setting.basis,
        schedule_errors=MappingProxyType(by_schedule),
        recommendation=recommend(
            request,
            setting=setting,
            standard_errors=standard_errors,
            rows=rows,
            manifest=manifest,
            periods=periods,
            wish=wish,
            best=best,
            by_schedule=by_schedule,
            promises=promises,
        ),
    )


def _setting(request: Request, sample: FleetReadings | None) -> Setting:
    return Setting(
        value_range=request.value_range,
        epsilon=request.epsilon,
        devices=request.devices,
        window=request.schedule.turns * request.schedule.reports_per_window,
        turns=request.schedule.turns,
        mechanism=request.mechanism,
        precision=request.precision,
        readings=sample,
    )


def _error_rows(
    request: Request, model: ErrorModel, *, uniform: FleetReadings, sample: FleetReadings | None
) -> Iterator[ErrorRow]:
    n, turns = request.devices, request.schedule.turns
    # Of rounds without reports nothing is known; the others are averaged.
    averaged = turns * request.schedule.reports_per_window
    for estimator in PREDICTED:
        worst = turn_error(model, estimator, n, turns=turns, readings=None)
        yield ErrorRow(estimator, "worst", worst, worst.over(averaged))
        for spread in (uniform, sample):
            if spread is not None:
                one = turn_error(model, estimator, n, turns=turns, readings=spread)
                yield ErrorRow(estimator, _name_readings(spread), one, one.over(averaged))


def _standard_errors(request: Request) -> dict[str, float]:
    return {
        name: turn_error(
            ErrorModel(
                randomizer_named(
                    name,
                    request.epsilon,
                    domain=request.value_range,
                    precision=request.precision,
                )
            ),
            "unbiased_mean",
            request.devices,
            turns=request.schedule.turns,
            readings=None,
        ).noise
        for name in FOR_MEANS
    }


def _curve(
    request: Request, candidates: Sequence[float], sample: FleetReadings | None
) -> Iterator[CurvePoint]:
    name, public = _mechanism(request), request.value_range
    for candidate in candidates:
        epsilon = checked_epsilon(candidate)
        drawn = randomizer_named(name, epsilon, domain=public, precision=request.precision)
        law, model = drawn.law(epsilon).name, ErrorModel(drawn)
        for estimator in COMPARED:
            turns = request.schedule.turns
            error = turn_error(model, estimator, request.devices, turns=turns, readings=sample)
            averaged = turns * request.schedule.reports_per_window
            yield CurvePoint(epsilon, name, law, estimator, error.over(averaged))


def _mechanism(request: Request) -> str:
    """Return the name of the mechanism that is planned with."""
    return best_mechanism(request.epsilon) if request.mechanism == "auto" else request.mechanism


def _wish(setting: Setting, error: float | None, rows: list[ErrorRow]) -> Wish | None:
    if error is None:
        return None
    expected = next(
        row.window.total
        for row in rows
        if (row.estimator, row.readings) == (setting.estimator, setting.basis)
    )
    return Wish(
        error,
        setting.basis,
        expected,
        devices=devices_needed(setting, error),
        epsilon=epsilon_needed(setting, error),
        window=rounds_needed(setting, error),
    )


def _precision(request: Request, drawn: RangeRandomizer, readings: FleetReadings) -> PrecisionMet:
    public, asked = request.value_range, request.precision
    is_clamping = isinstance(drawn, BudgetAware) and drawn.is_clamping is True
    looked_at, weights = readings.atoms(_LOOKED_AT)
    if isinstance(drawn, BudgetAware | Laplace):
        met = np.array(
            [
                asked.share_met(
                    [reading], epsilon=request.epsilon, value_range=public, is_clamping=is_clamping
                )
                for reading in looked_at.tolist()
            ]
        )
    else:
        met = _are_met(drawn, looked_at, asked)
    return PrecisionMet(
        asked.epsilon_bound(public),
        asked.epsilon_bound_everywhere(public),
        is_clamping,
        share_met=min(1.0, float(weights @ met)),
        readings=_name_readings(readings),
    )


def _are_met(drawn: RangeRandomizer, readings: Floats, asked: Precision) -> Floats:
    """Return 1.0 for readings whose report meets the precision, 0.0 for the others."""
    # Half a step more on either side: reports are points of the grid, intervals are not.
    reach = asked.beta * np.abs(readings) + drawn.domain.step / 2
    lower, upper = readings - reach, readings + reach
    edges = distinct(np.concatenate(([-np.inf], lower, upper, [np.inf])))
    below = np.cumsum(drawn.report_probabilities(readings, edges), axis=1)
    row = np.arange(readings.size)
    # The bin that starts at an edge is the edge's own place; the sum before it ends one earlier.
    chance = (
        below[row, np.searchsorted(edges, upper) - 1]
        - below[row, np.searchsorted(edges, lower) - 1]
    )
    return (chance >= asked.rho - 1e-12).astype(np.float64)


@lru_cache(maxsize=64)
def _robust(n: int, alpha: float, group_count: int, attacker_cap: float) -> Manifest:
    from rase.shuffle.robust import Robust

    return Robust(alpha, group_count, attacker_cap=attacker_cap).manifest_for(n)


def _plan_shuffle(request: Request) -> Manifest:
    if request.alpha is None or request.group_count is None:
        return uniform_manifest(_in_a_round(request), "No alpha was asked for.")
    cap = 2.0 if request.attacker_cap is None else request.attacker_cap
    return _robust(_in_a_round(request), request.alpha, request.group_count, cap)


def _in_a_round(request: Request) -> int:
    """Return how many reports are shuffled in a usual round."""
    return max(2, round(request.schedule.reports_of_round(request.devices)))


@lru_cache(maxsize=16)
def _uniform(value_range: Range) -> FleetReadings:
    return FleetReadings.uniform(value_range)


def _name_readings(readings: FleetReadings) -> str:
    return "yours" if readings.count else "uniform"


def _checked_range(value_range: object) -> Range:
    if not isinstance(value_range, Range):
        raise TypeError(f"value_range must be a Range, got {value_range!r}.")
    return value_range


def _checked_groups(alpha: float | None, group_count: int | None) -> int | None:
    if (alpha is None) != (group_count is None):
        missing, given = ("alpha", "group_count") if alpha is None else ("group_count", "alpha")
        raise ValueError(f"{missing} must be given with {given}.")
    return group_count


def _checked_count(name: str, value: object, *, least: int = 1, most: int = 10**9) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, got {value!r}.")
    count = int(value.__index__())
    if not least <= count <= most:
        is_alone = name == "devices" and count < least
        why = "; one device alone has nobody to hide among." if is_alone else "."
        raise ValueError(f"{name} must be between {least} and {most}, got {count}{why}")
    return count


_DAY_S = 86_400
_MONTH_S = 30 * _DAY_S


def periods_of(
    request: Request, drawn: RangeRandomizer, manifest: Manifest, *, detail: Detail
) -> tuple[tuple[Period, ...], str | None]:
    """Return what a report, a window, a day and a month cost, and why no central guarantee holds.

    Args:
        request: What was asked.
        drawn: The mechanism that reports are drawn by.
        manifest: What the shuffler will do.
        detail: How much is computed: see `rase.accounting.plan.plan`.

    Returns:
        The periods, and a sentence where the shuffle has no theorem; None where it has one.
    """
    refusal = None
    if manifest.method != "uniform":
        try:
            amplify(request.epsilon, request.devices, delta=request.delta, shuffle=manifest)
        except PrivacyRefused as error:
            refusal = str(error)
    found = []
    for name, reports in _reports(request).items():
        central = None
        if refusal is None and not (detail == "quick" and reports > 1):
            source = request.epsilon if detail == "quick" else _on_unit_range(drawn)
            central = request.schedule.central_guarantee(
                _central_of(source, reports, is_live=detail == "live"),
                source,
                devices=request.devices,
                rounds=reports,
                delta=request.delta,
                # A slider that moves cannot wait for an observer of a month, or of millions.
                observed=int(request.devices <= LIVE_UP_TO) if detail == "live" else None,
            )
        local = compose_local(drawn.guarantee, reports)
        found.append(Period(name, reports, local, central))
    return tuple(found), refusal


def _reports(request: Request) -> dict[str, int]:
    """Return the periods that differ, by how many reports a device makes in them."""
    reports_in = request.schedule.reports_in
    counts = {"report": 1, "window": reports_in(request.window)}
    if request.interval_s is not None:
        counts["day"] = reports_in(math.ceil(_DAY_S / request.interval_s))
        counts["month"] = reports_in(math.ceil(_MONTH_S / request.interval_s))
    # A window of one day is called a day.
    names = {reports: name for name, reports in reversed(counts.items()) if name != "report"}
    names |= {counts[name]: name for name in ("day", "month") if name in counts} | {1: "report"}
    return {names[reports]: reports for reports in sorted(names)}


def _central_of(
    source: RangeRandomizer | float, rounds: int, *, is_live: bool
) -> Callable[[int, float], Amplification]:
    return lambda n, delta: _central(source, n, rounds=rounds, delta=delta, is_live=is_live)


def _on_unit_range(drawn: RangeRandomizer) -> RangeRandomizer:
    """Return a mechanism with the same law of grid places, so that another range asks nothing new.

    What an observer learns depends on that law alone, not on what the places are called.
    """
    unit = Range(0, 1, drawn.domain.steps)
    if isinstance(drawn, BudgetAware):
        # No epsilon meets a precision of certainty, so this one is always clamped.
        if drawn.is_clamping is True:
            return replace(drawn, domain=unit, precision=Precision(beta=0.0, rho=1.0))
        return Laplace(drawn.epsilon, unit)
    return replace(drawn, domain=unit)


@lru_cache(maxsize=512)
def _central(
    source: RangeRandomizer | float, n: int, *, rounds: int, delta: float, is_live: bool
) -> Amplification:
    if isinstance(source, float):
        return amplify(source, n, delta=delta, method="clone")
    if is_live:
        return compose_live(source, n, rounds=rounds, delta=delta)
    return compose_shuffled(source, n, rounds=rounds, delta=delta)
