"""The promise towards the fusion centre: fitted, published, checked, and in every answer."""

from dataclasses import replace
from typing import Any

import pytest
from tests.fusion.conftest import CAMPAIGN, ROUND, Centre, envelope, parcel, reports

from rase.accounting.campaign_claims import state_promise
from rase.campaign import Campaign
from rase.errors import WireError
from rase.fusion.campaigns import next_version
from rase.fusion.mechanism import campaign_of
from rase.fusion.mqtt import fleet_discovery
from rase.theme.promises import in_words
from rase.validation import CampaignInvalid

PROMISING = state_promise(replace(CAMPAIGN, id="promising", mechanism="duchi", epsilon=(0.5,)))
SAID: dict[str, Any] = {"shuffled_epsilon": PROMISING.shuffled_epsilon, "delta": 1e-6}


@pytest.fixture
def centre(centre: Centre) -> Centre:
    """A fusion centre with a campaign that promises something."""
    centre.clock.jump(PROMISING.not_before * PROMISING.round_s - centre.clock.now_s())
    centre.publisher.publish(PROMISING)
    centre.clock.jump(PROMISING.closes_s(ROUND + 2) + 60 - centre.clock.now_s())
    return centre


def receive(centre: Centre, *inner: bytes, round: int = ROUND, **said: Any) -> None:
    """Take in a batch of the campaign."""
    one = parcel(inner, round=round, campaign=PROMISING, **said)
    one.deliver(centre.intake)


def sealed(places: list[int], round: int = ROUND) -> list[bytes]:
    """Return envelopes for the campaign."""
    return reports(places, campaign=PROMISING, round=round)


def test_answers_carry_both_promises(centre: Centre) -> None:
    """Each round and each window has them in fields and in words; tables of answers, too."""
    for round in (ROUND, ROUND + 1):
        receive(centre, *sealed([0, 0, 4096, 4096], round), round=round, **SAID)
    centre.rounds.tick()
    first = PROMISING.claims[0]
    answer = centre.questions.at(PROMISING, ROUND)
    assert (answer.status, answer.local_epsilon) == ("ok", 0.5)
    assert (answer.shuffled_epsilon, answer.delta) == (first.epsilon, 1e-6)
    assert answer.promise == in_words(first, "round")
    assert answer.promise.startswith("Towards the fusion centre: (")
    assert "if both servers work together: epsilon 0.5" in answer.promise
    assert "promises (0.5, 1e-06)-DP of each report towards the fusion centre" in answer.shuffle
    (window,) = centre.questions.windows(PROMISING, 2, first=ROUND + 1, last=ROUND + 1)
    assert (window.local_epsilon, window.shuffled_epsilon) == (1.0, PROMISING.claims[1].epsilon)
    assert window.promise == in_words(PROMISING.claims[1], "set of 2 rounds")
    with centre.database.snapshot() as transaction:
        rows = transaction.execute(
            "SELECT DISTINCT local_epsilon, shuffled_epsilon, delta FROM answers "
            "WHERE campaign = 'promising'"
        )
    assert rows == [(0.5, first.epsilon, 1e-6)]


def test_answers_say_how_many_reports_may_be_of_whoever_looks(centre: Centre) -> None:
    """The promise is that of k_min - colluding reports, and the sentence says so."""
    plain = replace(CAMPAIGN, id="promising", mechanism="duchi", epsilon=(0.5,))
    campaign = state_promise(plain, colluding=1)
    assert campaign.claims[0].guess > PROMISING.claims[0].guess
    answer = centre.questions.at(campaign, ROUND)
    assert answer.promise == in_words(campaign.claims[0], "round", colluding=1)
    assert answer.promise.endswith(" Reports of a round that may be of whoever looks: 1.")


