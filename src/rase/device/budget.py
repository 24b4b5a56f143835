"""What a device has spent of its privacy, what is left, and when it refreshes: as text or JSON."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rase.clock import SystemClock
from rase.device.folder import DeviceFolder

if TYPE_CHECKING:
    from rase.accounting.ledger import Entry, LedgerStatus

__all__ = ["budget_text"]

_SCHEMA = "rase/budget/1"


def budget_text(folder: Path, *, history: int = 0, as_json: bool = False) -> str:
    """Return the account of a device's ledger.

    Args:
        folder: The device's folder.
        history: How many of the last entries to list.
        as_json: One JSON document instead of lines.

    Raises:
        RaseError: If settings or ledger cannot be read.
    """
    place = DeviceFolder(folder)
    settings = place.settings(os.environ)
    with place.ledger(settings) as ledger:
        status = ledger.status(int(SystemClock().now_s()))
        entries = ledger.history(history) if history else []
    if as_json:
        return json.dumps(_document(status, entries, is_paused=place.is_paused))
    return "\n".join(
        [
            *_lines(status, is_paused=place.is_paused),
            *(f"{one.campaign}  round {one.round}  epsilon {one.epsilon:g}" for one in entries),
        ]
    )


def _document(status: "LedgerStatus", entries: "list[Entry]", *, is_paused: bool) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "time_s": status.time_s,
        "paused": is_paused,
        "reports": status.reports,
        "span": {
            "length_s": status.owner.span_s,
            "limit": status.owner.span_epsilon,
            "spent": status.span_spent,
            "left": status.span_left,
            "refresh_s": status.refresh_s,
            "shuffled": {
                "limit": status.owner.span_shuffled_epsilon,
                "given": status.span_given,
            },
        },
        "total": {
            "limit": status.owner.total_epsilon,
            "spent": status.total_spent,
            "left": status.total_left,
        },
        "campaigns": [
            {
                "campaign": item.limits.campaign,
                "round": item.round,
                "reports": item.reports,
                "window": item.limits.window,
                "limit": item.limits.window_epsilon,
                "spent": item.window_spent,
                "left": item.window_left,
                "total_spent": item.total_spent,
                "refresh_round": item.refresh_round,
                "refresh_s": item.refresh_s,
            }
            for item in status.campaigns
        ],
        "history": [
            {
                "campaign": entry.campaign,
                "round": entry.round,
                "epsilon": entry.epsilon,
            }
            for entry in entries
        ],
    }


def _lines(status: "LedgerStatus", *, is_paused: bool) -> list[str]:
    owner = status.owner
    lines = [
        *(["sharing is paused"] if is_paused else []),
        f"reports made            {status.reports}",
        _line("ever", status.total_spent, owner.total_epsilon, status.total_left),
        _line(f"in {owner.span_s} s", status.span_spent, owner.span_epsilon, status.span_left)
        + _refresh(status.refresh_s),
        *_describe_given(status),
    ]
    for item in status.campaigns:
        limits = item.limits
        scope = f"in {limits.window} rounds"
        lines.append(f"campaign {limits.campaign}, round {item.round}")
        lines.append(
            _line(scope, item.window_spent, limits.window_epsilon, item.window_left)
            + _refresh(item.refresh_s)
        )
    return lines


def _describe_given(status: "LedgerStatus") -> list[str]:
    """Return what reports of a span gave away to the fusion centre, where claims or limits say."""
    limit = status.owner.span_shuffled_epsilon
    if limit is None and status.span_given >= status.span_spent:
        return []
    of = "" if limit is None else f" of {limit:g}"
    scope = f"given in {status.owner.span_s} s"
    return [f"{scope:22}  {status.span_given:g}{of} to the fusion centre, by signed claims"]


def _line(scope: str, spent: float, limit: float, left: float) -> str:
    return f"spent {scope:16}  {spent:g} of {limit:g}, {left:g} left"


def _refresh(second: int | None) -> str:
    if second is None:
        return ""
    return f"; more from {datetime.fromtimestamp(second, UTC):%Y-%m-%d %H:%M:%S} UTC"
