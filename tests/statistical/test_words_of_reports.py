"""What is said of reports by themselves is true of a simulated observer, and would be missed.

"Becomes at most 73.2 % sure" of one report, "if both servers work together: up to 96.5 %" of all
reports of a span, linked. The observer finds two readings equally likely, weighs reports by their
exact laws, and is right among its surest cases exactly as often as it is sure, which is counted.
False alarms: none by chance, as the seed is fixed; at any seed rarer than six standard errors.
"""

import math
import re

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cases import each_case

from rase import Duchi, Optimal, Range, SeededRandom
from rase.accounting.accountant.claims import claims
from rase.laws.randomizer import RangeRandomizer
from rase.privacy import LocalDP

PUBLIC, CASES, ERRORS = Range(0, 3000), 200_000, 6.0


def surest(
    law: RangeRandomizer, reports: int, *, drawn: RangeRandomizer | None = None
) -> NDArray[np.bool_]:
    """Return for the cases in which an observer is surest whether it is right.

    Args:
        law: The law that the observer weighs reports by.
        reports: How many reports of one device it links, all of the same reading.
        drawn: What devices draw by; the same law unless given.
    """
    table, rng = law.law(law.guarantee.epsilon), SeededRandom(2026)
    low, high = (table.weights(index) for index in (0, PUBLIC.steps))
    places = np.array(sorted(low), dtype=np.int64)
    odds = np.array([math.log(low[place] / high[place]) for place in places.tolist()])
    leans, truths = [], []
    for sign, reading in ((1, PUBLIC.low), (-1, PUBLIC.high)):
        found = (drawn or law).draw_many(np.full((CASES // 2, reports), reading), rng=rng)
        leans.append(odds[np.searchsorted(places, found)].sum(axis=1))
        truths.append(np.full(CASES // 2, sign))
    lean, truth = np.concatenate(leans), np.concatenate(truths)
    top = np.abs(lean) > 0.999 * reports * float(np.abs(odds).max())
    return np.asarray(np.sign(lean[top]) == truth[top])


def printed(sentence: str, before: str) -> float:
    """Return the percentage that follows some words."""
    (found,) = re.findall(rf"{before} ([\d.]+) %", sentence)
    return float(found) / 100


def error(right: NDArray[np.bool_]) -> float:
    """Return six standard errors of how often the observer is right."""
    return ERRORS * 0.5 / math.sqrt(right.size)


@each_case("law", [Duchi(1.0, PUBLIC), Optimal(1.0, PUBLIC), Optimal(3.32, PUBLIC)])
def test_one_report_makes_nobody_surer_than_is_said(law: RangeRandomizer) -> None:
    """The limit is that of the surest reports, and is reached."""
    stated = printed(str(LocalDP(law.guarantee.epsilon)), "becomes at most")
    right = surest(law, 1)
    assert right.mean() == pytest.approx(stated, abs=error(right) + 1e-3)


@each_case(("law", "reports"), [(Duchi(0.7, PUBLIC), 3), (Optimal(1.0, PUBLIC), 2)])
def test_both_servers_together_become_no_surer_than_is_said(
    law: RangeRandomizer, reports: int
) -> None:
    """What is left if the shuffle hides nothing is that of all reports of the span."""
    (claim,) = claims(law, 1000, delta=1e-6, reports=[reports])
    stated = printed(claim.sentence("day"), "If both servers work together: up to")
    right = surest(law, reports)
    assert right.size > CASES / 20
    assert right.mean() == pytest.approx(stated, abs=error(right) + 1e-3)


def test_a_sentence_that_is_too_small_would_be_missed() -> None:
    """Devices that draw with 5 % more epsilon make an observer surer than is said."""
    law, faulty = Duchi(1.0, PUBLIC), Duchi(1.05, PUBLIC)
    right = surest(law, 1, drawn=faulty)
    assert right.mean() > printed(str(LocalDP(1.0)), "becomes at most") + error(right)
