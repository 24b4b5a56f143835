"""Devices report to the campaigns that they were admitted to, and to no other."""

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.enrolling import enrol, enrol_fleet
from tests.patience import PATIENCE_S
from tests.shuffler.conftest import campaign_of, proposal_of
from tests.shuffler.test_app import check_problem, handed, replies, report, talk

from rase.service.acts import list_acts
from rase.shuffler.enrolment import device_numbers, make_tokens
from rase.shuffler.membership import (
    add_members,
    list_members,
    open_devices,
    remove_members,
    write_campaigns,
)
from rase.validation import CampaignInvalid

if TYPE_CHECKING:
    from tests.shuffler.conftest import World

AIR = campaign_of(id="air")


@pytest.fixture
def world(world: "World") -> "World":
    """A world of four devices and of two campaigns, homes and air."""
    world.countersigner.campaign(proposal_of(AIR), now_s=world.clock.now_s())
    return world


def members(world: "World", campaign: str = "homes") -> list[int]:
    """Return the places of the world's devices that may report to a campaign."""
    found = {int(one.device, 16) for one in list_members(world.database, campaign)}
    return [place for place, device in enumerate(world.devices) if device in found]


def test_a_device_is_refused_by_name_where_it_is_no_member(world: "World") -> None:
    """Alone and through a gateway, known to the intake or not; its other campaign takes it."""
    world.upload_time(100)
    add_members(world.database, "air", world.devices[:2], only=True)
    foreign, own = world.seal(100), world.seal(100, campaign=AIR)

    async def work(client: httpx.AsyncClient) -> None:
        for device in (0, 0, 1):
            answer = await client.post(**report(world, foreign, device=device))
            check_problem(answer, 403, "not-a-member")
        pairs = [(world.credentials[1], foreign), (world.credentials[2], foreign)]
        answers = replies(await client.post(**handed(world, *pairs)))
        assert answers == [{"status": 403, "problem": "not-a-member"}, {"status": 201}]
        assert (await client.post(**report(world, own))).status_code == 201

    talk(world, work)
    assert world.counters()["problem_not_a_member"] == 4
    assert world.rows("SELECT COUNT(*) FROM report") == [(2,)]


def test_running_intakes_notice_changes(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is taken away is refused, who is added is taken, without a restart."""
    monkeypatch.setattr("rase.shuffler.report_handler._REFRESH_S", 0.005)
    world.upload_time(100)
    wire = world.seal(100)

    async def work(client: httpx.AsyncClient) -> None:
        async def until(status: int) -> None:
            async with asyncio.timeout(PATIENCE_S):
                while (await client.post(**report(world, wire))).status_code != status:
                    await asyncio.sleep(0.005)

        await until(201)
        remove_members(world.database, "homes", world.devices[:1])
        await until(403)
        add_members(world.database, "homes", world.devices[:1])
        await until(200)

    talk(world, work, reports_per_minute=100_000)


def test_what_waits_of_a_removed_device_is_not_released(world: "World") -> None:
    """It is erased with its round, and the manifest counts the members that are left."""
    world.upload_time(100)
    world.send_each(0, [world.seal(100, place=place) for place in range(4)])
    assert remove_members(world.database, "homes", world.devices[3:]) == 1
    world.close_time(100)
    closer = world.closer()
    while closer.step():
        pass
    manifest = world.ear.manifests[100, 1].manifest
    assert (manifest.n, manifest.members) == (3, 3)
    assert world.rows("SELECT COUNT(*) FROM report") == [(0,)]


def test_every_campaign_is_the_default_and_limits_are_kept(world: "World") -> None:
    """Adding changes nobody who serves all; removing keeps the others; opening ends all limits."""
    assert members(world) == members(world, "air") == [0, 1, 2, 3]
    assert add_members(world.database, "air", world.devices) == 0
    assert remove_members(world.database, "air", world.devices[:2]) == 2
    assert remove_members(world.database, "homes", world.devices[:1]) == 1
    assert (members(world), members(world, "air")) == ([1, 2, 3], [2, 3])
    # A campaign of later days has those alone whom nobody limited.
    world.countersigner.campaign(proposal_of(campaign_of(id="noise")), now_s=world.clock.now_s())
    assert members(world, "noise") == [2, 3]
    assert add_members(world.database, "homes", world.devices[:2], only=True) == 1
    assert open_devices(world.database, world.devices) == 2
    assert members(world, "noise") == members(world, "air") == [0, 1, 2, 3]
    named = {one.is_limited for one in list_members(world.database, "air")}
    assert named == {False}


def test_admission_carries_the_campaigns(world: "World") -> None:
    """A token's campaigns are those of its device, and a list's those of all on it."""
    (token,) = make_tokens(world.database, 1, expires_s=2**35, campaigns=["air", "later"])
    device = enrol(world.database, token, now_s=world.clock.now_s(), number=77).device
    (listed,) = enrol_fleet(world.database, [bytes(32)], campaigns=["air"])
    air, homes = (
        {one.device for one in list_members(world.database, name)} for name in ("air", "homes")
    )
    assert air - homes == {device, listed.device}
    said = [one.subject for one in list_acts(world.database) if one.act.startswith(("admit", "en"))]
    assert said[-2:] == ["1 to air, later", "1 to air"]


def test_each_change_is_in_the_log_of_acts(world: "World") -> None:
    """By handle, or by number if there are many; what changes nothing is not in it."""
    before = len(list_acts(world.database))
    remove_members(world.database, "air", world.devices[:1])
    remove_members(world.database, "air", world.devices[:1])
    open_devices(world.database, world.devices)
    many = enrol_fleet(world.database, [bytes([n]) * 32 for n in range(1, 102)])
    add_members(world.database, "air", [int(one.device, 16) for one in many], only=True)
    handle = f"{world.devices[0]:016x}"
    assert [(one.act, one.subject) for one in list_acts(world.database)[before:]] == [
        ("remove members", f"air {handle}"),
        ("open to every campaign", handle),
        ("enrol devices", "101"),
        ("add members", "air 101 devices"),
    ]


def test_what_is_wrong_changes_nothing(world: "World") -> None:
    """An unknown campaign, a device that is not enrolled, and an id that none can have."""
    with pytest.raises(LookupError, match="no campaign hmes here: there are air, homes"):
        remove_members(world.database, "hmes", world.devices)
    with pytest.raises(LookupError, match="nothing was changed"):
        remove_members(world.database, "homes", [world.devices[0], 5])
    with pytest.raises(CampaignInvalid, match="lower-case letters"):
        write_campaigns(["Homes"])
    with pytest.raises(ValueError, match="16 hexadecimal digits, got 'x'"):
        device_numbers(["X"])
    assert members(world) == [0, 1, 2, 3]
