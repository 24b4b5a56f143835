"""Which campaigns and keysets a device admits; each refusal by its name."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.device.conftest import CAMPAIGN
from tests.promising import with_promise

from rase.device.terms import REASONS, OwnerRules, Terms, TermsRefused
from rase.errors import ConfigurationError, UnknownKey
from rase.wire.keys import Keyset, OpeningKey, Role, SigningKey
from rase.wire.signed import SignedCampaign, campaign_hash, signature_of, versions_bytes


def refusal(offer: Callable[[bytes], object], data: bytes) -> str:
    """Return the name under which an offer is refused."""
    with pytest.raises(TermsRefused) as caught:
        offer(data)
    assert REASONS[caught.value.reason] in str(caught.value)
    return caught.value.reason


def test_a_campaign_signed_by_both_is_accepted_once(world: Any) -> None:
    """The first offer is new, the same again is not."""
    terms = world.terms()
    data = world.shuffler.signed_campaign()
    assert terms.offer_campaign(data).campaign == world.shuffler.campaign
    assert terms.offer_campaign(data) is None
    assert terms.campaign_for(495_000).campaign.version == 1


def test_wrong_signatures_are_refused(world: Any) -> None:
    """A signature by another key, or in the other's place, is refused with the code of crypto."""
    shuffler, terms = world.shuffler, world.terms()
    campaign = shuffler.campaign
    fusion = signature_of(campaign, shuffler.signers[Role.FUSION])
    right = signature_of(campaign, shuffler.signers[Role.SHUFFLER])
    forged = signature_of(campaign, SigningKey.generate(Role.SHUFFLER))
    for pair in ((fusion, forged), (right, fusion), (fusion, fusion)):
        data = SignedCampaign(campaign, *pair).to_bytes()
        assert refusal(terms.offer_campaign, data) == "wrong-signature"
    with pytest.raises(TermsRefused) as caught:
        terms.offer_campaign(data)
    assert caught.value.exit_code == 6
    other = type(shuffler)(world.clock)
    assert (
        refusal(partial(terms.offer_keyset, now_s=0.0), other.signed_keyset()) == "wrong-signature"
    )


def test_bytes_that_are_no_document_are_refused(world: Any) -> None:
    """Truncated, empty and swapped documents are malformed."""
    terms, shuffler = world.terms(), world.shuffler
    data = shuffler.signed_campaign()
    for bad in (b"", data[:-1], data + b"\x00", b"\xff" * 40, shuffler.signed_keyset()):
        assert refusal(terms.offer_campaign, bad) == "malformed"
    for bad in (b"", shuffler.signed_keyset()[:-1], data):
        assert refusal(partial(terms.offer_keyset, now_s=0.0), bad) == "malformed"
    assert terms.accepted_terms == ((), None)


def test_another_campaign_is_refused(world: Any) -> None:
    """A device takes part in the campaign it was enrolled for."""
    data = world.shuffler.signed_campaign(replace(world.shuffler.campaign, id="other"))
    assert refusal(world.terms().offer_campaign, data) == "other-campaign"


def test_the_first_campaign_must_have_the_hash_the_owner_saw(world: Any) -> None:
    """With a pinned hash another first campaign is refused; later versions follow the rules."""
    shuffler = world.shuffler
    expected = campaign_hash(shuffler.campaign)
    terms = Terms(
        shuffler.campaign.id, pinned=shuffler.pinned, rules=world.rules, first_hash=expected
    )
    other = replace(shuffler.campaign, k_min=21)
    assert refusal(terms.offer_campaign, shuffler.signed_campaign(other)) == "wrong-hash"
    terms.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(not_before=500_000)
    assert terms.offer_campaign(shuffler.signed_campaign()) is not None


def test_a_version_never_goes_back(world: Any) -> None:
    """An older campaign or keyset, however well signed, is refused."""
    shuffler, terms = world.shuffler, world.terms()
    old, old_keys = shuffler.signed_campaign(), shuffler.signed_keyset()
    terms.offer_campaign(old)
    terms.offer_keyset(old_keys, now_s=0.0)
    shuffler.publish(not_before=500_000)
    shuffler.rotate()
    terms.offer_campaign(shuffler.signed_campaign())
    assert terms.offer_keyset(shuffler.signed_keyset(), now_s=0.0) is not None
    assert terms.offer_keyset(shuffler.signed_keyset(), now_s=0.0) is None
    assert refusal(terms.offer_campaign, old) == "went-back"
    assert refusal(partial(terms.offer_keyset, now_s=0.0), old_keys) == "went-back"


