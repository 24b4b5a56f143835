"""How many devices took part in the newest rounds, for the shuffler's operator; never which."""

from collections import Counter
from dataclasses import dataclass

from rase.campaign import Campaign
from rase.shuffler.intake import tag_number
from rase.shuffler.outbox import agreed_campaigns
from rase.storage.interface import Database

__all__ = ["CampaignRounds", "ClosedRound", "devices_by_group", "newest_rounds"]


@dataclass(frozen=True, slots=True)
class ClosedRound:
    """Say what became of a round.

    Args:
        round: Its number.
        state: "released", "carried" or "below_k".
        reports: How many devices it had a real report of, carried ones included; None if it was
            closed by an earlier release.
    """

    round: int
    state: str
    reports: int | None


@dataclass(frozen=True, slots=True)
class CampaignRounds:
    """A campaign with its newest closed rounds.

    Args:
        campaign: Its newest version.
        rounds: The rounds, newest first.
        waiting: How many reports wait for their round to close, cover reports included: nobody has
            opened them yet.
    """

    campaign: Campaign
    rounds: tuple[ClosedRound, ...]
    waiting: int


def newest_rounds(database: Database, *, limit: int) -> list[CampaignRounds]:
    """Return the newest closed rounds of each campaign, by its id."""
    with database.snapshot() as transaction:
        campaigns = agreed_campaigns(transaction)
        newest: dict[str, Campaign] = {}
        for campaign in sorted(campaigns.values(), key=lambda one: one.version):
            newest[campaign.id] = campaign
        found = []
        for name, campaign in sorted(newest.items()):
            hashes = [hash_ for hash_, one in campaigns.items() if one.id == name]
            rows = [
                row
                for hash_ in hashes
                for row in transaction.execute(
                    "SELECT round, state, reports FROM round WHERE campaign = ? "
                    "AND state NOT IN ('open', 'closing') ORDER BY round DESC LIMIT ?",
                    (hash_, limit),
                )
            ]
            rounds = [ClosedRound(*row) for row in sorted(rows, reverse=True)[:limit]]
            waiting = sum(
                transaction.execute(
                    "SELECT COUNT(*) FROM report WHERE tag = ?", (tag_number(hash_),)
                )[0][0]
                for hash_ in hashes
            )
            found.append(CampaignRounds(campaign, tuple(rounds), int(waiting)))
    return found


def devices_by_group(database: Database) -> Counter[str]:
    """Return how many devices may send, by their public group."""
    with database.snapshot() as transaction:
        rows = transaction.execute("SELECT group_name, COUNT(*) FROM device GROUP BY group_name")
    return Counter({str(name): int(count) for name, count in rows})