def test_windows_over_other_terms_promise_nothing_together(centre: Centre) -> None:
    """Claims of two laws do not make one."""
    tighter = next_version(PROMISING, not_before=ROUND + 1, epsilon=(0.4,))
    assert tighter.claims != PROMISING.claims
    centre.clock.jump(PROMISING.round_end_s(ROUND) - 10 - centre.clock.now_s())
    centre.publisher.publish(tighter)
    centre.clock.jump(PROMISING.closes_s(ROUND + 2) + 60 - centre.clock.now_s())
    receive(centre, *sealed([0, 0, 4096, 4096]), **SAID)
    second = parcel(
        reports([0, 0, 4096, 4096], campaign=tighter, round=ROUND + 1),
        round=ROUND + 1,
        campaign=tighter,
        **SAID,
    )
    second.deliver(centre.intake)
    centre.rounds.tick()
    (window,) = centre.questions.windows(tighter, 2, first=ROUND + 1, last=ROUND + 1)
    assert (window.status, window.shuffled_epsilon, window.delta) == ("ok", None, None)
    assert window.promise.startswith("1-LDP for all reports of a device in 2 rounds")


def test_cover_reports_do_not_count(centre: Centre) -> None:
    """Of a shuffler that forwards them: the fusion centre finds fewer than k_min."""
    cover = [envelope(0, content=bytes(320), campaign=PROMISING) for _ in range(2)]
    receive(centre, *sealed([0, 0, 4096]), *cover, **SAID)
    (done,) = centre.rounds.tick()
    assert done.is_withheld


@pytest.mark.parametrize("said", [{}, {**SAID, "shuffled_epsilon": 0.4}, {**SAID, "delta": 1e-7}])
def test_a_manifest_must_promise_what_the_campaign_does(
    centre: Centre, said: dict[str, Any]
) -> None:
    """A shuffler that says something else is not taken at its word."""
    with pytest.raises(WireError, match="promises something else than the campaign"):
        receive(centre, *sealed([0, 0, 4096, 4096]), **said)


def test_a_wish_becomes_a_budget_and_a_table() -> None:
    """Left-out epsilon and mechanism are fitted to the promise, within 4.5 a report."""
    fields = CAMPAIGN.as_fields() | {"k_min": 200, "shuffled_epsilon": 1.0}
    for name in ("epsilon", "mechanism", "window_budget"):
        del fields[name]
    found = campaign_of(fields)
    assert (found.delta, found.cover, found.colluding) == (1e-6, True, 0)
    assert found.shuffled_epsilon == 1.0
    assert 0.9 < found.claims[0].epsilon <= 1.0 < found.epsilon[0]
    assert found.window_budget == found.epsilon[0]
    assert campaign_of(found.as_fields()) == found
    capped = campaign_of(fields | {"k_min": 100_000})
    assert capped.epsilon[0] <= 4.5
    assert capped.claims[0].epsilon < 1.0


def test_a_budget_becomes_a_promise() -> None:
    """With delta alone what holds is promised; a table in a file is computed again."""
    plain = CAMPAIGN.as_fields() | {"mechanism": "duchi"}
    found = campaign_of(plain | {"delta": 1e-6})
    assert found.shuffled_epsilon == found.claims[0].epsilon
    false = found.as_fields() | {"claims": [[1, 0.1, 1e-6, 0.5, 0.1, 0.1, 1.0]]}
    assert campaign_of(false) == found


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"shuffled_epsilon": "much"}, "shuffled_epsilon must be a number"),
        ({"delta": 1.0}, "delta must be a number"),
        ({"delta": 1e-6, "colluding": 3}, "colluding must be a whole number from 0 to 2"),
        ({"shuffled_epsilon": 0.1}, "claims must be at most shuffled_epsilon"),
        ({"shuffled_epsilon": 1e-6, "epsilon": None}, "no local epsilon"),
        ({"delta": 1e-6, "epsilon": None}, "epsilon must be one to 4 budgets"),
    ],
)
def test_wishes_that_cannot_be_met_are_named(changes: dict[str, Any], text: str) -> None:
    """Each with the field that is wrong."""
    with pytest.raises(CampaignInvalid) as refused:
        campaign_of(CAMPAIGN.as_fields() | changes)
    assert any(text in mistake for mistake in refused.value.mistakes)


def test_home_assistant_sees_a_promise_where_there_is_one() -> None:
    """A campaign without one has no entity for it."""

    def keys(campaign: Campaign) -> list[str]:
        return [one.key for one in fleet_discovery(campaign).entities]

    assert "shuffled_epsilon" in keys(PROMISING)
    assert "shuffled_epsilon" not in keys(CAMPAIGN)
