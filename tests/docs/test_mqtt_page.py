"""What an owner of an ESPHome plug pastes on both sides names the same topic."""

import re
from pathlib import Path

from rase.device.enrolment import settings_text
from rase.device.settings import settings_of
from rase.device.sources.presets import meter_of
from rase.toml import parse_toml

PAGE = (Path(__file__).parents[2] / "docs/guides/mqtt.md").read_text("utf-8")


def test_the_plug_publishes_what_the_agent_reads() -> None:
    """Prefix and sensor of the ESPHome file make the topic of the settings next to it."""
    section = PAGE.split("### A plug with ESPHome\n")[1].split("\n## ")[0]
    plug, settings = re.findall(r"```(?:yaml|toml)\n(.*?)```", section, re.DOTALL)
    (prefix,) = re.findall(r"topic_prefix: (\S+)", plug)
    (name,) = re.findall(r"^ +name: (\S+)", plug, re.MULTILINE)
    whole = settings_text(
        shuffler="https://shuffler.example",
        campaign="power",
        fusion_key="A" * 43,
        shuffler_key="A" * 42 + "E",
        registrar="https://registrar.example",
        registrar_key="B" * 42 + "E",
        report_epsilon=1.0,
        span_epsilon=24.0,
        total_epsilon=1000.0,
        value_range=(0.0, 3000.0),
        least_k=20,
    )
    head = whole.split("[source]")[0]
    found = settings_of(parse_toml((head + settings).encode()), {})
    meter = meter_of(found.source)
    # ESPHome publishes a sensor under its object id, its name in small letters.
    assert meter.topic == f"{prefix}/sensor/{name.lower()}/state"
    assert meter.topic in section
    assert (meter.path, meter.unit) == ("", "W")
