"""Settled rounds: estimates are written once and read as answers with error and promise.

`rase.fusion.rounds` decides when a round is settled.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rase.answer import Answer
from rase.campaign import Campaign
from rase.clock import round_start_s, time_in_words
from rase.counts.above import ABOVE
from rase.counts.counts import Counts
from rase.counts.estimate import Estimate
from rase.counts.fleet import OF_FLEET, OF_REPORTERS
from rase.counts.registry import ESTIMATORS, OF_READINGS, SHARES, TRACKED
from rase.fusion.campaigns import campaign_of_version
from rase.fusion.mechanism import counts_of
from rase.fusion.parts import (
    EVERY,
    WHOLE,
    Part,
    PartKey,
    estimate_of,
    keys_of,
    read_parts,
    split_labels,
    write_parts,
)
from rase.fusion.refusals import BAD_QUESTION, Refused
from rase.privacy import LocalDP, PermutationPrivacy, rounded_up
from rase.promise import Claim
from rase.series.answers import answer_of, finite, number_fields
from rase.series.verdict import Verdict, verdict_in_words, verdicts
from rase.shuffle.attacker import exposed_success
from rase.storage.interface import Row, Transaction
from rase.theme.promises import in_words
from rase.wire import cbor
from rase.wire.messages import BatchManifest

if TYPE_CHECKING:
    from rase.accounting.plan.showing import Crowd

__all__ = [
    "AnswerReader",
    "RoundAnswer",
    "Settled",
    "answer_gap",
    "answer_window",
    "check_method",
    "describe_round",
    "forget_tags",
    "one_method",
    "read_settled",
    "shuffle_in_words",
    "speaks_of_readings",
    "window_epsilon",
    "write_settled",
]

_COLUMNS = "value, standard_error, n, method, target, degrees_of_freedom, revision, final"
# How many rounds a verdict looks back at: a week of hours.
_LOOKED_AT: Final = 168
_TARGETS = {"reporters": OF_REPORTERS, "fleet": OF_FLEET, "reports": "mean of the reports"}


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """An answer about one round, and what it was made of.

    Args:
        answer: The answer.
        estimate: The estimate behind it; None if the round was withheld.
        alone: The mean of the round by itself.
        judged: How the rounds up to this one compare; None where there is nothing to compare.
    """

    answer: Answer
    estimate: Estimate | None
    alone: Estimate | None
    judged: "_Judged | None"


@dataclass(frozen=True, slots=True)
class _Judged:
    """What rounds up to one say of their differences, and how many of them were looked at."""

    verdict: Verdict | None
    rounds: int
    n: int

    def fields(self, campaign: Campaign, estimate: Estimate) -> dict[str, Any]:
        """Return the verdict on an estimate, as a sentence and as fields."""
        if self.verdict is None:
            return {"verdict": verdict_in_words(None, known=self.rounds, of=[estimate])}
        # The planner is loaded by the first verdict that is explained, not by every server.
        from rase.accounting.plan.showing import find_ways, verdict_fields

        needed, words = None, {}
        if not self.verdict.is_moving:
            needed = find_ways(
                campaign.domain,
                mechanism=campaign.mechanism,
                epsilon=campaign.epsilon[0] if len(campaign.epsilon) == 1 else None,
                devices=self.n,
                rounds=self.rounds,
                round_s=campaign.round_s,
                precision=campaign.precision,
                crowd=_crowd(campaign),
            )
            words = {"ways": needed.words()}
        sentence = verdict_in_words(
            self.verdict, known=self.rounds, unit=campaign.unit, of=[estimate], **words
        )
        return {"verdict": sentence, **verdict_fields(self.verdict, needed)}


class AnswerReader:
    """Turn rows of rounds into answers; each version of the campaign is looked up once.

    Args:
        transaction: A view of the database.
        campaign_id: The campaign.
    """

    def __init__(self, transaction: Transaction, campaign_id: str) -> None:
        self._transaction = transaction
        self._id = campaign_id
        self._versions: dict[int, Campaign] = {}

    def answer_rounds(
        self, rows: list[Row], method: str | None, part: Part = WHOLE
    ) -> list[RoundAnswer]:
        """Return an answer for each round and each estimator asked for, in their order.

        Args:
            rows: Round, version, state and shuffle of final rounds, ascending.
            method: The estimator; None for the first one of each round, "all" for every one.
            part: Which of a round's answers.
        """
        if not rows:
            return []
        is_number = self._version(rows[-1][1]).states is None
        if is_number and part.label is None:
            return self._answer_numbers(rows, method)
        parts = read_parts(self._transaction, self._id, rows[0][0], rows[-1][0], part)
        if not is_number or part.label != EVERY:
            return [one for row in rows for one in self._answer_parts(row, method, part, parts)]
        whole = self._answer_numbers(rows, method)
        return [
            one
            for row in rows
            for one in (
                *(found for found in whole if found.answer.round == row[0]),
                *self._answer_parts(row, None, part, parts),
            )
        ]

    def _answer_parts(
        self,
        row: Row,
        method: str | None,
        part: Part,
        parts: Mapping[int, Mapping[PartKey, Row]],
    ) -> list[RoundAnswer]:
        """Return the answers of a round that are in parts; one that says why there is none."""
        round, version, state, shuffle = row
        campaign, known = self._version(version), parts.get(round, {})
        keys = keys_of(campaign, part, method)
        if part.label == EVERY:
            # A label that was merged in this round has no answer of its own.
            keys = [key for key in keys if key in known or (state != "final" and not key.label)]
        if state != "final":
            # One sentence is enough for a round that was withheld.
            keys = keys[:1]
        found = []
        for key in keys:
            fields = describe_round(campaign, round) | {"method": key.method, "shuffle": shuffle}
            fields["label"] = key.label or None
            is_there = key in known
            if key.category:
                fields["category"] = key.category if state == "final" else part.category
                fields["unit"] = ""
            if not is_there:
                fields |= {"status": "too_few", "rounds": 0}
            estimate = estimate_of(key, known[key], campaign) if is_there else None
            found.append(RoundAnswer(answer_of(estimate, **fields), estimate, estimate, None))
        return found

    def _answer_numbers(self, rows: list[Row], method: str | None) -> list[RoundAnswer]:
        found = self._transaction.execute(
            f"SELECT round, {_COLUMNS} FROM answers WHERE campaign = ? "  # noqa: S608
            "AND round >= ? AND round <= ?",
            (self._id, rows[0][0], rows[-1][0]),
        )
        estimates = {(row[0], row[4]): row[1:] for row in found}
        judged = self._judge(rows)
        answers = []
        for row in rows:
            campaign = self._version(row[1])
            methods = [method] if method in kept_methods(campaign) else []
            if method is None:
                methods = [campaign.estimators[0]]
            elif method == "all":
                methods = list(campaign.estimators)
            # A round whose version did not have the estimator says nothing about it.
            answers += [
                self._answer(row, campaign, name, estimates, judged.get(row[0])) for name in methods
            ]
        return answers

    def _answer(
        self,
        row: Row,
        campaign: Campaign,
        method: str,
        estimates: dict[tuple[int, str], Row],
        judged: _Judged | None,
    ) -> RoundAnswer:
        round, _, _, shuffle = row
        kept = estimates.get((round, method))
        estimate = _estimate(kept, campaign)
        alone = estimate
        if method == TRACKED:
            alone = _estimate(estimates.get((round, "unbiased_mean")), campaign)
        fields = describe_round(campaign, round) | {"method": method, "shuffle": shuffle}
        if judged and estimate:
            fields |= judged.fields(campaign, estimate)
        if kept is not None:
            fields |= {"revision": kept[6], "final": bool(kept[7])}
        if estimate is None:
            fields |= {"status": "too_few", "rounds": 0, "target": _target(campaign, method)}
        return RoundAnswer(answer_of(estimate, **fields), estimate, alone, judged)

    def _judge(self, rows: list[Row]) -> dict[int, _Judged]:
        """Compare each of some rounds with those before it; rounds without a mean are left out."""
        what = (
            "SELECT round, value, standard_error, n FROM answers WHERE campaign = ? AND "
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
            Estimate(value, error, n=n, method="unbiased_mean", target=OF_REPORTERS)
            for _, value, error, n in known
        ]
        round_s = self._version(rows[0][1]).round_s
        times_s = [float(round_start_s(row[0], round_s)) for row in known]
        found = verdicts(times_s, means, last=_LOOKED_AT)
        return {
            row[0]: _Judged(one, min(place + 1, _LOOKED_AT), row[3])
            for place, (row, one) in enumerate(zip(known, found, strict=True))
        }

    def _version(self, number: int) -> Campaign:
        if number not in self._versions:
            self._versions[number] = campaign_of_version(self._transaction, self._id, number)
        return self._versions[number]


def describe_round(campaign: Campaign, round: int, *, of_rounds: int = 1) -> dict[str, Any]:
    """Return what an answer about rounds says besides its numbers, by the names of `Answer`.

    Args:
        campaign: The campaign, as it holds in the last round.
        round: The last round.
        of_rounds: How many rounds it is over.
    """
    first = round - of_rounds + 1
    return {
        "campaign": campaign.id,
        "quantity": campaign.quantity,
        "unit": campaign.unit,
        "time": time_in_words(round_start_s(first, campaign.round_s)),
        "until": time_in_words(round_start_s(round + 1, campaign.round_s)),
        "round": round,
        "of_rounds": of_rounds,
        "local_epsilon": campaign.epsilon[-1],
        "promise": str(LocalDP(campaign.epsilon[-1])),
        **_promise_fields(campaign.claim_over(1), campaign.colluding),
    }


def _crowd(campaign: Campaign) -> "Crowd | None":
    """Return in which crowd a campaign's reports are shuffled; None if nothing is promised."""
    if campaign.shuffled_epsilon is None or campaign.delta is None:
        return None
    from rase.accounting.plan.showing import Crowd

    return Crowd(campaign.k_min - campaign.colluding, campaign.delta)


