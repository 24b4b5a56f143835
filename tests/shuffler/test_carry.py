"""Rounds below k_min that wait for company: who is released with whom, and what is left of it."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rase.shuffler.documents import PolicyRefused
from rase.shuffler.release import Closed
from rase.shuffler.rounds import begin_rounds, claim_round
from rase.wire.inner import InnerOpener
from rase.wire.messages import Content

if TYPE_CHECKING:
    from tests.shuffler.conftest import MakeWorld, World

# The campaign begins with round 100, so blocks of three begin with 100, 103, ...
BLOCK = (100, 101, 102)


@pytest.fixture
def carrying(make_world: "MakeWorld") -> "World":
    """A world of six devices whose campaign carries for two rounds; k_min is 3."""
    return make_world(devices=6, carry_rounds=2, not_before=100)


def closed(world: "World", round: int, *senders: int, fusion: str = "fusion") -> Closed:
    """Let devices send in a round, each its own place, and close and forward the round."""
    world.upload_time(round)
    for device in senders:
        world.send(device, world.seal(round, place=10 * (round - 100) + device, fusion=fusion))
    world.close_time(round)
    found = world.closer().close_one()
    assert found is not None
    assert world.closer().forward_one() is not None
    return found


def places(world: "World", round: int) -> list[int]:
    """Return the places in a round's batch, as the fusion centre reads them."""
    opener = InnerOpener(world.hash, [world.openers["fusion"]], class_count=1)
    first = world.campaign.block_start(round)
    found = [
        opener.open(inner, key_id=1, round=first) for inner in world.ear.batches[round, 1].inner
    ]
    # All that the fusion centre reads beside the places is one and the same.
    assert {Content(one.round, 0, one.epsilon_class) for one in found} == {Content(first, 0)}
    return sorted(one.place for one in found)


def test_a_small_round_waits_and_is_released_with_the_next(carrying: "World") -> None:
    """Two wait, one more makes three: one batch of both rounds, and nothing is left here."""
    first = closed(carrying, 100, 0, 1)
    assert (first.state, first.released, first.carried, first.dropped) == ("carried", 0, 2, 0)
    assert carrying.ear.manifests[100, 0].manifest.method == "withheld"
    assert carrying.rows("SELECT count(*) FROM report") == [(2,)]
    second = closed(carrying, 101, 2)
    assert (second.state, second.batches, second.released) == ("released", 1, 3)
    assert places(carrying, 101) == [0, 1, 12]
    assert carrying.ear.manifests[101, 1].manifest.n == 3
    assert carrying.rows("SELECT count(*) FROM report") == [(0,)]


def test_k_min_counts_devices_and_each_has_one_report(carrying: "World") -> None:
    """Two devices that report twice are two; then the newest of each is released."""
    assert closed(carrying, 100, 0, 1).state == "carried"
    again = closed(carrying, 101, 0, 1)
    assert (again.state, again.carried, again.dropped) == ("carried", 2, 2)
    assert carrying.rows("SELECT DISTINCT round FROM report") == [(101,)]
    assert closed(carrying, 102, 1, 2).released == 3
    assert places(carrying, 102) == [10, 21, 22]


def test_nothing_waits_beyond_its_block(carrying: "World") -> None:
    """The block's last round erases what is still too few; the next block begins with none."""
    assert [closed(carrying, round, 0).state for round in BLOCK] == [
        "carried",
        "carried",
        "below_k",
    ]
    assert carrying.rows("SELECT count(*) FROM report") == [(0,)]
    assert closed(carrying, 103, 1, 2).state == "carried"


def test_a_released_round_leaves_nothing_to_the_next(carrying: "World") -> None:
    """Enough in one round go at once, as without carrying, and do not help those after them."""
    assert closed(carrying, 100, 0, 1, 2).released == 3
    assert closed(carrying, 101, 3, 4).state == "carried"
    assert closed(carrying, 102, 5).released == 3
    assert places(carrying, 102) == [13, 14, 25]


