"""Campaign: what a fusion centre has published, as the start of Explorer and attack lab.

The studio needs no token: campaigns are public, and a new version is published on the fusion
centre's own page, to which the Explorer leads with the parameters that were explored.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

import httpx
from starlette.requests import Request
from starlette.responses import Response

from rase.address import split_address
from rase.campaign import Campaign
from rase.dashboard.fleet import campaign_from
from rase.dashboard.page import Page, Site, View, render, site_of
from rase.errors import ConfigurationError
from rase.service.clients import client
from rase.theme.promises import promises

__all__ = ["PAGE", "Published", "Studio", "apply_links", "fetch_campaign"]

_TIMEOUT_S: Final = 30.0
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Published:
    """A campaign that the studio begins with.

    Args:
        fusion: The address of its fusion centre.
        campaign: Its newest version.
    """

    fusion: str
    campaign: Campaign

    @property
    def explored(self) -> str:
        """The part of an address with which the Explorer begins at the campaign."""
        now = self.campaign
        return urlencode(
            {
                **_common_fields(now),
                "mechanism": now.mechanism,
                "every": f"{now.round_s}s",
                "window": max(1, round(86_400 / now.round_s)),
                "beta": f"{now.beta:.12g}",
                "rho": f"{now.rho:.12g}",
                # Groups that are open at once are those in which something was changed.
                "error": "",
            }
        )

    @property
    def attacked(self) -> str:
        """The part of an address with which the attack lab begins at the campaign."""
        return urlencode(_common_fields(self.campaign))


@dataclass(frozen=True, slots=True, kw_only=True)
class Studio(Site):
    """What the studio's pages share.

    Args:
        published: The campaign that they begin with; None for none.
    """

    published: Published | None = None


def fetch_campaign(
    fusion: str, name: str, *, transport: httpx.BaseTransport | None = None
) -> Published:
    """Return the newest version of a campaign, as its fusion centre shows it to everybody.

    Raises:
        ConfigurationError: If the address cannot be used, it does not answer, or has no such
            campaign.
    """
    try:
        split_address(fusion, plain="http", secure="https")
    except ValueError as error:
        raise ConfigurationError([f"--fusion {error}"]) from None
    base = fusion.rstrip("/")
    try:
        with client(base, base_url=base, timeout=_TIMEOUT_S, transport=transport) as asking:
            answer = asking.get(f"/v1/campaigns/{quote(name, safe='')}")
    except httpx.HTTPError as error:
        raise ConfigurationError(
            [f"--fusion must be a fusion centre that answers, got {base}: {error}."]
        ) from None
    if answer.status_code != _OK:
        raise ConfigurationError(
            [f"--campaign must be published at {base}, got {name!r} ({answer.status_code})."]
        )
    try:
        return Published(base, campaign_from(answer.json()))
    except (ValueError, TypeError, KeyError):
        raise ConfigurationError([f"--fusion must be a fusion centre, got {base}."]) from None


def apply_links(
    published: Published,
    *,
    low: float,
    high: float,
    devices: int,
    epsilon: float,
    wished: float | None,
) -> list[dict[str, str]]:
    """Return links to what explored parameters do to the campaign, the best first.

    Args:
        published: The campaign.
        low: The smallest reading.
        high: The largest reading.
        devices: How many report in a round.
        epsilon: The epsilon that was explored.
        wished: The one that would meet the wished error; None without a wish.
    """
    found = [epsilon]
    if wished is not None and f"{wished:.6g}" != f"{epsilon:.6g}":
        found.insert(0, wished)
    name = published.campaign.id
    shared = {"campaign": name, "low": f"{low:.12g}", "high": f"{high:.12g}", "n": devices}
    return [
        {
            "text": f"Use epsilon {one:.3g} in {name}",
            "address": f"{published.fusion}/campaign?"
            f"{urlencode({**shared, 'epsilon': f'{one:.6g}'})}#change",
        }
        for one in found
    ]


async def show_campaign(request: Request) -> Response:
    """Show the campaign and what can be done with it."""
    site = site_of(request)
    assert isinstance(site, Studio)  # noqa: S101 - what the page is served with
    published = site.published
    said = [] if published is None else promises(published.campaign)
    return render(request, "studio_campaign.html", published=published, promises=said)


def _common_fields(campaign: Campaign) -> dict[str, str]:
    return {
        "low": f"{campaign.low:.12g}",
        "high": f"{campaign.high:.12g}",
        "epsilon": f"{campaign.epsilon[-1]:.12g}",
    }


PAGE: Final = Page(
    name="campaign",
    title="Campaign",
    group="Studio",
    views=(View("/campaign", show_campaign),),
    is_open=True,
)
