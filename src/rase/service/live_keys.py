"""The opening keys of a running server: read again, without a restart, when their files change.

A rotation writes the new key, then the settings that name it. Looking costs a few calls of the
system and no reading; what cannot be read leaves the keys as they are, and is logged once.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

from rase.clock import Clock
from rase.errors import ConfigurationError
from rase.service.key_settings import read_opening_keys
from rase.service.telemetry import Telemetry
from rase.wire.keys import OpeningKey, Role

__all__ = ["LiveKeys"]

_LOOK_S: Final = 1.0
_Stamp: TypeAlias = tuple[tuple[str, int, int, int], ...]


class LiveKeys:
    """The keys that a server's settings name now.

    Args:
        role: The server.
        files: Returns the private files, by the settings as they are now.
        settings: The settings file; None without one: the files stay the same.
        clock: Says when to look again.
        telemetry: Logs keys that came or could not be read.

    Raises:
        ConfigurationError: If the key files cannot be read at the start.
    """

    def __init__(
        self,
        role: Role,
        files: Callable[[], Iterable[Path]],
        *,
        settings: Path | None,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._role = role
        self._files = files
        self._settings = settings
        self._clock = clock
        self._telemetry = telemetry
        self._paths = tuple(files())
        self._stamp = self._looks()
        self._keys = read_opening_keys(self._paths, role=role)
        self._next_s = clock.monotonic_s() + _LOOK_S

    def __call__(self) -> tuple[OpeningKey, ...]:
        """Return the keys, read again if a file has changed since; looks once a second."""
        now_s = self._clock.monotonic_s()
        if now_s < self._next_s:
            return self._keys
        self._next_s = now_s + _LOOK_S
        stamp = self._looks()
        if stamp == self._stamp:
            return self._keys
        try:
            self._paths = tuple(self._files())
            # Looked at before they are read: what changes meanwhile is seen the next time.
            stamp = self._looks()
            keys = read_opening_keys(self._paths, role=self._role)
        except ConfigurationError as error:
            self._telemetry.count("key_reloads_failed")
            self._telemetry.event("keys_not_reloaded", error=str(error))
        else:
            if keys != self._keys:
                self._telemetry.event("keys_reloaded", count=len(keys))
            self._keys = keys
        self._stamp = stamp
        return self._keys

    def _looks(self) -> _Stamp:
        """Return by what a change of the files is seen."""
        paths = self._paths if self._settings is None else (self._settings, *self._paths)
        return tuple(_look(path) for path in paths)


def _look(path: Path) -> tuple[str, int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return str(path), 0, 0, 0
    # The time of a change of the mode, too: a file that was open to others may be usable now.
    return str(path), found.st_mtime_ns, found.st_ctime_ns, found.st_ino
