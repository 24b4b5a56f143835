"""Reports, batches and campaigns that were moved, repeated or made up: none adds anything."""

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from tests.simulation.attacker import (
    batch_of,
    closed_and_forwarded,
    counts,
    put,
    received,
    sealed,
    sent_by,
)
from tests.simulation.compare import same_without_faults
from tests.simulation.processes import Device
from tests.simulation.setting import (
    CAMPAIGN,
    FIRST,
    OUTER_KEYS,
    PINNED,
    ROUND_S,
    SIGNERS,
)
from tests.simulation.world import World

from rase.campaign import Campaign
from rase.device.terms import OwnerRules, Terms, TermsRefused
from rase.fusion.countersign import NotCountersigned
from rase.transport.interface import Answer
from rase.transport.memory import Message
from rase.wire.keys import Role, SigningKey
from rase.wire.messages import (
    HEADER_SIZE,
    Batch,
    Header,
    batch_id,
)
from rase.wire.outer import OuterOpener
from rase.wire.signed import SignedCampaign, campaign_hash, signature_of, versions_bytes

if TYPE_CHECKING:
    from tests.simulation.conftest import MakeWorld

ROUND = ("round",)


def test_a_moved_report_adds_nothing(make_world: "MakeWorld") -> None:
    """A report with the header of another round or campaign is stored, and does not open."""
    world = make_world().run([ROUND])
    other = replace(CAMPAIGN, id="other-street", k_min=2)
    world.publisher().publish(other)
    rogues = [world.enrolled() for _ in range(4)]
    old = world.wires[FIRST][0][1]
    round = world.upload_round()
    fresh = world.wires[round][0][1]
    in_this_round = Header(1, world.hash[:8], round, 1).to_bytes() + old[HEADER_SIZE:]
    elsewhere = Header(1, campaign_hash(other)[:8], round, 1).to_bytes()
    world.clock.jump(-1)
    assert sent_by(world, rogues[0], old) == "round-closed"
    assert sent_by(world, rogues[0], in_this_round) == "201"
    assert [sent_by(world, rogue, elsewhere + fresh[HEADER_SIZE:]) for rogue in rogues[1:]] == [
        "201"
    ] * 3
    world.clock.jump(1)
    world.close_and_estimate()
    answers = world.rows(world.fusion, "SELECT campaign, state FROM rounds WHERE state <> 'open'")
    assert {state for campaign, state in answers if campaign == other.id} == {"withheld"}
    assert counts(world, round) == (5,) * len(CAMPAIGN.estimators)


def test_a_replayed_report_adds_nothing(make_world: "MakeWorld") -> None:
    """The same bytes from other enrolled devices open to one envelope, which counts once."""
    world = make_world()
    rogues = [world.enrolled() for _ in range(3)]
    world.upload_round()
    copied = world.wires[FIRST][0][1]
    world.clock.jump(-1)
    assert [sent_by(world, rogue, copied) for rogue in rogues] == ["201"] * 3
    world.clock.jump(1)
    world.close_and_estimate()
    world.round += 1
    assert world.rows(world.fusion, "SELECT opened, replayed FROM batches") == [(5, 3)]
    with world.fusion.database.transaction() as transaction:
        # What was refused is counted; for the comparison only the estimates matter.
        transaction.execute("UPDATE batches SET replayed = 0")
    same_without_faults(world, [ROUND])


def test_a_second_report_of_a_device_adds_nothing(make_world: "MakeWorld") -> None:
    """The first envelope of a device in a round counts, whatever else it sends."""
    world = make_world()
    round = world.upload_round()
    world.clock.jump(-1)
    for device, place in product(world.devices, (0, 300)):
        assert sent_by(world, device.credential, sealed(world, round, place)) == "200"
    world.clock.jump(1)
    world.close_and_estimate()
    world.round += 1
    same_without_faults(world, [ROUND])


