"""The measurements behind the figures; each is a cell that can be cached and run anywhere.

Every function takes the panel and plain settings, and returns plain values. A change to this file
or to anything it measures makes cached cells stale; texts and pictures live elsewhere, so that a
better sentence costs no hour.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rase.counts.registry import estimator_named
from rase.domain import PAPER_PRECISION, Precision, Range
from rase.errors import DataError
from rase.kernels.words import SeededRandom
from rase.lab.accuracy import accuracy
from rase.lab.attacks import attack_named
from rase.lab.attacks.averaging import error_by_rounds
from rase.lab.attacks.forest import ForestAttack, ProfileAttack
from rase.lab.attacks.protocol import Attack
from rase.lab.attacks.runner import attack_scheme
from rase.lab.audit.catalogue import subjects_named
from rase.lab.audit.subject import audit_claims
from rase.lab.low_bits import (
    excluded_by_low_bits,
    excluded_by_table,
    insecure_float_laplace,
)
from rase.lab.panel import Panel
from rase.lab.poisoning import poison_rounds
from rase.lab.ranging import best_range, follow_feedback
from rase.lab.schemes import scheme_named
from rase.laws.geometric import BudgetAware
from rase.laws.optimal import Optimal
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import randomizer_named
from rase.shuffle.attacker import order_attack
from rase.shuffle.paper import Line9, paper_plan
from rase.shuffle.partition import Partition
from rase.shuffle.robust import Robust

__all__ = ["MEASURES", "Measured", "chosen_devices", "run_measurement"]

Measured = dict[str, Any]
Floats = NDArray[np.float64]

_DAY_MS = 86_400_000


def run_measurement(panel: Panel, measure: str, settings: Mapping[str, Any]) -> Measured:
    """Run one measurement.

    Args:
        panel: The readings.
        measure: A name in `MEASURES`.
        settings: Its arguments.
    """
    return MEASURES[measure](panel, **settings)


def attack(
    panel: Panel,
    *,
    n: int,
    scheme: str,
    attack: str,
    epsilon: float,
    high: float,
    alpha: float,
    groups: int,
    seed: int,
    split: str = "random",
    arrival: str = "fixed",
    trees: int = 50,
) -> Measured:
    """Attack one scheme once, with ``n`` of the devices."""
    some = panel.of_devices(chosen_devices(panel, n, seed))
    sanitised = scheme_named(
        scheme, Range(0, high), epsilon=epsilon, alpha=alpha, group_count=min(groups, n)
    )
    result = attack_scheme(
        some,
        sanitised,
        attacks=[_attack_with(attack, trees)],
        split=split,  # type: ignore[arg-type]  # checked there
        arrival=arrival,  # type: ignore[arg-type]  # checked there
        seed=seed,
    )[0]
    return {
        "precision": _plain(result.precision),
        "recall": _plain(result.recall),
        "macro_precision": result.macro_precision.value,
        "macro_precision_low": result.macro_precision.low,
        "macro_precision_high": result.macro_precision.high,
        "macro_recall": result.macro_recall.value,
        "macro_recall_low": result.macro_recall.low,
        "macro_recall_high": result.macro_recall.high,
        "chance": result.chance,
        "records": result.records,
        "confident": result.confident,
        "confident_right": result.confident_right,
    }


def mean_errors(
    panel: Panel,
    *,
    n: int,
    mechanism: str,
    epsilon: float,
    high: float,
    estimators: Sequence[str],
    rounds: int,
    seed: int,
) -> Measured:
    """Estimate the mean of many rounds, and return the error of each estimator.

    The truth is the mean of the readings as devices report them, clipped to the range.
    """
    some = panel.of_devices(chosen_devices(panel, n, seed))
    randomizer = randomizer_named(mechanism, epsilon, domain=Range(0, high))
    rng = SeededRandom(seed)
    errors: dict[str, list[float]] = {name: [] for name in estimators}
    largest: list[float] = []
    for number in _spread(some.rounds, rounds):
        row = some.values[number]
        readings = np.clip(row[~np.isnan(row)], 0, high)
        if not readings.size:
            continue
        reports = randomizer.randomize(readings, rng=rng)
        largest.append(float(np.square(reports - readings).max()))
        for name in estimators:
            estimate = estimator_named(name)(reports, randomizer=randomizer, rng=rng)
            errors[name].append(estimate.value - float(readings.mean()))
    if not largest:
        raise DataError("the rounds must hold readings of the chosen devices, got none.")
    return {
        "errors": {name: _summary(np.array(gaps)) for name, gaps in errors.items()},
        "record_square": {
            "mean": float(np.mean(largest)),
            "low": min(largest),
            "high": max(largest),
        },
        "rounds": len(largest),
    }


def trace(
    panel: Panel,
    *,
    n: int,
    epsilon: float,
    high: float,
    estimators: Sequence[str],
    days: int,
    seed: int,
) -> Measured:
    """Estimate every round of the first days, and average by day: Fig. 9."""
    some = panel.of_devices(chosen_devices(panel, n, seed))
    randomizer = BudgetAware(epsilon, Range(0, high), PAPER_PRECISION)
    rng = SeededRandom(seed)
    day_of = np.unique(some.times_ms // _DAY_MS, return_inverse=True)[1]
    by_day: dict[str, list[float]] = {name: [] for name in ("truth", *estimators)}
    wrong: list[float] = []
    for day in range(min(days, int(day_of.max()) + 1)):
        values: dict[str, list[float]] = {name: [] for name in by_day}
        variance = 0.0
        for row in some.values[day_of == day]:
            readings = np.clip(row[~np.isnan(row)], 0, high)
            if not readings.size:
                continue
            values["truth"].append(float(readings.mean()))
            reports = randomizer.randomize(readings, rng=rng)
            for name in estimators:
                estimate = estimator_named(name)(reports, randomizer=randomizer, rng=rng)
                values[name].append(estimate.value)
                if name == "unbiased_mean":
                    variance += estimate.standard_error**2
        for name, of_day in values.items():
            by_day[name].append(float(np.mean(of_day)) if of_day else float("nan"))
        wrong.append(float(np.sqrt(variance)) / max(len(values["truth"]), 1))
    return {
        "days": {name: _plain(np.array(means)) for name, means in by_day.items()},
        "standard_error": wrong,
    }


def follow_mean(panel: Panel, *, n: int, epsilon: float, high: float, seed: int) -> Measured:
    """Follow the mean through all rounds, next to the paper's estimators and a constant."""
    some = panel.of_devices(chosen_devices(panel, n, seed))
    (found,) = accuracy(some, Range(0, high), epsilon=epsilon, seeds=(seed,))
    return {"rmse": dict(found.rmse), "bias": found.bias, "coverage": found.coverage}


