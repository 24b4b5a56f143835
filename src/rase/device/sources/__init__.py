"""Sources of readings, one a module behind one protocol; each is imported when it is configured."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from rase.device.settings import SourceSettings
    from rase.device.sources.interface import Source
    from rase.transport.broker import Broker

__all__ = ["SOURCES", "SourceKind", "open_source"]


class SourceKind(NamedTuple):
    """Where a kind of source is, and the settings it cannot do without.

    Args:
        module: The module of this package.
        class_name: Its class, which has a class method `from_settings`.
        needs: Settings of the section [source], besides `every_s` and `scale`.
    """

    module: str
    class_name: str
    needs: tuple[str, ...] = ()


SOURCES: Final = {
    "csv": SourceKind("csv", "CsvSource", ("path", "column")),
    "stdin": SourceKind("stdin", "StdinSource"),
    "exec": SourceKind("exec", "ExecSource", ("command",)),
    "http": SourceKind("http", "HttpSource", ("url",)),
    "python": SourceKind("function", "FunctionSource", ("function",)),
    "mqtt": SourceKind("mqtt", "MqttSource"),
    "homeassistant": SourceKind(
        "homeassistant", "HomeAssistantSource", ("url", "entity", "token_file")
    ),
}


def open_source(
    settings: "SourceSettings", folder: Path, *, home: "Broker | None" = None
) -> "Source":
    """Open the source that the settings ask for; only its own module is imported.

    Args:
        settings: The section [source].
        folder: Where relative paths start.
        home: The broker in the home, for an mqtt source.

    Raises:
        SourceFailed: If the source cannot be opened.
        ConfigurationError: If the settings do not fit the source.
    """
    kind = SOURCES[settings.kind]
    source_class = getattr(import_module(f"{__name__}.{kind.module}"), kind.class_name)
    return cast("Source", source_class.from_settings(settings, folder=folder, home=home))
