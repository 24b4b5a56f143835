"""A device of a campaign of states: from what a meter says to a report and its label."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.device.conftest import CAMPAIGN
from tests.device.test_settings import TABLES, changed, mistakes

from rase.campaign import Campaign
from rase.device.behaviour import Behaviour
from rase.device.settings import settings_of
from rase.device.sources.function import FunctionSource
from rase.device.sources.interface import SourceFailed, reading_in
from rase.device.states import (
    drawn_number,
    measured_words,
    reported,
    sent_words,
    state_numbers,
)
from rase.device.terms import TermsRefused
from rase.fusion.mechanism import state_randomizer_of
from rase.wire.outer import OuterOpener
from rase.wire.signed import campaign_hash

HOUR = 3600
FIRST = 495_000


def of_states(campaign: Campaign, **changes: Any) -> Campaign:
    """Return a campaign of states in the place of one of numbers."""
    fields = {**campaign.as_fields(), "mechanism": "randomized-response", "epsilon": [1.0]}
    for name in ("low", "high", "steps", "estimators"):
        fields.pop(name, None)
    return Campaign.from_fields({**fields, "categories": ["on", "off", "other"], **changes})


def start(world: Any, campaign: Campaign, **rules: Any) -> Any:
    """Return an agent of a campaign, and publish it."""
    world.shuffler.campaign = campaign
    world.shuffler.versions = [campaign]
    world.rules = replace(world.rules, **rules)
    return world.agent(behaviour=Behaviour(aggregate="last"))


def labels_of(world: Any) -> Counter[int]:
    """Return the labels of the reports that the shuffler opened, by how often."""
    shuffler = world.shuffler
    keys = [key for key in shuffler.keys.values() if key.role.value == "shuffler"]
    opener = OuterOpener(campaign_hash(shuffler.campaign), keys)
    opened = [opener.open(report) for report in shuffler.received]
    return Counter(one.mark.label for one in opened if not one.mark.is_cover)


def test_states_become_reports_of_their_law(world: Any) -> None:
    """The last state of a round is drawn from; unknown ones are other, and counted by number."""
    campaign = of_states(world.shuffler.campaign, labels=["north", "south"])
    agent = start(world, campaign, label="south")
    world.source.always = "boost"
    world.run(agent, 3 * HOUR + 300)
    contents = world.contents()
    reports = [one for one in contents.values() if not one.is_cover]
    assert len(reports) == 3
    assert {one.place for one in reports} <= {0, 1, 2}
    assert labels_of(world) == {2: 3}
    unknown = world.notes.of("states-unknown")
    assert unknown
    assert set(unknown[0]) == {"count"}
    assert "boost" not in str(world.notes.events)


def test_bounds_turn_a_number_into_its_interval(world: Any) -> None:
    """Which interval a mean lies in is all that is reported."""
    campaign = of_states(world.shuffler.campaign, categories=[], bounds=[1000, 3000])
    agent = start(world, campaign)
    world.source.always = 2500.0
    world.run(agent, HOUR + 300)
    (report,) = [one for one in world.contents().values() if not one.is_cover]
    assert 0 <= report.place <= 2


@pytest.mark.parametrize(("reading", "is_of_states"), [(1.0, True), ("on", False)])
def test_numbers_and_states_are_not_mixed_up(
    world: Any, reading: float | str, is_of_states: bool
) -> None:
    """A source of the other kind is a named failure, and nothing is reported."""
    campaign = world.shuffler.campaign
    agent = start(world, of_states(campaign) if is_of_states else campaign)
    world.source.always = reading
    world.run(agent, HOUR + 300)
    assert all(one.is_cover for one in world.contents().values())
    assert {"kind": "states"} in world.notes.of("source-failed")


def test_an_undeclared_label_is_refused(world: Any) -> None:
    """By name; a campaign without labels needs none."""
    agent = start(world, of_states(world.shuffler.campaign, labels=["north"]), label="west")
    agent.step()
    assert isinstance(agent.refusal, TermsRefused)
    assert agent.refusal.reason == "undeclared-label"
    assert "north, other" in str(agent.refusal)


def test_reports_of_other_are_of_label_0(world: Any) -> None:
    """A device whose label is other reports as those without one."""
    agent = start(world, of_states(world.shuffler.campaign, labels=["north"]), label="other")
    world.source.always = "on"
    world.run(agent, HOUR + 300)
    assert labels_of(world) == {0: 1}


def test_states_the_campaign_lacks_are_left_out_without_other() -> None:
    """They are counted all the same."""
    campaign = of_states(CAMPAIGN, categories=["on", "off"])
    assert state_numbers(campaign, ["off", "boost", "on"]) == ([1.0, 0.0], 1)


def test_words_for_the_owner_name_states() -> None:
    """What was measured, and what was sent: a state, or the set that a design names."""
    states, sets = of_states(CAMPAIGN), of_states(CAMPAIGN, mechanism="block-design")
    bins = of_states(CAMPAIGN, categories=[], bounds=[10])
    assert measured_words(states, 1.0) == "off"
    assert measured_words(bins, 1.0) is None
    assert measured_words(CAMPAIGN, 1.0) is None
    assert sent_words(CAMPAIGN, 1.0) is None
    assert sent_words(bins, 1.0) == "10 or more"
    law = state_randomizer_of(sets).law(1.0)
    for place in range(7):
        is_in = law.votes(np.array([place]))[0]
        votes = [name for name, one in zip(sets.categories, is_in, strict=True) if one]
        words = f"one of {', '.join(votes)}" if votes else "none of the states"
        assert sent_words(sets, float(place)) == words
    assert reported(states, 2.0) == "other"
    assert (drawn_number(states, 2), drawn_number(CAMPAIGN, 4096)) == (2.0, 3000.0)


@pytest.mark.parametrize(
    ("value", "name"),
    [(b" ON \n", "on"), (True, "true"), (1, "1"), ("standby", "standby"), (1.5, "1.5")],
)
def test_what_a_meter_says_is_looked_up(value: object, name: str) -> None:
    """Texts, bytes, truth values and numbers have names; blanks around them do not count."""
    assert reading_in("http", value, states={"ON": "on"}) == name
    with pytest.raises(SourceFailed):
        reading_in("http", [value], states={})


def test_sources_read_states() -> None:
    """Through the table of the settings."""
    source = FunctionSource(lambda: "ON", states={"ON": "on"})
    assert source.read() == ["on"]


def test_the_settings_of_states_and_labels() -> None:
    """A table of states, a label that the owner agreed to; otherwise named mistakes."""
    tables = {**changed("source", reads="states"), "states": {"ON": "on"}}
    settings = settings_of(tables, {})
    assert settings.source.states == {"ON": "on"}
    assert settings_of(changed("source", reads="states"), {}).source.states == {}
    assert settings_of(TABLES, {}).source.states is None
    assert mistakes(changed("source", reads="words")) == (
        "source.reads must be one of numbers, states.",
    )
    assert mistakes({**TABLES, "states": {"ON": 1}}) == (
        '[states] must have lines such as "ON" = "on".',
    )
    labelled = changed("device", label="north")
    (refused,) = mistakes(labelled)
    assert refused.startswith("owner.shares_label must be true where device.label is set")
    for agreed, label in ((True, "north"), (False, None)):
        owner = {**TABLES["owner"], "shares_label": agreed}
        assert settings_of({**labelled, "owner": owner}, {}).rules.label == label
