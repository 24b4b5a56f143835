"""Targets for what meters say: messages of all presets, HTTP, Home Assistant, CSV, a pipe."""

import math
import os
import threading
from collections.abc import Callable, Sequence
from typing import Final

from fuzz.scratch import written
from rase.device.sources.csv import CsvSource
from rase.device.sources.homeassistant import HomeAssistantSource
from rase.device.sources.http import HttpSource
from rase.device.sources.interface import Source, SourceFailed
from rase.device.sources.mqtt import MqttSource
from rase.device.sources.presets import PRESETS
from rase.device.sources.stdin import StdinSource
from rase.transport.interface import Answer

__all__ = ["SOURCE_TARGETS"]

_LOCK: Final = threading.Lock()
_PATHS: Final = sorted({place.path for one in PRESETS.values() for place in one.places.values()})


def read_meter(data: bytes) -> None:
    """Read a message at every place where a preset looks."""
    for path in _PATHS:
        _read(_Heard([data], path))


def read_meter_http(data: bytes) -> None:
    """Read the answer of a meter over HTTP."""
    for path in ("", "apower", "meters.0.power"):
        _read(HttpSource("http://meter/", path, transport=_Answers(data)))


def read_home_assistant(data: bytes) -> None:
    """Read the state of an entity."""
    source = HomeAssistantSource(
        "http://home/", "sensor.power", token="", unit="W", transport=_Answers(data)
    )
    _read(source)


def read_csv_source(data: bytes) -> None:
    """Read rows of a file until it ends, whatever is in them."""
    path = written("readings.csv", data)
    try:
        source = CsvSource(path, "power")
    except SourceFailed:
        return
    try:
        # Each row is read or refused once.
        for _ in range(data.count(b"\n")):
            _read(source)
        assert source.read() == []
    finally:
        source.close()


def read_pipe(data: bytes) -> None:
    """Read lines of a pipe."""
    end, begin = os.pipe()
    try:
        os.write(begin, data[:4096])
        os.close(begin)
        _read(StdinSource(end))
    finally:
        os.close(end)


SOURCE_TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "meter": read_meter,
    "meter_http": read_meter_http,
    "home_assistant": read_home_assistant,
    "csv_source": read_csv_source,
    "pipe": read_pipe,
}


class _Heard(MqttSource):
    """A source that heard messages, without a broker."""

    def __init__(self, messages: Sequence[bytes], path: str) -> None:
        self._waiting = list(messages)
        self._path = path
        self._scale = 1.0
        self._states = None
        self._trouble = None
        self._lock = _LOCK


class _Answers:
    """A transport that answers with certain bytes."""

    def __init__(self, body: bytes) -> None:
        self._answer = Answer(200, body)

    def get(self, path: str, *, etag: str | None = None) -> Answer:
        """Answer."""
        return self._answer

    def post(
        self, path: str, body: bytes, *, content_type: str, credential: str | None = None
    ) -> Answer:
        """Answer."""
        return self._answer


def _read(source: Source) -> None:
    """Read once; what comes out are finite numbers."""
    try:
        readings = source.read()
    except SourceFailed:
        return
    assert all(isinstance(one, float) and math.isfinite(one) for one in readings)
