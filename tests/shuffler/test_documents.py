"""Campaigns and keysets: countersigned within a policy, looked up by tag and round."""

from typing import TYPE_CHECKING

import pytest

from rase.errors import BadSignature, Malformed, WireError
from rase.shuffler.documents import Documents, PolicyRefused, load_documents
from rase.shuffler.proposals import is_keyset
from rase.wire import cbor
from rase.wire.keys import Role
from rase.wire.signed import PinnedKeys, SignedCampaign, SignedKeyset

if TYPE_CHECKING:
    from tests.shuffler.conftest import World

NOW_S = 100_010


def test_a_campaign_gets_both_signatures_once(world: "World") -> None:
    """The same proposal again gives the same document; devices can verify it."""
    campaign = world.campaign_of(id="other")
    first, is_new = world.countersigner.campaign(world.proposal_of(campaign), now_s=NOW_S)
    again, is_new_again = world.countersigner.campaign(world.proposal_of(campaign), now_s=NOW_S)
    assert (is_new, is_new_again) == (True, False)
    assert first == again
    assert SignedCampaign.from_bytes(first.to_bytes(), world.pinned).campaign == campaign


@pytest.mark.any_store
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"epsilon": (5.0,)}, "epsilon must be at most 4"),
        ({"window_budget": 200.0}, "window_budget must be at most 100"),
        ({"k_min": 2}, "k_min must be at least 3"),
        ({"version": 2}, "version must be 1 at first"),
    ],
)
def test_the_policy_refuses(world: "World", changes: dict[str, object], reason: str) -> None:
    """What promises owners too little is not signed, and the reason is told."""
    campaign = world.campaign_of(id="other", **changes)
    with pytest.raises(PolicyRefused, match=reason):
        world.countersigner.campaign(world.proposal_of(campaign), now_s=NOW_S)
    assert world.documents.newest("other") is None


def test_all_reasons_are_told(world: "World") -> None:
    """A campaign that breaks three rules is told all three."""
    campaign = world.campaign_of(id="other", epsilon=(5.0,), window_budget=200.0, k_min=2)
    with pytest.raises(PolicyRefused, match=r"epsilon.*window_budget.*k_min"):
        world.countersigner.campaign(world.proposal_of(campaign), now_s=NOW_S)


def test_a_new_version_is_for_later_rounds(world: "World") -> None:
    """A version for rounds to come is signed; one for the present, or with other content, not."""
    for changes, reason in (
        ({"version": 2, "not_before": 100}, "not_before"),
        ({"version": 1, "beta": 0.4}, "other content"),
        ({"version": 3, "not_before": 200}, "version must be 2"),
    ):
        with pytest.raises(PolicyRefused, match=reason):
            world.countersigner.campaign(
                world.proposal_of(world.campaign_of(**changes)), now_s=NOW_S
            )
    second = world.campaign_of(version=2, not_before=105, beta=0.4)
    world.countersigner.campaign(world.proposal_of(second), now_s=NOW_S)
    documents = world.documents
    first, newest = documents.of_round("homes", 104), documents.newest("homes")
    assert first is not None
    assert newest is not None
    assert (first.campaign.version, newest.campaign.version) == (1, 2)
    assert documents.of_round("homes", 105) is newest
    assert (documents.last_round(first), documents.last_round(newest)) == (104, 10**6)
    assert documents.of_round("homes", 10**6 + 1) is None
    assert documents.of_round("nobody", 1) is None
    assert len(list(documents)) == 2


def test_only_the_fusion_centre_proposes(world: "World") -> None:
    """A document signed by anybody else, or by nobody, is refused."""
    campaign = world.campaign_of(id="other")

    def sign(data: bytes) -> object:
        if is_keyset(data):
            return world.countersigner.keyset(data, now_s=NOW_S)
        return world.countersigner.campaign(data, now_s=NOW_S)

    for data in (
        world.proposal_of(campaign, world.signers[Role.SHUFFLER]),
        cbor.encode([cbor.decode(world.proposal_of(campaign), max_size=9999)[0], bytes(64)]),
        world.proposal_of(world.keyset_of(2), world.signers[Role.SHUFFLER]),
    ):
        with pytest.raises(BadSignature):
            sign(data)


@pytest.mark.any_store
@pytest.mark.parametrize("data", [b"", b"\xff", cbor.encode([1, 2]), cbor.encode([b"", bytes(64)])])
def test_what_is_no_proposal_is_named(world: "World", data: bytes) -> None:
    """Bytes that are no proposal are refused by name."""
    with pytest.raises(WireError):
        is_keyset(data)
    with pytest.raises(WireError):
        world.countersigner.keyset(data, now_s=NOW_S)
    with pytest.raises(WireError):
        world.countersigner.campaign(data, now_s=NOW_S)


def test_a_campaign_must_be_the_one_announced(world: "World") -> None:
    """Id and version in the address must be those of the document."""
    with pytest.raises(Malformed, match="address"):
        world.countersigner.campaign(
            world.proposal_of(world.campaign), now_s=NOW_S, expected=("homes", 2)
        )


def test_two_campaigns_never_share_a_tag(world: "World") -> None:
    """A hash that begins like that of another campaign is refused."""
    with world.database.transaction() as transaction:
        transaction.execute("UPDATE campaign SET hash = ?", (world.hash[:8] + bytes(24),))
        transaction.execute("UPDATE campaign SET id = 'elsewhere'")
    with pytest.raises(PolicyRefused, match="begins like"):
        world.countersigner.campaign(world.proposal_of(world.campaign), now_s=NOW_S)


def test_keysets_never_go_back(world: "World") -> None:
    """A newer keyset is signed, the same again too; an older or different one is not."""
    second, is_new = world.countersigner.keyset(world.proposal_of(world.keyset_of(2)), now_s=NOW_S)
    assert is_new
    again = world.countersigner.keyset(world.proposal_of(world.keyset_of(2)), now_s=NOW_S)
    assert again == (second, False)
    for keyset in (world.keyset_of(1), world.keyset_of(2, cache_s=60)):
        with pytest.raises(PolicyRefused, match="above 2"):
            world.countersigner.keyset(world.proposal_of(keyset), now_s=NOW_S)
    with pytest.raises(PolicyRefused, match="cache_s must be at most"):
        world.countersigner.keyset(
            world.proposal_of(world.keyset_of(3, cache_s=10**7)), now_s=NOW_S
        )
    found = world.documents
    assert found.keyset == second.keyset
    assert SignedKeyset.from_bytes(found.signed_keyset, world.pinned) == second


def test_a_database_of_other_keys_is_refused(world: "World") -> None:
    """What is loaded is verified again: a changed database cannot give devices other terms."""
    wrong = PinnedKeys(world.pinned.fusion, bytes(32), world.pinned.registrar)
    with pytest.raises(BadSignature):
        load_documents(world.database, wrong)
    assert Documents().keyset is None
