"""Automatic rotation of the fusion centre's opening key, where the operator set how often.

It is the operator's own sequence: make the next key, wait until every running fusion centre has
read it, publish. Each look does the next step that is due, so a death in between loses nothing. The
shuffler's keys are its operator's, and are rotated by hand.
"""

import fcntl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rase.clock import Clock
from rase.errors import ConfigurationError, RaseError
from rase.service.keyring import (
    KEYSET_FILE,
    PUBLIC_FILE,
    PublicKeys,
    read_keyset,
    read_public_keys,
    rotate_opening_key,
)
from rase.service.telemetry import Telemetry
from rase.wire.key_schedule import LEAD_CACHES
from rase.wire.keys import Keyset

__all__ = ["KeyRotation"]

_LOOK_S: Final = 10.0
_VALID_S: Final = 365 * 86400


class KeyRotation:
    """Rotate a server's key when it is due.

    Args:
        folder: The server's, as ``rase init`` made it; it must be writable.
        every_s: How long one key is used.
        files: Returns the private files that the settings name now.
        published: Returns the keyset that is published now; None before the first.
        check_held: Raises a RaseError while a running fusion centre does not hold a keyset's keys.
        publish: Has a keyset countersigned, and publishes it.
        clock: Says when.
        telemetry: Logs each step and each failure.

    Raises:
        ConfigurationError: If a key would be used for less than it takes to change it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        every_s: int,
        files: Callable[[], Iterable[Path]],
        published: Callable[[], Keyset | None],
        check_held: Callable[[Keyset], None],
        publish: Callable[[Keyset], object],
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        least_s = _lead_s(read_public_keys(folder / PUBLIC_FILE))
        if every_s < least_s:
            text = f"at least {least_s}, three cache times, got {every_s}."
            raise ConfigurationError([f"fusion.rotate_keys_s must be {text}"])
        self._folder = folder
        self._every_s = every_s
        self._files = files
        self._published = published
        self._check_held = check_held
        self._publish = publish
        self._clock = clock
        self._telemetry = telemetry
        self._next_s = clock.monotonic_s()

    def step(self) -> None:
        """Do what is due, if anything is; looks every ten seconds, and never raises."""
        if self._clock.monotonic_s() < self._next_s:
            return
        self._next_s = self._clock.monotonic_s() + _LOOK_S
        try:
            with _only_one(self._folder) as is_alone:
                if is_alone:
                    self._step()
        except (RaseError, OSError, ValueError) as error:
            self._telemetry.count("rotations_failed")
            self._telemetry.event("rotation_failed", error=str(error))

    def _step(self) -> None:
        published = self._published()
        if published is None:
            return
        keyset = read_keyset(self._folder / KEYSET_FILE)
        public = read_public_keys(self._folder / PUBLIC_FILE)
        newest_s = max(config.not_before_s for config in public.configs)
        now_s = self._clock.now_s()
        if keyset.version > published.version:
            if newest_s < now_s + LEAD_CACHES * public.cache_s:
                # It took too long: the shuffler would refuse a key that begins so soon.
                self._rotate(replaced_in=published)
            self._check_held(read_keyset(self._folder / KEYSET_FILE))
            self._publish(read_keyset(self._folder / KEYSET_FILE))
            self._telemetry.event("keys_published")
        elif now_s + _lead_s(public) >= newest_s + self._every_s:
            self._rotate()

    def _rotate(self, *, replaced_in: Keyset | None = None) -> None:
        rotate_opening_key(
            self._folder,
            list(self._files()),
            now_s=int(self._clock.now_s()),
            valid_s=max(_VALID_S, 2 * self._every_s),
            replace_pending=replaced_in is not None,
            published=replaced_in,
        )
        self._telemetry.event("key_rotated")


def _lead_s(public: PublicKeys) -> int:
    """Return how long before its first use a key is made: a cache time to publish, and the lead."""
    return (1 + LEAD_CACHES) * public.cache_s


@contextmanager
def _only_one(folder: Path) -> Iterator[bool]:
    """Say whether no other process of this folder is at it."""
    with (folder / PUBLIC_FILE).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
