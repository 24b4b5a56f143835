"""Automatic rotation of a server's opening key, where its operator set how often.

It is the operator's own sequence: make the next key, wait until every running process has read it,
offer it to the other side. Each look does the next step that is due, so a death in between loses
nothing.
"""

import fcntl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rase.clock import Clock
from rase.errors import ConfigurationError, RaseError
from rase.service.keyring import (
    PUBLIC_FILE,
    PublicKeys,
    opening_key_name,
    read_public_keys,
    rotate_opening_key,
)
from rase.service.telemetry import Telemetry
from rase.wire.key_schedule import LEAD_CACHES
from rase.wire.keys import Keyset, Role

__all__ = ["KeyRotation"]

_LOOK_S: Final = 10.0
_VALID_S: Final = 365 * 86400


class KeyRotation:
    """Rotate a server's key when it is due.

    Args:
        folder: The server's, as ``rase init`` made it; it must be writable.
        role: Which server.
        every_s: How long one key is used; 0 for as long as the operator wants.
        files: Returns the private files that the settings name now.
        published: Returns the keyset that is published now; None before the first.
        offer: Is given the published keyset, and brings what is newer in the folder to the other
            side. Called at every look at which no key is made.
        clock: Says when.
        telemetry: Logs each step and each failure.

    Raises:
        ConfigurationError: If a key would be used for less than it takes to change it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        role: Role,
        every_s: int,
        files: Callable[[], Iterable[Path]],
        published: Callable[[], Keyset | None],
        offer: Callable[[Keyset], object],
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        public = read_public_keys(folder / PUBLIC_FILE)
        least_s = _lead_s(public)
        if 0 < every_s < least_s:
            text = f"at least {least_s}, three cache times, got {every_s}."
            raise ConfigurationError([f"{role}.rotate_keys_s must be {text}"])
        self._folder = folder
        self._role = role
        self._every_s = every_s
        self._files = files
        self._published = published
        self._offer = offer
        self._clock = clock
        self._telemetry = telemetry
        # Both sides look several times within the cache time that a new key leaves them.
        self._look_s = min(_LOOK_S, public.cache_s / 8)
        self._next_s = clock.monotonic_s()

    def step(self) -> None:
        """Do what is due, if anything is; looks every few seconds, and never raises."""
        if self._clock.monotonic_s() < self._next_s:
            return
        self._next_s = self._clock.monotonic_s() + self._look_s
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
        public = read_public_keys(self._folder / PUBLIC_FILE)
        newest = max(public.configs, key=lambda config: config.not_before_s)
        is_out = newest.public_key in {config.public_key for config in published.configs}
        left_s = newest.not_before_s - self._clock.now_s()
        if self._every_s and is_out and left_s + self._every_s <= _lead_s(public):
            self._rotate(public, published)
        elif self._every_s and not is_out and left_s < LEAD_CACHES * public.cache_s:
            # It took too long: devices could not all have the keyset when the key begins.
            self._rotate(public, published, is_again=True)
        else:
            self._offer(published)

    def _rotate(self, public: PublicKeys, published: Keyset, *, is_again: bool = False) -> None:
        rotate_opening_key(
            self._folder,
            self._still_needed(public, published),
            now_s=int(self._clock.now_s()),
            valid_s=max(_VALID_S, 2 * self._every_s),
            replace_pending=is_again,
            published=published if is_again else None,
            # The other side may be publishing the key that is replaced in this very moment.
            keeps_replaced=self._role is Role.SHUFFLER,
        )
        self._telemetry.event("key_rotated")

    def _still_needed(self, public: PublicKeys, published: Keyset) -> list[Path]:
        """Return the private files without those of keys that were replaced in an earlier step."""
        known = {
            Path(opening_key_name(config.id)).name
            for config in (*public.configs, *published.configs)
            if config.role is self._role
        }
        return [path for path in self._files() if path.name in known]


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
