"""The shuffler's side: open the outer envelope. Only rase.shuffler may import this."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from cryptography.exceptions import InvalidTag

from rase.errors import NotOpened, UnknownKey, WrongCampaign, WrongSize
from rase.wire.keys import OpeningKey, Role
from rase.wire.messages import HEADER_SIZE, MARK_SIZE, REPORT_SIZES, Header, Mark, outer_info
from rase.wire.suites import X25519, private_key, suite

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

    from rase.wire.suites import Private

__all__ = ["OpenedOuter", "OuterOpener"]


class OpenedOuter(NamedTuple):
    """What the shuffler finds: its mark, and an envelope that it cannot open."""

    round: int
    keyset: int
    mark: Mark
    inner: bytes


class OuterOpener:
    """Open the outer envelopes of one campaign.

    Build it once for each process: it keeps the keys that are met in the form that opens fastest.

    Args:
        campaign_hash: CH, the campaign's hash.
        keys: The shuffler's private keys that are accepted now.
        inner_kem: The number of the campaign's KEM, which decides the size of a report.
    """

    def __init__(
        self, campaign_hash: bytes, keys: Iterable[OpeningKey], *, inner_kem: int = X25519
    ) -> None:
        self._hash = campaign_hash
        self._size = REPORT_SIZES[inner_kem]
        self._keys = {key.id: key for key in keys}
        if any(key.role is not Role.SHUFFLER for key in self._keys.values()):
            raise ValueError("keys must be keys of the shuffler.")
        # A round needs one or two of many keys: each is prepared when it is first met.
        self._prepared: dict[int, tuple[Suite, Private]] = {}
        self._head = b""

    def open(self, report: bytes) -> OpenedOuter:
        """Return the inner envelope of a report.

        Raises:
            WrongSize: If the report is truncated or oversized.
            UnknownVersion: If its version is unknown.
            WrongCampaign: If it belongs to another campaign.
            UnknownKey: If it was sealed for a key that is not among these.
            NotOpened: If anything in it was changed.
            Malformed: If its mark is none of the protocol.
        """
        if len(report) != self._size:
            raise WrongSize(f"a report must have {self._size} bytes, got {len(report)}.")
        # Nearly all reports of a round have the same header: it is read when it changes.
        if report[:HEADER_SIZE] != self._head:
            self._way = self._way_of(report)
            self._head = report[:HEADER_SIZE]
        header, hpke, key, info = self._way
        try:
            found = hpke.decrypt(report[HEADER_SIZE:], key, info)
        except InvalidTag:
            raise NotOpened(
                "the outer envelope does not open: changed, or sealed for another key or campaign."
            ) from None
        mark = Mark.from_bytes(found)
        return OpenedOuter(header.round, header.keyset, mark, found[MARK_SIZE:])

    def _way_of(self, report: bytes) -> "tuple[Header, Suite, Private, bytes]":
        header = Header.from_report(report)
        if header.campaign_tag != self._hash[:8]:
            raise WrongCampaign("the report belongs to another campaign or version of it.")
        if header.key_id not in self._keys:
            raise UnknownKey(f"the report was sealed for key {header.key_id}, not held here.")
        if header.key_id not in self._prepared:
            held = self._keys[header.key_id]
            ready = suite(held.kem, held.aead), private_key(held.kem, held.secret)
            self._prepared[header.key_id] = ready
        hpke, key = self._prepared[header.key_id]
        return header, hpke, key, outer_info(self._hash, report[:HEADER_SIZE])