def test_a_forged_report_adds_nothing(make_world: "MakeWorld") -> None:
    """Without a credential nothing is stored; what no device can draw is not counted."""
    world = make_world()
    rogue = world.enrolled()
    round = world.upload_round()
    world.clock.jump(-1)
    wire = sealed(world, round, 100)
    taken = world.devices[0].credential
    for forged in ("", "x", "0" * 16 + ".secret", taken[:-1], taken[:16] + rogue[16:]):
        assert sent_by(world, forged, wire) == "not-enrolled"
    # A place far beyond the clamped law's ends would move the mean at will.
    assert sent_by(world, rogue, sealed(world, round, 10**12)) == "201"
    world.clock.jump(1)
    world.close_and_estimate()
    world.round += 1
    assert world.rows(world.fusion, "SELECT opened, refused FROM batches") == [(5, 1)]
    same_without_faults(world, [ROUND])


def test_a_reordered_batch_adds_nothing(make_world: "MakeWorld") -> None:
    """Another order of a round's envelopes is refused unsigned, and adds nothing if signed."""
    world = make_world()
    round = world.upload_round()
    closed_and_forwarded(world)
    name, manifest, batch = batch_of(world, round)
    turned = replace(batch, inner=batch.inner[::-1])
    body = turned.to_bytes()
    assert received(world, batch_id(body), body, manifest) == "bad-batch"
    assert received(world, name, body, manifest) == "bad-batch"
    assert put(world, turned) == "201"
    replayed = world.rows(world.fusion, "SELECT opened, replayed FROM batches ORDER BY replayed")
    assert replayed == [(5, 0), (0, 5)]
    world.close_and_estimate()
    assert counts(world, round) == (5,) * len(CAMPAIGN.estimators)
    assert put(world, replace(batch, inner=batch.inner[1:] + batch.inner[:1])) == "final-round"
    assert received(world, name, batch.to_bytes(), manifest) == "200"
    assert counts(world, round) == (5,) * len(CAMPAIGN.estimators)


def test_a_moved_batch_adds_nothing(make_world: "MakeWorld") -> None:
    """Envelopes of one round do not open in another, even if the shuffler signs the move."""
    world = make_world().run([ROUND])
    _, _, old = batch_of(world, FIRST)
    round = world.upload_round()
    closed_and_forwarded(world)
    assert put(world, replace(old, round=round)) == "201"
    refused = world.rows(world.fusion, "SELECT opened, refused FROM batches WHERE round = ?", round)
    assert sorted(refused) == [(0, 5), (5, 0)]
    assert put(world, replace(old, campaign_hash=bytes(32))) == "unknown-campaign"
    assert put(world, replace(old, round=round + 1)) == "round-not-open"
    assert put(world, replace(old, round=FIRST - 1)) == "bad-batch"
    world.close_and_estimate()
    assert counts(world, round) == (5,) * len(CAMPAIGN.estimators)


def test_a_forged_batch_adds_nothing(make_world: "MakeWorld") -> None:
    """Anybody can seal envelopes for the fusion centre; without the shuffler they are nothing."""
    world = make_world()
    round = world.upload_round()
    wires = [sealed(world, round, 300) for _ in range(9)]
    inner = tuple(OuterOpener(world.hash, OUTER_KEYS).open(wire).inner for wire in wires)
    batch = Batch(world.hash, round, 7, inner)
    for signer in (SIGNERS[Role.FUSION], SigningKey.generate(Role.SHUFFLER)):
        assert put(world, batch, signer=signer) == "bad-batch"
    world.close_and_estimate()
    world.round += 1
    same_without_faults(world, [ROUND])


def offered(campaign: Campaign, fusion: SigningKey, shuffler: SigningKey) -> bytes:
    """Return a campaign with two signatures, whoever made them."""
    signatures = (signature_of(campaign, fusion), signature_of(campaign, shuffler))
    return SignedCampaign(campaign, *signatures).to_bytes()


GREEDY = replace(CAMPAIGN, estimators=("sample_mean",), k_min=2)
FAKE = {role: SigningKey.generate(role) for role in Role}


