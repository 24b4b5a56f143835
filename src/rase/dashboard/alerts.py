"""Alerts: what of a campaign's newest rounds deserves a look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rase.campaign import Campaign
from rase.theme.formatting import duration, number

__all__ = ["Alert", "alerts", "overdue_s"]

# The round after the newest is due; one more, and the page says so: two rounds after a fleet died.
_LATE_ROUNDS = 1
_MANY_WITHHELD = 0.1
_FEW = 0.5


@dataclass(frozen=True, slots=True)
class Alert:
    """One thing that deserves a look.

    Args:
        kind: "bad" if something is wrong now, "warn" if it may be.
        text: One or two sentences.
    """

    kind: str
    text: str


def overdue_s(campaign: Campaign, rounds: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the second from which rounds are late; None if the campaign expects no more.

    Args:
        campaign: The campaign.
        rounds: The newest rounds, newest first, as the fusion centre reports them.
    """
    newest = next(
        (int(one["round"]) for one in rounds if one["state"] != "open"), campaign.not_before - 1
    )
    if newest >= campaign.not_after:
        return None
    return float(campaign.closes_s(newest + 1) + _LATE_ROUNDS * campaign.round_s)


def alerts(
    campaign: Campaign, rounds: Sequence[Mapping[str, Any]], *, expected_n: int, now_s: float
) -> list[Alert]:
    """Return what deserves a look, worst first.

    Args:
        campaign: The campaign.
        rounds: The newest rounds, newest first, as the fusion centre sends them.
        expected_n: How many reports recent rounds had on average.
        now_s: The present second.
    """
    done = [one for one in rounds if one["state"] != "open"]
    found = []
    present = int(now_s // campaign.round_s)
    late_at_s = overdue_s(campaign, rounds)
    if late_at_s is not None and now_s > late_at_s:
        silent_s = now_s - late_at_s + (_LATE_ROUNDS + 1) * campaign.round_s
        since = f"for {duration(silent_s)}" if done else "since the campaign began"
        found.append(
            Alert(
                "bad",
                f"No round became final {since}; one is due every {duration(campaign.round_s)}. "
                "Do devices report, and does the shuffler still send?",
            )
        )
    if present > campaign.not_after:
        found.append(
            Alert("warn", "The campaign has ended. Publish a new version for further rounds.")
        )
    withheld = [one for one in done if one["state"] == "withheld"]
    if done and done[0]["state"] == "withheld":
        found.append(
            Alert(
                "warn",
                f"The newest round was withheld: fewer than {number(campaign.k_min)} reports came.",
            )
        )
    elif len(withheld) > _MANY_WITHHELD * len(done):
        found.append(
            Alert(
                "warn",
                f"{len(withheld)} of the last {len(done)} rounds were withheld: fewer than "
                f"{number(campaign.k_min)} reports came.",
            )
        )
    if done and done[0]["state"] == "final" and done[0]["n"] < _FEW * expected_n:
        found.append(
            Alert(
                "warn",
                f"Few reports: {number(int(done[0]['n']))} in the newest round, "
                f"about {number(expected_n)} are usual.",
            )
        )
    return found