def test_a_version_that_ends_carries_nothing_over(carrying: "World") -> None:
    """Reports of the old version cannot be opened under the new one, so they go with it."""
    assert closed(carrying, 100, 0, 1).state == "carried"
    later = carrying.campaign_of(carry_rounds=2, version=2, not_before=102)
    now_s = carrying.campaign.round_end_s(100)
    carrying.countersigner.campaign(carrying.proposal_of(later), now_s=now_s)
    assert closed(carrying, 101).state == "below_k"
    assert carrying.rows("SELECT count(*) FROM report") == [(0,)]


def test_reports_of_two_fusion_keys_wait_apart(carrying: "World") -> None:
    """The key changes inside a block: what waits for the old one is never mixed with the new."""
    with carrying.database.transaction() as transaction:
        transaction.execute("DELETE FROM keyset")
    keyset = carrying.keyset_of(2)
    begin_s = carrying.campaign.round_end_s(100) + 1
    new = carrying.openers["next"].config(not_before_s=0, not_after_s=1).public_key
    configs = tuple(
        replace(one, not_before_s=begin_s) if one.public_key == new else one
        for one in keyset.configs
    )
    proposal = carrying.proposal_of(replace(keyset, configs=configs))
    carrying.countersigner.keyset(proposal, now_s=carrying.clock.now_s())
    for round, senders, fusion in ((100, (0, 1), "fusion"), (101, (2, 3, 4), "next")):
        carrying.upload_time(round)
        for device in senders:
            carrying.send(device, carrying.seal(round, fusion=fusion, keyset=2))
        carrying.close_time(round)
        found = carrying.closer().close_one()
    assert found is not None
    assert (found.state, found.batches, found.released, found.carried) == ("released", 1, 3, 2)
    while carrying.closer().forward_one() is not None:
        pass
    assert len(carrying.ear.batches[101, 2].inner) == 3


def test_bad_envelopes_do_not_wait(carrying: "World") -> None:
    """What does not open is erased at once, and does not replace what does."""
    closed(carrying, 100, 0)
    carrying.upload_time(101)
    wire = carrying.seal(101)
    carrying.send(0, wire[:-1] + bytes([wire[-1] ^ 1]))
    carrying.close_time(101)
    found = carrying.closer().close_one()
    assert found is not None
    assert (found.state, found.unopened, found.carried) == ("carried", 1, 1)
    assert carrying.rows("SELECT round FROM report") == [(100,)]


def test_a_revoked_device_does_not_wait(carrying: "World") -> None:
    """Its report is not released with the next round, and goes with the close."""
    closed(carrying, 100, 0, 1)
    with carrying.database.transaction() as transaction:
        transaction.execute("DELETE FROM device WHERE id = ?", (carrying.devices[0],))
    assert closed(carrying, 101, 2).state == "carried"
    assert carrying.rows("SELECT count(*) FROM report") == [(2,)]


def test_rounds_of_a_block_are_closed_in_their_order(carrying: "World") -> None:
    """While one closer holds a round, no other takes the next of its block, but of another does."""
    for round in (100, 101):
        carrying.upload_time(round)
        carrying.send(0, carrying.seal(round))
    carrying.close_time(103)
    now_s = carrying.clock.now_s()
    begin_rounds(carrying.database, carrying.documents, now_s=now_s)
    taken = [claim_round(carrying.database, now_s=now_s, lease_s=60) for _ in range(3)]
    assert [lease and lease.round for lease in taken] == [100, 103, None]


def test_the_operator_agrees_to_carrying_or_not(make_world: "MakeWorld") -> None:
    """A campaign that keeps reports longer than the policy says is not countersigned."""
    with pytest.raises(PolicyRefused, match="carry_rounds must be at most 2 here, got 3"):
        make_world(carry_rounds=3)
