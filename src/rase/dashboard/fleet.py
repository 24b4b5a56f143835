"""The campaign that a page is about, with what it promises and means in words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from rase.campaign import Campaign
from rase.service.allowance import epsilon_of_rounds
from rase.subscriber.operator import AsyncOperator
from rase.theme.formatting import duration
from rase.theme.promises import promises

__all__ = ["Fleet", "campaign_from", "fleet_of", "fleets_of", "promises_of"]

_DAY_S = 86400
_NAMES = tuple(item.name for item in fields(Campaign))


@dataclass(frozen=True, slots=True)
class Fleet:
    """A campaign with what the fusion centre knows about it.

    Args:
        campaign: Its newest version.
        hash: The hash of that version, which both servers signed.
        expected_n: How many reports recent rounds had on average.
        kept_s: How long noisy reports are kept after their round is final.
        names: All campaigns of the fusion centre.
    """

    campaign: Campaign
    hash: str
    expected_n: int
    kept_s: int
    names: tuple[str, ...]

    @property
    def id_in_address(self) -> str:
        """The campaign as an address must name it; empty while there is only one."""
        return self.campaign.id if len(self.names) > 1 else ""

    @property
    def query(self) -> str:
        """What an address needs to stay with this campaign."""
        return f"campaign={self.id_in_address}" if self.id_in_address else ""

    @property
    def rounds_per_day(self) -> float:
        """How many rounds begin in a day."""
        return _DAY_S / self.campaign.round_s

    @property
    def epsilon_per_day(self) -> float:
        """The most that a device spends in a day."""
        return epsilon_of_rounds(self.campaign, math.ceil(self.rounds_per_day))


async def fleet_of(request: Request, client: AsyncOperator) -> Fleet | None:
    """Return the campaign that an address names, or the first; None if none is published.

    The client asks about it from then on.

    Raises:
        HTTPException: If the address names a campaign that is not here: another one's numbers
            would be read as its own.
    """
    found = await client.campaigns()
    if not found:
        return None
    names = tuple(str(one["id"]) for one in found)
    asked = request.query_params.get("campaign", "")
    if asked and asked not in names:
        raise HTTPException(
            404, f"There is no campaign of this name here. There is: {', '.join(names)}."
        )
    document: dict[str, Any] = found[names.index(asked) if asked else 0]
    client.about(str(document["id"]))
    return _fleet(document, names)


async def fleets_of(client: AsyncOperator) -> list[Fleet]:
    """Return all campaigns of a fusion centre."""
    found = await client.campaigns()
    names = tuple(str(one["id"]) for one in found)
    return [_fleet(one, names) for one in found]


def _fleet(document: Mapping[str, Any], names: tuple[str, ...]) -> Fleet:
    return Fleet(
        campaign=campaign_from(document),
        hash=str(document["hash"]),
        expected_n=int(document["expected_n"]),
        kept_s=int(document["noisy_values_kept_s"]),
        names=names,
    )


def campaign_from(document: Mapping[str, Any]) -> Campaign:
    """Return the campaign of a document of the fusion centre."""
    # Fields that a campaign does not use are absent, as on the wire.
    return Campaign.from_fields({name: document[name] for name in _NAMES if name in document})


def promises_of(fleet: Fleet) -> list[str]:
    """Return what a campaign and its fusion centre promise to the owners of devices."""
    *terms, against = promises(fleet.campaign)
    kept = (
        "Noisy reports are deleted in the moment in which their round becomes final."
        if fleet.kept_s == 0
        else f"Noisy reports are kept for {duration(fleet.kept_s)} after their round is final."
    )
    return [*terms, kept, against]
