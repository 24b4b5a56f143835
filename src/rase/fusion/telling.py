"""From rows of rounds and estimates to answers, each with its error and its guarantee."""

import math
from dataclasses import replace
from typing import Any, Final, NamedTuple

from rase.campaign import ESTIMATORS, Campaign
from rase.clock import round_start_s, time_in_words
from rase.estimate.estimate import Estimate
from rase.estimate.verdict import Verdict, verdict_in_words, verdicts
from rase.fusion.answers import Answer, known
from rase.fusion.campaigns import campaign_of_version
from rase.fusion.refusals import BAD_QUESTION, Refused
from rase.privacy import LocalDP
from rase.storage.face import Row, Transaction

__all__ = [
    "OF_READINGS",
    "Teller",
    "Told",
    "check_method",
    "gap",
    "one_of",
    "window_epsilon",
    "windowed",
]

_COLUMNS = "mean, standard_error, n, method, target, degrees_of_freedom"
# How many rounds a verdict looks back at: a week of hours.
_LOOKED_AT: Final = 168
# These estimate the mean of readings, which lies within the range; others speak of the reports.
OF_READINGS: Final = ("auto", "unbiased_mean", "winsorized_mean", "combined_mean")


class Told(NamedTuple):
    """An answer about one round, the estimate it was made of, and what the round says by itself."""

    answer: Answer
    estimate: Estimate | None
    alone: Estimate | None
    judged: "Judged | None"


class Judged(NamedTuple):
    """What rounds up to one say of their differences, and how many of them were looked at."""

    verdict: Verdict | None
    rounds: int

    def words(self, unit: str, estimate: Estimate) -> str:
        """Return the verdict beside an estimate."""
        return verdict_in_words(self.verdict, known=self.rounds, unit=unit, of=[estimate])


class Teller:
    """Turn rows of rounds into answers; it looks each version of the campaign up once."""

    def __init__(self, transaction: Transaction, campaign_id: str) -> None:
        self._transaction = transaction
        self._id = campaign_id
        self._versions: dict[int, Campaign] = {}

    def tell(self, rows: list[Row], method: str | None) -> list[Told]:
        """Return an answer for each round and each estimator asked for, in their order."""
        if not rows:
            return []
        found = self._transaction.execute(
            f"SELECT round, {_COLUMNS} FROM estimates WHERE campaign = ? "  # noqa: S608
            "AND round >= ? AND round <= ?",
            (self._id, rows[0][0], rows[-1][0]),
        )
        estimates = {(row[0], row[4]): _estimate(row[1:]) for row in found}
        judged = self._judged(rows)
        told = []
        for row in rows:
            campaign = self._version(row[1])
            methods = [method] if method in _kept(campaign) else []
            if method is None:
                methods = [campaign.estimators[0]]
            elif method == "all":
                methods = list(campaign.estimators)
            # A round whose version did not have the estimator says nothing about it.
            told += [
                self._one(row, campaign, name, estimates, judged.get(row[0])) for name in methods
            ]
        return told

    def _one(
        self,
        row: Row,
        campaign: Campaign,
        method: str,
        estimates: dict[tuple[int, str], Estimate],
        judged: Judged | None,
    ) -> Told:
        round, _, _, shuffle = row
        estimate = _bounded(estimates.get((round, method)), campaign)
        alone = estimate
        if method == "auto":
            alone = _bounded(estimates.get((round, "unbiased_mean")), campaign)
        answer = Answer(
            campaign=campaign.id,
            time=time_in_words(round_start_s(round, campaign.round_s)),
            round=round,
            epsilon=campaign.epsilon[-1],
            unit=campaign.unit,
            guarantee=str(LocalDP(campaign.epsilon[-1])),
            shuffle=shuffle,
            verdict=judged.words(campaign.unit, estimate) if judged and estimate else None,
            **_numbers(estimate, method),
        )
        return Told(answer, estimate, alone, judged)

    def _judged(self, rows: list[Row]) -> dict[int, Judged]:
        """Compare each of some rounds with those before it; rounds without a mean are left out."""
        what = (
            "SELECT round, mean, standard_error, n FROM estimates WHERE campaign = ? AND "
            "method = 'unbiased_mean' AND standard_error > 0 AND "
        )
        first, last = rows[0][0], rows[-1][0]
        before = self._transaction.execute(
            f"{what} round < ? ORDER BY round DESC LIMIT ?", (self._id, first, _LOOKED_AT - 1)
        )
        asked = self._transaction.execute(
            f"{what} round >= ? AND round <= ? ORDER BY round", (self._id, first, last)
        )
        known = [*reversed(before), *asked]
        means = [
            Estimate(mean, error, n=n, method="unbiased_mean", target="mean of the readings")
            for _, mean, error, n in known
        ]
        round_s = self._version(rows[0][1]).round_s
        times_s = [float(round_start_s(row[0], round_s)) for row in known]
        found = verdicts(times_s, means, last=_LOOKED_AT)
        return {
            row[0]: Judged(one, min(place + 1, _LOOKED_AT))
            for place, (row, one) in enumerate(zip(known, found, strict=True))
        }

    def _version(self, number: int) -> Campaign:
        if number not in self._versions:
            self._versions[number] = campaign_of_version(self._transaction, self._id, number)
        return self._versions[number]


