"""What an operator writes becomes a campaign that names the law its devices draw."""

import pytest
from tests.fusion.conftest import CAMPAIGN

from rase.fusion.mechanism import campaign_of
from rase.laws.registry import best_mechanism, randomizer_named
from rase.validation import CampaignInvalid
from rase.wire.signed import campaign_bytes, campaign_from_bytes


@pytest.mark.parametrize("budgets", [(0.3,), (0.685,), (1.0,), (0.3, 2.0), (12.0,)])
@pytest.mark.parametrize("written", [{}, {"mechanism": "auto"}])
def test_auto_becomes_a_law_that_devices_draw(
    budgets: tuple[float, ...], written: dict[str, str]
) -> None:
    """Whether left out or written, it is chosen before signing; devices and wire know it."""
    fields = CAMPAIGN.as_fields() | {"epsilon": list(budgets), "window_budget": 24.0}
    del fields["mechanism"]
    campaign = campaign_of(fields | written)
    assert campaign.mechanism == best_mechanism(budgets)
    assert campaign_from_bytes(campaign_bytes(campaign)) == campaign
    for epsilon in budgets:
        drawn = randomizer_named(
            campaign.mechanism, epsilon, domain=campaign.domain, precision=campaign.precision
        )
        assert drawn.effective_epsilon <= epsilon


def test_a_law_that_was_named_stays() -> None:
    """Only auto is replaced."""
    fields = CAMPAIGN.as_fields() | {"mechanism": "laplace"}
    assert campaign_of(fields).mechanism == "laplace"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"epsilon": [0.5], "mechanism": "auto"}, "id is missing."),
        ({"mechanism": "best"}, "mechanism must be"),
        (7, "campaign must be a table"),
    ],
)
def test_mistakes_are_listed_before_a_law_is_chosen(values: object, text: str) -> None:
    """What is wrong with the rest is told as without auto."""
    with pytest.raises(CampaignInvalid) as refused:
        campaign_of(values)
    assert any(text in mistake for mistake in refused.value.mistakes)
