"""Several quantities of one owner: agents that share a ledger, in one process or in several."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.device.conftest import CAMPAIGN, World
from tests.device.test_settings import TABLES, changed
from tests.registering import keep_tokens

from rase.accounting.ledger import Ledger, OwnerLimits, create_ledger
from rase.device import commands
from rase.device.folder import DeviceFolder
from rase.device.memory import Memory
from rase.device.settings import settings_of
from rase.device.terms import Terms

HOUR = 3600


def test_rounds_of_another_campaign_stay_open(
    make_world: Callable[[str], World], tmp_path: Path
) -> None:
    """An hourly campaign closes its rounds; reports of one of four hours still arrive after that.

    Both are paid for from one account, and the day's limit is for both together.
    """
    path, limits = tmp_path / "shared.db", OwnerLimits(
        report_epsilon=1.0, span_epsilon=20.0, total_epsilon=1000.0
    )  # fmt: skip
    create_ledger(path)
    hourly, slow = make_world("hourly"), make_world("slow")
    campaign = replace(CAMPAIGN, id="heat", round_s=4 * HOUR, window=6, window_budget=6.0)
    slow.shuffler.campaign, slow.shuffler.versions = campaign, [campaign]
    terms = Terms("heat", pinned=slow.shuffler.pinned, rules=slow.rules)
    with Ledger(path, limits) as one, Ledger(path, limits) as other:
        for name in (CAMPAIGN.id, campaign.id):
            keep_tokens(one, name)
        agents = [
            (hourly, hourly.agent(ledger=one)),
            (slow, slow.agent(ledger=other, memory=Memory(terms, slow.store("heat")))),
        ]
        for world, _ in agents:
            world.source.always = 1500.0
        for _ in range(24):
            for world, agent in agents:
                world.run(agent, HOUR, least_s=1.0)
        reports = [
            sum(not one.is_cover for one in world.contents().values()) for world, _ in agents
        ]
        status = one.status(int(hourly.clock.now_s()))
    # Five or six rounds of four hours ended; the first may have begun before the agent did.
    assert reports[1] >= 4
    assert not slow.notes.of("dropped")
    assert status.total_spent == pytest.approx(sum(reports))
    assert status.span_spent <= 20.0
    assert {item.limits.campaign for item in status.campaigns} == {"heat", CAMPAIGN.id}


def test_a_folder_names_the_ledger_it_shares(tmp_path: Path) -> None:
    """Enrolment makes it where it is not there; forgetting leaves what others have in it."""
    settings = settings_of(changed("device", ledger="../ledger.db"), {})
    for name in ("power", "heat"):
        folder = DeviceFolder(tmp_path / name)
        folder.make()
        folder.keep_enrolment("bearer", settings)
        assert not folder.ledger_file.exists()
        assert folder.ledger_path(settings) == tmp_path / name / "../ledger.db"
        folder.ledger(settings).close()
    folder.forget(settings)
    assert (tmp_path / "ledger.db").exists()
    own = settings_of(TABLES, {})
    assert DeviceFolder(tmp_path).ledger_path(own) == tmp_path / "ledger.db"


def test_agents_of_several_folders_run_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in its folder, the page at the first; one that cannot work ends all."""
    ran: list[tuple[str, Any]] = []

    def run_device(folder: DeviceFolder, *_: Any, page_port: int | None, **more: Any) -> None:
        ran.append((folder.path.name, page_port))
        if folder.path.name == "broken":
            raise OSError("no")
        if len(ran) == 3:
            assert more["wait"](30.0)

    monkeypatch.setattr("rase.device.program.run_device", run_device)
    folders = [tmp_path / name for name in ("a", "b")]
    commands.run_agent(folders[0], rounds=1, page_port=7, more=folders[1:])
    assert sorted(ran) == [("a", 7), ("b", None)]
    with pytest.raises(OSError, match="no"):
        commands.run_agent(tmp_path / "c", rounds=None, more=[tmp_path / "broken"])
