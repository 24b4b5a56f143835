"""How a fusion centre does: rounds behind, newest batch, space, counters; never a value."""

import shutil
from pathlib import Path
from typing import Any

from rase.campaign import Campaign
from rase.clock import round_start_s, time_in_words
from rase.fusion.campaigns import current_campaign, known_campaigns
from rase.fusion.centre import FusionCentre
from rase.storage.face import Transaction

__all__ = ["health_of", "space_of"]


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
    ((batch, batches, opened, covers, replayed, refused),) = transaction.execute(
        "SELECT MAX(round), COUNT(*), COALESCE(SUM(opened), 0), COALESCE(SUM(covers), 0), "
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
        "envelopes_cover": covers,
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
