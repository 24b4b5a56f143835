"""Device agents that are really killed, again and again: noise is drawn and counted once."""

import re
import threading
from functools import partial
from itertools import cycle
from pathlib import Path

import httpx
import pytest
from tests.live.agents import Agent, enrolled_agents
from tests.live.installed import K_MIN, Installed
from tests.patience import PATIENCE_S, until

from rase.kernels.words import SeededRandom
from rase.wire.keys import Role

AGENTS = 4
EPSILON = 2.0


def _is_working(agent: Agent) -> bool:
    return agent.is_working


def kill_at_random(agents: list[Agent], kills: int, *, installed: Installed) -> None:
    """Kill one agent after the other, each while it works, and start it again."""
    rng, pause = SeededRandom(2026), threading.Event()
    for _, agent in zip(range(kills), cycle(agents), strict=False):
        until(partial(_is_working, agent), logs=installed.folder)
        pause.wait(int(rng.words(1)[0]) % 500 / 1000)
        agent.kill()
        agent.start()


def estimates(installed: Installed) -> dict[int, int]:
    """Return how many reports the estimate of each round holds."""
    return dict(installed.rows(Role.FUSION, "SELECT round, n FROM answers"))


def check_agents(agents: list[Agent], installed: Installed) -> None:
    """Each round was paid for once, and counts what was paid for and acknowledged."""
    paid: list[set[int]] = []
    for agent in agents:
        entries, total = agent.ledger()
        rounds = [entry.round for entry in entries]
        assert len(set(rounds)) == len(rounds)
        assert {entry.epsilon for entry in entries} == {EPSILON}
        assert total == pytest.approx(EPSILON * len(rounds))
        paid.append(set(rounds))
    for round, n in estimates(installed).items():
        sure = [round in spent & agent.sent() for agent, spent in zip(agents, paid, strict=True)]
        assert sum(sure) <= n <= sum(round in spent for spent in paid)


@pytest.mark.parametrize("kills", [10, pytest.param(120, marks=pytest.mark.slow)])
def test_a_killed_agent_repeats_its_bytes_and_pays_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kills: int
) -> None:
    """Agents die at random moments while they measure, pay, seal and send.

    The shuffler never sees two different envelopes of a device for one round, ledgers hold one
    entry a round, and estimates count what was paid for and acknowledged.
    """
    installed = Installed(tmp_path, capsys)
    agents: list[Agent] = []
    try:
        installed.publish()
        agents += enrolled_agents(installed, count=AGENTS)
        kill_at_random(agents, kills, installed=installed)
        before = len(estimates(installed))
        until(lambda: len(estimates(installed)) > before, logs=tmp_path)
        # One that was started a moment ago does not know yet what a signal means.
        until(lambda: all(map(_is_working, agents)), logs=tmp_path)
        assert [agent.stop() for agent in agents] == [0] * AGENTS
        ended = max(round for agent in agents for round in agent.sent())
        last = "SELECT max(round) FROM rounds WHERE state <> 'open'"
        until(lambda: installed.rows(Role.FUSION, last)[0][0] >= ended, logs=tmp_path)
        counters = httpx.get(f"{installed.shuffler_url}/metrics", timeout=PATIENCE_S).text
        assert installed.end() == [0, 0, 0, 0]
    finally:
        for agent in agents:
            agent.kill()
        installed.kill()
    found = re.findall(r"rase_shuffler_reports_(stored|ignored)_total (\d+)", counters)
    told = {name: int(count) for name, count in found}
    assert told["ignored"] == 0
    assert told["stored"] >= K_MIN
    check_agents(agents, installed)
    starts = sum(agent.log().count("event=started") for agent in agents)
    assert starts == kills + AGENTS
