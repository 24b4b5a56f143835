"""The studio's app: its pages, for one person on this machine (`rase.dashboard.local`)."""

from rase.clock import Clock
from rase.dashboard.app import pages_app
from rase.dashboard.local import LocalPages
from rase.dashboard.page import Site
from rase.dashboard.sessions import Sessions
from rase.studio.attack import PAGE as ATTACK_LAB
from rase.studio.explorer import PAGE as EXPLORER

__all__ = ["PACKAGES", "studio_app"]

PACKAGES = ("rase.studio", "rase.dashboard")


def studio_app(clock: Clock, port: int) -> LocalPages:
    """Return the studio as it is served on a port of this machine.

    Args:
        clock: The present time, for the first round of a campaign that is planned.
        port: Where it listens.
    """
    site = Site(
        clock=clock,
        sessions=Sessions(clock),
        pages=(EXPLORER, ATTACK_LAB),
        packages=PACKAGES,
    )
    return LocalPages(pages_app(site), port=port, command="rase studio")
