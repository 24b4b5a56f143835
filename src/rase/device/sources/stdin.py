"""Readings from a pipe, one number a line, as other programs write them."""

import os
import select
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rase.device.sources.interface import Reading, SourceFailed, reading_in

if TYPE_CHECKING:
    from rase.device.settings import SourceSettings
    from rase.transport.broker import Broker

__all__ = ["StdinSource"]

_MOST_BYTES = 1 << 16


class StdinSource:
    """Read whole lines as they come, never waiting.

    Args:
        handle: The number of the open file; 0 is standard input.
        scale: What the numbers are multiplied by.
        states: The names of states by what is said, where it is states; None for numbers.
    """

    KIND = "stdin"

    def __init__(
        self, handle: int = 0, *, scale: float = 1.0, states: Mapping[str, str] | None = None
    ) -> None:
        self._handle = handle
        self._scale = scale
        self._states = states
        self._rest = b""

    @classmethod
    def from_settings(
        cls, settings: "SourceSettings", *, folder: Path, home: "Broker | None" = None
    ) -> "StdinSource":
        """Make the source that the section [source] describes."""
        return cls(scale=settings.scale, states=settings.states)

    def read(self) -> list[Reading]:
        """Return the readings of the lines that are there; empty lines are skipped.

        Raises:
            SourceFailed: If a line is no number; the readings with it are lost, too.
        """
        lines: list[bytes] = []
        try:
            while select.select([self._handle], [], [], 0)[0]:
                data = os.read(self._handle, _MOST_BYTES)
                *whole, self._rest = (self._rest + data).split(b"\n")
                lines += whole
                if not data or len(self._rest) > _MOST_BYTES:
                    break
        except OSError as error:
            raise SourceFailed(self.KIND, f"{error.strerror}.") from None
        if len(self._rest) > _MOST_BYTES:
            self._rest = b""
            raise SourceFailed(self.KIND, "must give lines; this one does not end.")
        return [
            reading_in(self.KIND, line, scale=self._scale, states=self._states)
            for line in lines
            if line.strip()
        ]

    def close(self) -> None:
        """Leave standard input to whoever opened it."""
