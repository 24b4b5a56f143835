"""Discovery messages keep Home Assistant's rules, by a validator that knows them."""

import json
import re
from typing import Any

import pytest

from rase.transport.discovery import Discovery, Entity, unit_fields

__all__ = ["check_discovery"]

# Home Assistant's own lists, as far as this project uses them.
UNITS: dict[str, set[str | None]] = {
    "power": {"mW", "W", "kW", "MW", "GW", "TW"},
    "energy": {"J", "kJ", "MJ", "GJ", "mWh", "Wh", "kWh", "MWh", "GWh", "TWh"},
    "temperature": {"°C", "°F", "K"},
    "voltage": {"V", "mV", "kV"},
    "current": {"A", "mA"},
    "frequency": {"Hz", "kHz", "MHz", "GHz"},
    "timestamp": {None},
}
STATE_CLASSES: dict[str, set[str | None]] = {
    "energy": {None, "total", "total_increasing"},
    "timestamp": {None},
}
DEVICE_KEYS = {"ids", "name", "mf", "mdl", "sw", "cns", "hw", "sn", "cu", "sa"}
COMPONENT_KEYS = {
    "sensor": {"unit_of_meas", "dev_cla", "stat_cla", "val_tpl", "exp_aft", "ent_cat"},
    "binary_sensor": {"val_tpl", "pl_on", "pl_off", "dev_cla", "exp_aft"},
    "switch": {"cmd_t", "val_tpl", "pl_on", "pl_off", "ent_cat"},
}
SHARED_KEYS = {"stat_t", "qos", "avty_t", "cmd_t"}


def check_discovery(topic: str, payload: bytes) -> dict[str, Any]:
    """Fail unless a message is one that Home Assistant takes; return it."""
    assert re.fullmatch(r"homeassistant/device/[a-zA-Z0-9_-]+/config", topic)
    document: dict[str, Any] = json.loads(payload)
    assert set(document) <= {"dev", "o", "cmps", *SHARED_KEYS}
    assert {"dev", "o", "cmps"} <= set(document)
    assert set(document["dev"]) <= DEVICE_KEYS
    assert document["dev"]["ids"]
    assert document["o"]["name"]
    unique = [component["uniq_id"] for component in document["cmps"].values()]
    assert len(set(unique)) == len(unique) > 0
    for component in document["cmps"].values():
        platform = component["p"]
        assert set(component) <= {"p", "uniq_id", "name", "stat_t", *COMPONENT_KEYS[platform]}
        assert document.get("stat_t")
        assert platform != "switch" or component["cmd_t"]
        device_class, unit = component.get("dev_cla"), component.get("unit_of_meas")
        if device_class is not None:
            assert unit in UNITS[device_class], (device_class, unit)
        allowed = STATE_CLASSES.get(device_class or "", {None, "measurement", "total"})
        assert component.get("stat_cla") in allowed
    return document


def made(unit: str) -> Discovery:
    """Return a device with one sensor."""
    entity = Entity("mean", "Mean", "sensor", unit_fields(unit))
    return Discovery(
        id="rase_a",
        name="A",
        model="m",
        version="1",
        state_topic="a",
        entities=(entity,),
        shared={},
    )


@pytest.mark.parametrize("unit", ["W", "kWh", "°C", "", "litres", "V", "kw"])
def test_every_unit_makes_a_valid_sensor(unit: str) -> None:
    """Known units get their device class exactly; others are shown without one."""
    found = made(unit)
    component = check_discovery(found.topic, found.payload())["cmps"]["mean"]
    assert component.get("unit_of_meas", "") == unit
    classes = {"W": "power", "kWh": "energy", "°C": "temperature", "V": "voltage"}
    assert component.get("dev_cla") == classes.get(unit)


def test_the_validator_notices_faults() -> None:
    """A wrong unit, a doubled id, a measured energy and a missing origin fail."""
    found = made("W")
    document = json.loads(found.payload())
    for change in (
        {"unit_of_meas": "watt"},
        {"dev_cla": "energy", "unit_of_meas": "kWh"},
        {"colour": "red"},
    ):
        faulty = {**document, "cmps": {"mean": {**document["cmps"]["mean"], **change}}}
        with pytest.raises(AssertionError):
            check_discovery(found.topic, json.dumps(faulty).encode())
    twice = {**document, "cmps": {"a": document["cmps"]["mean"], "b": document["cmps"]["mean"]}}
    with pytest.raises(AssertionError):
        check_discovery(found.topic, json.dumps(twice).encode())
    del document["o"]
    with pytest.raises(AssertionError):
        check_discovery(found.topic, json.dumps(document).encode())


def test_ids_are_of_plain_letters() -> None:
    """An id that would break the topic is refused."""
    with pytest.raises(ValueError, match="id must have letters"):
        Discovery(id="a/b", name="", model="", version="", state_topic="", entities=(), shared={})