def narrow_range(panel: Panel, *, n: int, epsilon: float, rounds: int, seed: int) -> Measured:
    """Begin with a range ten times too wide, and let feedback find a better one."""
    some = panel.of_devices(chosen_devices(panel, n, seed))
    best = best_range(some, epsilon=epsilon, rounds=rounds)
    start = best.widen(10, floor=0.0)
    found = follow_feedback(some, start, epsilon=epsilon, rounds=rounds, seed=seed)
    widths = [one / start.width for one in found.widths]
    return {"ratio": found.rmse / best.rmse, "widths": widths}


def watch_slots(
    panel: Panel,
    *,
    n: int,
    scheme: str,
    epsilon: float,
    high: float,
    rounds: Sequence[int],
    seed: int,
) -> Measured:
    """Watch slots for more and more rounds; return an observer's error about a device's mean."""
    complete = np.flatnonzero(~np.isnan(panel.values).any(axis=0))
    if not complete.size:
        raise DataError("watching needs a device with a reading in every round, got none.")
    some = panel.of_devices(complete)
    some = some.of_devices(chosen_devices(some, min(n, some.n), seed))
    sanitised = scheme_named(scheme, Range(0, high), epsilon=epsilon)
    error = error_by_rounds(some, sanitised, rounds=rounds, rng=SeededRandom(seed))
    means = np.clip(some.values, 0, high).mean(axis=0)
    return {"error": error.tolist(), "n": some.n, "spread_of_means": float(means.std())}


