"""Ports that stay ours before, between and after the servers that listen on them.

Asking for a free port and giving it back leaves a moment in which somebody else may take it. Here
it stays bound, which keeps all others away; as nobody listens on the bound socket, a server that
reuses addresses, as servers do, may still listen, be killed, and listen again.
"""

import atexit
import socket

__all__ = ["held_port"]


def held_port() -> int:
    """Return a port of the loopback address that is held until this process ends.

    Example:
        >>> port = held_port()
        >>> with socket.create_server(("127.0.0.1", port)) as server:
        ...     server.getsockname()[1] == port
        True
    """
    held = socket.socket()
    atexit.register(held.close)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port: int = held.getsockname()[1]
    return port
