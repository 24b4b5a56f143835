"""Home Assistant's device discovery over MQTT: one retained message names all entities of a device.

The rules are those of Home Assistant's page on MQTT discovery: the topic is
``homeassistant/device/<id>/config``, the message has ``dev``, ``o`` and ``cmps``, each component a
platform ``p`` and a ``uniq_id``; a device class admits certain units only.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Discovery", "Entity", "unit_fields"]

_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
# Device class by unit; another spelling of the same unit has none.
_CLASSES: Final = {
    "W": "power",
    "kW": "power",
    "MW": "power",
    "Wh": "energy",
    "kWh": "energy",
    "MWh": "energy",
    "°C": "temperature",
    "V": "voltage",
    "A": "current",
    "Hz": "frequency",
}


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity.

    Args:
        key: Its name among the entities of the device.
        name: What people read.
        platform: "sensor" or "switch".
        fields: Whatever else the platform needs, in Home Assistant's short words.
    """

    key: str
    name: str
    platform: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """A device with its entities.

    Args:
        id: The device's id, of letters, digits, - and _.
        name: What people read.
        model: What kind of device it is.
        version: The release of this program.
        state_topic: Where the states of all entities are.
        entities: The entities.
        shared: What holds for all entities, in Home Assistant's short words.

    Raises:
        ValueError: If an id has other letters.
    """

    id: str
    name: str
    model: str
    version: str
    state_topic: str
    entities: tuple[Entity, ...]
    shared: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Check the id once."""
        if not _ID.fullmatch(self.id):
            raise ValueError(f"id must have letters, digits, - and _ only, got {self.id!r}.")

    @property
    def topic(self) -> str:
        """Where the message is published, retained; an empty one removes the device."""
        return f"homeassistant/device/{self.id}/config"

    def payload(self) -> bytes:
        """Return the message."""
        document = {
            "dev": {
                "ids": [self.id],
                "name": self.name,
                "mf": "RASE",
                "mdl": self.model,
                "sw": self.version,
            },
            "o": {"name": "rase", "sw": self.version},
            "cmps": {
                entity.key: {
                    "p": entity.platform,
                    "uniq_id": f"{self.id}_{entity.key}",
                    "name": entity.name,
                    **entity.fields,
                }
                for entity in self.entities
            },
            "stat_t": self.state_topic,
            "qos": 1,
            **self.shared,
        }
        return json.dumps(document, ensure_ascii=False).encode()


def unit_fields(unit: str, *, is_measured: bool = True) -> dict[str, str]:
    """Return unit, device class and state class of a sensor.

    Args:
        unit: The unit, exactly as Home Assistant spells it; empty for none.
        is_measured: Whether the value is a measurement of a moment, whose mean makes sense.

    Example:
        >>> unit_fields("W")
        {'unit_of_meas': 'W', 'dev_cla': 'power', 'stat_cla': 'measurement'}
        >>> unit_fields("kWh")
        {'unit_of_meas': 'kWh', 'dev_cla': 'energy'}
    """
    fields = {"unit_of_meas": unit} if unit else {}
    if unit in _CLASSES:
        fields["dev_cla"] = _CLASSES[unit]
    # Home Assistant admits no measurement of the class energy, only totals; a mean is none.
    if is_measured and fields.get("dev_cla") != "energy":
        fields["stat_cla"] = "measurement"
    return fields