def order(panel: Panel, *, n: int, groups: int, alpha: float) -> Measured:
    """Return what Algorithm 2 does for n reports in ``groups``: as printed, and corrected."""
    del panel  # only numbers decide
    printed = paper_plan(
        np.arange(n),
        alpha=alpha,
        group_count=groups,
        partition=Partition.contiguous(n, 1),
        line9=Line9.RIGHT_FIRST_BY_USER,
    ).manifest
    # The paper's own argument for refinement: theta from the refined groups.
    width = -(-n // groups) - 1
    refined = width * (width + 1) / 2
    theta = alpha / refined if refined else float("inf")
    reached = order_attack(n, theta)
    corrected = Robust(alpha, groups).manifest_for(n)
    return {
        "branch": printed.method,
        "printed_stay": printed.stay_share,
        "theta": theta if np.isfinite(theta) else None,
        "stay": reached.stay_share,
        "success": reached.mean_success,
        "corrected": corrected.method,
        "corrected_success": corrected.exposed_slot_success,
    }


def variances(panel: Panel, *, mechanism: str, epsilon: float) -> Measured:
    """Return worst and mean variance of a decoded report, in squared widths of the range."""
    del panel  # only tables and formulas decide
    unit = Range(0, 1)
    # At any epsilon clamped: what BR is below its bound.
    randomizer: RangeRandomizer = (
        BudgetAware(epsilon, unit, Precision(beta=0, rho=0.9))
        if mechanism == "budget-aware"
        else randomizer_named(mechanism, epsilon, domain=unit)
    )
    spread = randomizer.variance(np.linspace(0, 1, 1025))
    found = {"worst": float(spread.max()), "mean": float(spread.mean())}
    if isinstance(randomizer, Optimal):
        found["lower_bound"] = randomizer.lower_bound()
    return found


def low_bits(
    panel: Panel, *, mechanism: str, epsilon: float, high: float, count: int, seed: int
) -> Measured:
    """Return in how many single reports of 0 the candidates 0 and ``high`` are excluded."""
    del panel  # two candidates are enough
    if mechanism == "float laplace":
        scale = high / epsilon
        drawn = insecure_float_laplace(0.0, scale, count=count, seed=seed).tolist()
        return {
            "right": excluded_by_low_bits(drawn, 0.0, scale),
            "wrong": excluded_by_low_bits(drawn, high, scale),
        }
    # A coarse grid, because whole tables are looked at.
    randomizer = randomizer_named(mechanism, epsilon, domain=Range(0, high, steps=256))
    reports = randomizer.randomize(np.zeros(count), rng=SeededRandom(seed)).tolist()
    return {
        "right": excluded_by_table(randomizer, reports, 0.0),
        "wrong": excluded_by_table(randomizer, reports, high),
    }


def poisoning(
    panel: Panel,
    *,
    mechanism: str,
    epsilon: float,
    high: float,
    n: int,
    liars: int,
    rounds: int,
    window: int,
    estimators: Sequence[str],
    seed: int,
) -> Measured:
    """Return how far liars move each estimator in a fleet of a given size."""
    draw = np.random.default_rng(seed)
    # A larger fleet with the readings of this one: each device is one of the panel's in a round.
    known = panel.values[_spread(panel.rounds, rounds)]
    rows = [row[~np.isnan(row)] for row in known]
    readings = np.array([draw.choice(np.clip(row, 0, high), n) for row in rows if row.size])
    randomizer = randomizer_named(mechanism, epsilon, domain=Range(0, high))
    found = poison_rounds(
        readings, randomizer, liars=liars, estimators=estimators, window=window, seed=seed
    )
    return {name: asdict(one) for name, one in found.items()}


def audit(panel: Panel, *, subject: str, samples: int, confidence: float, seed: int) -> Measured:
    """Audit one claim."""
    del panel  # claims hold for all readings
    chosen = [one for one in subjects_named([subject]) if one.name == subject]
    (found,) = audit_claims(chosen, samples=samples, rng=SeededRandom(seed), confidence=confidence)
    return {**found.as_row(), "seconds": None}


def chosen_devices(panel: Panel, n: int, seed: int) -> NDArray[np.int64]:
    """Choose n devices by the seed, in the panel's own sequence.

    Raises:
        DataError: If there are fewer.
    """
    if n > panel.n:
        raise DataError(f"the panel must hold at least {n} devices, got {panel.n}.")
    if n == panel.n:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).permutation(panel.n)[:n])


def _attack_with(name: str, trees: int) -> Attack:
    found = attack_named(name)
    return replace(found, trees=trees) if isinstance(found, ForestAttack | ProfileAttack) else found


def _spread(available: int, wanted: int) -> list[int]:
    """Choose evenly spaced rounds."""
    places = np.linspace(0, available - 1, min(wanted, available)).round()
    return [int(place) for place in np.unique(places)]


def _summary(errors: Floats) -> dict[str, float]:
    size = np.abs(errors)
    return {
        "aae": float(size.mean()),
        "aae_low": float(size.min()),
        "aae_high": float(size.max()),
        "bias": float(errors.mean()),
        "bias_error": float(errors.std() / np.sqrt(errors.size)),
        "spread": float(errors.std()),
        "rmse": float(np.sqrt(np.square(errors).mean())),
        "largest_square": float(np.square(errors).max()),
    }


def _plain(values: Floats) -> list[float | None]:
    """Return numbers that JSON can represent; null for missing ones."""
    return [None if np.isnan(value) else float(value) for value in values.tolist()]


MEASURES: Mapping[str, Callable[..., Measured]] = {
    "attack": attack,
    "mean_errors": mean_errors,
    "trace": trace,
    "followed": follow_mean,
    "ranged": narrow_range,
    "watched": watch_slots,
    "order": order,
    "variances": variances,
    "low_bits": low_bits,
    "poisoning": poisoning,
    "audit": audit,
}
