"""How a shuffler does: closers that run, rounds not closed, batches not taken; never a value.

An intake that can store reports is of use even while no closer runs: reports wait on the disk until
one does. So whether requests may go to it and whether all is well are two questions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rase.clock import Clock, round_number
from rase.errors import StorageError
from rase.service.heartbeat import running
from rase.service.http import Readiness
from rase.service.metrics import Gauge
from rase.shuffler.documents import Agreed, Documents, document_body
from rase.shuffler.minorities import KEPT_DAYS, minorities_in
from rase.shuffler.outbox import agreed_campaigns
from rase.storage.interface import Database, Transaction
from rase.wire.keys import Keyset, Role

__all__ = [
    "Backlog",
    "backlog_of",
    "gauges_of",
    "keyset_trouble",
    "outlook_of",
    "readiness_of",
    "trouble_in",
]

# A round is closed and sent within seconds; a restart of either server takes some minutes.
_LATE_ROUNDS: Final = 2.0
_LATE_S: Final = 300


@dataclass(frozen=True, slots=True)
class Backlog:
    """Say what is not yet done.

    Args:
        closers: How many closers run; one that holds a round counts until its lease ends.
        rounds_due: How many rounds should be closed by now and are not.
        batches_waiting: How many batches are on their way to the fusion centre.
        batches_stuck: How many it refused, so that they are not sent any more.
        oldest_s: How many seconds ago the oldest round closed, or should have, that the fusion
            centre does not have; 0 if it has all.
        rounds_behind: The same in rounds, by the id of the campaign.
        problems: Why batches were not taken the last time.
    """

    closers: int
    rounds_due: int
    batches_waiting: int
    batches_stuck: int
    oldest_s: int
    rounds_behind: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def backlog_of(transaction: Transaction, *, now_s: float) -> Backlog:
    """Return what a shuffler has not done yet."""
    now = int(now_s)
    campaigns = agreed_campaigns(transaction)
    documents = Documents(Agreed(hash_, one, b"") for hash_, one in campaigns.items())
    closes: dict[bytes, list[int]] = {hash_: [] for hash_ in campaigns}
    due = 0
    for hash_, next_round in transaction.execute("SELECT hash, next_round FROM campaign"):
        campaign = campaigns[bytes(hash_)]
        last = documents.last_round(Agreed(bytes(hash_), campaign, b""))
        # Rounds that no closer has begun to close have no row, or one that is made by a report.
        ended = min((now - campaign.grace_s) // campaign.round_s - 1, last)
        if next_round <= ended:
            due += ended + 1 - next_round
            closes[bytes(hash_)].append(campaign.closes_s(next_round))
        rows = transaction.execute(
            "SELECT COUNT(*), MIN(closes_s) FROM round WHERE campaign = ? AND round < ? "
            "AND state IN ('open', 'closing') AND closes_s <= ?",
            (hash_, next_round, now),
        )
        due += rows[0][0]
        closes[bytes(hash_)] += [rows[0][1]] if rows[0][0] else []
    for hash_, round in transaction.execute(
        "SELECT campaign, MIN(round) FROM outbox GROUP BY campaign"
    ):
        closes[bytes(hash_)].append(campaigns[bytes(hash_)].closes_s(round))
    counts: dict[str, int] = dict(
        transaction.execute("SELECT state, COUNT(*) FROM outbox GROUP BY state")
    )
    problems = transaction.execute(
        "SELECT DISTINCT problem FROM outbox WHERE problem <> '' ORDER BY problem"
    )
    ((leased,),) = transaction.execute(
        "SELECT COUNT(*) FROM round WHERE state = 'closing' AND lease_until_s > ?", (now,)
    )
    closers = len(running(transaction, now_s=now_s, part="closer"))
    ages = {hash_: max(now - min(times), 0) for hash_, times in closes.items() if times}
    behind: dict[str, float] = {campaign.id: 0.0 for campaign in campaigns.values()}
    for hash_, age_s in ages.items():
        campaign = campaigns[hash_]
        behind[campaign.id] = max(behind[campaign.id], age_s / campaign.round_s)
    return Backlog(
        closers=max(closers, 1 if leased else 0),
        rounds_due=due,
        batches_waiting=counts.get("waiting", 0),
        batches_stuck=counts.get("refused", 0),
        oldest_s=max(ages.values(), default=0),
        rounds_behind=behind,
        problems=tuple(problem for (problem,) in problems),
    )


def trouble_in(backlog: Backlog) -> tuple[str, ...]:
    """Return what an operator must look at, one sentence each; nothing if all is well."""
    trouble = []
    if not backlog.closers:
        trouble.append(
            f"no closer runs, and {backlog.rounds_due} rounds wait to be closed: start rase "
            "shuffler run, or its part closer."
        )
    why = f" ({', '.join(backlog.problems)})" if backlog.problems else ""
    if backlog.batches_stuck:
        trouble.append(
            f"the fusion centre refused {backlog.batches_stuck} batches{why}, which wait for you: "
            "rase shuffler outbox list, then retry."
        )
    is_late = max(backlog.rounds_behind.values(), default=0.0) > _LATE_ROUNDS
    if backlog.closers and is_late and backlog.oldest_s > _LATE_S:
        trouble.append(
            f"{backlog.rounds_due} rounds and {backlog.batches_waiting} batches wait{why}, the "
            f"oldest for {backlog.oldest_s} s: look at the closer's log, and at the fusion centre."
        )
    return tuple(trouble)


def outlook_of(transaction: Transaction, *, now_s: float) -> tuple[str, ...]:
    """Return what will keep devices from reporting soon: keys that expire, tokens that run out."""
    from rase.service.doctor import Level, check_configs

    found = []
    rows = transaction.execute("SELECT signed FROM keyset ORDER BY version DESC LIMIT 1")
    for (signed,) in rows:
        configs = Keyset.from_bytes(document_body(bytes(signed))).configs
        checks = [check_configs("", configs, role=role, now_s=now_s) for role in Role]
        found += [one.text for one in checks if one.level is not Level.OK]
    for campaign in agreed_campaigns(transaction).values():
        windows = transaction.execute(
            "SELECT first_round, last_round FROM token_key WHERE campaign = ? "
            "ORDER BY first_round DESC LIMIT 1",
            (campaign.id,),
        )
        now = round_number(int(now_s), campaign.round_s)
        for first, last in windows:
            # A registrar that runs publishes the next window before one begins.
            if first <= now and last < campaign.not_after and now <= campaign.not_after:
                found.append(
                    f"tokens of {campaign.id} end with round {last}, and the next window has no "
                    "key: see that the registrar runs and reaches this server."
                )
    return tuple(dict.fromkeys(found))


def keyset_trouble(transaction: Transaction, *, now_s: float) -> tuple[str, ...]:
    """Return what is to be said of reports that named another keyset than the rest."""
    rows = transaction.execute("SELECT MAX(version) FROM keyset")
    return tuple(
        f"{one.reports} reports of the last {KEPT_DAYS} days were refused because they name "
        + (f"keyset {one.keyset}" if one.keyset else "a keyset that was never agreed here")
        + f" or another key than it gives, and the newest is {rows[0][0]}: a device that was "
        "offline fetches again by itself; if the number grows, somebody shows some devices other "
        "keys than the rest. Compare what they fetch with GET /v1/keyset."
        for one in minorities_in(transaction, now_s=now_s)
    )


def readiness_of(database: Database, clock: Clock, *, obstacles: tuple[str, ...]) -> Readiness:
    """Return whether reports may be sent to an intake, and what else is not well.

    Args:
        database: The shuffler's.
        clock: Its time.
        obstacles: Why the intake cannot take reports, as far as it knows itself.
    """
    try:
        with database.snapshot() as transaction:
            backlog = backlog_of(transaction, now_s=clock.now_s())
            outlook = outlook_of(transaction, now_s=clock.now_s())
    except StorageError:
        return Readiness(is_ready=False, reasons=(*obstacles, "the database does not answer."))
    return Readiness(is_ready=not obstacles, reasons=(*obstacles, *trouble_in(backlog), *outlook))


def gauges_of(database: Database, clock: Clock) -> list[Gauge]:
    """Return what metrics show of the present."""
    with database.snapshot() as transaction:
        backlog = backlog_of(transaction, now_s=clock.now_s())
        ((devices,),) = transaction.execute("SELECT count(*) FROM device")
        ((rounds,),) = transaction.execute(
            "SELECT count(*) FROM round WHERE state IN ('open', 'closing')"
        )
    return [
        Gauge("rase_shuffler_devices", int(devices)),
        Gauge("rase_shuffler_rounds_waiting", int(rounds)),
        Gauge("rase_shuffler_rounds_due", backlog.rounds_due),
        Gauge("rase_shuffler_batches_waiting", backlog.batches_waiting),
        Gauge("rase_shuffler_batches_stuck", backlog.batches_stuck),
        Gauge("rase_shuffler_closers", backlog.closers),
        Gauge("rase_shuffler_backlog_seconds", backlog.oldest_s),
        *(
            Gauge("rase_shuffler_backlog_rounds", behind, {"campaign": name})
            for name, behind in sorted(backlog.rounds_behind.items())
        ),
    ]
