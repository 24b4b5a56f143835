"""Readings from Home Assistant: the state of one entity, by its REST interface."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rase.device.folder import secret_in
from rase.device.sources.http import found_at
from rase.device.sources.interface import Reading, SourceFailed, reading_in
from rase.device.sources.units import factor_between
from rase.errors import ConfigurationError
from rase.transport.http import HttpTransport
from rase.transport.interface import Transport, Unreachable

if TYPE_CHECKING:
    from rase.device.settings import SourceSettings
    from rase.transport.broker import Broker

__all__ = ["HomeAssistantSource"]

_ENTITY: Final = re.compile(r"[a-z_]+\.[a-z0-9_]+")
# What the state of an entity is while there is none.
_NO_STATE: Final = ("unknown", "unavailable", "")
_REFUSALS: Final = {
    401: "refuses the token",
    403: "refuses this machine after failed logins; see its ip_bans.yaml",
    404: "knows no such entity",
}


class HomeAssistantSource:
    """Ask for the state of an entity (``GET /api/states/<entity>``).

    Args:
        url: Where Home Assistant is, e.g. ``http://homeassistant.local:8123``.
        entity: The entity, e.g. ``sensor.house_power``.
        token: A long-lived access token, made on the profile page.
        unit: The unit to give readings in; None for the entity's own.
        scale: What they are multiplied by.
        states: The names of states by what is said, where it is states; None for numbers.
        timeout_s: How long to wait.
        transport: The way there; made from the address if None.

    Raises:
        ConfigurationError: If address or entity is none.
    """

    KIND = "homeassistant"

    def __init__(
        self,
        url: str,
        entity: str,
        *,
        token: str,
        unit: str | None = None,
        scale: float = 1.0,
        states: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
        transport: Transport | None = None,
    ) -> None:
        if not _ENTITY.fullmatch(entity):
            raise ConfigurationError(
                [f"source.entity must look like sensor.house_power, got {entity!r}."]
            )
        self._transport = transport or HttpTransport(
            url, timeout_s=timeout_s, insecure_http=True, bearer=token
        )
        self._path = f"/api/states/{entity}"
        self._unit = unit
        self._scale = scale
        self._states = states

    @classmethod
    def from_settings(
        cls, settings: "SourceSettings", *, folder: Path, home: "Broker | None" = None
    ) -> "HomeAssistantSource":
        """Make the source that the section [source] describes."""
        return cls(
            settings.url or "",
            settings.entity or "",
            token=secret_in(folder / (settings.token_file or "")),
            unit=settings.unit,
            scale=settings.scale,
            states=settings.states,
            timeout_s=settings.timeout_s,
        )

    def read(self) -> list[Reading]:
        """Ask for the state; none while the entity has none.

        Raises:
            SourceFailed: If Home Assistant does not answer, not with a number, or in a unit that
                cannot be turned into the one of the settings.
        """
        try:
            answer = self._transport.get(self._path)
        except Unreachable as error:
            raise SourceFailed(self.KIND, str(error)) from None
        if answer.status != 200:
            reason = _REFUSALS.get(answer.status, f"answers {answer.status}")
            raise SourceFailed(self.KIND, f"it {reason}.")
        try:
            document: Any = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise SourceFailed(self.KIND, "must answer JSON; it does not.") from None
        state = found_at(document, "state")
        if state is None or state in _NO_STATE:
            return []
        stated = found_at(document, "attributes.unit_of_measurement")
        factor: float | None = 1.0
        if self._unit is not None and isinstance(stated, str):
            factor = factor_between(stated, self._unit)
        if factor is None:
            raise SourceFailed(self.KIND, f"the entity is in {stated}, not in {self._unit}.")
        return [reading_in(self.KIND, state, scale=self._scale * factor, states=self._states)]

    def close(self) -> None:
        """Have nothing to let go of: each connection has ended."""
