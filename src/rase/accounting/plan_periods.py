"""What reporting for some time costs a device, by itself and among the others of its rounds.

What takes time, the central guarantees, is kept between calls, so that moving one slider does not
pay for all.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from rase.accounting.amplification import Amplification, amplify
from rase.accounting.composition import LIVE_UP_TO, compose_live, compose_local, compose_shuffled
from rase.accounting.plan_parts import Period, Request
from rase.domain import Precision, Range
from rase.errors import PrivacyRefused
from rase.laws.geometric import BudgetAware, Laplace
from rase.laws.randomizer import RangeRandomizer
from rase.shuffle.release import Manifest

__all__ = ["Detail", "periods_of"]

Detail = Literal["full", "quick", "live"]

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
        detail: How much is computed: see `rase.accounting.planner.plan`.

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
            central = request.schedule.hidden(
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
    # A window of one day is told as a day.
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
