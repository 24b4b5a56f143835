"""How a fusion centre does: rounds behind, newest batch, space, counters; never a value."""

import shutil
from pathlib import Path
from typing import Any, Final

from rase.campaign import Campaign
from rase.clock import round_start_s, time_in_words
from rase.errors import StorageError
from rase.fusion.campaigns import current_campaign, current_keyset, known_campaigns
from rase.fusion.centre import FusionCentre
from rase.fusion.key_check import missing_keys
from rase.fusion.parts import default_part
from rase.fusion.refusals import Refused
from rase.service.heartbeat import key_rows
from rase.service.http import Readiness
from rase.service.metrics import Gauge
from rase.storage.interface import Transaction

__all__ = ["LATE_ROUNDS", "gauges_of", "health_of", "readiness_of", "rounds_behind", "space_of"]

LATE_ROUNDS: Final = 3
"""From how many rounds on a campaign is late; a restart of a server leaves fewer for some time."""


def health_of(centre: FusionCentre) -> dict[str, Any]:
    """Return how a fusion centre does, as plain values."""
    now = int(centre.clock.now_s())
    with centre.database.snapshot() as transaction:
        campaigns = []
        for name in known_campaigns(transaction):
            signed = current_campaign(transaction, name)
            if signed is not None:
                campaigns.append(_campaign(transaction, signed.campaign, now, centre))
    return {
        "time": time_in_words(now),
        "is_ready": True,
        "may_publish": centre.publisher is not None,
        "campaigns": campaigns,
        "storage": None if centre.space is None else centre.space(),
        "counters": dict(centre.telemetry.counters()),
    }


def readiness_of(centre: FusionCentre, *, is_working: bool) -> Readiness:
    """Return whether batches may be sent to this process, and what else is not well.

    Args:
        centre: The fusion centre.
        is_working: Whether it could do its work, and write, the last time it tried.
    """
    now_s = centre.clock.now_s()
    held = frozenset(key_rows(centre.intake.keys))
    try:
        with centre.database.snapshot() as transaction:
            keyset = current_keyset(transaction)
            behind = rounds_behind(transaction, now_s=now_s, settle_s=centre.policy.settle_s)
    except StorageError:
        return Readiness(is_ready=False, reasons=("the database does not answer.",))
    reasons = []
    if not is_working:
        reasons.append(
            "its work failed the last time: see its log, and that the database's disk has space."
        )
    is_ready = is_working
    if keyset is not None:
        missing = missing_keys(keyset.keyset, held, now_s=now_s)
        # One that waits for its time keeps no batch from being opened today.
        is_ready = is_ready and not missing_keys(keyset.keyset, held, now_s=now_s, in_use=True)
        reasons += [
            f"key {number} is published and not held here: add its file to opening_key_files."
            for number in missing
        ]
    reasons += [
        f"campaign {name} is {count} rounds behind: look at the shuffler with rase doctor."
        for name, count in behind.items()
        if count >= LATE_ROUNDS
    ]
    return Readiness(is_ready=is_ready, reasons=tuple(reasons))


def gauges_of(centre: FusionCentre) -> list[Gauge]:
    """Return what metrics show of the present."""
    now_s = centre.clock.now_s()
    with centre.database.snapshot() as transaction:
        behind = rounds_behind(transaction, now_s=now_s, settle_s=centre.policy.settle_s)
        keyset = current_keyset(transaction)
    held = frozenset(key_rows(centre.intake.keys))
    missing = [] if keyset is None else missing_keys(keyset.keyset, held, now_s=now_s)
    gauges = [Gauge("rase_fusion_keys_missing", len(missing))]
    for name, count in behind.items():
        labels = {"campaign": name}
        gauges.append(Gauge("rase_fusion_rounds_behind", count, labels))
        campaign = centre.questions.campaign(name)
        try:
            latest = centre.questions.latest(campaign, part=default_part(campaign))
        except Refused:
            # No round is final yet.
            continue
        start_s = round_start_s(latest.round, campaign.round_s)
        gauges += [
            Gauge("rase_fusion_last_round_timestamp_seconds", start_s, labels),
            Gauge("rase_fusion_last_round_reports", latest.n, labels),
        ]
    return gauges


def rounds_behind(transaction: Transaction, *, now_s: float, settle_s: int) -> dict[str, int]:
    """Return for each campaign how many rounds should be final by now and are not."""
    behind = {}
    for name in known_campaigns(transaction):
        signed = current_campaign(transaction, name)
        if signed is not None:
            ((newest,),) = transaction.execute(
                "SELECT MAX(round) FROM rounds WHERE campaign = ? AND state <> 'open'", (name,)
            )
            behind[name] = _behind(signed.campaign, newest, int(now_s), settle_s)
    return behind


def space_of(path: Path) -> dict[str, int]:
    """Return how many bytes a database's files have, and how many their disk has left."""
    files = [path, path.with_name(f"{path.name}-wal")]
    used = sum(file.stat().st_size for file in files if file.exists())
    return {"database_bytes": used, "disk_free_bytes": shutil.disk_usage(path.parent).free}


def _campaign(
    transaction: Transaction, campaign: Campaign, now: int, centre: FusionCentre
) -> dict[str, Any]:
    where = (campaign.id,)
    states: dict[str, int] = dict(
        transaction.execute(
            "SELECT state, COUNT(*) FROM rounds WHERE campaign = ? GROUP BY state", where
        )
    )
    ((newest,),) = transaction.execute(
        "SELECT MAX(round) FROM rounds WHERE campaign = ? AND state <> 'open'", where
    )
    ((due,),) = transaction.execute(
        "SELECT COUNT(*) FROM rounds WHERE campaign = ? AND state = 'open' AND settles_s <= ?",
        (campaign.id, now),
    )
    ((batch, batches, opened, replayed, refused),) = transaction.execute(
        "SELECT MAX(round), COUNT(*), COALESCE(SUM(opened), 0), "
        "COALESCE(SUM(replayed), 0), COALESCE(SUM(refused), 0) FROM batches WHERE campaign = ?",
        where,
    )
    return {
        "campaign": campaign.id,
        "version": campaign.version,
        "newest_round": newest,
        "newest_time": _time(campaign, newest),
        "newest_batch_round": batch,
        "newest_batch_time": _time(campaign, batch),
        "rounds_behind": _behind(campaign, newest, now, centre.policy.settle_s),
        "rounds_due": due,
        "rounds_open": states.get("open", 0),
        "rounds_final": states.get("final", 0),
        "rounds_withheld": states.get("withheld", 0),
        "batches": batches,
        "envelopes_opened": opened,
        "envelopes_replayed": replayed,
        "envelopes_refused": refused,
    }


def _behind(campaign: Campaign, newest: int | None, now: int, settle_s: int) -> int:
    """Return how many rounds should be final by now and are not."""
    closed = (now - campaign.grace_s - settle_s) // campaign.round_s - 1
    expected = min(closed, campaign.not_after)
    since = campaign.not_before - 1 if newest is None else newest
    return max(expected - since, 0)


def _time(campaign: Campaign, round: int | None) -> str | None:
    return None if round is None else time_in_words(round_start_s(round, campaign.round_s))
