"""What a run says: its results as rows, its errors against the truth, and the words beside them."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from rase.cli.arguments import RunOptions
from rase.cli.output import Row
from rase.engine.score import ErrorTally, WindowResult
from rase.engine.tally import RunSummary
from rase.estimate.estimate import Estimate
from rase.estimate.skill import SkillTally
from rase.estimate.verdict import VerdictTally, verdict_in_words
from rase.pipeline import Pipeline, RoundResult
from rase.privacy import percent
from rase.randomize.choice import best_mechanism
from rase.shuffle.shufflers import Manifest
from rase.stream import ValueRange

__all__ = ["RunReport", "decimals_for", "utc"]


class RunReport:
    """Turn the results of a run into rows, and keep what the closing words need.

    Args:
        options: What was asked.
        pipeline: What was done.
    """

    def __init__(self, options: RunOptions, pipeline: Pipeline) -> None:
        self._options = options
        self._pipeline = pipeline
        self._window = options.window_rounds
        self._errors: dict[tuple[int, str], ErrorTally] = {}
        self._skills: dict[str, SkillTally] = {}
        self._trial = 0
        self._compared = VerdictTally()
        self._shuffles: dict[str, int] = {}
        self._manifests: dict[str, Manifest] = {}

    @property
    def widths(self) -> dict[str, int]:
        """The columns people see, and how wide they are."""
        longest = max(map(len, self._pipeline.estimators))
        columns = {"trial": 5} if self._options.trials > 1 else {}
        columns |= {"start": 20}
        columns |= {"window": 6, "rounds": 6} if self._window else {}
        # A window of auto may average unbiased means instead, which may lie outside the range.
        name = "method" if self._window else "estimator"
        longest = max(longest, len("unbiased_mean")) if self._window else longest
        columns |= {name: max(longest, 9), "estimate": 10, "standard_error": 14}
        columns |= {"low": 10, "high": 10, "n": 6, "shuffle": 7}
        return columns | ({"truth": 10, "error": 10} if self._options.truth else {})

    @property
    def head(self) -> dict[str, Any]:
        """The members of a JSON document that come before the results."""
        asked = asdict(self._options)
        for name in ("graph", "epsilons"):
            asked[name] = None if asked[name] is None else str(asked[name])
        asked["window"] = self._window
        if self._options.mechanism == "budget-aware":
            asked |= asdict(self._options.precision)
        asked["drawn_mechanism"] = self._drawn
        return {"schema": "rase.run/1", "parameters": asked}

    def rows(
        self, result: RoundResult, window: WindowResult | None, *, trial: int
    ) -> Iterator[Row]:
        """Yield one row for each estimator of a round, and of the window that ends with it."""
        if trial != self._trial:
            # Each trial learns its own history; the last one is told.
            self._trial, self._skills, self._compared = trial, {}, VerdictTally()
        if result.alone is not None:
            self._compared.add((result.start_ms or 0) / 1000, result.alone)
        manifest = result.manifest
        self._shuffles[manifest.method] = self._shuffles.get(manifest.method, 0) + 1
        self._manifests.setdefault(manifest.method, manifest)
        self._score(result)
        for name, estimate in result.estimates.items():
            yield self._row(
                estimate,
                name,
                1,
                trial=trial,
                start_ms=result.start_ms,
                of=(manifest, result.truth),
            )
        if window is not None and self._window:
            for name, estimate in window.estimates.items():
                yield self._row(
                    estimate,
                    name,
                    self._window,
                    trial=trial,
                    start_ms=window.start_ms,
                    of=(manifest, window.truth),
                )

    def _score(self, result: RoundResult) -> None:
        if result.truth is None or result.alone is None:
            return
        public = self._pipeline.randomizer.value_range
        for name, estimate in result.estimates.items():
            tally = self._skills.setdefault(name, SkillTally(public))
            tally.add(estimate, alone=result.alone, truth=result.truth)

    def _row(
        self,
        estimate: Estimate,
        name: str,
        rounds: int,
        *,
        trial: int,
        start_ms: int | None,
        of: tuple[Manifest, float | None],
    ) -> Row:
        manifest, truth = of
        low, high = estimate.interval(self._options.level)
        row: dict[str, Any] = {
            "trial": trial,
            "start": utc(start_ms or 0),
            "window": rounds,
            "rounds": estimate.rounds,
            "of_rounds": estimate.of_rounds,
            "estimator": name,
            "method": estimate.method,
            "estimate": estimate.value,
            "standard_error": estimate.standard_error,
            "low": low,
            "high": high,
            "n": estimate.n,
            "shuffle": manifest.method,
            "alpha": float(manifest.alpha),
            "real_loss": float(manifest.real_loss),
            "attacker_success": manifest.attacker_success,
            "exposed_slot_success": manifest.exposed_slot_success,
            "chance": manifest.chance,
        }
        if truth is not None:
            row |= {"truth": truth, "error": estimate.value - truth}
            self._errors.setdefault((rounds, name), ErrorTally()).add(estimate, truth)
        return row

    def tail(self, summary: RunSummary) -> dict[str, Any]:
        """The members of a JSON document that come after the results."""
        shuffles = [
            {"method": method, "rounds": rounds, "reason": self._manifests[method].reason}
            for method, rounds in self._shuffles.items()
        ]
        tail = {
            "guarantee": str(self._pipeline.randomizer.guarantee),
            "publish_once": _publish_once(summary),
            "shuffles": shuffles,
            "summary": asdict(summary),
            "verdict": self._verdict(),
        }
        if self._errors:
            tail["errors"] = [
                {
                    "estimator": name,
                    "window": rounds,
                    "count": tally.count,
                    "rmse": tally.rmse,
                    "bias": tally.bias,
                    "mean_absolute_error": tally.mean_absolute,
                    "predicted_rmse": tally.predicted,
                    **self._skill_fields(name, rounds),
                }
                for (rounds, name), tally in self._errors.items()
            ]
        return tail

    @property
    def _drawn(self) -> str:
        """The name of the mechanism that ``auto`` stands for, or the one asked for."""
        if self._options.mechanism != "auto":
            return self._options.mechanism
        return best_mechanism(self._pipeline.randomizer.epsilon)

    def _verdict(self) -> str | None:
        """Return whether the rounds differ by more than noise; None without unbiased means."""
        if not self._compared.count:
            return None
        return verdict_in_words(
            self._compared.verdict(),
            known=self._compared.count,
            # Errors of feedback hold what clipping adds, and its range is chosen already.
            has_advice=not self._options.feedback,
        )

    def _skill_fields(self, name: str, rounds: int) -> dict[str, float | None]:
        tally = self._skills.get(name)
        if rounds > 1 or tally is None or not tally.count or not tally.rmse:
            return {}
        return {
            "noise": tally.noise,
            "coverage": tally.coverage,
            "history_rmse": tally.history,
            "last_rmse": tally.last,
            "skill": tally.skill,
            "skill_against_last": tally.skill_against_last,
        }

    def _classes(self) -> Iterator[str]:
        """Yield what devices with budgets of their own should know."""
        epsilon = self._pipeline.randomizer.epsilon
        if not isinstance(epsilon, tuple):
            return
        listed = ", ".join(
            f"epsilon {budget:g}: {_count(count, 'device')}"
            for budget, count in sorted(Counter(epsilon).items())
        )
        yield (
            f"classes   {listed}. A report shows its class, so it hides among those of its class; "
            "auto combines the classes by inverse variance."
        )

    def words(self, summary: RunSummary) -> Iterator[str]:
        """Yield the lines that are told at the end of a run."""
        public = self._pipeline.randomizer.value_range
        yield (
            f"read      {_count(summary.rows, 'row')} of {_count(summary.devices, 'device')}, "
            f"{summary.nulls} empty; {_count(summary.rounds, 'round')}."
        )
        is_chosen = self._options.mechanism == "auto"
        why = ", chosen as the best for a mean at this epsilon" if is_chosen else ""
        yield f"noise     {self._drawn}{why}."
        yield f"privacy   {self._pipeline.randomizer.guarantee}"
        yield from self._classes()
        yield (
            f"budget    a device sent up to {_count(summary.most_reports, 'report')}: together "
            f"epsilon {summary.most_epsilon:g} over the whole run."
        )
        yield f"publish   {_publish_once(summary)}"
        for method, rounds in self._shuffles.items():
            manifest = self._manifests[method]
            yield f"shuffle   {method} in {_count(rounds, 'round')}: {manifest.reason}"
            yield f"          {manifest.guarantee}"
        if summary.clipped:
            share = percent(summary.clipped / summary.reports)
            outside = f"{public.low:g} to {public.high:g}"
            so = "the estimates are of clipped readings. A wider --range clips less and adds noise."
            if self._options.feedback:
                outside = "the range of their round"
                so = "the errors of auto and unbiased_mean hold what that adds."
            yield (
                f"clipped   {_count(summary.clipped, 'reading')} ({share}) outside "
                f"{outside}, moved to its nearest end before noise; {so}"
            )
        decimals = decimals_for(public)
        if summary.duplicates:
            yield (
                f"repeated  {_count(summary.duplicates, 'row')} held a time of their device again "
                "and were left out; the first row of a time counts."
            )
        if summary.bad_files:
            yield f"skipped   {_count(summary.bad_files, 'damaged part')} of the table."
        for (rounds, name), tally in self._errors.items():
            over = "per round" if rounds == 1 else f"per window of {rounds}"
            yield (
                f"error     {name} {over}: RMSE {tally.rmse:.{decimals}f}, "
                f"bias {tally.bias:+.{decimals}f}, "
                f"noise {math.sqrt(max(tally.rmse**2 - tally.bias**2, 0.0)):.{decimals}f}, "
                f"mean |error| {tally.mean_absolute:.{decimals}f} "
                f"(predicted {tally.predicted:.{decimals}f})."
            )
        for name in self._skills:
            told = self._skill_fields(name, 1)
            if told:
                verdict = "worth more than" if (told["skill"] or 0) > 1 else "no better than"
                yield (
                    f"skill     {name} {told['skill']:.2f} against the mean of earlier rounds "
                    f"(RMSE {told['history_rmse']:.{decimals}f}), {told['skill_against_last']:.2f} "
                    f"against the round before: {verdict} a constant."
                )
        judged = self._verdict()
        if judged is not None:
            yield f"verdict   {judged}."


def decimals_for(public: ValueRange) -> int:
    """Return how many decimals tell readings of a range to about one part in ten thousand."""
    return min(max(4 - math.ceil(math.log10(public.width)), 0), 12)


def utc(time_ms: int) -> str:
    """Return a time as ISO text with its zone."""
    moment = np.datetime64(time_ms, "ms")
    unit: Any = "s" if time_ms % 1000 == 0 else "ms"
    return f"{np.datetime_as_string(moment, unit=unit)}Z"


def _publish_once(summary: RunSummary) -> str:
    """Return what a second run of the same table would cost; no ledger counts it."""
    return (
        "Publish one run of these readings only: each draws noise of its own, and whoever sees two "
        f"has epsilon {2 * summary.most_epsilon:g} instead of {summary.most_epsilon:g} about a "
        "device."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
