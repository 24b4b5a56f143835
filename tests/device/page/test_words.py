"""What the page says when things are not as they should be."""

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.device.owning import HOURS, Owned, owned
from tests.device.test_states import of_states
from tests.promising import with_promise

from rase.campaign import Campaign
from rase.device.behaviour import Behaviour
from rase.device.comparison import RoundSeen
from rase.device.page.payload import example_payload
from rase.device.page.views import chart
from rase.device.states import sent_words
from rase.kernels.entropy import SecureEntropy


def test_troubles_are_told_in_words(device: Owned) -> None:
    """Each with how often and when it was seen, and a problem's name where there is one."""
    device.comparison.note("source-failed", kind="http")
    device.comparison.note("unreachable", round=7, wait_s=2.0)
    device.comparison.note("unreachable", round=7, wait_s=2.0)
    device.comparison.note("refused", round=7, problem="not-enrolled", wait_s=2.0)
    device.comparison.note("not-fetched", kind="Unreachable", wait_s=2.0)
    text = device.get().text
    assert "The source of readings does not answer" in text
    assert "2 times, last" in text
    assert "they are sent again. (not-enrolled) Since" in text
    assert "goes by those it has" in text
    device.comparison.note("source-failed", kind="unit")
    assert "cannot be turned into the campaign&#x27;s unit" in device.get().text


def test_what_needs_another_word_is_told(device: Owned) -> None:
    """What a new version may cost, and how it may shuffle, stands among the terms."""
    device.run(0.2)
    told = "costs more than epsilon 1 a report, or hides senders less, is refused until you agree"
    assert told in device.get().text
    device.terms.rules = replace(device.terms.rules, most_alpha=0.5)
    assert "or has an order that may reveal more than alpha 0.5, is refused" in device.get().text
    device.comparison.note("terms-refused", reason="shuffle-weaker")
    assert "set owner.most_alpha to the most that the order may reveal" in device.get().text


def test_a_round_says_why_it_sent_nothing(device: Owned) -> None:
    """Skipped, dropped, left out by the schedule, without a reading: each has its words."""
    device.run(0.2)
    first = device.campaign.not_before + 495_000
    for place, (reason, words) in enumerate(
        {"not-sealed": "it could not be sealed", "something-new": "something-new"}.items()
    ):
        device.comparison.note("round-skipped", round=first + place, reason=reason)
        assert words in device.get().text
    device.comparison.note("budget-spent", round=first + 2, refresh_round=None)
    device.comparison.note("budget-spent", round=first + 7, refresh_round=None)
    device.comparison.note("sealed", round=first + 7)
    device.comparison.note_round_end(first + 3, None, is_shared=True)
    device.comparison.note("sealed", round=first + 3)
    device.comparison.note_round_end(first + 4, 5.0, is_shared=True)
    device.comparison.note("sealed", round=first + 4)
    device.comparison.note_round_end(first + 5, 5.0, is_shared=True)
    device.comparison.note_report(first + 6, 9.0, epsilon=1.0, envelope=b"x")
    device.comparison.note("dropped", round=first + 6, problem="too-late")
    text = device.get().text
    for words in (
        "nothing was sent: your budget was spent<",
        "cover report: your budget was spent<",
        "cover report: no reading",
        "cover report: the schedule left it out",
        ">nothing was sent<",
        "came too late, epsilon 1",
    ):
        assert words in text


def test_a_schedule_that_rotates_leaves_few_reports(quick_folder: Path) -> None:
    """The outlook goes by the device's own schedule."""

    def never(campaign: Campaign, round: int) -> bool:
        return False

    with owned(quick_folder / "device", behaviour=Behaviour(poll_s=60, has_turn=never)) as device:
        device.run(0.2)
        assert '<span class="value">0</span><span class="note">at most, in the next' in (
            device.get().text
        )


def test_terms_beyond_the_owners_limit_are_told(quick_folder: Path) -> None:
    """No report can be made, and the page says why instead of odds."""
    with owned(quick_folder / "device") as device:
        device.run(0.2)
        signed = device.owner.terms.accepted_terms[0][0]
        costly = replace(signed, campaign=replace(signed.campaign, epsilon=(2.0,)))
        device.owner.terms.accepted_terms = (
            (costly,),
            device.owner.terms.accepted_terms[1],
        )
        assert "above your limit for a report" in device.get().text
        assert "no terms or keys yet" in device.get("payload").text


