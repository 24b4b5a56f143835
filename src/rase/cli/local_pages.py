"""Serve pages for one person on this machine, until interrupted."""

import socket
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from rase.errors import ConfigurationError

if TYPE_CHECKING:
    from rase.dashboard.local import LocalPages

__all__ = ["browser_option", "port_option", "serve_locally"]

_HOST: Final = "127.0.0.1"

port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where to listen on 127.0.0.1; any free port if not given.",
)
browser_option = click.option("--no-browser", is_flag=True, help="Only print the address.")


def serve_locally(
    make: "Callable[[int], LocalPages]", *, port: int, no_browser: bool, name: str
) -> None:
    """Print the address of some pages, open a browser on them, and serve them.

    Args:
        make: Makes the pages for the port on which they are served.
        port: That port; 0 for any free one.
        no_browser: Whether no browser is opened.
        name: What is ended by Ctrl-C.

    Raises:
        ConfigurationError: If the port is taken.
    """
    import uvicorn

    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        raise ConfigurationError(
            [f"--port must be free, got {port}: {error.strerror}. Choose another, or 0."]
        ) from None
    with listener:
        pages = make(listener.getsockname()[1])
        click.echo(pages.address)
        click.echo(f"press Ctrl-C to end {name}.", err=True)
        if not no_browser:
            _open_browser(pages.once_address)
        config = uvicorn.Config(
            pages, log_config=None, log_level="error", access_log=False, server_header=False
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
