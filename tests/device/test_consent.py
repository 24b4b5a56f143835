"""What owners agreed to holds for later versions, until they say something else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rase.campaign import Campaign, ShufflePlan
from rase.device.consent import Consent, is_weaker, needs_consent
from rase.device.memory import Memory
from rase.device.state import DeviceState, StateFile, StateUnusable
from rase.device.terms import REASONS, OwnerRules, Terms, TermsRefused
from rase.errors import ConfigurationError

HOUR = 3600
UNIFORM = ShufflePlan()
MALLOWS = ShufflePlan("mallows", 1.0, ("east", "west"))
ROBUST = ShufflePlan("robust", 1.0, ("east", "west"))


def refused(terms: Terms, data: bytes) -> TermsRefused:
    """Return how an offer is refused."""
    with pytest.raises(TermsRefused) as caught:
        terms.offer_campaign(data)
    return caught.value


def again(world: Any, terms: Terms, rules: OwnerRules) -> Terms:
    """Return the terms of an agent that was started anew, with other rules."""
    world.rules = rules
    restored: Terms = world.terms()
    campaigns, _ = terms.accepted_terms
    restored.restore([one.to_bytes() for one in campaigns], None, consent=terms.consent)
    return restored


def test_a_rise_of_epsilon_needs_another_word(world: Any) -> None:
    """Below the owner's limit, too; the refusal says what to set, and then it is taken."""
    world.rules = OwnerRules(report_epsilon=4.0)
    shuffler, terms = world.shuffler, world.terms()
    terms.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(not_before=500_000, epsilon=(2.0,))
    error = refused(terms, shuffler.signed_campaign())
    assert error.reason == "epsilon-above-consent"
    assert "Least 2, agreed 1." in str(error)
    assert "owner.epsilon_may_rise = true" in str(error)
    agreed = again(world, terms, OwnerRules(report_epsilon=4.0, epsilon_may_rise=True))
    assert agreed.offer_campaign(shuffler.signed_campaign()) is not None
    # One word is one word: without it, the next rise asks again, and this one stays agreed.
    later = again(world, agreed, OwnerRules(report_epsilon=4.0))
    assert later.epsilon_class(shuffler.campaign) == 0
    shuffler.publish(not_before=500_100, epsilon=(3.0,))
    assert refused(later, shuffler.signed_campaign()).reason == "epsilon-above-consent"


def test_a_raised_limit_is_another_word(world: Any) -> None:
    """Who raises report_epsilon after enrolment agrees to it, once."""
    shuffler, terms = world.shuffler, world.terms()
    terms.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(not_before=500_000, epsilon=(2.0,))
    assert refused(terms, shuffler.signed_campaign()).reason == "epsilon-above-limit"
    raised = again(world, terms, OwnerRules(report_epsilon=3.0))
    assert raised.offer_campaign(shuffler.signed_campaign()) is not None
    shuffler.publish(not_before=500_100, epsilon=(3.0,))
    assert refused(raised, shuffler.signed_campaign()).reason == "epsilon-above-consent"


def test_a_limit_raised_beforehand_waits_for_the_rise(world: Any) -> None:
    """Versions in between, which cost no more, do not use the word up."""
    shuffler, terms = world.shuffler, world.terms()
    terms.offer_campaign(shuffler.signed_campaign())
    raised = again(world, terms, OwnerRules(report_epsilon=2.0))
    shuffler.publish(not_before=500_000, k_min=30)
    raised.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(not_before=500_100, epsilon=(2.0,))
    assert raised.offer_campaign(shuffler.signed_campaign()) is not None


def test_of_several_budgets_the_largest_agreed_one_is_taken(world: Any) -> None:
    """A version with a class within what was agreed is no reason to refuse."""
    world.rules = OwnerRules(report_epsilon=4.0)
    shuffler, terms = world.shuffler, world.terms()
    terms.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(not_before=500_000, epsilon=(0.5, 1.0, 2.0))
    terms.offer_campaign(shuffler.signed_campaign())
    assert terms.epsilon_class(shuffler.campaign) == 1
    # Going down is nobody's loss, and back up to what was agreed neither.
    shuffler.publish(not_before=500_100, epsilon=(0.5,))
    terms.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(not_before=500_200, epsilon=(1.0,))
    assert terms.offer_campaign(shuffler.signed_campaign()) is not None


def test_a_weaker_shuffle_needs_another_word(world: Any) -> None:
    """Mallows after uniform is refused, says what to set, and is then taken up to that."""
    shuffler, terms = world.shuffler, world.terms()
    terms.offer_campaign(shuffler.signed_campaign())
    shuffler.publish(not_before=500_000, shuffle=MALLOWS)
    error = refused(terms, shuffler.signed_campaign())
    assert error.reason == "shuffle-weaker"
    assert "Got mallows with alpha 1, agreed uniform with alpha 0." in str(error)
    assert "owner.most_alpha" in str(error)
    low = again(world, terms, OwnerRules(report_epsilon=1.0, most_alpha=0.5))
    assert refused(low, shuffler.signed_campaign()).reason == "alpha-above-limit"
    agreed = again(world, terms, OwnerRules(report_epsilon=1.0, most_alpha=1.0))
    assert agreed.offer_campaign(shuffler.signed_campaign()) is not None
    # What was agreed once stays so without the setting.
    later = again(world, agreed, OwnerRules(report_epsilon=1.0))
    shuffler.publish(not_before=500_100, shuffle=replace(MALLOWS, alpha=0.5))
    assert later.offer_campaign(shuffler.signed_campaign()) is not None
    shuffler.publish(not_before=500_200, shuffle=replace(MALLOWS, alpha=2.0))
    assert refused(later, shuffler.signed_campaign()).reason == "shuffle-weaker"