def test_there_is_no_example_without_terms_or_keys(device: Owned) -> None:
    """Before the first fetch, after the campaign's end, and while a key is missing."""
    device.run(0.2)
    terms = device.owner.terms
    now_s = device.clock.now_s()
    round = int(now_s // HOURS.round_s)
    entropy = SecureEntropy()
    assert example_payload(terms, round, mean=5.0, now_s=now_s, entropy=entropy) is not None
    past = HOURS.not_after + 1
    assert example_payload(terms, past, mean=5.0, now_s=now_s, entropy=entropy) is None
    terms.accepted_terms = (terms.accepted_terms[0], None)
    assert example_payload(terms, round, mean=5.0, now_s=now_s, entropy=entropy) is None


def test_the_charts_line_breaks_where_nothing_was_measured() -> None:
    """Rounds without a reading are gaps, and one round alone is no chart."""
    seen = [
        RoundSeen(5, measured=10.0, sent=20.0),
        RoundSeen(4, sent=30.0),
        RoundSeen(3, measured=10.0),
        RoundSeen(2, measured=12.0, sent=-50.0),
    ]
    drawn = chart(seen, HOURS)
    assert drawn is not None
    assert len(drawn) == 2
    for shape in drawn:
        assert shape.count("<path") == 2
        assert shape.count("<circle") == 6
        assert "−50" in shape
    assert chart(seen[:1], HOURS) is None


def test_a_promise_towards_the_fusion_centre_is_on_the_page(quick_folder: Path) -> None:
    """Both promises in one sentence, and what pausing means without cover reports."""
    campaign = with_promise(HOURS, 0.5, 0.7, 0.9, cover=False)
    with owned(quick_folder, campaign) as device:
        device.run(2.2)
        device.folder.switch(is_on=True)
        text = device.get().text
        for words in (
            "Towards the fusion centre: (0.5, 1e-06)-DP; if both servers work together: epsilon 1.",
            "55 of 100",
            "towards the fusion centre, 50 by chance; 74 of 100 if both servers work together",
            "This campaign has no cover reports",
            "Fewer than 20 reports are never released together",
        ):
            assert words in text
        assert "towards the fusion centre at most" not in text
        device.folder.pause()
        assert "Sharing is paused: nothing is sent, which the shuffler sees." in device.get().text


def test_caps_towards_the_fusion_centre_are_on_the_page(quick_folder: Path) -> None:
    """What the owner allows there, and how much of it is given away."""
    campaign = with_promise(HOURS, 0.5, 0.7, 0.9)
    with owned(quick_folder, campaign, caps=(0.5, 0.9)) as device:
        device.run(0.2)
        text = device.get().text
        assert "; towards the fusion centre at most 0.5 a report and 0.9 in any day." in text
        assert "towards the fusion centre, in any day" in text
        assert "as reports leave it" in text


@pytest.mark.parametrize("mechanism", ["randomized-response", "block-design"])
def test_states_are_shown_by_their_names(quick_folder: Path, mechanism: str) -> None:
    """What was measured and what was sent, no unit, and the label that the owner agreed to."""
    campaign = of_states(HOURS, labels=["north"], mechanism=mechanism)
    with owned(quick_folder, campaign, behaviour=Behaviour(aggregate="last")) as device:
        device.agent._source = States()
        device.agent._terms.rules = replace(device.agent._terms.rules, label="north")
        device.folder.switch(is_on=True)
        device.run(3.2)
        page, payload = device.get().text, device.get("payload").text
    words = re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]+>", " ", page)))
    assert "Measured now off from 3 readings" in words
    assert "Measured is power, one of on, off, other; every hour one state" in words
    assert "You agreed to report as one of 'north'" in words
    sent = [one.sent for one in device.comparison.rounds if one.sent is not None]
    assert all((sent_words(campaign, place) or "?") in words for place in sent)
    assert "<svg" not in page.partition("Measured against sent")[2]
    assert "Made now from off" in payload


class States:
    """A meter that says a state."""

    def read(self) -> list[str]:
        """Return it."""
        return ["off"]

    def close(self) -> None:
        """Nothing is open."""
