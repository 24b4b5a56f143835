"""Readings from a meter that answers JSON over HTTP, such as a Shelly or Tasmota plug."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rase.device.sources.interface import Reading, SourceFailed, reading_in
from rase.errors import ConfigurationError
from rase.transport.http import HttpTransport
from rase.transport.interface import Transport, Unreachable

if TYPE_CHECKING:
    from rase.device.settings import SourceSettings
    from rase.transport.broker import Broker

__all__ = ["HttpSource", "found_at"]


class HttpSource:
    """Ask a meter each time.

    Meters in the home rarely have certificates, so http is accepted here.

    Args:
        url: The address, e.g. ``http://192.168.1.20/rpc/Switch.GetStatus?id=0``.
        json_path: Where the number stands, e.g. ``apower`` or ``meters.0.power``; empty if the
            answer is the number itself.
        scale: What the number is multiplied by.
        states: The names of states by what is said, where it is states; None for numbers.
        timeout_s: How long to wait.
        transport: The way there; made from the address if None.

    Raises:
        ConfigurationError: If the address is none.
    """

    KIND = "http"

    def __init__(
        self,
        url: str,
        json_path: str = "",
        *,
        scale: float = 1.0,
        states: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        transport: Transport | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
        except ValueError:
            raise ConfigurationError(["source.url must be an address of http or https."]) from None
        root = f"{parts.scheme}://{parts.netloc}"
        self._transport = transport or HttpTransport(root, timeout_s=timeout_s, insecure_http=True)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not (self._target.isascii() and self._target.isprintable()) or " " in self._target:
            raise ConfigurationError(
                [f"source.url must be ASCII, other letters as %C3%BC, got {self._target!r}."]
            )
        self._json_path = json_path
        self._scale = scale
        self._states = states

    @classmethod
    def from_settings(
        cls, settings: "SourceSettings", *, folder: Path, home: "Broker | None" = None
    ) -> "HttpSource":
        """Make the source that the section [source] describes."""
        return cls(
            settings.url or "",
            settings.json_path,
            scale=settings.scale,
            states=settings.states,
            timeout_s=settings.timeout_s,
        )

    def read(self) -> list[Reading]:
        """Ask the meter and return its reading; none where it says null.

        Raises:
            SourceFailed: If the server does not answer, or not with a number there.
        """
        try:
            answer = self._transport.get(self._target)
        except Unreachable as error:
            raise SourceFailed(self.KIND, str(error)) from None
        if answer.status != 200:
            raise SourceFailed(self.KIND, f"the meter answers {answer.status}.")
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise SourceFailed(self.KIND, "the meter must answer JSON; it does not.") from None
        value = found_at(document, self._json_path)
        return (
            []
            if value is None
            else [reading_in(self.KIND, value, scale=self._scale, states=self._states)]
        )

    def close(self) -> None:
        """Have nothing to let go of: each connection has ended."""


def found_at(document: Any, path: str) -> Any:
    """Return what stands at a path of names and numbers; None if there is nothing.

    Example:
        >>> found_at({"meters": [{"power": 12.5}]}, "meters.0.power")
        12.5
    """
    for name in filter(None, path.split(".")):
        if isinstance(document, list) and name.isdecimal() and int(name) < len(document):
            document = document[int(name)]
        elif isinstance(document, dict):
            document = document.get(name)
        else:
            return None
    return document