def _promise_fields(claim: Claim | None, colluding: int, *, span: str = "round") -> dict[str, Any]:
    """Return the fields of a promise towards the fusion centre; none where there is none."""
    if claim is None:
        return {}
    return {
        "shuffled_epsilon": claim.epsilon,
        "delta": claim.delta,
        "promise": in_words(claim, span, colluding=colluding),
    }


def answer_gap(campaign: Campaign, round: int, method: str | None, part: Part = WHOLE) -> Answer:
    """Return the answer about a round of which no estimate is here."""
    name = one_method(campaign, method) or campaign.estimators[0]
    return Answer(
        **describe_round(campaign, round),
        status="gap",
        label=part.label,
        category=part.category,
        rounds=0,
        target=_target(campaign, name),
        method=name,
        shuffle="no estimate of this round is here",
    )


def answer_window(
    campaign: Campaign,
    last: int,
    mean: Estimate | None,
    rounds: list[RoundAnswer | None],
    method: str | None,
    *,
    part: Part = WHOLE,
) -> Answer:
    """Return the answer about a window, from those about its rounds.

    Args:
        campaign: The campaign.
        last: The last round of the window.
        mean: The mean of the window; None if there is none.
        rounds: What is known of each of its rounds.
        method: The estimator asked for.
        part: Which of a round's answers.
    """
    there = [one.answer for one in rounds if one is not None]
    judged = [one.judged for one in rounds if one is not None and one.judged is not None]
    if len(rounds) == 1:
        return there[0] if there else answer_gap(campaign, last, method, part)
    epsilons = [one.local_epsilon for one in there if one.local_epsilon is not None]
    spent = window_epsilon(campaign, len(rounds), epsilons)
    fields = describe_round(campaign, last, of_rounds=len(rounds)) | {
        "method": one_method(campaign, method) or campaign.estimators[0],
        "rounds": sum(one.status == "ok" for one in there),
        "local_epsilon": spent,
        "promise": (
            f"{spent:g}-LDP for all reports of a device in {len(rounds)} rounds: "
            f"{LocalDP(spent).odds}."
        ),
        "shuffle": "; ".join(dict.fromkeys(one.shuffle for one in there)),
        "shuffled_epsilon": None,
        "delta": None,
        "label": part.label,
        "category": part.category,
    }
    if part.category is not None:
        fields["unit"] = ""
    # Claims are of one law and one k_min: versions that differ in them have none together.
    if len({(one.shuffled_epsilon, one.local_epsilon) for one in there}) <= 1:
        fields |= _promise_fields(
            campaign.claim_over(len(rounds)),
            campaign.colluding,
            span=f"set of {len(rounds)} rounds",
        )
    if mean is not None:
        fields |= {"method": mean.method}
        fields |= judged[-1].fields(campaign, mean) if judged else {}
    else:
        is_withheld = any(one.status == "too_few" for one in there)
        fields["status"] = "too_few" if is_withheld or len(there) == len(rounds) else "gap"
        fields["target"] = _target(campaign, fields["method"])
    return answer_of(mean, **fields)


