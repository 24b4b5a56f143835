"""Golden cases of the live system: simulated worlds, asked over the HTTP interface at the end."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from tests.simulation.processes import LIMITS
from tests.simulation.setting import FIRST, ROUND_S, Setting
from tests.simulation.world import Operation, World

from rase.accounting.ledger import Ledger
from rase.campaign import ShufflePlan
from rase.fusion.subscribers import add_subscriber

__all__ = ["LIVE"]

FROM = f"{datetime.fromtimestamp(FIRST * ROUND_S, UTC):%Y-%m-%dT%H:%M:%SZ}"
ROUND: Operation = ("round",)
GROUPS = ("north", "south")
QUESTIONS = {
    "rounds": "/v1/estimates?method=all",
    "latest": "/v1/estimates/latest",
    "windows": f"/v1/windows?w=4&from={FROM}&method=unbiased_mean",
    "day": "/v1/windows?w=8",
    "campaign": "/v1/campaigns/street-power",
}
# Faults that lose nothing, one round that is withheld, new keys, and a budget that runs out.
EVENTFUL: tuple[Operation, ...] = (
    *(ROUND, ("message", 1, "duplicate"), ("batch", "lose-answer"), ROUND, ("keys",), ROUND),
    *(("message", 0, "lose"), ("message", 1, "lose"), ("message", 2, "lose"), ROUND),
    *(("death", "close", 3), ROUND, ("version",), *[ROUND] * 6),
)


def lived(
    folder: Path, operations: Sequence[Operation], *, devices: int, setting: Setting | None = None
) -> dict[str, Any]:
    """Live through operations; return the answers to a subscriber, and the devices' ledgers."""
    with closing(World(folder / "world", devices=devices, setting=setting)) as world:
        world.run(operations)
        token = add_subscriber(world.fusion.database, "golden")
        headers = {"Authorization": f"Bearer {token}"}
        found: dict[str, Any] = {}
        for name, path in QUESTIONS.items():
            asked = httpx.Request("GET", f"http://fusion{path}", headers=headers)
            (answer,) = world.fusion.ask([asked])
            assert answer.status_code == 200, answer.text
            found[name] = json.loads(answer.content)
        found["ledgers"] = []
        for device in world.devices:
            device.close()
            with Ledger(device.ledger_path, LIMITS) as ledger:
                found["ledgers"].append(ledger.status(int(world.clock.now_s())))
    return found


def plain(folder: Path) -> dict[str, Any]:
    """Live through faults in the plainest world."""
    return lived(folder, EVENTFUL, devices=5)


def robust(folder: Path) -> dict[str, Any]:
    """Live through a few rounds of a world with public groups and a robust shuffle."""
    plan = ShufflePlan("robust", alpha=0.5, groups=GROUPS)
    return lived(folder, [ROUND] * 8, devices=6, setting=Setting(shuffle=plan, groups=GROUPS))


LIVE: dict[str, dict[str, Callable[[Path], Any]]] = {
    "live": {"live-plain": plain, "live-robust": robust},
}
