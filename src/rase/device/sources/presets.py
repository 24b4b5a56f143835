"""What common meters publish over MQTT: topic, place of the number, unit.

From the documentation of their makers: Tasmota "MQTT" and "JSON status responses", Shelly
"Gen2+ API, Switch and MQTT" and "Gen1 API, MQTT", Zigbee2MQTT "MQTT topics and messages", ESPHome
"MQTT client component". The pages they were compared with are named next to the payloads in
tests/device/test_home_sources.py.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rase.errors import ConfigurationError

if TYPE_CHECKING:
    from rase.device.settings import SourceSettings

__all__ = ["PRESETS", "Meter", "meter_of"]


class _Place(NamedTuple):
    """Where a quantity is: the end of the topic, the path in its JSON, its unit."""

    suffix: str
    path: str
    unit: str


@dataclass(frozen=True, slots=True)
class _Preset:
    """How one kind of meter speaks; {meter} and {channel} stand for the owner's."""

    topic: str
    places: dict[str, _Place]


@dataclass(frozen=True, slots=True)
class Meter:
    """Where one number is published.

    Args:
        topic: The topic.
        path: Where it stands in a JSON message; empty if the message is the number.
        unit: Its unit; None if nobody said.
    """

    topic: str
    path: str = ""
    unit: str | None = None


PRESETS: Final = {
    "tasmota": _Preset(
        "tele/{meter}/SENSOR",
        {
            "power": _Place("", "ENERGY.Power", "W"),
            "energy": _Place("", "ENERGY.Total", "kWh"),
        },
    ),
    "shelly": _Preset(
        "{meter}/status/switch:{channel}",
        {
            "power": _Place("", "apower", "W"),
            "energy": _Place("", "aenergy.total", "Wh"),
            "temperature": _Place("", "temperature.tC", "°C"),
        },
    ),
    "shelly-gen1": _Preset(
        "shellies/{meter}/relay/{channel}",
        {
            "power": _Place("/power", "", "W"),
            "energy": _Place("/energy", "", "Wmin"),
        },
    ),
    "zigbee2mqtt": _Preset(
        "zigbee2mqtt/{meter}",
        {
            "power": _Place("", "power", "W"),
            "energy": _Place("", "energy", "kWh"),
            "temperature": _Place("", "temperature", "°C"),
        },
    ),
    # The owner names the sensor in ESPHome; its unit is not in the message.
    "esphome": _Preset("{meter}/sensor/", {}),
}


def meter_of(settings: "SourceSettings") -> Meter:
    """Return where the settings say the number is; what they say themselves goes first.

    Raises:
        ConfigurationError: If the preset has no such quantity, or a topic is for several meters.
    """
    if settings.preset is None:
        topic = settings.topic or ""
        _check_topic(topic)
        return Meter(topic, settings.json_path, settings.unit)
    preset = PRESETS[settings.preset]
    meter = settings.meter or ""
    if preset.places:
        place = preset.places.get(settings.quantity)
        if place is None:
            known = ", ".join(preset.places)
            raise ConfigurationError(
                [f"source.quantity must be one of {known}, got {settings.quantity!r}."]
            )
    else:
        place = _Place(f"{settings.quantity}/state", "", "")
    topic = preset.topic.format(meter=meter, channel=settings.channel) + place.suffix
    topic = settings.topic or topic
    _check_topic(topic)
    return Meter(topic, settings.json_path or place.path, settings.unit or place.unit or None)


def _check_topic(topic: str) -> None:
    # The readings of several meters in one would be a mean of what nobody asked for.
    if not topic or "#" in topic or "+" in topic or "\0" in topic:
        raise ConfigurationError([f"source.topic must name one topic, without + or #: {topic!r}."])
