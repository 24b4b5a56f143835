"""How a fusion centre brings what is new in its folder to the shuffler, and takes the shuffler's.

`rase.service.rotation` says when; the keys of both servers stand in one keyset, which this server
publishes once both have signed it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from rase.errors import RaseError
from rase.service.clients import client
from rase.service.key_offer import MAX_OFFER_BYTES, OFFER_PATH, offer_from_bytes
from rase.service.keyring import KEYSET_FILE, PublicKeys, read_keyset, take_keys
from rase.service.telemetry import Telemetry
from rase.wire.keys import KeyConfig, Keyset, Role

__all__ = ["KeyPublication", "offered_at"]


class NotOffered(RaseError):
    """The shuffler does not answer with its public keys."""

    exit_code = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPublication:
    """Publish the folder's keyset whenever it is newer than what is published.

    Args:
        folder: The fusion centre's.
        check_held: Raises a RaseError while a running fusion centre does not hold a keyset's keys.
        publish: Has a keyset countersigned, and publishes it.
        offered: Returns the shuffler's public keys, None if it offers none; None where its operator
            sends them.
        telemetry: Logs what was done.
    """

    folder: Path
    check_held: Callable[[Keyset], None]
    publish: Callable[[Keyset], object]
    offered: Callable[[], PublicKeys | None] | None = None
    telemetry: Telemetry

    def __call__(self, published: Keyset) -> None:
        """Take new keys of the shuffler, then publish what is new.

        Raises:
            RaseError: If one of both cannot be done now.
        """
        self._take()
        keyset = read_keyset(self.folder / KEYSET_FILE)
        if keyset.version > published.version:
            self.check_held(keyset)
            self.publish(keyset)
            self.telemetry.event("keys_published")

    def _take(self) -> None:
        public = None if self.offered is None else self.offered()
        if public is None:
            return
        keyset = read_keyset(self.folder / KEYSET_FILE)
        known = [config for config in keyset.configs if config.role is Role.SHUFFLER]
        # Whoever repeats an older offer brings no key that begins later than all that are known.
        if _begins_s(public.configs) > _begins_s(known) and take_keys(self.folder, public):
            self.telemetry.event("keys_adopted")


def offered_at(
    url: str, signing_key: bytes, *, transport: httpx.BaseTransport | None = None
) -> Callable[[], PublicKeys | None]:
    """Return what asks a shuffler for its public keys.

    Args:
        url: The root of its service.
        signing_key: Its pinned key.
        transport: Another way than the network; for tests.
    """
    root = url.rstrip("/")

    def ask() -> PublicKeys | None:
        try:
            with client(root, timeout=30.0, transport=transport) as shuffler:
                answer = shuffler.get(root + OFFER_PATH)
        except httpx.HTTPError as error:
            raise NotOffered(
                f"the shuffler at {root} does not answer ({type(error).__name__})."
            ) from None
        if answer.status_code == 404:
            return None
        if answer.status_code != 200 or len(answer.content) > MAX_OFFER_BYTES:
            raise NotOffered(f"the shuffler answers {OFFER_PATH} with status {answer.status_code}.")
        return offer_from_bytes(answer.content, signing_key)

    return ask


def _begins_s(configs: "list[KeyConfig] | tuple[KeyConfig, ...]") -> int:
    return max(config.not_before_s for config in configs)
