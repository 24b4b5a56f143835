"""Labels, states, differences and alarms on their pages."""

import re
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest
from tests.dashboard.conftest import Desk
from tests.fusion.conftest import ROUND, Centre, Pasts
from tests.fusion.test_parts import STATES, happen, live

from rase.clock import round_start_s, time_in_words
from rase.dashboard.parts import band
from rase.dashboard.timeline import Span
from rase.fusion.alarms import Alarms
from rase.fusion.settings import AlarmSettings

SPAN = "from={}&to={}&zone=UTC".format(
    *(time_in_words(round_start_s(one, 3600))[:16] for one in (ROUND, ROUND + 3))
)


@pytest.fixture(scope="module")
def lives() -> Pasts:
    """Fusion centres with labels and states, of which tests get copies."""
    return Pasts(None)


@pytest.fixture
def desk(lives: Pasts, quick_folder: Path) -> Iterator[Desk]:
    """A reader of a fusion centre with labels and states."""
    with lives.centre(quick_folder / "fusion.sqlite", live) as centre:
        desk = Desk(centre)
        desk.log_in(desk.reader)
        yield desk


def plain(text: str) -> str:
    """Return a page without its marks."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)).replace("\N{NO-BREAK SPACE}", " ")


def test_states_are_shown_side_by_side(desk: Desk) -> None:
    """Each with its mean over the time, its interval and its picture, in per cent."""
    text = desk.get(f"/parts?campaign=heat-pump&{SPAN}").text
    for state in STATES.categories:
        assert f"category={state}" in text
    assert text.count('class="small-multiple"') == len(STATES.categories)
    assert "Mean (%)" in text
    words = plain(text)
    assert "2 of 3" in words
    assert "All at once" in words
    assert "for example" not in words


def test_states_of_a_label(desk: Desk) -> None:
    """The first round is told for each label; nine in ten were on in the north."""
    found = {}
    for label in ("north", "south"):
        text = plain(desk.get(f"/parts?campaign=heat-pump&label={label}&{SPAN}").text)
        assert "Newest round" in text
        rows = desk.get(f"/live.csv?campaign=heat-pump&label={label}&category=on&{SPAN}").text
        found[label] = float(rows.splitlines()[1].split(",")[10])
    assert 0.8 < found["north"] <= 1
    assert 0.1 < found["south"] < 0.3


def test_two_labels_are_compared(desk: Desk) -> None:
    """The difference with its interval and a sentence; of shares in percentage points."""
    query = f"campaign=heat-pump&first=north/on&second=south/on&from={SPAN[5:21]}"
    hour = time_in_words(round_start_s(ROUND + 1, 3600))[:16]
    words = plain(desk.get(f"/parts?{query}&to={hour}&zone=UTC").text)
    found = re.search(r"Difference \+([\d.]+) points", words)
    assert found is not None
    assert 60 < float(found.group(1)) < 80
    assert "On, north is higher than on, south" in words
    assert "of one device, by both answers together" in words
    assert "What is promised to devices" in words


def test_what_cannot_be_compared_is_told(desk: Desk) -> None:
    """A part with itself at the same time, one that is not there, one without a mean."""
    at = f"/parts?campaign=heat-pump&{SPAN}"
    answer = desk.get(f"{at}&first=/on&second=/on")
    assert answer.status_code == 400
    assert "Choose two parts that differ" in answer.text
    assert desk.get(f"{at}&first=east/on&second=/on").status_code == 400
    answer = desk.get(f"{at}&first=/on&second=north/on")
    assert answer.status_code == 400
    assert "Problem." in answer.text
    assert "There is no difference" in desk.get(f"{at}&first=north/on&second=south/on").text


def test_labels_of_numbers_have_timelines(desk: Desk) -> None:
    """Both labels and the rest; the timeline of a label names it, and its file has its rows."""
    text = desk.get(f"/parts?campaign=power&{SPAN}").text
    for label in ("north", "south", "other"):
        assert f"label={label}" in text
    shown = plain(desk.get(f"/live?campaign=power&label=north&{SPAN}").text)
    assert "label north" in shown
    rows = desk.get(f"/live.csv?campaign=power&label=north&{SPAN}").text.splitlines()[1:]
    assert rows
    assert all(",north," in row for row in rows)
    other = desk.get(f"/live?campaign=power&label=north&method=tracked&{SPAN}")
    assert other.status_code == 200


def test_a_round_shows_every_part_of_it(desk: Desk) -> None:
    """All states of all labels, in per cent, and that they are final."""
    words = plain(desk.get(f"/round?campaign=heat-pump&number={ROUND}").text)
    assert "Every state" in words
    assert "on, north" in words
    assert "off, south" in words
    assert "final." in words


def test_a_band_ends_at_gaps() -> None:
    """A run of rounds is a line in its band; a single one is an upright line with a dot."""
    span = Span(name="", start_s=0.0, end_s=240.0, zone=UTC)
    row = {"low": 0.0, "high": 2.0, "value": 1.0}
    points: list[dict[str, float | None]] = [
        {**row, "at_s": 0.0},
        {**row, "at_s": 60.0},
        {"value": None, "low": None, "high": None, "at_s": 120.0},
        {**row, "at_s": 240.0},
    ]
    first, last = band(points, span, 0.0, 2.0)
    assert first["line"] == "0.0,24.0 60.0,24.0"
    assert first["band"] == "0.0,0.0 60.0,0.0 60.0,48.0 0.0,48.0"
    assert (first["is_single"], last["is_single"]) == (False, True)
    assert last["at"] == [["240.0", "24.0"], ["240.0", "48.0"], ["240.0", "0.0"]]


def alarms(centre: Centre) -> Alarms:
    """Return alarms of every state."""
    settings = [
        AlarmSettings(name="much-on", campaign="heat-pump", category="on", kind="above", level=0.2),
        AlarmSettings(name="no-state", campaign="heat-pump", kind="above", level=0.2),
        AlarmSettings(name="to-come", campaign="later", kind="below", level=5),
        AlarmSettings(
            name="moved", campaign="power", label="north", kind="change", rounds=24, against=168
        ),
    ]
    return Alarms(centre.database, centre.questions, settings)


def test_alarms_stand_with_what_to_expect_of_them(lives: Pasts, quick_folder: Path) -> None:
    """Raised ones first, refused ones with their reason, and what was not delivered."""
    with lives.centre(quick_folder / "fusion.sqlite", live) as centre:
        found = alarms(centre)
        desk = Desk(centre, alarms=found)
        desk.log_in(desk.reader)
        words = plain(desk.get("/alarms").text)
        assert "No alarm was raised yet" in words
        happen(centre, STATES, {0: [0] * 400}, ROUND + 3)
        found.look()
        words = plain(desk.get("/alarms").text)
        assert words.index("much-on") < words.index("no-state") < words.index("to-come")
        assert "share of on above 20 %" in words
        assert "Never raised:" in words
        assert "mean of label north changes" in words
        assert "1 change has not been delivered yet" in words
        assert "a shift by 2 percentage points" in words
        part = desk.get("/alarms?part=1").text
        assert "<html" not in part
        live_page = desk.get("/live?campaign=heat-pump&category=on&range=7d").text
        assert "alarm much-on" in live_page