@pytest.mark.parametrize(
    ("fusion", "shuffler"),
    [
        (SIGNERS[Role.FUSION], FAKE[Role.SHUFFLER]),
        (FAKE[Role.FUSION], SIGNERS[Role.SHUFFLER]),
        (SIGNERS[Role.FUSION], SIGNERS[Role.FUSION]),
        (SIGNERS[Role.SHUFFLER], SIGNERS[Role.SHUFFLER]),
        (FAKE[Role.FUSION], FAKE[Role.SHUFFLER]),
    ],
    ids=["fusion alone", "shuffler alone", "fusion twice", "shuffler twice", "nobody"],
)
def test_one_server_cannot_give_a_device_its_own_campaign(
    fusion: SigningKey, shuffler: SigningKey
) -> None:
    """A campaign that not both servers signed is refused, by a new device too."""
    terms = Terms(CAMPAIGN.id, pinned=PINNED, rules=OwnerRules(report_epsilon=1.0))
    with pytest.raises(TermsRefused) as refused:
        terms.offer_campaign(offered(GREEDY, fusion, shuffler))
    assert refused.value.reason == "wrong-signature"
    assert terms.latest is None


def test_the_shuffler_signs_one_content_of_a_version(make_world: "MakeWorld") -> None:
    """The fusion centre cannot have a second campaign of the same version countersigned."""
    world = make_world()
    with pytest.raises(NotCountersigned, match="agreed with other content"):
        world.publisher()._countersigner.campaign(
            replace(GREEDY, k_min=3), signature_of(replace(GREEDY, k_min=3), SIGNERS[Role.FUSION])
        )


def test_a_device_keeps_the_campaign_of_all(make_world: "MakeWorld") -> None:
    """Even one that both servers signed does not replace the accepted one of the same version."""
    world = make_world().run([ROUND])
    device = world.devices[2]
    greedy = offered(GREEDY, SIGNERS[Role.FUSION], SIGNERS[Role.SHUFFLER])
    told = single_out(world, device, greedy)
    operations = [ROUND] * 4
    world.run(operations)
    assert told
    assert "event=terms-refused reason=changed" in world.log.getvalue()
    # It goes on under the campaign that it shares with all.
    assert counts(world, FIRST + 4) == (5,) * len(CAMPAIGN.estimators)
    same_without_faults(world, [ROUND, *operations])


def test_a_device_with_a_campaign_of_its_own_is_not_counted(make_world: "MakeWorld") -> None:
    """If both servers deceive a new device, its reports have another hash and are refused."""
    world = make_world()
    greedy = offered(GREEDY, SIGNERS[Role.FUSION], SIGNERS[Role.SHUFFLER])
    device = world.devices[2]
    single_out(world, device, greedy)
    # As one that has never heard of the campaign.
    device.forget_terms()
    for one in world.devices:
        one.step()
    world.clock.advance(FIRST * ROUND_S + ROUND_S + 1 - world.clock.now_s())
    for _ in range(30):
        for one in world.devices:
            one.step()
        world.clock.advance(30)
    sent = dict(world.wires[FIRST])
    assert Header.from_report(sent[2]).campaign_tag == campaign_hash(GREEDY)[:8]
    assert "problem=unknown-campaign" in world.log.getvalue()
    world.clock.advance(CAMPAIGN.closes_s(FIRST) - world.clock.now_s())
    world.close_and_estimate()
    assert counts(world, FIRST) == (4,) * len(CAMPAIGN.estimators)


def single_out(world: World, device: Device, campaign: bytes) -> list[str]:
    """Have one device told another campaign; return the paths that it asks for."""
    asked: list[str] = []
    honest = device.handler

    def handler(message: Message) -> Answer:
        if message.method == "GET" and "campaigns" in message.path:
            asked.append(message.path)
            return Answer(200, versions_bytes([campaign]))
        return honest(message)

    device.handler = handler
    device.close()
    return asked
