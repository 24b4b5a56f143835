"""Where a server is: addresses that a person typed, in the clear on this machine alone.

One room for devices, servers and subscribers, so that none of them takes an address, or sends a
token over the network in the clear, where another would not.
"""

import ipaddress
from urllib.parse import SplitResult, urlsplit

__all__ = ["is_loopback", "split_address"]


def split_address(
    url: str, *, plain: str, secure: str, is_plain_anywhere: bool = False
) -> SplitResult:
    """Return the parts of an address whose host and port can be.

    Args:
        url: What was typed.
        plain: The scheme without TLS.
        secure: The scheme with TLS.
        is_plain_anywhere: Whether the plain scheme may lead to other machines, too.

    Raises:
        ValueError: If the text is not an address; the message continues a setting's name.

    Example:
        >>> split_address("http://[::1]:8702/v1", plain="http", secure="https").hostname
        '::1'
        >>> split_address("http://fusion.example", plain="http", secure="https")
        Traceback (most recent call last):
        ValueError: must begin with https:// except on this machine, got 'http://fusion.example'.
    """
    if "@" in url.partition("//")[2].partition("/")[0]:
        # Messages show addresses; a password must not be in one.
        raise ValueError("must not hold a user or password.")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        # As a socket would: empty and endless labels, which no name has, fail here and not later.
        (host or "").encode("idna")
    except ValueError:
        host = None
    if not host or parts.scheme not in (plain, secure):
        raise ValueError(f"must be an address of {plain} or {secure}, got {url!r}.")
    if parts.scheme == plain and not (is_plain_anywhere or is_loopback(host)):
        raise ValueError(f"must begin with {secure}:// except on this machine, got {url!r}.")
    return parts


def is_loopback(host: str | None) -> bool:
    """Say whether a name or address of a host is that of this machine.

    Example:
        >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "fusion.example")]
        [True, True, True, False]
    """
    if host is None or host == "localhost":
        return host is not None
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
