"""Answers that a round has several of: shares of states, and means by label.

Guarantee: the labels of a round are a partition of its reports into sets of k_min or more. So
whatever is added up or subtracted of the answers of rounds, by label or over all, k_min reports or
more are behind it (tests/fusion/test_isolation.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rase.counts.above import ABOVE, shares_above
from rase.counts.estimate import Estimate
from rase.counts.labels import merge_small
from rase.counts.registry import SHARES, estimator_named
from rase.counts.shares import shares
from rase.fusion.mechanism import (
    Classes,
    Places,
    counts_of,
    randomizer_of,
    state_randomizer_of,
)
from rase.fusion.refusals import BAD_QUESTION, Refused
from rase.series.answers import finite, number_fields

if TYPE_CHECKING:
    from rase.campaign import Campaign
    from rase.counts.counts import Counts
    from rase.storage.interface import Row, Transaction

__all__ = [
    "EVERY",
    "WHOLE",
    "Part",
    "PartKey",
    "check_part",
    "default_part",
    "estimate_of",
    "estimate_parts",
    "keys_of",
    "read_parts",
    "split_labels",
    "write_parts",
]

# Asks for the answers of every label.
EVERY: Final = "*"
_MEAN: Final = "unbiased_mean"
_TARGETS: Final = {SHARES: "share of the readings", ABOVE: "share of the readings"}


@dataclass(frozen=True, slots=True)
class Part:
    """Say which of a round's answers is asked for.

    Args:
        label: One label; ``*`` for each of them and all together; None for all together.
        category: One state, or for ``share_above`` one bound; None for every one.
    """

    label: str | None = None
    category: str | None = None


WHOLE: Final = Part()


def default_part(campaign: Campaign, part: Part = WHOLE) -> Part:
    """Return the part that stands for a round where one number is shown: the first state."""
    if campaign.states is None or part.category is not None:
        return part
    return Part(part.label, campaign.categories[0])


@dataclass(frozen=True, slots=True, order=True)
class PartKey:
    """Name one answer of a round: its label and its category, empty for all, and its method."""

    label: str
    category: str
    method: str


def check_part(campaign: Campaign, part: Part) -> None:
    """Refuse a label or a state that the campaign has not.

    Raises:
        Refused: Naming those that there are.
    """
    labels = (*campaign.labels, "other") if campaign.labels else ()
    if part.label not in (None, EVERY, *labels):
        known = f"one of {', '.join(labels)}" if labels else "absent: the campaign has none"
        raise Refused(BAD_QUESTION, f"label must be {known}.")
    if part.category is None:
        return
    bounds = [f"{bound:.12g}" for bound in campaign.bounds]
    if part.category not in (*campaign.categories, *bounds):
        known = "absent: the campaign is about a number"
        if campaign.categories:
            known = f"one of {', '.join((*campaign.categories, *bounds))}"
        raise Refused(BAD_QUESTION, f"category must be {known}.")


def split_labels(
    campaign: Campaign, places: Places, classes: Classes, labels: Classes
) -> dict[str, Counts]:
    """Return the reports of a round by label, small ones merged; nothing where all are one.

    Args:
        campaign: The campaign.
        places: The places of the reports.
        classes: Their budget classes.
        labels: Their labels on the wire.
    """
    if not campaign.labels:
        return {}
    known = np.where(labels <= len(campaign.labels), labels, 0)
    numbers, sizes = np.unique(known, return_counts=True)
    found = dict(zip(numbers.tolist(), sizes.tolist(), strict=True))
    merged = merge_small(found, k_min=campaign.k_min, other=0)
    if merged is None or set(merged.values()) == {0}:
        return {}
    shown = np.array([merged.get(number, 0) for number in range(len(campaign.labels) + 1)])[known]
    return {
        campaign.label_name(number): counts_of(campaign, places[is_its], classes[is_its])
        for number in np.unique(shown).tolist()
        for is_its in [shown == number]
    }


def estimate_parts(
    campaign: Campaign, counts: Counts, by_label: Mapping[str, Counts]
) -> dict[PartKey, Estimate]:
    """Return the answers of a round that are in parts.

    Args:
        campaign: The campaign, as devices reported by it in the round.
        counts: All reports of the round.
        by_label: Those of each label.
    """
    if campaign.states is None:
        randomizer, mean = randomizer_of(campaign), estimator_named(_MEAN)
        return {
            PartKey(label, "", _MEAN): mean(reports, randomizer=randomizer)
            for label, reports in by_label.items()
        }
    found: dict[PartKey, Estimate] = {}
    states = state_randomizer_of(campaign)
    for label, reports in (("", counts), *by_label.items()):
        for name, share in shares(reports, randomizer=states).items():
            found[PartKey(label, name, SHARES)] = share
        if campaign.bounds:
            above = shares_above(reports, randomizer=states)
            for bound, share in zip(campaign.bounds, above, strict=True):
                found[PartKey(label, f"{bound:.12g}", ABOVE)] = share
    return found


_DESCRIBED = ("quantity", "unit", "time", "until", "local_epsilon", "shuffled_epsilon", "delta")
_NUMBERS = ("value", "standard_error", "low", "high", "n", "target")
_COLUMNS = "label, category, method, value, standard_error, n, degrees_of_freedom"


def write_parts(
    transaction: Transaction,
    campaign: Campaign,
    round: int,
    parts: Mapping[PartKey, Estimate],
    *,
    described: Mapping[str, object],
) -> None:
    """Write the answers of a final round that are in parts.

    Args:
        transaction: In which the round becomes final.
        campaign: The campaign.
        round: The round.
        parts: The answers.
        described: What answers about the round say besides their numbers.
    """
    names = ("campaign", "round", "label", "category", "method", "degrees_of_freedom")
    columns = ", ".join(f'"{name}"' for name in (*names, *_DESCRIBED, *_NUMBERS))
    marks = ", ".join("?" * (len(names) + len(_DESCRIBED) + len(_NUMBERS)))
    rows = []
    for key, one in parts.items():
        words = dict(described) | ({"unit": ""} if key.category else {})
        numbers = number_fields(one)
        rows.append(
            (
                campaign.id,
                round,
                key.label,
                key.category,
                key.method,
                finite(one.degrees_of_freedom),
                *(words.get(name) for name in _DESCRIBED),
                *(numbers[name] for name in _NUMBERS),
            )
        )
    transaction.execute_many(f"INSERT INTO parts ({columns}) VALUES ({marks})", rows)  # noqa: S608


def read_parts(
    transaction: Transaction, campaign_id: str, first: int, last: int, part: Part
) -> dict[int, dict[PartKey, Row]]:
    """Return the rows of the answers asked for, by round.

    Args:
        transaction: A view of the database.
        campaign_id: The campaign.
        first: The first round.
        last: The last round.
        part: Which answers.
    """
    where, given = "", []
    if part.label != EVERY:
        where, given = " AND label = ?", [part.label or ""]
    if part.category is not None:
        where, given = f"{where} AND category = ?", [*given, part.category]
    rows = transaction.execute(
        f"SELECT round, {_COLUMNS} FROM parts WHERE campaign = ? AND round >= ? "  # noqa: S608
        f"AND round <= ?{where}",
        (campaign_id, first, last, *given),
    )
    found: dict[int, dict[PartKey, Row]] = {}
    for row in rows:
        found.setdefault(row[0], {})[PartKey(*row[1:4])] = row[4:]
    return found


def estimate_of(key: PartKey, row: Row, campaign: Campaign) -> Estimate:
    """Return a kept answer with the bounds of what it is about."""
    value, error, n, degrees = row
    is_share = key.method in _TARGETS
    return Estimate(
        value,
        math.inf if error is None else error,
        n=n,
        method=key.method,
        target=_TARGETS.get(key.method, "mean of the readings"),
        degrees_of_freedom=math.inf if degrees is None else degrees,
        lowest=0.0 if is_share else campaign.low,
        highest=1.0 if is_share else campaign.high,
    )


def keys_of(campaign: Campaign, part: Part, method: str | None) -> list[PartKey]:
    """Return which answers a question is for, in the order in which they are shown.

    Raises:
        Refused: If the campaign has no such estimator.
    """
    if campaign.states is None:
        names = [("", _MEAN)]
    else:
        names = [(name, SHARES) for name in campaign.categories]
        names += [(f"{bound:.12g}", ABOVE) for bound in campaign.bounds]
    if method not in (None, "all", *(one for _, one in names)):
        known = ", ".join(dict.fromkeys(one for _, one in names))
        raise Refused(BAD_QUESTION, f"method must be one of {known}, or all.")
    if method is None and part.category is None:
        method = names[0][1]
    labels = ["", *campaign.labels, "other"] if part.label == EVERY else [part.label or ""]
    if campaign.states is None:
        labels = [label for label in labels if label]
    return [
        PartKey(label, category, one)
        for label in labels
        for category, one in names
        if method in (None, "all", one) and part.category in (None, category)
    ]
