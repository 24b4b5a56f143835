"""From rows of rounds and estimates to answers, each with its error and its guarantee."""

import math
from typing import Any, NamedTuple

from rase.campaign import ESTIMATORS, Campaign
from rase.clock import round_start_s, time_in_words
from rase.estimate.estimate import Estimate
from rase.fusion.answers import Answer, known
from rase.fusion.campaigns import campaign_of_version
from rase.fusion.refusals import BAD_QUESTION, Refused
from rase.privacy import LocalDP
from rase.storage.face import Row, Transaction

__all__ = ["Teller", "Told", "check_method", "gap", "one_of", "window_epsilon", "windowed"]

_COLUMNS = "mean, standard_error, n, method, target, degrees_of_freedom"


class Told(NamedTuple):
    """An answer about one round, the estimate it was made of, and what the round says by itself."""

    answer: Answer
    estimate: Estimate | None
    alone: Estimate | None


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
        told = []
        for row in rows:
            campaign = self._version(row[1])
            methods = [method] if method in _kept(campaign) else []
            if method is None:
                methods = [campaign.estimators[0]]
            elif method == "all":
                methods = list(campaign.estimators)
            # A round whose version did not have the estimator says nothing about it.
            told += [self._one(row, campaign, name, estimates) for name in methods]
        return told

    def _one(
        self,
        row: Row,
        campaign: Campaign,
        method: str,
        estimates: dict[tuple[int, str], Estimate],
    ) -> Told:
        round, _, _, shuffle = row
        estimate = estimates.get((round, method))
        alone = estimates.get((round, "unbiased_mean")) if method == "auto" else estimate
        answer = Answer(
            campaign=campaign.id,
            time=time_in_words(round_start_s(round, campaign.round_s)),
            round=round,
            epsilon=campaign.epsilon[-1],
            unit=campaign.unit,
            guarantee=str(LocalDP(campaign.epsilon[-1])),
            shuffle=shuffle,
            **_numbers(estimate, method),
        )
        return Told(answer, estimate, alone)

    def _version(self, number: int) -> Campaign:
        if number not in self._versions:
            self._versions[number] = campaign_of_version(self._transaction, self._id, number)
        return self._versions[number]


def _kept(campaign: Campaign) -> tuple[str, ...]:
    """Return the estimators whose numbers are kept: with `auto` always the unbiased mean too."""
    return (*campaign.estimators, *(["unbiased_mean"] if "auto" in campaign.estimators else []))


def _numbers(estimate: Estimate | None, method: str) -> dict[str, Any]:
    if estimate is None:
        return {"status": "too_few", "method": method}
    low, high = estimate.interval()
    return {
        "status": "ok",
        "mean": estimate.value,
        "standard_error": known(estimate.standard_error),
        "ci_low": known(low),
        "ci_high": known(high),
        "n": estimate.n,
        "method": method,
        "target": estimate.target,
    }


def gap(campaign: Campaign, round: int, method: str | None) -> Answer:
    """Return the answer about a round of which no estimate is here."""
    return Answer(
        campaign=campaign.id,
        time=time_in_words(round_start_s(round, campaign.round_s)),
        round=round,
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
    if len(rounds) == 1:
        return there[0] if there else gap(campaign, t, method)
    numbers = _numbers(mean, one_of(campaign, method) or campaign.estimators[0])
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