def window_epsilon(campaign: Campaign, of_rounds: int, epsilons: list[float]) -> float:
    """Return the most a device spends in some rounds: its reports add up, its ledger sets a limit.

    Each release holds one report of a device at most; what was carried into the first of the
    rounds belongs to rounds before.
    """
    per_report = max(epsilons, default=campaign.epsilon[-1])
    windows = math.ceil((of_rounds + campaign.carry_rounds) / campaign.window)
    return min(of_rounds * per_report, windows * campaign.window_budget)


def check_method(campaign: Campaign, method: str | None) -> None:
    """Refuse an estimator that there is not.

    Raises:
        Refused: Naming those that there are.
    """
    if method not in (None, "all", *ESTIMATORS, SHARES, ABOVE):
        raise Refused(
            BAD_QUESTION, f"method must be one of {', '.join(campaign.estimators)}, or all."
        )


def one_method(campaign: Campaign, method: str | None) -> str | None:
    """Return the one estimator of answers that cannot hold all."""
    return campaign.estimators[0] if method == "all" else method


def speaks_of_readings(method: str) -> bool:
    """Return whether an estimator is of readings, which lie within the range, not of reports."""
    # Where contributors differ in their budgets, the mean is called after how it was combined.
    return method in OF_READINGS or method in ("combined_mean", SHARES, ABOVE)


