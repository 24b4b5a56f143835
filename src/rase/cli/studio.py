"""``rase studio``: Explorer and attack lab in a browser, on this machine alone."""

import click

from rase.cli.local_pages import browser_option, port_option, serve_locally
from rase.clock import SystemClock

__all__ = ["command"]


@click.command("studio", short_help="Explore parameters and attacks in a browser, locally.")
@port_option
@browser_option
def command(*, port: int, no_browser: bool) -> None:
    """Explore parameters and attacks in a browser, locally.

    Serves the Explorer (errors and guarantees while parameters move) and the attack lab (what a
    configuration gives away, on made-up readings or a file of your own) until interrupted. The
    address holds a secret that is new at each start; nothing listens on another interface, and no
    live report is within reach.
    """
    from rase.studio.app import studio_app

    serve_locally(
        lambda port: studio_app(SystemClock(), port),
        port=port,
        no_browser=no_browser,
        name="the studio",
    )
