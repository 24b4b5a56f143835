"""What is said of both promises is true of an observer who is simulated, and would be missed."""

import math
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from rase.accounting.campaign_claims import state_promise
from rase.campaign import Campaign
from rase.kernels.words import SeededRandom
from rase.lab.audit.orders import _Rounds, _worst_others
from rase.laws.registry import randomizer_named
from rase.theme.promises import promises, towards_fusion

N, EPSILON, ROUNDS = 40, 1.0, 300_000
CAMPAIGN = Campaign(
    id="homes",
    version=1,
    quantity="power",
    unit="W",
    low=0,
    high=3000,
    mechanism="duchi",
    epsilon=(EPSILON,),
    window=24,
    window_budget=1.0,
    round_s=3600,
    upload_s=300,
    grace_s=600,
    k_min=N,
    not_before=0,
    not_after=9,
)
# One in 10^12 of seeds would fail where a claim is met exactly.
SLACK = 7.1


@cache
def observed() -> tuple[float, float]:
    """Return how often the best guess was right, and how sure the surest 1 in 1,000 rounds made.

    The observer knows all other readings, which hide this one as badly as any, sees the shuffled
    bits of a round, and holds them to their exact laws.
    """
    bit = randomizer_named("duchi", EPSILON, domain=CAMPAIGN.domain)
    others = _worst_others(bit, N, 0.0)
    seen, rng = _Rounds(bit, others), SeededRandom(2026)
    odds = math.exp(bit.effective_epsilon)
    high = sum(reading == CAMPAIGN.high for reading in others)
    laws = [_law(high + own, N, odds / (1 + odds)) for own in (0, 1)]
    right, certainties = 0, []
    for own in (0, 1):
        lean = seen.draw(own == 1, ROUNDS, rng) / 1000 - 1
        low = np.rint((lean * N * (odds + 1) / (odds - 1) + N) / 2).astype(np.int64)
        chances = np.array([law[N - low] for law in laws])
        posterior = chances[own] / chances.sum(axis=0)
        right += int((posterior > 0.5).sum()) + int((posterior == 0.5).sum()) // 2
        certainties.append(np.maximum(posterior, 1 - posterior))
    surest = np.sort(np.concatenate(certainties))[-2 * ROUNDS // 1000]
    return right / (2 * ROUNDS), float(surest)


def _law(high: int, n: int, likely: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return how likely each number of high bits is, of so many high readings among n."""
    law = np.ones(1)
    for place in range(n):
        chance = likely if place < high else 1 - likely
        law = np.convolve(law, [1 - chance, chance])
    return law


def numbers_in(sentence: str) -> tuple[float, float, float]:
    """Return the three shares that a sentence claims."""
    guess, surer = re.findall(r"(?:at most|more than) ([\d.]+) %", sentence)
    both = re.findall(r"up to ([\d.]+) %", sentence)[0]
    return float(guess) / 100, float(surer) / 100, float(both) / 100


def check(campaign: Campaign) -> None:
    """Hold the sentence on a round to the simulated observer."""
    guess, surer, both = numbers_in(next(towards_fusion(campaign)))
    right, surest = observed()
    deviation = 0.5 / math.sqrt(2 * ROUNDS)
    assert right <= guess + SLACK * deviation
    # Said to a tenth of a percent, and no more cautious than that by much.
    assert right >= guess - 0.001 - SLACK * deviation
    assert surest <= surer
    # With the order known a report is all there is: its own law decides.
    odds = math.exp(EPSILON)
    assert odds / (1 + odds) <= both <= odds / (1 + odds) + 0.001


def test_the_sentence_on_a_round_is_true() -> None:
    """How often a guess is right, how sure 1 round of 1,000 makes, and what two servers learn."""
    check(state_promise(CAMPAIGN))


@pytest.mark.parametrize("k_min", [2 * N, 4 * N])
def test_a_sentence_for_more_reports_would_be_missed(k_min: int) -> None:
    """Claims for twice as many reports as there are do not stand."""
    false = state_promise(replace(CAMPAIGN, k_min=k_min))
    with pytest.raises(AssertionError):
        check(false)


def test_a_campaign_without_a_promise_says_nothing_of_the_fusion_centre() -> None:
    """Its sentences are those of the reports alone."""
    assert list(towards_fusion(CAMPAIGN)) == []
    assert not any("fusion centre" in sentence for sentence in promises(CAMPAIGN))


def test_the_price_stands_in_every_sentence() -> None:
    """For a round and a month; whoever collects both servers' knowledge is named each time."""
    promising = state_promise(replace(CAMPAIGN, k_min=60), colluding=20)
    *spans, keeper = towards_fusion(promising)
    assert len(spans) == 2
    for sentence in spans:
        assert sentence.startswith("Towards the fusion centre: (")
        assert "if both servers work together: epsilon" in sentence
    assert "at least 60 reports, of which 20 may be of whoever looks" in keeper
    assert "cover reports not counted" in keeper
