"""The studio at a campaign: fetched from its fusion centre, explored, attacked, led back to it."""

from typing import Any

import httpx
import pytest
from tests.fusion.conftest import CAMPAIGN

from rase.cli import main
from rase.errors import ConfigurationError
from rase.studio.campaign import Published, apply_links, fetch_campaign


def answering(status: int, document: object) -> httpx.MockTransport:
    """Return a fusion centre that answers everything alike."""
    return httpx.MockTransport(lambda _: httpx.Response(status, json=document))


def test_a_campaign_is_fetched_as_everybody_sees_it() -> None:
    """With no token, from the address of its name."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={**CAMPAIGN.as_fields(), "hash": "00"})

    found = fetch_campaign(
        "https://fusion.test/", "street-power", transport=httpx.MockTransport(answer)
    )
    assert found == Published("https://fusion.test", CAMPAIGN)
    assert asked[0].url.path == "/v1/campaigns/street-power"
    assert "authorization" not in asked[0].headers


@pytest.mark.parametrize(
    ("address", "status", "document", "words"),
    [
        ("http://fusion.test", 200, {}, "--fusion"),
        ("https://fusion.test", 404, {}, "--campaign must be published at https://fusion.test"),
        ("https://fusion.test", 200, {"id": 3}, "--fusion must be a fusion centre"),
    ],
)
def test_what_cannot_be_fetched_is_told(
    address: str, status: int, document: object, words: str
) -> None:
    """Which option is wrong, and why."""
    with pytest.raises(ConfigurationError, match=words):
        fetch_campaign(address, "gone", transport=answering(status, document))


def test_a_fusion_centre_that_does_not_answer_is_told() -> None:
    """As a sentence with its address."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody listens", request=request)

    with pytest.raises(ConfigurationError, match="nobody listens"):
        fetch_campaign("https://fusion.test", "x", transport=httpx.MockTransport(refuse))


def test_one_option_alone_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names both."""
    assert main(["studio", "--campaign", "street-power"]) == 2
    assert "give --fusion and --campaign together" in capsys.readouterr().err


def test_links_hold_what_was_explored() -> None:
    """The wished epsilon first; the range and the number of reports go along."""
    published = Published("https://fusion.test", CAMPAIGN)
    asked: dict[str, Any] = {"low": 0.0, "high": 2000.0, "devices": 5000, "epsilon": 0.5}
    wished, explored = apply_links(published, **asked, wished=0.4375)
    assert wished["text"] == "Use epsilon 0.438 in street-power"
    assert wished["address"] == (
        "https://fusion.test/campaign?campaign=street-power&low=0&high=2000&n=5000"
        "&epsilon=0.4375#change"
    )
    assert "epsilon=0.5#" in explored["address"]
    assert len(apply_links(published, **asked, wished=None)) == 1
    assert len(apply_links(published, **asked, wished=0.5)) == 1
    for query in (published.explored, published.attacked):
        assert "high=3000" in query
        assert "epsilon=1" in query