def _kept(campaign: Campaign) -> tuple[str, ...]:
    """Return the estimators whose numbers are kept: with `auto` always the unbiased mean too."""
    return (*campaign.estimators, *(["unbiased_mean"] if "auto" in campaign.estimators else []))


def _numbers(estimate: Estimate | None, method: str) -> dict[str, Any]:
    if estimate is None:
        return {"status": "too_few", "method": method, "rounds": 0}
    # Where the error is not known the bounds of the range are no interval.
    is_known = math.isfinite(estimate.standard_error)
    low, high = estimate.interval() if is_known else (math.nan, math.nan)
    return {
        "status": "ok",
        "mean": estimate.value,
        "standard_error": known(estimate.standard_error),
        "ci_low": known(low),
        "ci_high": known(high),
        "n": estimate.n,
        "rounds": estimate.rounds,
        "method": method,
        "target": estimate.target,
    }


def gap(campaign: Campaign, round: int, method: str | None) -> Answer:
    """Return the answer about a round of which no estimate is here."""
    return Answer(
        campaign=campaign.id,
        time=time_in_words(round_start_s(round, campaign.round_s)),
        round=round,
        rounds=0,
        status="gap",
        epsilon=campaign.epsilon[-1],
        method=one_of(campaign, method) or campaign.estimators[0],
        unit=campaign.unit,
        guarantee=str(LocalDP(campaign.epsilon[-1])),
        shuffle="no estimate of this round is here",
    )


def windowed(
    campaign: Campaign,
    t: int,
    mean: Estimate | None,
    rounds: list[Told | None],
    method: str | None,
) -> Answer:
    """Return the answer about a window that ends with round t, from those about its rounds."""
    there = [one.answer for one in rounds if one is not None]
    judged = [one.judged for one in rounds if one is not None and one.judged is not None]
    if len(rounds) == 1:
        return there[0] if there else gap(campaign, t, method)
    numbers = _numbers(mean, one_of(campaign, method) or campaign.estimators[0])
    numbers["rounds"] = sum(one.status == "ok" for one in there)
    if mean is not None:
        numbers["method"] = mean.method
    elif len(there) == len(rounds) or any(one.status == "too_few" for one in there):
        numbers["status"] = "too_few"
    else:
        numbers["status"] = "gap"
    spent = window_epsilon(campaign, len(rounds), [one.epsilon for one in there])
    promise = LocalDP(spent)
    return Answer(
        campaign=campaign.id,
        time=time_in_words(round_start_s(t, campaign.round_s)),
        round=t,
        w=len(rounds),
        of_rounds=len(rounds),
        verdict=judged[-1].words(campaign.unit, mean) if judged and mean else None,
        epsilon=spent,
        unit=campaign.unit,
        guarantee=(
            f"{spent:g}-LDP for all reports of a device in {len(rounds)} rounds: {promise.odds}."
        ),
        shuffle="; ".join(dict.fromkeys(one.shuffle for one in there)),
        **numbers,
    )


def window_epsilon(campaign: Campaign, w: int, epsilons: list[float]) -> float:
    """Return the most a device spends in w rounds: its reports add up, its ledger sets a limit.

    Each release holds one report of a device at most; what was carried into the first of the
    rounds belongs to rounds before.
    """
    per_report = max(epsilons, default=campaign.epsilon[-1])
    windows = math.ceil((w + campaign.carry_rounds) / campaign.window)
    return min(w * per_report, windows * campaign.window_budget)


def check_method(campaign: Campaign, method: str | None) -> None:
    """Refuse an estimator that there is not.

    Raises:
        Refused: Naming those that there are.
    """
    if method not in (None, "all", *ESTIMATORS):
        raise Refused(
            BAD_QUESTION, f"method must be one of {', '.join(campaign.estimators)}, or all."
        )


def one_of(campaign: Campaign, method: str | None) -> str | None:
    """Return the one estimator of answers that cannot hold all."""
    return campaign.estimators[0] if method == "all" else method


def _bounded(estimate: Estimate | None, campaign: Campaign) -> Estimate | None:
    """Return an estimate with the bounds that the range of its round sets."""
    if estimate is None or estimate.method not in OF_READINGS:
        return estimate
    return replace(estimate, lowest=campaign.low, highest=campaign.high)


def _estimate(row: Row) -> Estimate:
    value, error, n, method, target, degrees = row
    return Estimate(
        value,
        math.inf if error is None else error,
        n=n,
        method=method,
        target=target,
        degrees_of_freedom=math.inf if degrees is None else degrees,
    )
