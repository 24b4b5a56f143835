"""The promise towards the fusion centre: computed again before it is signed, and kept by k_min."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rase.accounting.campaign_claims import state_promise
from rase.campaign import Campaign
from rase.shuffler.documents import Policy, PolicyRefused

if TYPE_CHECKING:
    from tests.shuffler.conftest import MakeWorld, World

NOW_S = 100_010


def promising(world: "World", **changes: Any) -> Campaign:
    """Return a campaign with an honest promise."""
    return state_promise(world.campaign_of(id="other", **changes))


def test_an_honest_promise_is_countersigned(world: "World") -> None:
    """Devices get it with both signatures, claims and all."""
    campaign = promising(world)
    signed, is_new = world.countersigner.campaign(world.proposal_of(campaign), now_s=NOW_S)
    assert is_new
    assert signed.campaign == campaign


@pytest.mark.parametrize("name", ["epsilon", "guess", "loss_in_100"])
def test_a_promise_that_is_too_good_is_not_countersigned(world: "World", name: str) -> None:
    """A claim 5 % too small, in one number of one row, is refused with what holds."""
    campaign = promising(world)
    first, *rows = campaign.claims
    value = getattr(first, name)
    smaller = 0.5 + 0.95 * (value - 0.5) if name == "guess" else 0.95 * value
    table = (replace(first, **{name: smaller}), *rows)
    with pytest.raises(PolicyRefused, match=f"{name} of 1 reports must be at least"):
        world.countersigner.campaign(
            world.proposal_of(replace(campaign, claims=table)), now_s=NOW_S
        )
    assert world.documents.newest("other") is None


def test_the_operator_limits_promises(world: "World") -> None:
    """What a report may give away, and at which delta; no promise is needed."""
    policy = Policy(4.0, 100.0, 3, max_shuffled_epsilon=0.5, max_delta=1e-7)
    policy.check_campaign(world.campaign)
    with pytest.raises(PolicyRefused, match=r"shuffled_epsilon must be at most 0\.5.*delta must"):
        policy.check_campaign(promising(world))


def test_rounds_below_k_are_withheld_and_others_carry_the_promise(make_world: "MakeWorld") -> None:
    """The manifest of a release states it and is signed; one of a withheld round does not."""
    plain = make_world(devices=1).campaign
    campaign = state_promise(replace(plain, k_min=4))
    world = make_world(devices=4, **campaign.as_fields())
    for round, count in ((100, 4), (101, 3)):
        world.upload_time(round)
        for device in range(count):
            world.send(device, world.seal(round))
        world.close_time(round)
        closed = world.closer().close_one()
        assert closed is not None
        assert closed.state == ("released" if count == 4 else "below_k")
        world.closer().forward_one()
    released, withheld = (world.ear.manifests[key].manifest for key in ((100, 1), (101, 0)))
    assert (released.n, released.shuffled_epsilon, released.delta) == (
        4,
        campaign.shuffled_epsilon,
        1e-6,
    )
    assert (withheld.n, withheld.shuffled_epsilon, withheld.delta) == (0, None, None)


def test_carried_rounds_keep_the_promise(make_world: "MakeWorld") -> None:
    """k_min counts devices with one real report each, however often they sent while waiting."""
    plain = make_world(devices=1, carry_rounds=2, not_before=100).campaign
    campaign = state_promise(replace(plain, k_min=4))
    assert campaign.carry_rounds == 2
    world = make_world(devices=5, **campaign.as_fields())
    # Seven reports of three devices are not four; the last round of the block brings a fourth.
    found = []
    for round, senders in ((100, (0, 1, 2)), (101, (0, 1)), (102, (0, 1, 3))):
        world.upload_time(round)
        for device in senders:
            world.send(device, world.seal(round))
        world.close_time(round)
        closed = world.closer().close_one()
        assert closed is not None
        found.append((closed.state, closed.released, closed.carried, closed.dropped))
        world.closer().forward_one()
    assert found == [("carried", 0, 3, 0), ("carried", 0, 3, 2), ("released", 4, 0, 2)]
    waiting = [world.ear.manifests[round, 0].manifest for round in (100, 101)]
    assert [(one.n, one.shuffled_epsilon, one.delta) for one in waiting] == 2 * [(0, None, None)]
    released = world.ear.manifests[102, 1].manifest
    assert (released.n, released.shuffled_epsilon) == (4, campaign.shuffled_epsilon)
    assert len(world.ear.batches[102, 1].inner) == 4
    assert world.rows("SELECT count(*) FROM report") == [(0,)]
