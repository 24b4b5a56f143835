"""The fusion centre's side: open the inner envelope. Only rase.fusion may import this."""

from collections.abc import Iterable
from hashlib import sha256

from cryptography.exceptions import InvalidTag

from rase.errors import Malformed, NotOpened, UnknownKey, WrongRound, WrongSize
from rase.wire.keys import OpeningKey, Role
from rase.wire.messages import INNER_SIZES, Content, inner_info
from rase.wire.suites import private_key, suite

__all__ = ["InnerOpener", "replay_tag"]


class InnerOpener:
    """Open the inner envelopes of one campaign.

    Build it once for each process: it keeps the keys in the form that opens fastest.

    Args:
        campaign_hash: CH, the campaign's hash.
        keys: The fusion centre's private keys that are accepted now.
        class_count: How many epsilon classes the campaign has.
    """

    def __init__(
        self, campaign_hash: bytes, keys: Iterable[OpeningKey], *, class_count: int
    ) -> None:
        self._hash = campaign_hash
        self._class_count = class_count
        self._keys = {}
        for key in keys:
            if key.role is not Role.FUSION:
                raise ValueError("keys must be keys of the fusion centre.")
            opener = suite(key.kem, key.aead), private_key(key.kem, key.secret)
            self._keys[key.id] = (*opener, INNER_SIZES[key.kem])

    def open(self, inner: bytes, *, key_id: int, round: int) -> Content:
        """Return the content of an envelope that came in a batch of this key and round.

        Where the campaign carries rounds, the round is the first of the batch's block.

        Whether the campaign's mechanism can draw the place at all is for its randomizer to say.

        Raises:
            UnknownKey: If the key is not among these.
            WrongSize: If the envelope is truncated or oversized.
            NotOpened: If it was changed, or sealed for another key, campaign or round.
            UnknownVersion: If its version is unknown.
            WrongRound: If its content names another round.
            Malformed: If its content is not such as the campaign allows.
        """
        if key_id not in self._keys:
            raise UnknownKey(f"the envelope was sealed for key {key_id}, not held here.")
        hpke, key, size = self._keys[key_id]
        if len(inner) != size:
            raise WrongSize(f"an inner envelope must have {size} bytes, got {len(inner)}.")
        try:
            found = hpke.decrypt(inner, key, inner_info(self._hash, round))
        except InvalidTag:
            raise NotOpened(
                "the inner envelope does not open: changed, or sealed for another key, campaign "
                "or round."
            ) from None
        content = Content.from_bytes(found)
        if content.round != round:
            raise WrongRound(f"the content must be of round {round}; it names another.")
        if content.epsilon_class >= self._class_count:
            raise Malformed(f"the campaign has {self._class_count} epsilon classes, not more.")
        return content


def replay_tag(inner: bytes) -> bytes:
    """Return what identifies an envelope within its round, without revealing anything of it."""
    return sha256(inner).digest()[:16]
