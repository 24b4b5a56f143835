"""What a run says: its results as rows, its errors against the truth, and the words with them."""

import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rase.cli.output import Row, decimals_for
from rase.counts.estimate import Estimate
from rase.counts.registry import TRACKED
from rase.domain import Categories, Domain, Range
from rase.privacy import percent
from rase.promise import Claim
from rase.series.answers import row_of
from rase.series.rounds import RoundResult
from rase.series.score import ErrorTally, WindowResult
from rase.series.skill import SkillTally
from rase.series.verdict import WAYS, Verdict, VerdictTally, verdict_in_words
from rase.shuffle.release import Manifest
from rase.tables.feedback import RangeFeedback
from rase.tables.plan import RunPlan
from rase.tables.summary import RunSummary
from rase.theme.promises import in_words

if TYPE_CHECKING:
    from rase.accounting.plan.showing import Ways
    from rase.cli.run_options import RunOptions
    from rase.tables.run import TableRun

__all__ = ["RunReport", "plural", "publish_once", "utc"]

_ALWAYS = ("classes", "clipped", "continued", "repeated", "skipped", "error", "skill", "range")


class RunReport:
    """Turn the results of a run into rows, and keep what the closing words need.

    Args:
        options: What was asked.
        plan: What is done.
        devices: How many devices have each budget, where they differ in it.
        quantity: Which of several quantities it is; None where there is one.
    """

    def __init__(
        self,
        options: "RunOptions",
        plan: RunPlan,
        devices: Counter[float] | None = None,
        *,
        quantity: str | None = None,
    ) -> None:
        self.options, self.plan, self._quantity = options, plan, quantity
        # The mechanism that was asked for, or that auto stands for.
        self._drawn = plan.randomizer.name if options.mechanism == "auto" else options.mechanism
        self._devices = devices
        self._epsilon = plan.randomizer.budgets[-1]
        self._errors: dict[tuple[int, str], ErrorTally] = {}
        self._skills: dict[str, SkillTally] = {}
        self._trial = 0
        self._compared = VerdictTally()
        self._shuffles: dict[str, int] = {}
        # That of the smallest round of each method.
        self._manifests: dict[str, Manifest] = {}
        # That of the last round, which most rounds share.
        self._manifest: Manifest | None = None
        self._shuffle: dict[str, Any] = {}
        self._is_share = isinstance(plan.randomizer.domain, Categories)
        self._claims: dict[int, Claim] = {}
        # Of rounds of tracked, how many there were and how many later ones helped.
        self._looked_back = [0, 0]
        self._closing = _ClosingTally(plan.randomizer.domain, options.level)

    @property
    def widths(self) -> dict[str, int]:
        """The columns people see, and how wide they are."""
        columns = {"trial": 5} if self.options.trials > 1 else {}
        columns |= {"time": 20}
        if self.plan.labels is not None:
            columns |= {"label": max(5, *map(len, self.plan.labels.names))}
        columns |= {"rounds": 6, "of_rounds": 9} if self.plan.window else {}
        # A window of tracked rounds may average unbiased means instead.
        names = [*self.plan.estimators, *(["unbiased_mean"] if self.plan.window else [])]
        domain = self.plan.randomizer.domain
        if isinstance(domain, Categories):
            columns |= {"category": max(8, *map(len, domain.names))}
        else:
            columns |= {"method": max(9, *map(len, names))}
        columns |= {"value": 10, "standard_error": 14}
        columns |= {"low": 10, "high": 10, "n": 6}
        return columns | ({"truth": 10, "error": 10} if self.options.truth else {})

    @property
    def head(self) -> dict[str, Any]:
        """The members of a JSON document that come before the results."""
        asked = asdict(self.options)
        for name in ("graph", "epsilons"):
            asked[name] = None if asked[name] is None else str(asked[name])
        asked["window"] = self.plan.window
        for name in ("as_known_then", "timezone", "categories", "above", "label"):
            if asked[name] in (None, False):
                del asked[name]
        if self.options.mechanism == "budget-aware":
            asked |= asdict(self.options.precision)
        asked["drawn_mechanism"] = self._drawn
        return {"schema": "rase.run/2", "parameters": asked}

    def rows(
        self, result: RoundResult, window: WindowResult | None, *, trial: int
    ) -> Iterator[Row]:
        """Yield one row for each estimator of a round, and of the window that ends with it."""
        if trial != self._trial:
            # Each trial learns its own history; that of the last is reported.
            self._trial, self._skills, self._compared = trial, {}, VerdictTally()
            self._closing = _ClosingTally(self.plan.randomizer.domain, self.options.level)
            self._looked_back = [0, 0]
        if TRACKED in result.estimates and result.label is None:
            self._looked_back[0] += 1
            self._looked_back[1] += result.known_then is not None
        if result.label is None:
            self._closing.add(result)
        if result.alone is not None and result.label is None:
            self._compared.add((result.start_ms or 0) / 1000, result.alone)
        if result.alone is not None and result.truth is not None:
            self._score(result, alone=result.alone, truth=result.truth)
        manifest = result.manifest
        rounds_of = self._shuffles.get(manifest.method, 0)
        self._shuffles[manifest.method] = rounds_of + (result.label is None)
        if manifest.n <= self._manifests.get(manifest.method, manifest).n:
            self._manifests[manifest.method] = manifest
        interval_ms, epsilon, is_share = self.plan.interval_ms, self._epsilon, self._is_share
        if manifest is not self._manifest:
            self._manifest, self._shuffle = manifest, _shuffle_fields(manifest)
        for over in (result,) if window is None else (result, window):
            start = over.start_ms or 0
            for name, estimate in over.estimates.items():
                rounds = estimate.of_rounds
                row = row_of(
                    estimate,
                    level=self.options.level,
                    time=utc(start),
                    until="" if interval_ms is None else utc(start + rounds * interval_ms),
                    round=result.round or 0,
                    # Each round holds one report of a device at most.
                    local_epsilon=rounds * epsilon,
                    category=name if is_share else None,
                    label=result.label,
                    quantity=self._quantity,
                    **({} if self.plan.promise is None else self._shuffled_claim(rounds)),
                )
                row["trial"], row["estimator"] = trial, estimate.method if is_share else name
                row |= self._shuffle
                if over.truth is not None:
                    row |= {"truth": over.truth, "error": estimate.value - over.truth}
                    tally = self._errors.setdefault((rounds, name), ErrorTally())
                    tally.add(estimate, over.truth)
                yield row

    def claim(self, reports: int) -> Claim | None:
        """Return what so many reports of a device give away; None if nothing is promised."""
        promise = self.plan.promise
        if promise is None or not reports:
            return None
        if reports not in self._claims:
            (self._claims[reports],) = promise.claims(self.plan.randomizer, [reports])
        return self._claims[reports]

    def _shuffled_claim(self, rounds: int) -> dict[str, float]:
        claim = self.claim(rounds)
        if claim is None:
            return {}
        return {"shuffled_epsilon": claim.epsilon, "delta": claim.delta}

    def _score(self, result: RoundResult, *, alone: Estimate, truth: float) -> None:
        public = self.plan.numbers.domain
        # A constant learnt from earlier rounds is compared with what was known then, too.
        for name, estimate in result.as_known_then().estimates.items():
            tally = self._skills.setdefault(name, SkillTally(public))
            tally.add(estimate, alone=alone, truth=truth)

    def tail(self, summary: RunSummary, *, is_short: bool = False) -> dict[str, Any]:
        """The members of a JSON document that come after the results.

        Args:
            summary: What happened to readings.
            is_short: Whether nobody asks for more than the closing words: the verdict then names
                two of the ways in which more would show.
        """
        shuffles = [
            {"method": method, "rounds": rounds, "reason": self._manifests[method].reason}
            for method, rounds in self._shuffles.items()
        ]
        verdict, compared = None, self._compared.verdict()
        needed = None if is_short else self._find_ways(compared, summary)
        if self._compared.count:
            ways = WAYS if needed is None else needed.words()
            # Errors of feedback hold what clipping adds, and its range is chosen already.
            verdict = verdict_in_words(
                compared,
                known=self._compared.count,
                ways="" if self.options.feedback else ways,
            )
        spent = summary.most_epsilon
        tail: dict[str, Any] = {
            "guarantee": str(self.plan.randomizer.guarantee),
            "publish_once": publish_once(spent),
            "shuffles": shuffles,
            "summary": asdict(summary),
            "verdict": verdict,
        }
        if compared is not None:
            tail["compared"] = asdict(compared) | ({} if needed is None else asdict(needed))
        if self._looked_back[0] and self.plan.feedback is None and not self.plan.as_known_then:
            tail["looked_back"] = dict(zip(("rounds", "revised"), self._looked_back, strict=True))
        if self.plan.promise is not None:
            tail["promises"] = self._promises(summary)
            # What protects is judged by both promises where there are two.
            tail["guarantee"] = tail["promises"][0]
        together = self.claim(summary.most_reports)
        spans = f"together epsilon {spent:g}" if together is None else together.summary
        tail["closing"] = {
            "says": self._closing.says(verdict),
            "sure": self._closing.sure(summary.clipped / max(summary.reports, 1)),
            "promised": (
                f"{tail['guarantee']} A device sent up to "
                f"{plural(summary.most_reports, 'report')}: {spans}. Publish one run of these "
                "readings only."
            ),
        }
        if self._errors:
            tail["errors"] = [
                {
                    "estimator": name,
                    "of_rounds": rounds,
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

    def _find_ways(self, compared: Verdict | None, summary: RunSummary) -> "Ways | None":
        """Return what would show half of what shows; None where nothing can be advised."""
        from rase.accounting.plan.showing import Crowd, find_ways

        public = self.plan.randomizer.domain
        is_advised = compared is not None and not (compared.is_moving or self.options.feedback)
        if compared is None or not is_advised or not isinstance(public, Range):
            return None
        budgets, promise = self.plan.randomizer.budgets, self.plan.promise
        length_ms = self.plan.interval_ms
        return find_ways(
            public,
            mechanism=self._drawn,
            epsilon=budgets[0] if len(budgets) == 1 else None,
            devices=round(summary.reports / max(summary.rounds, 1)),
            rounds=compared.rounds,
            round_s=None if length_ms is None else length_ms / 1000,
            precision=self.options.precision,
            crowd=None
            if promise is None
            else Crowd(promise.k_min - promise.colluding, promise.delta),
        )

    def _promises(self, summary: RunSummary) -> list[str]:
        """Return what is promised of a round and of the whole run, and who could see what."""
        promise = self.plan.promise
        k_min, colluding = (0, 0) if promise is None else (promise.k_min, promise.colluding)
        found = [
            in_words(claim, span, colluding=colluding)
            for span, claim in (
                ("round", self.claim(1)),
                ("run", self.claim(summary.most_reports)),
            )
            if claim is not None and (span == "round" or summary.most_reports > 1)
        ]
        withheld = plural(summary.withheld, "round")
        return [
            *found,
            f"Rounds of fewer than {k_min} reports are withheld: {withheld}.",
            (
                "Whoever holds this table sees every reading, and this machine every report before "
                "it was shuffled. The promise towards the fusion centre is for those who see what "
                "is published; the other one is what would be left if devices sent such reports to "
                "two servers that work together."
            ),
        ]

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

    def words(
        self, run: "TableRun", tail: Mapping[str, Any], *, with_details: bool
    ) -> Iterator[str]:
        """Yield what is said before the three lines that close a run.

        Args:
            run: The run, at its end.
            tail: What `tail` returned of it.
            with_details: Whether to say more than what happened to readings and what studies ask.
        """
        for line in self._details(run, tail):
            if with_details or line.startswith(_ALWAYS):
                yield line

    def _details(self, run: "TableRun", tail: Mapping[str, Any]) -> Iterator[str]:
        public, summary = self.plan.randomizer.domain, run.summary
        empty = "empty" if self._quantity is None else "empty or not this one's turn"
        yield (
            f"read      {plural(summary.rows, 'row')} of {plural(summary.devices, 'device')}, "
            f"{summary.nulls} {empty}; {plural(summary.rounds, 'round')}."
        )
        is_chosen = self.options.mechanism == "auto"
        what = "shares" if isinstance(public, Categories) else "a mean"
        why = f", chosen as the best for {what} at this epsilon" if is_chosen else ""
        yield f"noise     {self._drawn}{why}."
        yield f"privacy   {tail['guarantee']}"
        shown = {tail["guarantee"]}
        yield from (f"promise   {line}" for line in tail.get("promises", ()) if line not in shown)
        if self._devices is not None:
            yield _classes_in_words(self._devices)
        yield (
            f"budget    a device sent up to {plural(summary.most_reports, 'report')}: together "
            f"epsilon {summary.most_epsilon:g} over the whole run."
        )
        yield f"publish   {tail['publish_once']}"
        for method, rounds in self._shuffles.items():
            manifest = self._manifests[method]
            yield f"shuffle   {method} in {plural(rounds, 'round')}: {manifest.reason}"
            fewest = f"the {manifest.n} or more reports of its round"
            is_blind = manifest.alpha == manifest.real_loss == 0
            said = f"Every order is equally likely: a report hides among {fewest}."
            yield f"          {said if is_blind else manifest.guarantee}"
        if summary.clipped and isinstance(public, Range):
            share = percent(summary.clipped / summary.reports)
            outside = f"{public.low:g} to {public.high:g}"
            so = "the estimates are of clipped readings. A wider --range clips less and adds noise."
            if self.options.feedback:
                outside = "the range of their round"
                so = "the errors of tracked and unbiased_mean hold what that adds."
            yield (
                f"clipped   {plural(summary.clipped, 'reading')} ({share}) outside "
                f"{outside}, moved to its nearest end before noise; {so}"
            )
        decimals = decimals_for(public)
        if summary.duplicates:
            whose, were = ("its", "was") if summary.duplicates == 1 else ("their", "were")
            yield (
                f"repeated  {plural(summary.duplicates, 'row')} held a time of {whose} device "
                f"again and {were} left out; the first row of a time counts."
            )
        if run.left_out:
            lie = "row lies" if run.left_out == 1 else "rows lie"
            yield f"continued {run.left_out} {lie} in rounds that were drawn before: left out."
        if summary.bad_files:
            yield f"skipped   {plural(summary.bad_files, 'damaged part')} of the table."
        for (rounds, name), tally in self._errors.items():
            over = "per round" if rounds == 1 else f"per window of {rounds}"
            yield (
                f"error     {name} {over}: RMSE {tally.rmse:.{decimals}f}, "
                f"bias {tally.bias:+.{decimals}f}, "
                f"noise {math.sqrt(max(tally.rmse**2 - tally.bias**2, 0.0)):.{decimals}f}, "
                f"mean |error| {tally.mean_absolute:.{decimals}f} "
                f"(predicted {tally.predicted:.{decimals}f})."
            )
        yield from self._over_time(tail)
        if run.feedback is not None:
            yield _range_in_words(run.feedback)
        if tail["verdict"] is not None:
            yield f"verdict   {tail['verdict']}."

    def _over_time(self, tail: Mapping[str, Any]) -> Iterator[str]:
        """Yield what earlier rounds were worth, and what later ones changed."""
        decimals = decimals_for(self.plan.randomizer.domain)
        for name in self._skills:
            found = self._skill_fields(name, 1)
            if found:
                then = " as known then" if name == TRACKED and self._looked_back[1] else ""
                verdict = "worth more than" if (found["skill"] or 0) > 1 else "no better than"
                yield (
                    f"skill     {name}{then} {found['skill']:.2f} against the mean of earlier "
                    f"rounds (RMSE {found['history_rmse']:.{decimals}f}), "
                    f"{found['skill_against_last']:.2f} against the round before: "
                    f"{verdict} a constant."
                )
        if "looked_back" in tail:
            rounds, revised = self._looked_back
            yield (
                f"later     {revised} of {plural(rounds, 'round')} of tracked were revised by "
                "what came later; in the others looking back is not better. --as-known-then leaves "
                "all."
            )


class _ClosingTally:
    """Keep what the closing words need of the rounds of one run.

    Args:
        public: The range of readings, or their categories.
        level: The coverage of intervals.
    """

    def __init__(self, public: Domain, level: float) -> None:
        self._is_share = isinstance(public, Categories)
        self._decimals, self._level = decimals_for(public), level
        self._rounds = 0
        self._sum = self._squares = self._reach = self._lost = 0.0
        self._known = 0
        self._last: RoundResult | None = None
        self._ends: tuple[tuple[float, int], tuple[float, int]] | None = None

    def add(self, result: RoundResult) -> None:
        """Take a round."""
        self._rounds, self._last = self._rounds + 1, result
        found = result.estimate
        low, high = found.interval(self._level)
        self._reach += (high - low) / 2
        here = (found.value, result.start_ms or 0)
        least, most = self._ends or (here, here)
        self._ends = (min(least, here), max(most, here))
        alone = result.alone
        if alone is not None and math.isfinite(alone.standard_error):
            self._known += 1
            self._sum += alone.value
            self._squares += alone.standard_error**2
            self._lost += alone.standard_error**4 / alone.degrees_of_freedom

    def says(self, verdict: str | None) -> str:
        """Return the mean of the whole table, its ends, and the verdict."""
        if self._ends is None:
            return "Nothing: every round was withheld."
        if self._is_share and self._last is not None:
            shares = ", ".join(
                f"{name} {self._with_interval(share)}"
                for name, share in self._last.estimates.items()
            )
            return f"The shares of the last of {plural(self._rounds, 'round')} are {shares}."
        (least, first), (most, last) = self._ends
        text = ""
        if self._rounds == 1 and self._last is not None:
            text = f"The mean is {self._with_interval(self._last.estimate)}"
        elif self._known == self._rounds and self._last is not None and self._last.alone:
            # Rounds have noise of their own, so that their variances add up.
            mean = replace(
                self._last.alone,
                value=self._sum / self._known,
                standard_error=math.sqrt(self._squares) / self._known,
                degrees_of_freedom=(
                    max(self._squares**2 / self._lost, 1.0) if self._lost else math.inf
                ),
            )
            text = f"The mean over the {self._rounds} rounds is {self._with_interval(mean)}"
        if self._rounds > 1:
            ends = (
                f"a round's lies between {self._as_text(least)} ({utc(first)}) and "
                f"{self._as_text(most)} ({utc(last)})"
            )
            text = f"{text}; {ends}" if text else f"{ends[0].upper()}{ends[1:]}"
        return f"{text}." if verdict is None else f"{text}. {verdict[0].upper()}{verdict[1:]}."

    def _with_interval(self, mean: Estimate) -> str:
        low, high = mean.interval(self._level)
        ends = f"{self._as_text(low)} to {self._as_text(high)}"
        return f"{self._as_text(mean.value)} ({100 * self._level:g} %: {ends})"

    def sure(self, clipped: float) -> str:
        """Return how far intervals reach, and what they are of."""
        if not self._rounds:
            return "There is no mean to be sure of."
        if math.isinf(self._reach):
            return "How far a round's mean may be off is not known: it has too few reports."
        level = f"{100 * self._level:g} %"
        sentence = (
            f"A round's {level} interval reaches ± {self._as_text(self._reach / self._rounds)} on "
            "average, by the noise that was added"
        )
        if not clipped:
            return f"{sentence}."
        return f"{sentence}, and is for readings clipped to the range: {percent(clipped)} were."

    def _as_text(self, number: float) -> str:
        return f"{number:.{self._decimals}f}"


def publish_once(spent: float) -> str:
    """Return what a second run of the same table would cost; no ledger counts it."""
    return (
        "Publish one run of these readings only: each draws noise of its own, and whoever "
        f"sees two has epsilon {2 * spent:g} instead of {spent:g} about a device."
    )


def _classes_in_words(devices: Counter[float]) -> str:
    """Return what devices with budgets of their own should know."""
    listed = ", ".join(
        f"epsilon {budget:g}: {plural(count, 'device')}"
        for budget, count in sorted(devices.items())
    )
    return (
        f"classes   {listed}. A report shows its class, so it hides among those of its class; "
        "tracked combines the classes by inverse variance."
    )


def _range_in_words(feedback: RangeFeedback) -> str:
    reach = feedback.domain
    found = f"range     {reach.low:g} to {reach.high:g} at the end"
    if feedback.outlook is None:
        return f"{found}; too few rounds to choose another."
    bias = feedback.outlook.clip_bias
    return f"{found}: clipping adds {bias.value:.3g} ± {bias.standard_error:.2g} to the mean."


def _shuffle_fields(manifest: Manifest) -> dict[str, Any]:
    """Return the columns about the order of a round."""
    return {
        "shuffle": manifest.method,
        "alpha": float(manifest.alpha),
        "real_loss": float(manifest.real_loss),
        "attacker_success": manifest.attacker_success,
        "exposed_slot_success": manifest.exposed_slot_success,
        "chance": manifest.chance,
    }


# Most rounds begin when the one before ends.
@functools.lru_cache(maxsize=64)
def utc(time_ms: int) -> str:
    """Return a time as ISO text with its zone."""
    day, of_day = divmod(time_ms, 86_400_000)
    seconds, rest = divmod(of_day, 1000)
    minutes, second = divmod(seconds, 60)
    fraction = f".{rest:03}" if rest else ""
    return f"{_date(day)}T{minutes // 60:02}:{minutes % 60:02}:{second:02}{fraction}Z"


@functools.lru_cache(maxsize=64)
def _date(day: int) -> str:
    return str(np.datetime_as_string(np.datetime64(day, "D")))


def plural(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
