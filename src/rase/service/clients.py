"""HTTP clients that honour the proxies of the environment, except on this machine.

A proxy elsewhere cannot reach this machine's loopback; it would get the request, with its token, in
the clear, and answer for something else.
"""

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from rase.address import is_loopback
from rase.errors import ConfigurationError

__all__ = ["async_client", "client"]

_T = TypeVar("_T", httpx.Client, httpx.AsyncClient)


def client(url: str, **options: Any) -> httpx.Client:
    """Return a client of the server at an address.

    Args:
        url: The server's address.
        **options: As of ``httpx.Client``.

    Raises:
        ConfigurationError: If the proxy of the environment cannot be used.
    """
    return _make_client(httpx.Client, url, options)


def async_client(url: str, **options: Any) -> httpx.AsyncClient:
    """Return a client for asyncio, as `client`."""
    return _make_client(httpx.AsyncClient, url, options)


def _make_client(make: Callable[..., _T], url: str, options: dict[str, Any]) -> _T:
    parts = urlsplit(url)
    if is_loopback(parts.hostname):
        options["trust_env"] = False
        if parts.scheme == "https":
            # The environment may still name the certificates to trust.
            options.setdefault("verify", httpx.create_ssl_context())
    try:
        return make(**options)
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise ConfigurationError(
            [f"HTTP_PROXY, HTTPS_PROXY or ALL_PROXY must be a proxy of http or https: {error}"]
        ) from None
