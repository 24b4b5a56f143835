"""Closing a round: k_min, one batch for each fusion key, nothing left of the payloads."""

import os
import signal
from typing import TYPE_CHECKING

import pytest

from rase.shuffler.enrolment import revoke_devices
from rase.shuffler.opening import OuterOpenerPool

if TYPE_CHECKING:
    from tests.shuffler.conftest import MakeWorld, World


def filled(world: "World", fusion: list[str], *, round: int = 100) -> list[bytes]:
    """Send one report of each device, for the fusion keys given, and go to the close."""
    world.upload_time(round)
    wires = [world.seal(round, fusion=name) for name in fusion]
    for device, wire in enumerate(wires):
        world.send(device, wire)
    world.close_time(round)
    return wires


def test_a_round_is_released_whole_and_its_payloads_go(world: "World") -> None:
    """Outbox, state and erasure appear together; manifest and batch agree."""
    filled(world, ["fusion"] * 4)
    closed = world.closer().close_one()
    assert closed is not None
    assert (closed.state, closed.batches, closed.released) == ("released", 1, 4)
    assert world.rows("SELECT round, state FROM round") == [(100, "released")]
    assert world.rows("SELECT count(*) FROM report") == [(0,)]
    assert world.closer().forward_one() is not None
    manifest = world.ear.manifests[100, 1].manifest
    assert (manifest.n, manifest.k_min, manifest.method, manifest.shuffler) == (
        4,
        3,
        "uniform",
        "test",
    )
    assert world.closer().close_one() is None
    assert world.closer().forward_one() is None


def test_the_manifest_counts_devices_that_are_enrolled_and_not_revoked(
    make_world: "MakeWorld",
) -> None:
    """Six are enrolled, one is revoked and four report: the manifest says five, and signs it."""
    world = make_world(devices=6)
    filled(world, ["fusion"] * 4)
    ((last,),) = world.rows(
        "SELECT MAX(id) FROM device WHERE id NOT IN (SELECT device FROM report)"
    )
    revoke_devices(world.database, [f"{last:016x}"])
    world.closer().close_one()
    world.closer().forward_one()
    manifest = world.ear.manifests[100, 1].manifest
    assert (manifest.n, manifest.members) == (4, 5)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_below_k_nothing_is_released(world: "World", count: int) -> None:
    """A round with too few reports is told as withheld; the count stays here, the reports go."""
    filled(world, ["fusion"] * count)
    closed = world.closer().close_one()
    assert closed is not None
    assert (closed.state, closed.released, closed.dropped) == ("below_k", 0, count)
    assert world.rows("SELECT count(*) FROM report") == [(0,)]
    world.closer().forward_one()
    assert world.ear.batches[100, 0].inner == ()
    assert (world.ear.manifests[100, 0].manifest.method) == "withheld"


def test_withheld_rounds_look_alike(make_world: "MakeWorld") -> None:
    """Whether none or two came, the fusion centre gets bytes of the same size and content."""
    bodies = []
    for count in (0, 2):
        world = make_world()
        filled(world, ["fusion"] * count)
        world.closer().close_one()
        world.closer().forward_one()
        bodies.append(world.ear.bodies[100, 0])
    # The clocks and the keys of both worlds are the same, so nothing may differ.
    assert bodies[0] == bodies[1]


def test_reports_for_another_key_than_the_rounds_form_no_batch(make_world: "MakeWorld") -> None:
    """However many they are: only the one key of the round's keyset is released, and it is said."""
    world = make_world(devices=9)
    filled(world, ["fusion"] * 4 + ["next"] * 3 + ["fusion", "next"])
    closed = world.closer().close_one()
    assert closed is not None
    assert (closed.batches, closed.released, closed.minority, closed.dropped) == (1, 5, 4, 0)
    assert world.rows("SELECT keyset, reports FROM other_keyset") == [(1, 4)]
    assert world.closer().forward_one() is not None
    assert list(world.ear.batches) == [(100, world.openers["fusion"].id)]
    world = make_world(devices=4)
    filled(world, ["fusion"] * 2 + ["next"] * 2)
    closed = world.closer().close_one()
    assert closed is not None
    assert (closed.state, closed.released, closed.minority, closed.dropped) == ("below_k", 0, 2, 2)


def test_bad_envelopes_do_not_count(world: "World") -> None:
    """Reports that do not open are dropped and counted, and do not help to reach k_min."""
    world.upload_time(100)
    for device in range(4):
        wire = world.seal(100)
        world.send(device, wire if device < 2 else wire[:-1] + bytes([wire[-1] ^ 1]))
    world.close_time(100)
    closed = world.closer().close_one()
    assert closed is not None
    assert (closed.state, closed.unopened, closed.dropped) == ("below_k", 2, 2)


def test_a_mallows_plan_is_told_in_the_manifest(make_world: "MakeWorld") -> None:
    """The campaign's groups decide, and the signed manifest tells the loss."""
    plan = {"method": "mallows", "alpha": 2.0, "groups": ["a", "b"]}
    world = make_world(devices=6, groups=("a", "b"), shuffle=plan)
    filled(world, ["fusion"] * 6)
    world.closer().close_one()
    world.closer().forward_one()
    manifest = world.ear.manifests[100, 1].manifest
    assert manifest.method == "mallows"
    assert manifest.theta is not None
    assert manifest.alpha == pytest.approx(2.0)


def test_a_large_round_is_opened_by_processes(make_world: "MakeWorld") -> None:
    """The pool finds the same as one process, in the same order, bad ones included."""
    world = make_world()
    wires = [world.seal(100) for _ in range(8)]
    wires[3] = wires[3][:-1] + bytes([wires[3][-1] ^ 1])
    wires[5] += b"\0"
    wires[6] = b""
    keys = [world.openers["shuffler"]]
    alone = OuterOpenerPool(keys).open_envelopes(wires, campaign_hash=world.hash, kem=0x20)
    assert [item is None for item in alone] == [place in (3, 5, 6) for place in range(8)]
    with OuterOpenerPool(keys, processes=2, many=4) as opener:
        for _ in range(2):
            assert opener.open_envelopes(wires, campaign_hash=world.hash, kem=0x20) == alone
        assert opener.open_envelopes(wires[:3], campaign_hash=world.hash, kem=0x20) == alone[:3]
        # A worker that is killed loses no report, and the next round has new ones.
        for number in list(opener._workers()._processes):
            os.kill(number, signal.SIGKILL)
        for _ in range(2):
            assert opener.open_envelopes(wires, campaign_hash=world.hash, kem=0x20) == alone
