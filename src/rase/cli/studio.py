"""``rase studio``: Explorer and attack lab in a browser, on this machine alone."""

import socket
import webbrowser

import click

from rase.clock import SystemClock
from rase.errors import ConfigurationError

__all__ = ["command"]

_HOST = "127.0.0.1"


@click.command("studio", short_help="Explore parameters and attacks in a browser, locally.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where to listen on 127.0.0.1; any free port if not given.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def command(*, port: int, no_browser: bool) -> None:
    """Explore parameters and attacks in a browser, locally.

    Serves the Explorer (errors and guarantees while parameters move) and the attack lab (what a
    configuration gives away, on made-up readings or a file of your own) until interrupted. The
    address holds a secret that is new at each start; nothing listens on another interface, and no
    live report is within reach.
    """
    import uvicorn

    from rase.studio.app import studio_app

    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        raise ConfigurationError(
            [f"--port must be free, got {port}: {error.strerror}. Choose another, or 0."]
        ) from None
    with listener:
        studio = studio_app(SystemClock(), listener.getsockname()[1])
        click.echo(studio.address)
        click.echo("press Ctrl-C to end the studio.", err=True)
        if not no_browser:
            _open_browser(studio.once_address)
        config = uvicorn.Config(
            studio, log_config=None, log_level="error", access_log=False, server_header=False
        )
        uvicorn.Server(config).run(sockets=[listener])


def _open_browser(address: str) -> None:
    """Open a browser with a window; one that takes over the terminal is not wanted."""
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return
    # A subclass of it runs in the background.
    if type(found) is not webbrowser.GenericBrowser:
        found.open(address)
