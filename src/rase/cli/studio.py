"""``rase studio``: Explorer and attack lab in a browser, on this machine alone."""

import click

from rase.cli.local_pages import browser_option, port_option, serve_locally
from rase.clock import SystemClock

__all__ = ["command"]


@click.command("studio", short_help="Explore parameters and attacks in a browser, locally.")
@click.option("--fusion", help="A fusion centre's address: begin with a campaign of it.")
@click.option("--campaign", help="Which campaign to begin with.")
@port_option
@browser_option
def command(*, fusion: str | None, campaign: str | None, port: int, no_browser: bool) -> None:
    """Explore parameters and attacks in a browser, locally.

    Serves the Explorer (errors and guarantees while parameters move) and the attack lab (what a
    configuration gives away, on made-up readings or a file of your own) until interrupted. The
    address holds a secret that is new at each start; nothing listens on another interface, and no
    live report is within reach.

    With --fusion and --campaign both begin with the parameters of that campaign, which is public,
    and the Explorer leads to the page of the fusion centre that publishes others. No token is
    needed here.
    """
    from rase.studio.app import studio_app
    from rase.studio.campaign import fetch_campaign

    if (fusion is None) != (campaign is None):
        raise click.UsageError("give --fusion and --campaign together, or neither.")
    published = None
    if fusion is not None and campaign is not None:
        published = fetch_campaign(fusion, campaign)

    serve_locally(
        lambda port: studio_app(SystemClock(), port, published=published),
        port=port,
        no_browser=no_browser,
        name="the studio",
    )
