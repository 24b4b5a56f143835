"""The studio's app: its pages, for one person on this machine (`rase.dashboard.local`)."""

from rase.clock import Clock
from rase.dashboard.app import pages_app
from rase.dashboard.local import LocalPages
from rase.dashboard.sessions import Sessions
from rase.studio.attack import PAGE as ATTACK_LAB
from rase.studio.campaign import PAGE as CAMPAIGN
from rase.studio.campaign import Published, Studio
from rase.studio.explorer import PAGE as EXPLORER

__all__ = ["PACKAGES", "studio_app"]

PACKAGES = ("rase.studio", "rase.dashboard")


def studio_app(clock: Clock, port: int, *, published: Published | None = None) -> LocalPages:
    """Return the studio as it is served on a port of this machine.

    Args:
        clock: The present time, for the first round of a campaign that is planned.
        port: Where it listens.
        published: A campaign to begin with; None for none.
    """
    site = Studio(
        clock=clock,
        sessions=Sessions(clock),
        pages=(EXPLORER, ATTACK_LAB) if published is None else (CAMPAIGN, EXPLORER, ATTACK_LAB),
        published=published,
        packages=PACKAGES,
    )
    return LocalPages(pages_app(site), port=port, command="rase studio")
