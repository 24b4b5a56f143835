"""The Campaign page's section on a better range: without probes, with them, and for whom."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.dashboard.conftest import Desk
from tests.fusion.conftest import CAMPAIGN, ROUND, Centre, keyset, parcel, reports

from rase.clock import FakeClock
from rase.kernels.words import SeededRandom
from rase.laws.windows import SquareWave
from rase.storage.sqlite import open_sqlite


def test_without_probes_the_page_says_how_to_get_advice(desk: Desk) -> None:
    """The empty state names the number of rounds needed and the command; readers do not see it."""
    desk.log_in(desk.reader)
    assert "A better range" not in desk.get("/campaign").text
    desk.ask("POST", "/logout")
    desk.cookies.clear()
    desk.log_in(desk.operator)
    page = desk.get("/campaign")
    assert page.status_code == 200
    assert "A better range" in page.text
    assert "No advice yet: 0 of 8 probing rounds." in page.text
    assert "rase campaign update --probe-every 4" in page.text


def test_probing_rounds_lead_to_advice_on_the_page(tmp_path: Path) -> None:
    """Quantiles, both ranges, errors and the clip bias are shown; the page needs no script."""
    probing = replace(
        CAMPAIGN, estimators=("unbiased_mean",), epsilon=(4.0,), window_budget=96.0, probe_every=1
    )
    database = open_sqlite(tmp_path / "fusion.sqlite", migrations="fusion")
    early = Centre(database, FakeClock((ROUND - 3) * 3600))
    early.publisher.publish_keyset(keyset(7))
    early.publisher.publish(probing)
    centre = Centre(database, FakeClock((ROUND + 12) * 3600))
    desk = Desk(centre)
    desk.log_in(desk.operator)
    waiting = desk.get("/campaign").text
    assert "Every 1 rounds devices report by the square wave" not in waiting
    assert "In every round devices report by the square wave" in waiting
    assert "a report; all rounds probe: by the square wave, with the same epsilon" in waiting
    wave = SquareWave(4.0, probing.domain)
    for round in range(ROUND, ROUND + 9):
        readings = np.random.default_rng(round).normal(120, 20, 40)
        noisy = wave.randomize(readings, rng=SeededRandom(round))
        places = np.rint((noisy - probing.low) / probing.domain.step).astype(int).tolist()
        one = parcel(reports(places, round=round, campaign=probing), round=round, campaign=probing)
        one.deliver(centre.intake)
        centre.rounds.tick()
    page = desk.get("/campaign")
    assert page.status_code == 200
    for words in (
        "Nine tenths of the readings lie between",
        "Learnt from 9 probing rounds.",
        '<th scope="row">recommended</th>',
        f"rase campaign range {probing.id} --publish",
        "Root mean square error of a mean of 40 reports:",
        "Clipping counts readings between 0 and 3,000",
    ):
        assert words in page.text, words
    assert "No advice yet" not in page.text
    # No more digits than the errors are worth.
    shown = re.search(r"lie between ([\d.]+) \(± ([\d.]+)\)", page.text)
    assert shown is not None
    assert len(shown[2].replace(".", "").lstrip("0")) == 2
    database.close()


def test_only_budget_aware_noise_promises_a_precision(tmp_path: Path) -> None:
    """A campaign by another mechanism says that beta and rho are not used, and promises nothing."""
    database = open_sqlite(tmp_path / "fusion.sqlite", migrations="fusion")
    centre = Centre(database, FakeClock((ROUND - 3) * 3600))
    centre.publisher.publish_keyset(keyset(7))
    centre.publisher.publish(replace(CAMPAIGN, mechanism="optimal"))
    desk = Desk(centre)
    desk.log_in(desk.operator)
    page = desk.get("/campaign").text
    assert "not used, the mechanism optimal does not look at them." in page
    assert 'name="beta"' not in page
    assert 'name="high"' in page
    assert "of its reading with probability" not in page


def test_budget_aware_noise_states_its_precision(desk: Desk) -> None:
    """The paper's mechanism aims at (beta, rho), and the page says from which epsilon on."""
    desk.log_in(desk.operator)
    page = desk.get("/campaign").text
    assert "a report within 50 % of its reading with probability 90 %" in page
    assert 'name="beta"' in page