def _target(campaign: Campaign, method: str) -> str:
    """Return whose readings an estimate would speak of, where there is none."""
    return campaign.target if speaks_of_readings(method) else "reports"


def kept_methods(campaign: Campaign) -> tuple[str, ...]:
    """Return the estimators whose numbers are kept: with `tracked` also the unbiased mean.

    Windows average it.
    """
    return (*campaign.estimators, *(["unbiased_mean"] if TRACKED in campaign.estimators else []))


def _estimate(row: Row | None, campaign: Campaign) -> Estimate | None:
    """Return a kept estimate, with the bounds that the range of its round sets."""
    if row is None:
        return None
    value, error, n, method, target, degrees, *_ = row
    is_bounded = speaks_of_readings(method)
    return Estimate(
        value,
        math.inf if error is None else error,
        n=n,
        method=method,
        target=_TARGETS[target],
        degrees_of_freedom=math.inf if degrees is None else degrees,
        lowest=campaign.low if is_bounded else -math.inf,
        highest=campaign.high if is_bounded else math.inf,
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Settled:
    """An open round as it was read: what is estimated is what is then made final.

    ``members`` is how many devices the shuffler counted; None if it did not say.
    """

    campaign: Campaign
    round: int
    batches: tuple[bytes, ...]
    shuffle: str
    members: int | None
    counts: Counts
    by_label: Mapping[str, Counts]


def read_settled(transaction: Transaction, campaign: str, round: int) -> Settled:
    """Return an open round as it stands, its reports counted."""
    ((version,),) = transaction.execute(
        "SELECT version FROM rounds WHERE campaign = ? AND round = ?", (campaign, round)
    )
    batches = transaction.execute(
        "SELECT batch, manifest FROM batches WHERE campaign = ? AND round = ? ORDER BY batch",
        (campaign, round),
    )
    rows = transaction.execute(
        "SELECT places, classes, labels FROM opened WHERE campaign = ? AND round = ?",
        (campaign, round),
    )
    agreed = campaign_of_version(transaction, campaign, version)
    manifests = [_manifest(bytes(row[1])) for row in batches]
    words = list(dict.fromkeys(map(shuffle_in_words, manifests)))
    if len(batches) > 1:
        words.append(f"in {len(batches)} batches")
    if rows and agreed.block_start(round) < round:
        words.append(f"may hold reports of earlier rounds, from {agreed.block_start(round)} on")
    reported = agreed.reported_in(round)
    places = np.frombuffer(b"".join(bytes(row[0]) for row in rows), "<i8").astype(np.int64)
    classes = np.frombuffer(b"".join(bytes(row[1]) for row in rows), np.uint8)
    # Reports of earlier releases have no labels.
    labels = np.frombuffer(b"".join(bytes(row[2] or bytes(len(row[1]))) for row in rows), np.uint8)
    return Settled(
        campaign=reported,
        round=round,
        batches=tuple(bytes(row[0]) for row in batches),
        shuffle="; ".join(words),
        members=_members(manifests),
        counts=counts_of(reported, places, classes),
        by_label=split_labels(reported, places, classes, labels),
    )


def _manifest(signed: bytes) -> BatchManifest:
    """Return what a shuffler signed; the signature was checked at intake."""
    _, body, _ = cbor.decode(signed, max_size=1 << 16)
    return BatchManifest.from_bytes(body)


def _members(manifests: Sequence[BatchManifest]) -> int | None:
    """Return how many devices there were by all batches of a round; None if one does not say."""
    released = [one for one in manifests if one.method != "withheld"]
    counts = [one.members for one in released if one.members is not None]
    if not counts or len(counts) < len(released):
        return None
    # Each device has one report in one of the batches, so there are as many at the least.
    return max(*counts, sum(one.n for one in released))


def shuffle_in_words(manifest: BatchManifest) -> str:
    """Return what a shuffler says it did, as one sentence."""
    if manifest.method == "withheld":
        return f"withheld by {manifest.shuffler}: fewer than {manifest.k_min} reports"
    if manifest.method == "uniform":
        words = f"uniform shuffle by {manifest.shuffler}: the order says nothing about the senders"
        if manifest.delta is None or manifest.shuffled_epsilon is None:
            return words
        return (
            f"{words}, and it promises ({rounded_up(manifest.shuffled_epsilon):g}, "
            f"{manifest.delta:g})-DP of each report towards the fusion centre, in rounds of "
            f"{manifest.k_min} reports or more"
        )
    # By the law that the manifest names, not by anybody's word; a signed theta is a float.
    exposed = exposed_success(manifest.n, float(manifest.theta or 0.0))
    promise = PermutationPrivacy(
        manifest.alpha,
        manifest.real_loss,
        min(manifest.attacker_success, 1.0),
        1 / manifest.n,
        exposed_success=exposed,
    )
    return f"Mallows shuffle by {manifest.shuffler}: {str(promise).rstrip('.')}"


def forget_tags(transaction: Transaction, campaign: Campaign, round: int) -> None:
    """Forget by what copies are known, once all rounds of a final round's block are final."""
    ((next_version,),) = transaction.execute(
        "SELECT MIN(not_before) FROM campaigns WHERE campaign = ? AND version > ? "
        "AND shuffler_signature IS NOT NULL",
        (campaign.id, campaign.version),
    )
    first, last = campaign.block_start(round), campaign.block_end(round)
    if next_version is not None:
        last = min(last, next_version - 1)
    ((done,),) = transaction.execute(
        "SELECT COUNT(*) FROM rounds WHERE campaign = ? AND round >= ? AND round <= ? "
        "AND state <> 'open'",
        (campaign.id, first, last),
    )
    if done > last - first:
        transaction.execute(
            "DELETE FROM envelope_tag WHERE campaign = ? AND block = ?", (campaign.id, first)
        )


def write_settled(
    transaction: Transaction,
    settled: Settled,
    estimates: list[Estimate],
    parts: Mapping[PartKey, Estimate],
) -> None:
    """Make a round final with these answers, or withheld without any, under the next number."""
    where = (settled.campaign.id, settled.round)
    ((last,),) = transaction.execute("SELECT COALESCE(MAX(sequence), 0) FROM rounds")
    transaction.execute(
        "UPDATE rounds SET state = ?, sequence = ?, shuffle = ? WHERE campaign = ? AND round = ?",
        ("final" if estimates or parts else "withheld", last + 1, settled.shuffle, *where),
    )
    described = describe_round(settled.campaign, settled.round)
    write_parts(transaction, settled.campaign, settled.round, parts, described=described)
    transaction.execute_many(
        'INSERT INTO answers (campaign, round, method, target, quantity, unit, "time", until, '
        "value, standard_error, degrees_of_freedom, low, high, n, local_epsilon, "
        "shuffled_epsilon, delta) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *where,
                one.method,
                numbers["target"],
                *(described[name] for name in ("quantity", "unit", "time", "until")),
                one.value,
                numbers["standard_error"],
                finite(one.degrees_of_freedom),
                numbers["low"],
                numbers["high"],
                one.n,
                described["local_epsilon"],
                described.get("shuffled_epsilon"),
                described.get("delta"),
            )
            for one in estimates
            for numbers in [number_fields(one)]
        ],
    )