def test_a_change_without_a_new_version_is_refused(world: Any) -> None:
    """The same version with other content is refused, for campaign and keyset."""
    shuffler, terms = world.shuffler, world.terms()
    terms.offer_campaign(shuffler.signed_campaign())
    terms.offer_keyset(shuffler.signed_keyset(), now_s=0.0)
    changed = replace(shuffler.campaign, beta=0.4)
    assert refusal(terms.offer_campaign, shuffler.signed_campaign(changed)) == "changed"
    keyset = replace(shuffler.keyset, cache_s=1)
    assert (
        refusal(partial(terms.offer_keyset, now_s=0.0), shuffler.signed_keyset(keyset)) == "changed"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "kW"},
        {"window_budget": 25.0},
        {"k_min": 2},
        {"round_s": 60},
        {"not_before": 0},
        {"carry_rounds": 1},
        {"kem": "x25519"},
    ],
)
def test_a_new_version_that_promises_less_is_refused(world: Any, change: dict[str, Any]) -> None:
    """Unit, rounds and promises must stay, and versions begin in later rounds."""
    shuffler, terms = world.shuffler, world.terms()
    shuffler.campaign = replace(shuffler.campaign, kem="x-wing")
    terms.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(**{"not_before": 500_000, **change})
    assert refusal(terms.offer_campaign, shuffler.signed_campaign()) == "not-a-successor"


def test_a_new_range_is_taken_within_the_owners_limits_alone(world: Any) -> None:
    """A narrower or wider range follows; one beyond the owner's limits is refused by name."""
    world.rules = OwnerRules(report_epsilon=1.0, low=0.0, high=5000.0)
    shuffler, terms = world.shuffler, world.terms()
    terms.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(not_before=500_000, high=300.0)
    assert terms.offer_campaign(shuffler.signed_campaign()) is not None
    shuffler.publish(not_before=500_100, high=5000.0)
    assert terms.offer_campaign(shuffler.signed_campaign()) is not None
    shuffler.publish(not_before=500_200, high=5001.0)
    assert refusal(terms.offer_campaign, shuffler.signed_campaign()) == "range-above-limit"
    assert terms.campaign_for(500_200).campaign.high == 5000.0


def test_missed_versions_are_caught_up_with(world: Any) -> None:
    """A device that was away accepts a version beyond the next."""
    shuffler, terms = world.shuffler, world.terms()
    terms.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(version=5, not_before=500_000)
    assert terms.offer_campaign(shuffler.signed_campaign()) is not None
    assert terms.campaign_for(499_999).campaign.version == 1
    assert terms.campaign_for(500_000).campaign.version == 5


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (OwnerRules(report_epsilon=0.5), "epsilon-above-limit"),
        (OwnerRules(report_epsilon=1.0, high=2999.0), "range-above-limit"),
        (OwnerRules(report_epsilon=1.0, low=1.0), "range-above-limit"),
        (OwnerRules(report_epsilon=1.0, least_k=21), "k-below-limit"),
    ],
)
def test_the_owners_rules_are_kept(world: Any, rules: OwnerRules, reason: str) -> None:
    """Budget, range and crowd that the owner does not allow are refused by name."""
    world.rules = rules
    assert refusal(world.terms().offer_campaign, world.shuffler.signed_campaign()) == reason


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"shuffled_epsilon": 0.4}, "shuffled-epsilon-above-limit"),
        ({"span_shuffled_epsilon": 0.4}, "shuffled-epsilon-above-limit"),
        ({"most_delta": 1e-7}, "delta-above-limit"),
        ({"demands_cover": True}, "cover-off"),
        ({"report_epsilon": 0.9}, "epsilon-above-limit"),
    ],
)
def test_a_promise_beyond_the_owners_caps_is_refused(
    world: Any, rules: dict[str, Any], reason: str
) -> None:
    """Either number, for a report or a span, its delta, and going without cover reports."""
    is_covering = "demands_cover" not in rules
    world.shuffler.campaign = replace(with_promise(CAMPAIGN), cover=is_covering)
    for asked, expected in (({}, None), (rules, reason)):
        world.rules = OwnerRules(**({"report_epsilon": 1.0, "shuffled_epsilon": 0.5} | asked))
        signed = world.shuffler.signed_campaign()
        if expected is None:
            assert world.terms().offer_campaign(signed) is not None
        else:
            assert refusal(world.terms().offer_campaign, signed) == expected


