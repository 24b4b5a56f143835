"""Several quantities of one device: added, listed, paused, and how they stand under one budget."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rase.clock import SystemClock, time_in_words
from rase.device.folder import DeviceFolder
from rase.device.settings import DeviceSettings, is_plain_name
from rase.device.token_stock import stock_of
from rase.errors import ConfigurationError
from rase.wire.private_files import write_private

__all__ = [
    "add_quantity",
    "list_text",
    "quantities_of",
    "quantity_folder",
    "shared_mistakes",
    "status_text",
]

_SCHEMA = "rase/device-status/1"
_TEMPLATE = """\
# One more quantity of this device; keys, limits, schedule and ledger stand in device.toml.

[device]
campaign = {campaign}
{hash_line}
# label = "north"              # with owner.shares_label = true: what the shuffler may learn
turns = {turns}                      # of a cycle, where device.schedule is "turns"

[owner]
{low_line}
{high_line}

[source]
# As in device.toml; relative paths start in the device's folder. Only one quantity reads stdin.
kind = "csv"
path = {path}
column = {column}
"""


def quantities_of(
    folder: DeviceFolder, environment: Mapping[str, str]
) -> list[tuple[DeviceFolder, DeviceSettings]]:
    """Return all quantities of a device with their settings, the first one first.

    Raises:
        ConfigurationError: With what is wrong about them together.
    """
    found = [(folder, folder.settings(environment))]
    for further in folder.quantities():
        try:
            found.append((further, further.settings(environment)))
        except ConfigurationError as error:
            named = str(further.settings_file)
            mistakes = [one if named in one else f"{named}: {one}" for one in error.mistakes]
            raise ConfigurationError(mistakes) from None
    mistakes = shared_mistakes(found)
    if mistakes:
        raise ConfigurationError(mistakes)
    return found


def shared_mistakes(found: Sequence[tuple[DeviceFolder, DeviceSettings]]) -> list[str]:
    """Return what is wrong about the quantities of a device together.

    Args:
        found: All of them, with their settings, the first one first.
    """
    mistakes = [
        f"{one.settings_file}: device.campaign must be {one.quantity!r} as its folder, got "
        f"{settings.campaign!r}."
        for one, settings in found[1:]
        if one.quantity != settings.campaign
    ]
    if any(one.quantity == found[0][1].campaign for one, _ in found[1:]):
        mistakes.append(f"device.campaign must differ, got {found[0][1].campaign!r} twice.")
    if sum(settings.source.kind == "stdin" for _, settings in found) > 1:
        mistakes.append("source.kind must be stdin for one quantity at most: there is one stdin.")
    return mistakes


def quantity_folder(folder: DeviceFolder, campaign: str) -> DeviceFolder:
    """Return the folder of one of a device's quantities.

    Raises:
        ConfigurationError: If it has no such quantity.
    """
    found = {settings.campaign: place for place, settings in quantities_of(folder, os.environ)}
    if campaign not in found:
        known = ", ".join(found)
        raise ConfigurationError([f"campaign must be one of {known}, got {campaign!r}."])
    return found[campaign]


def add_quantity(
    folder: DeviceFolder,
    campaign: str,
    *,
    campaign_hash: str | None = None,
    value_range: tuple[float, float] | None = None,
    turns: int = 1,
) -> Path:
    """Make the settings of one more quantity; the agent takes it up at its next start.

    Args:
        folder: The device's, enrolled.
        campaign: The id of its campaign.
        campaign_hash: CH of the first terms to accept, if the owner was shown it.
        value_range: The widest range of readings to accept.
        turns: How many turns of a cycle it has.

    Returns:
        The file, in which the source is still to be set.

    Raises:
        ConfigurationError: If the id is none, or the device has the quantity already.
    """
    known = [settings.campaign for _, settings in quantities_of(folder, os.environ)]
    if not is_plain_name(campaign) or campaign[0] in "-_":
        raise ConfigurationError(
            [f"campaign must have small letters, digits and hyphens only, got {campaign!r}."]
        )
    if campaign in known:
        raise ConfigurationError(
            [f"campaign must be one that this device does not have yet, got {campaign!r}."]
        )
    low, high = value_range or (0.0, 0.0)
    mark = "" if value_range else "# "
    hash_line = '# campaign_hash = "ab12"         # of the first terms to accept'
    if campaign_hash is not None:
        hash_line = f"campaign_hash = {json.dumps(campaign_hash)}"
    text = _TEMPLATE.format(
        campaign=json.dumps(campaign),
        hash_line=hash_line,
        turns=turns,
        low_line=f"{mark}low = {low!r}",
        high_line=f"{mark}high = {high!r}",
        path=json.dumps(f"{campaign}.csv"),
        column=json.dumps(campaign),
    )
    place = DeviceFolder(folder.path, campaign)
    place.path.parent.mkdir(mode=0o700, exist_ok=True)
    place.make()
    write_private(place.settings_file, text)
    try:
        place.settings(os.environ)
    except ConfigurationError:
        place.settings_file.unlink()
        raise
    place.keep_state()
    return place.settings_file


def list_text(folder: DeviceFolder) -> str:
    """Return a line for each quantity: campaign, source, and whether it is shared.

    Raises:
        ConfigurationError: If the settings cannot be read.
    """
    return "\n".join(
        f"{settings.campaign:<24} {settings.source.kind:<14} {_state(place)}"
        for place, settings in quantities_of(folder, os.environ)
    )


def status_text(folder: DeviceFolder, *, as_json: bool = False) -> str:
    """Return how all quantities stand: source, state, turn, and what all have spent.

    Args:
        folder: The device's.
        as_json: One JSON document instead of lines.

    Raises:
        RaseError: If settings or ledger cannot be read.
    """
    from rase.device.budget import budget_text

    found = quantities_of(folder, os.environ)
    rows = _rows(folder, found)
    budget = budget_text(folder.path, as_json=as_json)
    if as_json:
        document = {"schema": _SCHEMA, "quantities": rows, "budget": json.loads(budget)}
        return json.dumps(document)
    lines = []
    for row in rows:
        line = f"{row['campaign']:<24} {row['source']:<14} {row['state']:<8}"
        if row["turn_s"] is not None:
            line += f" turn from {time_in_words(row['turn_s'])}"
        lines += [line.rstrip(), f"  tokens: {row['tokens']['words']}"]
    return "\n".join([*lines, budget])


def _rows(
    folder: DeviceFolder, found: list[tuple[DeviceFolder, DeviceSettings]]
) -> list[dict[str, Any]]:
    first, now_s = found[0][1], int(SystemClock().now_s())
    turn_of: dict[str, int] = {}
    if first.schedule == "turns":
        from rase.device.behaviour import turns_of

        turns = turns_of(folder.device_secret(), found)
        cycle = sum(settings.turns for _, settings in found)
        # Within two cycles each has had a turn that is not over yet.
        for number in range(2 * cycle):
            second = now_s - now_s % first.turn_s + number * first.turn_s
            turn_of.setdefault(turns.campaign_at(second), second)
    return [
        {
            "campaign": settings.campaign,
            "source": settings.source.kind,
            "state": _state(place),
            "schedule": settings.schedule,
            "turns": settings.turns,
            "turn_s": turn_of.get(settings.campaign),
            "tokens": _tokens(place, settings, now_s),
        }
        for place, settings in found
    ]


def _tokens(place: DeviceFolder, settings: DeviceSettings, now_s: int) -> dict[str, Any]:
    """Return how many tokens there are for a campaign, in numbers and in words."""
    with place.ledger(settings) as ledger:
        windows = ledger.token_windows()
        joined = {one.limits.campaign: one.limits.round_s for one in ledger.status(0).campaigns}
    if settings.campaign not in joined:
        return {"words": "none yet: the campaign's terms are not accepted yet."}
    stock = stock_of(windows, settings.campaign, round_s=joined[settings.campaign], now_s=now_s)
    return {
        "left": stock.left,
        "until_s": stock.until_s,
        "next_s": stock.next_s,
        "words": stock.words,
    }


def _state(place: DeviceFolder) -> str:
    if place.is_off:
        return "off"
    return "paused" if place.is_paused else "sharing"
