"""What a campaign promises towards the fusion centre is computed, and computed again."""

from dataclasses import replace
from typing import Any

import pytest

from rase.accounting.accountant.claims import claims
from rase.accounting.campaign_claims import check_promise, fit_budget, state_promise
from rase.campaign import Campaign
from rase.errors import PrivacyRefused
from rase.laws.registry import randomizer_named
from rase.validation import CampaignInvalid

PLAIN = Campaign(
    id="street-power",
    version=1,
    quantity="power",
    unit="W",
    low=0,
    high=3000,
    mechanism="optimal",
    epsilon=(2.0,),
    window=24,
    window_budget=4.0,
    round_s=3600,
    upload_s=300,
    grace_s=600,
    k_min=100,
    not_before=495_000,
    not_after=499_999,
)
PROMISING = state_promise(PLAIN, colluding=20)


def test_claims_are_those_of_the_honest_reports() -> None:
    """Each row is the accountant's at k_min less those who collude, rounded up a little."""
    randomizer = randomizer_named("optimal", 2.0, domain=PLAIN.domain)
    numbers = [claim.reports for claim in PROMISING.claims]
    # Two reports a day make sixty in a month.
    assert (numbers[0], numbers[-1]) == (1, 60)
    found = claims(randomizer, 80, delta=1e-6, reports=numbers)
    for stated, proven in zip(PROMISING.claims, found, strict=True):
        assert stated.local_epsilon == 2.0 * stated.reports
        for name in ("epsilon", "guess", "loss_in_100", "loss_in_1000"):
            assert getattr(proven, name) <= getattr(stated, name) <= 1.002 * getattr(proven, name)


def test_what_holds_is_promised_unless_more_is_said() -> None:
    """The first row is the promise; a larger one may be made, a smaller one may not."""
    first = PROMISING.claims[0].epsilon
    assert (PROMISING.shuffled_epsilon, PROMISING.delta, PROMISING.colluding) == (first, 1e-6, 20)
    assert PROMISING.cover
    assert state_promise(PLAIN, shuffled_epsilon=1.8, colluding=20).claims == PROMISING.claims
    with pytest.raises(CampaignInvalid, match="claims must be at most shuffled_epsilon"):
        state_promise(PLAIN, shuffled_epsilon=0.9 * first, colluding=20)


def test_the_largest_budget_within_a_promise_is_fitted() -> None:
    """As many reports a window as before, each as exact as promise and limit allow."""
    fitted = fit_budget(PLAIN, shuffled_epsilon=1.0, delta=1e-6)
    (epsilon,) = fitted.epsilon
    assert fitted.window_budget == 2 * epsilon
    assert 0.9 < state_promise(fitted).claims[0].epsilon <= 1.0
    limited = fit_budget(PLAIN, shuffled_epsilon=1.0, delta=1e-6, most=0.5)
    assert limited.epsilon[0] <= 0.5
    fewer = fit_budget(PLAIN, shuffled_epsilon=1.0, delta=1e-6, colluding=50)
    assert fewer.epsilon[0] < epsilon
    named = fit_budget(PLAIN, shuffled_epsilon=1.0, delta=1e-6, mechanism="laplace")
    assert named.mechanism == "laplace"


@pytest.mark.parametrize("name", ["epsilon", "guess", "loss_in_100", "loss_in_1000"])
@pytest.mark.parametrize("row", [0, 35])
def test_a_claim_that_is_five_percent_too_small_is_noticed(name: str, row: int) -> None:
    """Whichever number of whichever row; the honest table passes."""
    check_promise(PROMISING)
    check_promise(PLAIN)
    assert _with_row(row, epsilon=PROMISING.claims[row].epsilon) == PROMISING
    value = getattr(PROMISING.claims[row], name)
    # Of a guess the part above chance is what it gives away.
    smaller = 0.5 + 0.95 * (value - 0.5) if name == "guess" else 0.95 * value
    with pytest.raises(PrivacyRefused, match=f"{name} of {PROMISING.claims[row].reports} reports"):
        check_promise(_with_row(row, **{name: smaller}))


@pytest.mark.parametrize("changes", [{"k_min": 90}, {"colluding": 30}, {"epsilon": (2.2,)}])
def test_claims_of_other_terms_are_noticed(changes: dict[str, Any]) -> None:
    """A table that was computed for more honest reports, or for more noise, is false."""
    claims = PROMISING.claims
    if "epsilon" in changes:
        claims = tuple(replace(one, local_epsilon=2.2 * one.reports) for one in claims)
    with pytest.raises(PrivacyRefused, match="promises more than the shuffle gives"):
        check_promise(replace(PROMISING, claims=claims, **changes))


def _with_row(row: int, **changes: float) -> Campaign:
    table = list(PROMISING.claims)
    table[row] = replace(table[row], **changes)  # type: ignore[arg-type]
    return replace(PROMISING, claims=tuple(table))


def test_claims_of_a_span_count_what_was_carried_into_it() -> None:
    """Releases of a day may hold reports of two windows, and the day's claim covers both."""
    carrying = state_promise(replace(PLAIN, carry_rounds=2), colluding=20)
    # Two reports a window; and a month of releases touches 31 windows.
    assert [carrying.most_reports(rounds) for rounds in (1, 24, 720)] == [1, 4, 62]
    assert carrying.claims[-1].reports == 62
    day, plain = carrying.claim_over(24), PROMISING.claim_over(24)
    assert day is not None
    assert plain is not None
    assert (day.reports, plain.reports) == (4, 2)
    assert day.epsilon > plain.epsilon
    # A release hides a report among as many as without carrying.
    assert carrying.claims[:2] == PROMISING.claims[:2]
    check_promise(carrying)
