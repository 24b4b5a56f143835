"""A promise towards the fusion centre through real processes: kept, capped, and in the answers."""

import json
import threading
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.live.agents import Agent, enrolled_agents
from tests.live.installed import K_MIN, Fleet, Installed
from tests.live.running import rase
from tests.patience import PATIENCE_S, until

from rase.cli import main
from rase.fusion.mechanism import campaign_of
from rase.kernels.words import SeededRandom
from rase.wire.keys import Role

KILLS = 12
CROWD = 400


def rounds(installed: Installed, state: str) -> list[int]:
    """Return the rounds that are final, or withheld."""
    found = installed.rows(Role.FUSION, f"SELECT round FROM rounds WHERE state = '{state}'")  # noqa: S608
    return [round for (round,) in found]


def kill_often(mortals: Sequence[Agent], *, given: float, spent: float, logs: Path) -> None:
    """Kill agents at random moments; their ledgers never hold more than three reports.

    The first one's owner caps what is given away to the fusion centre, the second's what is spent
    towards everybody.
    """
    rng, pause = SeededRandom(7), threading.Event()
    for _ in range(KILLS):
        until(lambda: all(mortal.is_working for mortal in mortals), logs=logs)
        pause.wait(int(rng.words(1)[0]) % 1500 / 1000)
        for mortal in mortals:
            mortal.kill()
            assert len(mortal.ledger()[0]) <= 3
        assert mortals[0].given() <= given
        assert mortals[1].ledger()[1] <= spent
        for mortal in mortals:
            mortal.start()


def test_both_promises_hold_from_publishing_to_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rounds below k_min are withheld, owners' caps refuse, answers carry both promises.

    An agent that is killed again and again never gives away more than its owner's cap on a span.
    """
    installed = Installed(tmp_path, capsys, options=["--delta", "1e-6"])
    agents: list[Agent] = []
    try:
        text = (tmp_path / "installed/fusion/campaign.toml").read_bytes()
        campaign = campaign_of(tomllib.loads(text.decode())["campaign"])
        installed.publish()
        few = enrolled_agents(installed, count=K_MIN - 1)
        agents += few
        until(lambda: len(rounds(installed, "withheld")) >= 2, logs=tmp_path)
        until(lambda: all(agent.sent() for agent in few), logs=tmp_path)
        assert rounds(installed, "final") == []

        # Owners who cap either number: their devices take no part, and say why.
        promised = campaign.claims[0].epsilon
        for name, cap, reason in (
            ("shuffled_epsilon", 0.9 * promised, "shuffled-epsilon-above-limit"),
            ("report_epsilon", 1.9, "epsilon-above-limit"),
        ):
            (refusing,) = enrolled_agents(installed, count=1, name=name, owner={name: cap})
            agents.append(refusing)
            assert refusing.process.wait(PATIENCE_S) == 5
            assert f"reason={reason}" in refusing.log()
            assert refusing.ledger() == ([], 0.0)

        # Owners who cap a day at what three reports claim, towards the fusion centre or towards
        # everybody, on devices that die all the time.
        cap, spent = campaign.claims[2].epsilon, campaign.claims[2].local_epsilon
        limits = {"mortal": {"span_shuffled_epsilon": cap}, "thrifty": {"span_epsilon": spent}}
        mortals = [
            enrolled_agents(installed, count=1, name=name, owner=owner)[0]
            for name, owner in limits.items()
        ]
        agents += mortals
        kill_often(mortals, given=cap, spent=spent, logs=tmp_path)
        until(lambda: all("event=budget-spent" in one.log() for one in mortals), logs=tmp_path)
        assert [len(mortal.ledger()[0]) for mortal in mortals] == [3, 3]
        assert (mortals[0].given(), mortals[1].ledger()[1]) == (cap, spent)

        # One more makes rounds large enough, and their answers carry both promises.
        agents += enrolled_agents(installed, count=1, name="third")
        until(lambda: bool(rounds(installed, "final")), logs=tmp_path)
        at_fusion = ("--config", installed.configs[Role.FUSION])
        token = rase(capsys, "fusion", "subscribers", "add", "me", *at_fusion)
        (tmp_path / "subscriber").write_text(token)
        asked = ("query", "avg", "--url", installed.fusion_url, "--json")
        answer: dict[str, object] = {}

        def is_answered() -> bool:
            capsys.readouterr()
            if main([*asked, "--token-file", str(tmp_path / "subscriber")]) == 0:
                answer.update(json.loads(capsys.readouterr().out))
            return answer.get("status") == "ok"

        until(is_answered, logs=tmp_path)
    finally:
        for agent in agents:
            agent.kill()
        installed.kill()
    assert answer["local_epsilon"] == 2.0
    assert (answer["shuffled_epsilon"], answer["delta"]) == (promised, 1e-6)
    assert str(answer["promise"]).startswith("Towards the fusion centre: (")
    assert "if both servers work together: epsilon 2" in str(answer["promise"])
    small = [n for (n,) in installed.rows(Role.FUSION, "SELECT n FROM answers")]
    assert min(small) >= K_MIN


def test_a_promise_that_a_crowd_makes_small_is_kept_and_capped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Among 400 reports the shuffle hides far more than the noise; one report fewer is withheld.

    Owners who cap the shuffled number below the promise, or the local one, take no part; one who
    allows exactly both does.
    """
    # Rounds so long that a busy machine has the tokens of 400 devices before a window begins.
    options = ["--delta", "1e-6", "--k-min", CROWD, "--round", "6s"]
    installed = Installed(tmp_path, capsys, grace_s=6, options=options, token_rounds=2)
    agents: list[Agent] = []
    try:
        installed.publish()
        fleet = Fleet(installed, CROWD, starts=False)
        promised = fleet.campaign.claims[0].epsilon
        assert (fleet.campaign.k_min, fleet.campaign.epsilon) == (CROWD, (2.0,))
        assert fleet.campaign.shuffled_epsilon == promised
        assert promised < 2.0 / 2

        def release(count: int) -> int:
            """Report for the round that ended last; where its grace ends meanwhile, for another."""
            tried: list[int] = []

            def is_taken() -> bool:
                tried.append(fleet.tokened_round())
                places = [10 * one for one in range(count)]
                return fleet.send_together(tried[-1], places=places) == [201] * count

            until(is_taken, logs=tmp_path)
            return tried[-1]

        small = release(CROWD - 1)
        until(lambda: small in rounds(installed, "withheld"), logs=tmp_path)
        large = release(CROWD)
        until(lambda: large in rounds(installed, "final"), logs=tmp_path)
        assert rounds(installed, "final") == [large]
        assert set(installed.rows(Role.FUSION, "SELECT n FROM answers")) == {(CROWD,)}

        for name, cap, reason in (
            ("shuffled_epsilon", 0.99 * promised, "shuffled-epsilon-above-limit"),
            ("report_epsilon", 1.99, "epsilon-above-limit"),
        ):
            (refusing,) = enrolled_agents(installed, count=1, name=name, owner={name: cap})
            agents.append(refusing)
            assert refusing.process.wait(PATIENCE_S) == 5
            assert f"reason={reason}" in refusing.log()
            assert refusing.ledger() == ([], 0.0)
        exactly = {"shuffled_epsilon": promised, "report_epsilon": 2.0}
        (willing,) = enrolled_agents(installed, count=1, name="willing", owner=exactly)
        agents.append(willing)
        until(lambda: bool(willing.sent()), logs=tmp_path)
    finally:
        for agent in agents:
            agent.kill()
        installed.kill()
