"""What deserves a look on the Live page: no round for long, withheld rounds, few reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rase.campaign import Campaign
from rase.look.words import duration, number

__all__ = ["Alert", "alerts"]

_LATE_ROUNDS = 3
_MANY_WITHHELD = 0.1
_FEW = 0.5


@dataclass(frozen=True, slots=True)
class Alert:
    """Hold one thing that deserves a look.

    Args:
        kind: "bad" if something is wrong now, "warn" if it may be.
        text: One or two sentences.
    """

    kind: str
    text: str


def alerts(
    campaign: Campaign, rounds: Sequence[Mapping[str, Any]], *, expected_n: int, now_s: float
) -> list[Alert]:
    """Return what deserves a look, worst first.

    Args:
        campaign: The campaign.
        rounds: The newest rounds, newest first, as the fusion centre tells them.
        expected_n: How many reports a round of late had on average.
        now_s: The present second.
    """
    done = [one for one in rounds if one["state"] != "open"]
    found = []
    present = int(now_s // campaign.round_s)
    if done:
        due_s = campaign.closes_s(int(done[0]["round"]) + 1)
        late_s = now_s - due_s
        is_over = int(done[0]["round"]) >= campaign.not_after
        if not is_over and late_s > _LATE_ROUNDS * campaign.round_s:
            found.append(
                Alert(
                    "bad",
                    f"No round became final for {duration(now_s - due_s + campaign.round_s)}; one "
                    f"is due every {duration(campaign.round_s)}. Does the shuffler still send?",
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