def test_without_a_promise_the_noise_must_keep_the_cap(world: Any) -> None:
    """An owner who caps what the fusion centre learns takes no report that costs more."""
    world.rules = OwnerRules(report_epsilon=1.0, shuffled_epsilon=0.9)
    signed = world.shuffler.signed_campaign()
    assert refusal(world.terms().offer_campaign, signed) == "shuffled-epsilon-above-limit"


def test_the_largest_allowed_budget_is_taken() -> None:
    """A device takes the largest class within its owner's limit."""
    campaign = replace(CAMPAIGN, epsilon=(0.1, 0.5, 1.0, 2.0))
    assert OwnerRules(report_epsilon=1.5).epsilon_class(campaign) == 2
    assert OwnerRules(report_epsilon=0.05).epsilon_class(campaign) is None
    # Nothing but its own noise hides a report from the fusion centre here.
    assert OwnerRules(report_epsilon=1.5, shuffled_epsilon=0.6).epsilon_class(campaign) == 1
    assert OwnerRules(report_epsilon=1.5, span_shuffled_epsilon=0.4).epsilon_class(campaign) == 0
    with pytest.raises(ConfigurationError, match=r"owner\.low must be below owner\.high"):
        OwnerRules(report_epsilon=1, low=2, high=1)


def test_restored_terms_are_checked_again(world: Any) -> None:
    """Terms that were signed by keys no longer pinned are refused at the start."""
    shuffler = world.shuffler
    other = type(shuffler)(world.clock)
    terms = world.terms()
    with pytest.raises(TermsRefused, match="wrong-signature"):
        terms.restore([other.signed_campaign()], None)
    terms = world.terms()
    terms.restore([shuffler.signed_campaign()], shuffler.signed_keyset())
    assert terms.latest.campaign == shuffler.campaign


def test_keys_are_those_of_the_rounds_end(world: Any) -> None:
    """Without a keyset, or without a key of that time, nothing can be sealed."""
    shuffler, terms = world.shuffler, world.terms()
    signed = terms.offer_campaign(shuffler.signed_campaign())
    with pytest.raises(LookupError):
        terms.keys_for(signed, 0.0, round=7)
    end_s = signed.campaign.round_end_s(7)
    configs = tuple(
        key.config(not_before_s=end_s, not_after_s=end_s + 10) for key in shuffler.keys.values()
    )
    keyset = Keyset(version=1, cache_s=1, configs=configs)
    terms.offer_keyset(shuffler.signed_keyset(keyset), now_s=0.0)
    chosen = terms.keys_for(signed, end_s, round=7)
    assert [key.role for key in chosen[:2]] == [Role.SHUFFLER, Role.FUSION]
    # Of the shuffler no key is taken any more; of the fusion centre none was active then.
    with pytest.raises(UnknownKey):
        terms.keys_for(signed, end_s + 12.0, round=7)
    with pytest.raises(UnknownKey):
        terms.keys_for(signed, end_s, round=6)


def test_a_round_in_which_keys_are_renewed_is_sealed_for_one_of_them(world: Any) -> None:
    """The fusion centre's key follows from the round, whenever and however often it is sealed."""
    shuffler, terms = world.shuffler, world.terms()
    signed = terms.offer_campaign(shuffler.signed_campaign())
    end_s = signed.campaign.round_end_s(7)
    old = [key.config(not_before_s=0, not_after_s=end_s + 5) for key in shuffler.keys.values()]
    new = [
        OpeningKey.generate(role, 2).config(not_before_s=end_s + 5, not_after_s=end_s + 9000)
        for role in shuffler.keys
    ]
    keyset = Keyset(version=2, cache_s=10, configs=(*old, *new))
    terms.offer_keyset(shuffler.signed_keyset(keyset), now_s=0.0)

    def chosen(now_s: float, **more: bool) -> list[int]:
        return [key.id for key in terms.keys_for(signed, now_s, round=7, **more)[:2]]

    before, after = old[0].id, new[0].id
    assert chosen(end_s + 4.0) == chosen(end_s + 6.0) == [before, before]
    # The shuffler takes its old key for twice the cache time, and not a second longer.
    assert chosen(end_s + 24.0) == [before, before]
    assert chosen(end_s + 25.0) == [after, before]
    # What it refused as outdated is sealed for its key of now, but for the same fusion centre's.
    assert chosen(end_s + 6.0, is_outdated=True) == [after, before]
    assert [key.id for key in terms.keys_for(signed, end_s + 6.0, round=8)[:2]] == [after, after]


