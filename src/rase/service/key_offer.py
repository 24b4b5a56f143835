"""The shuffler's public keys, signed, as a fusion centre that follows them fetches them.

Whoever carries them can neither change a key nor its times; an older offer that is repeated is
known by its newest key.
"""

from typing import Any, Final

from rase.errors import BadSignature, Malformed
from rase.service.keyring import PublicKeys, public_keys_from_text
from rase.wire import cbor
from rase.wire.keys import Role, SigningKey
from rase.wire.signed import is_signed_by

__all__ = ["MAX_OFFER_BYTES", "OFFER_PATH", "offer_bytes", "offer_from_bytes"]

OFFER_PATH: Final = "/v1/public-keys"
MAX_OFFER_BYTES: Final = 1 << 18
_NAME: Final = "rase/2 public keys"


def offer_bytes(public: PublicKeys, key: SigningKey) -> bytes:
    """Return the keys of the shuffler with its signature."""
    text = public.to_text()
    return cbor.encode([_NAME, text, key.sign(_signing_input(text))])


def offer_from_bytes(data: bytes, signing_key: bytes) -> PublicKeys:
    """Read what `offer_bytes` writes.

    Args:
        data: The bytes.
        signing_key: The pinned key of the shuffler.

    Raises:
        BadSignature: If it did not sign them.
        WireError: Named otherwise, if they are something else.
    """
    parts: Any = cbor.decode(data, max_size=MAX_OFFER_BYTES)
    if not isinstance(parts, list) or [type(part) for part in parts] != [str, str, bytes]:
        raise Malformed("offered keys must be [name, text, signature].")
    if parts[0] != _NAME:
        raise Malformed(f"offered keys must be named {_NAME}; these are not.")
    if not is_signed_by(signing_key, _signing_input(parts[1]), parts[2]):
        raise BadSignature("the offered keys are not signed by the pinned key of the shuffler.")
    public = public_keys_from_text(parts[1], "the offer")
    if public.role is not Role.SHUFFLER or public.signing_key != signing_key:
        raise Malformed("offered keys must be those of the shuffler that signed them.")
    return public


def _signing_input(text: str) -> bytes:
    return f"{_NAME} by shuffler\0{text}".encode()
