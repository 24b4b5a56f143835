"""Many devices in one process, driven by one clock without waiting."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rase.device.behaviour import Behaviour
from rase.kernels.entropy import SeededEntropy
from rase.transport.memory import FaultyTransport


@pytest.mark.uncovered
def test_sixty_four_devices_live_through_six_hours(make_world: Callable[[str], Any]) -> None:
    """Every device has one envelope in every round, over a network that loses a tenth."""
    world = make_world("fleet")
    names = [f"device-{place}" for place in range(64)]
    world.shuffler.credentials |= set(names)
    network = FaultyTransport(
        world.shuffler.handle,
        entropy=SeededEntropy(2026),
        chances={"drop": 0.05, "lose-answer": 0.05},
    )
    world.source.always = 800.0
    fleet = [
        world.agent(
            name,
            credential=name,
            transport=network,
            entropy=SeededEntropy(name),
            behaviour=Behaviour(poll_s=1800),
        )
        for name in names
    ]
    due = [0.0] * len(fleet)
    while world.clock.monotonic_s() < 6 * 3600 - 60:
        for place, agent in enumerate(fleet):
            if due[place] <= world.clock.monotonic_s():
                due[place] = world.clock.monotonic_s() + max(agent.step(), 0.01)
        world.clock.advance(max(min(due) - world.clock.monotonic_s(), 0.0) + 0.01)
    per_round = Counter(round for _, round in world.shuffler.stored)
    assert [per_round[495_000 + hour] for hour in range(5)] == [64] * 5
    assert world.shuffler.counts["different"] == 0
    places = [content.place for content in world.contents().values() if not content.is_cover]
    assert len(set(places)) > 1