def test_versions_that_hold_no_more_are_forgotten(world: Any) -> None:
    """The latest stays always, an earlier one until the next has begun."""
    shuffler, terms = world.shuffler, world.terms()
    terms.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(not_before=500_000)
    terms.offer_campaign(shuffler.signed_campaign())
    first = terms.accepted_terms[0][0]
    terms.forget_before(499_999)
    assert len(terms.accepted_terms[0]) == 2
    assert terms.campaign_by_tag(first.hash[:8]) is first
    terms.forget_before(500_000)
    assert [signed.campaign.version for signed in terms.accepted_terms[0]] == [2]
    assert terms.campaign_by_tag(first.hash[:8]) is None


def versions_of(shuffler: Any, *campaigns: Any) -> bytes:
    """Return signed versions as one document."""
    return versions_bytes(shuffler.signed_campaign(campaign) for campaign in campaigns)


def test_of_several_versions_the_unknown_ones_are_taken_in_order(world: Any) -> None:
    """What was accepted is compared, what was forgotten passed over, what is new handed on."""
    shuffler, terms = world.shuffler, world.terms()
    first = shuffler.campaign
    second, third = (shuffler.publish(not_before=500_000 + step) for step in (1, 2))
    whole = versions_of(shuffler, first, second, third)
    for version in terms.new_versions(whole):
        assert terms.offer_campaign(version) is not None
    assert [terms.campaign_for(500_000 + step).campaign for step in range(4)] == [
        first,
        second,
        third,
        third,
    ]
    assert terms.new_versions(whole) == ()
    terms.forget_before(500_002)
    assert terms.new_versions(versions_of(shuffler, second, third)) == ()
    fourth = shuffler.publish(not_before=500_009)
    (new,) = terms.new_versions(versions_of(shuffler, third, fourth))
    assert terms.offer_campaign(new).campaign == fourth
    assert refusal(terms.new_versions, whole) == "went-back"
    changed = replace(third, rho=0.5)
    data = versions_of(shuffler, changed, fourth)
    assert refusal(terms.new_versions, data) == "changed"


def test_versions_that_cannot_be_a_history_are_refused(world: Any) -> None:
    """Not ascending, nothing, something else, or one that a server did not sign."""
    shuffler, terms = world.shuffler, world.terms()
    first, second = shuffler.campaign, shuffler.publish(not_before=500_001)
    for data in (
        b"",
        shuffler.signed_campaign(),
        versions_bytes([]),
        versions_of(shuffler, second, first),
        versions_of(shuffler, first, first),
        versions_bytes([shuffler.signed_campaign(first), b"?"]),
    ):
        assert refusal(terms.new_versions, data) == "malformed"
    other = type(shuffler)(shuffler.clock)
    assert refusal(terms.new_versions, versions_of(other, first)) == "wrong-signature"
    assert terms.latest is None


def test_the_hash_shown_to_the_owner_decides_where_versions_begin(world: Any) -> None:
    """Versions before it are passed over; without it all are refused."""
    shuffler = world.shuffler
    first, second = shuffler.campaign, shuffler.publish(not_before=500_001)
    terms = world.terms(first_hash=campaign_hash(second))
    whole = versions_of(shuffler, first, second)
    assert terms.new_versions(whole) == (shuffler.signed_campaign(second),)
    assert refusal(terms.new_versions, versions_of(shuffler, first)) == "wrong-hash"


def test_after_the_last_round_of_the_newest_version_none_holds(world: Any) -> None:
    """An earlier version that would reach further has been replaced all the same."""
    shuffler, terms = world.shuffler, world.terms()
    terms.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(not_before=496_000, not_after=496_001)
    terms.offer_campaign(shuffler.signed_campaign())
    held = [terms.campaign_for(round) for round in (495_999, 496_001, 496_002)]
    assert [signed and signed.campaign.version for signed in held] == [1, 2, None]
