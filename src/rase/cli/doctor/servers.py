"""What ``rase doctor`` asks of every server: its settings, whether it runs, and its documents."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ssl import SSLContext

    from rase.service.doctor import Fetched, Finding
    from rase.wire.keys import Role

__all__ = ["SERVER_FILE", "fetch", "own_server", "server_settings"]

SERVER_FILE: Final = "rase.toml"
"""The settings of a server, in its folder."""


def server_settings(place: Path, role: "Role") -> Any:
    """Return the settings of a shuffler or fusion centre.

    Args:
        place: Its folder.
        role: Which it is.

    Raises:
        ConfigurationError: With all that is wrong with them.
    """
    from rase.service.settings import load_settings
    from rase.wire.keys import Role

    if role is Role.SHUFFLER:
        from rase.shuffler.settings import ShufflerSettings

        return load_settings(ShufflerSettings, role, path=place / SERVER_FILE)
    from rase.fusion.settings import FusionSettings

    return load_settings(FusionSettings, role, path=place / SERVER_FILE)


def own_server(where: str, role: str, settings: Any) -> "Finding":
    """Check that the server of a folder runs and is ready.

    Args:
        where: The folder.
        role: What ``rase`` runs it as.
        settings: Its settings, with host and port.
    """
    from rase.service import doctor

    # A server on all addresses is on this one, too.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    url = f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
    answer = fetch(url, "/readyz")
    if answer is None:
        text = f"does not run at {url}: rase {role} run --config {where}/{SERVER_FILE}."
        return doctor.Finding(where, "server", doctor.Level.WARNING, text)
    reasons = " ".join(answer.body.decode("utf-8", "replace").splitlines()[1:])
    if answer.status != 200:
        text = f"runs at {url}, but is not ready: {reasons or 'look at its log.'}"
        return doctor.Finding(where, "server", doctor.Level.WARNING, text)
    if reasons:
        text = f"runs at {url} and is ready, but: {reasons}"
        return doctor.Finding(where, "server", doctor.Level.WARNING, text)
    return doctor.Finding(where, "server", doctor.Level.OK, f"runs at {url} and is ready.")


def fetch(url: str, path: str, tls: "SSLContext | None" = None) -> "Fetched | None":
    """Ask a server for a document.

    Args:
        url: Its root.
        path: The document.
        tls: Who is trusted; None for the system's authorities.

    Returns:
        What it answers; None if it does not.
    """
    from http.client import HTTPException

    from rase.service import doctor

    try:
        return doctor.fetch(url, path, tls=tls)
    except (OSError, HTTPException):
        return None