def test_an_owner_may_insist_on_the_uniform_shuffle(world: Any) -> None:
    """With most_alpha = 0 the first campaign is judged as well."""
    world.rules = OwnerRules(report_epsilon=1.0, most_alpha=0.0)
    shuffler = world.shuffler
    mallows = replace(shuffler.campaign, shuffle=MALLOWS)
    error = refused(world.terms(), shuffler.signed_campaign(mallows))
    assert error.reason == "alpha-above-limit"
    assert world.terms().offer_campaign(shuffler.signed_campaign()) is not None


@pytest.mark.parametrize("alpha", [-1.0, float("nan")])
def test_a_limit_of_the_order_is_a_number_from_zero_on(alpha: float) -> None:
    """Anything else is a mistake, never a rule that holds for nothing."""
    with pytest.raises(ConfigurationError, match="most_alpha must be 0 or greater"):
        OwnerRules(report_epsilon=1.0, most_alpha=alpha)


@pytest.mark.parametrize(
    ("new", "agreed", "weaker"),
    [
        (UNIFORM, UNIFORM, False),
        (UNIFORM, MALLOWS, False),
        (MALLOWS, UNIFORM, True),
        (ROBUST, UNIFORM, True),
        (MALLOWS, MALLOWS, False),
        (MALLOWS, ROBUST, True),
        (ROBUST, MALLOWS, False),
        (replace(MALLOWS, alpha=0.9), MALLOWS, False),
        (replace(MALLOWS, alpha=1.1), MALLOWS, True),
        (replace(MALLOWS, groups=("east",)), MALLOWS, True),
        (replace(MALLOWS, groups=("west", "east")), MALLOWS, True),
    ],
)
def test_which_shuffles_are_weaker(new: ShufflePlan, agreed: ShufflePlan, weaker: bool) -> None:
    """Uniform is the strongest; other groups cannot be compared, so they count as weaker."""
    assert is_weaker(new, agreed) is weaker


def test_operators_are_told_when_owners_are_to_be_asked(world: Any) -> None:
    """A higher least epsilon or a weaker shuffle needs consent, another budget beside it not."""
    now: Campaign = world.shuffler.campaign
    assert needs_consent(replace(now, epsilon=(2.0,)), now)
    assert needs_consent(replace(now, shuffle=MALLOWS), now)
    assert not needs_consent(replace(now, epsilon=(0.5, 2.0)), now)
    assert not needs_consent(replace(now, k_min=30), now)


def test_consent_is_kept_with_the_state(world: Any) -> None:
    """A restarted agent knows it; a version that could not be saved was not agreed to."""
    world.rules = OwnerRules(report_epsilon=4.0)
    store, shuffler = world.store(), world.shuffler
    memory = Memory(world.terms(), store)
    memory.offer_campaign(shuffler.signed_campaign(), lambda campaign: None)
    assert Memory(world.terms(), store).terms.consent == Consent(1.0, 4.0, UNIFORM)

    def full(campaign: Campaign) -> None:
        raise StateUnusable("the disk is full.")

    world.rules = OwnerRules(report_epsilon=4.0, epsilon_may_rise=True)
    memory = Memory(world.terms(), store)
    shuffler.publish(not_before=500_000, epsilon=(2.0,))
    with pytest.raises(StateUnusable):
        memory.offer_campaign(shuffler.signed_campaign(), full)
    assert memory.terms.consent == Consent(1.0, 4.0, UNIFORM)


def test_a_state_without_consent_is_one_to_what_it_holds(world: Any, tmp_path: Path) -> None:
    """Files of earlier programs have none: then the first version they hold is agreed to."""
    data = world.shuffler.signed_campaign()
    store = StateFile(tmp_path / "state.json")
    store.save(DeviceState(campaigns=(data,)))
    world.rules = OwnerRules(report_epsilon=4.0)
    assert Memory(world.terms(), store).terms.consent == Consent(1.0, 4.0, UNIFORM)
    # An owner who allows less than the campaign asks for takes no part, and agreed to no more.
    world.rules = OwnerRules(report_epsilon=0.5)
    assert Memory(world.terms(), store).terms.consent == Consent(0.5, 0.5, UNIFORM)


def test_consent_comes_back_from_plain_values() -> None:
    """What is written is read again; what is none is refused."""
    consent = Consent(1.0, 2.0, MALLOWS)
    assert Consent.from_fields(consent.as_fields()) == consent
    with pytest.raises(ValueError, match="greater than 0"):
        Consent.from_fields({**consent.as_fields(), "epsilon": float("nan")})


def test_nothing_is_spent_in_the_rounds_of_a_refused_version(world: Any) -> None:
    """No noise is drawn for rounds in which no report would be taken; later versions are joined."""
    world.rules = OwnerRules(report_epsilon=4.0)
    shuffler = world.shuffler
    world.source.always = 10.0
    first = int(world.clock.now_s()) // HOUR
    agent = world.agent()
    world.run(agent, 2 * HOUR)
    shuffler.publish(not_before=first + 4, epsilon=(2.0,))
    shuffler.publish(not_before=first + 6, epsilon=(1.0,))
    world.run(agent, 8 * HOUR)
    spent = {entry.round for entry in world.ledgers[0].history()}
    assert spent >= {first, first + 3, first + 6, first + 8}
    assert not spent & {first + 4, first + 5}
    assert not {first + 4, first + 5} & {round for _, round in shuffler.stored}
    assert {"reason": "epsilon-above-consent"} in world.notes.of("terms-refused")
    assert REASONS["epsilon-above-consent"].endswith("that you allow.")
