"""Tokens: which key signs them in which rounds, how they are asked for, and who may ask.

The registrar makes a key for each token window of a campaign, the shuffler countersigns it, and
signs no other for the same rounds: so all devices of a window have one key, and a token says no
more than that it is of the window. A token is a random nonce with the registrar's signature.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any, Final

from rase.errors import BadSignature, Malformed
from rase.wire import cbor
from rase.wire.messages import FORMAT, TOKEN_SIZE, check_format, check_names, check_whole
from rase.wire.signed import PinnedKeys, is_signed_by

__all__ = [
    "CERTIFICATES_PATH",
    "MAX_TOKEN_KEYS_BYTES",
    "MAX_TOKEN_REPORTS",
    "MODULUS_SIZE",
    "NONCE_SIZE",
    "TOKENS_PATH",
    "TOKEN_KEYS_PATH",
    "SignedTokenKey",
    "TokenKey",
    "TokenRequest",
    "certificate_input",
    "check_registrar",
    "is_certified",
    "key_in_round",
    "list_input",
    "proof_input",
    "requests_bytes",
    "requests_from_bytes",
    "spent_tag",
    "token_keys_bytes",
    "token_keys_from_bytes",
]

TOKENS_PATH: Final = "/v1/tokens"
TOKEN_KEYS_PATH: Final = "/v1/token-keys"  # noqa: S105 - a path
CERTIFICATES_PATH: Final = "/v1/certificates"
NONCE_SIZE: Final = 32
MODULUS_SIZE: Final = TOKEN_SIZE - NONCE_SIZE
MAX_TOKEN_KEYS_BYTES: Final = 1 << 18
# The most tokens of a device in a window: its answer stays below a mebibyte.
MAX_TOKEN_REPORTS: Final = 2048
_ONE, _MANY = "rase/2 token key", "rase/2 token keys"
_U32 = 2**32
_MAX_S = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenKey:
    """The public key of one token window.

    Args:
        campaign: The campaign's id.
        first_round: The first round in which its tokens count; reports count by the round that
            their content names.
        last_round: The last one.
        reports: How many tokens each device gets.
        issue_until_s: The second at which issuing ends, no later than the first round begins.
        modulus: The RSA modulus of 2048 bits; the exponent is 65537.

    Raises:
        ValueError: If a field is out of range.
    """

    campaign: str
    first_round: int
    last_round: int
    reports: int
    issue_until_s: int
    modulus: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check everything once."""
        campaign: object = self.campaign
        if not isinstance(campaign, str) or not 1 <= len(campaign) <= 64:
            raise ValueError("campaign must be an id of 1 to 64 characters.")
        check_whole("first_round", self.first_round, 0, _U32)
        check_whole("last_round", self.last_round, self.first_round, _U32)
        check_whole("reports", self.reports, 1, MAX_TOKEN_REPORTS + 1)
        check_whole("issue_until_s", self.issue_until_s, 0, _MAX_S)
        modulus: object = self.modulus
        if not isinstance(modulus, bytes) or len(modulus) != MODULUS_SIZE:
            raise ValueError(f"modulus must have {MODULUS_SIZE} bytes.")
        # Exactly 2048 bits and odd: another key could make signatures that tell devices apart.
        if not self.modulus[0] & 0x80 or not self.modulus[-1] & 1:
            raise ValueError("modulus must be an odd number of 2048 bits.")

    @property
    def number(self) -> int:
        """The modulus as a number."""
        return int.from_bytes(self.modulus, "big")

    def holds_in(self, round: int) -> bool:
        """Return whether its tokens count in a round."""
        return self.first_round <= round <= self.last_round

    def to_bytes(self) -> bytes:
        """Return the bytes that are signed."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return cbor.encode({"format": FORMAT, **values})

    @classmethod
    def from_bytes(cls, body: bytes) -> "TokenKey":
        """Read a key.

        Raises:
            WireError: Named, if it is not such as `to_bytes` writes.
        """
        values = check_format("token key", cbor.decode(body, max_size=MAX_TOKEN_KEYS_BYTES))
        values = check_names("token key", values, [item.name for item in fields(cls)])
        try:
            return cls(**values)
        except ValueError as error:
            raise Malformed(str(error)) from None

    def signing_input(self, who: str) -> bytes:
        """Return the bytes under a signature.

        Args:
            who: "registrar" or "shuffler".
        """
        return f"{_ONE} by {who}\0".encode() + self.to_bytes()


@dataclass(frozen=True, slots=True)
class SignedTokenKey:
    """A key with the signatures of registrar and shuffler.

    Args:
        key: The key.
        registrar_signature: By the registrar.
        shuffler_signature: By the shuffler.
    """

    key: TokenKey
    registrar_signature: bytes = field(repr=False)
    shuffler_signature: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """Return what is published."""
        parts = [_ONE, self.key.to_bytes(), self.registrar_signature, self.shuffler_signature]
        return cbor.encode(parts)

    @classmethod
    def from_bytes(cls, data: bytes, pinned: PinnedKeys) -> "SignedTokenKey":
        """Read a key that both signed.

        Raises:
            BadSignature: If one of them did not.
            WireError: Named otherwise, if the bytes are not such as `to_bytes` writes.
        """
        parts: Any = cbor.decode(data, max_size=MAX_TOKEN_KEYS_BYTES)
        if not isinstance(parts, list) or [type(part) for part in parts] != [str, *[bytes] * 3]:
            raise Malformed("a signed token key must be [name, key, signature, signature].")
        if parts[0] != _ONE:
            raise Malformed(f"a signed token key must be named {_ONE}; this is not.")
        key = TokenKey.from_bytes(parts[1])
        check_registrar(key, parts[2], pinned)
        if not is_signed_by(pinned.shuffler, key.signing_input("shuffler"), parts[3]):
            raise BadSignature("the token key is not signed by the pinned key of the shuffler.")
        return cls(key, parts[2], parts[3])


def check_registrar(key: TokenKey, signature: bytes, pinned: PinnedKeys) -> None:
    """Refuse a key that the registrar did not sign.

    Raises:
        BadSignature: If so.
    """
    if not is_signed_by(pinned.registrar, key.signing_input("registrar"), signature):
        raise BadSignature("the token key is not signed by the pinned key of the registrar.")


def token_keys_bytes(signed: Iterable[bytes]) -> bytes:
    """Return several signed keys as one document, as registrar and shuffler publish them."""
    return cbor.encode([_MANY, list(signed)])


def token_keys_from_bytes(data: bytes, pinned: PinnedKeys) -> tuple[SignedTokenKey, ...]:
    """Read what `token_keys_bytes` writes, with the signatures of all keys.

    Raises:
        WireError: Named, if one is not signed by both, or the bytes are something else.
    """
    parts: Any = cbor.decode(data, max_size=MAX_TOKEN_KEYS_BYTES)
    is_named = isinstance(parts, list) and len(parts) == 2 and parts[0] == _MANY
    if not is_named or not isinstance(parts[1], list):
        raise Malformed(f"token keys must be [{_MANY}, [signed key …]]; this is not.")
    if not all(isinstance(item, bytes) for item in parts[1]):
        raise Malformed("token keys must be byte strings, each a signed key.")
    return tuple(SignedTokenKey.from_bytes(item, pinned) for item in parts[1])


def key_in_round(keys: Iterable[TokenKey], campaign: str, round: int) -> TokenKey | None:
    """Return the key whose tokens count in a round of a campaign."""
    return next((key for key in keys if key.campaign == campaign and key.holds_in(round)), None)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What a device asks of the registrar: signatures of all its blinded tokens of a window.

    Args:
        device_key: The device's public Ed25519 key.
        campaign: The campaign's id.
        first_round: The window's first round.
        blinded: The blinded nonces, as many as the window has reports.
        signature: By the device.
    """

    device_key: bytes = field(repr=False)
    campaign: str
    first_round: int
    blinded: tuple[bytes, ...] = field(repr=False)
    signature: bytes = field(default=b"", repr=False)

    @property
    def digest(self) -> bytes:
        """What stands for the request: another of the same window is refused."""
        return sha256(b"".join(self.blinded)).digest()

    def signing_input(self) -> bytes:
        """Return the bytes under the device's signature."""
        parts = [self.device_key, self.campaign, self.first_round, self.digest]
        return b"rase/2 token request\0" + cbor.encode(parts)

    def is_signed(self) -> bool:
        """Return whether the device signed it."""
        return is_signed_by(self.device_key, self.signing_input(), self.signature)


def requests_bytes(requests: Sequence[TokenRequest]) -> bytes:
    """Return requests as they are sent: one of a device, or those of a gateway's devices."""
    return cbor.encode(
        [
            [one.device_key, one.campaign, one.first_round, list(one.blinded), one.signature]
            for one in requests
        ]
    )


def requests_from_bytes(body: bytes, *, max_size: int) -> list[TokenRequest]:
    """Read requests; no signature is checked.

    Raises:
        WireError: Named, if the bytes are not such as `requests_bytes` writes.
    """
    items: Any = cbor.decode(body, max_size=max_size)
    if not isinstance(items, list) or not items:
        raise Malformed("a request for tokens must be an array of requests; this is not.")
    return [_request_of(item) for item in items]


def _request_of(item: Any) -> TokenRequest:
    kinds = [bytes, str, int, list, bytes]
    if not isinstance(item, list) or [type(part) for part in item] != kinds:
        raise Malformed("a request must be [device key, campaign, round, [blinded …], signature].")
    device_key, campaign, first_round, blinded, signature = item
    if len(device_key) != 32 or not all(
        isinstance(one, bytes) and len(one) == MODULUS_SIZE for one in blinded
    ):
        raise Malformed("a request must have a key of 32 bytes and blinded messages of 256.")
    return TokenRequest(device_key, campaign, first_round, tuple(blinded), signature)


def spent_tag(token: bytes) -> bytes:
    """Return what the fusion centre keeps of a token that it has counted."""
    return sha256(b"rase/2 token\0" + token[:NONCE_SIZE]).digest()[:16]


def certificate_input(device_key: bytes) -> bytes:
    """Return the bytes that the registrar signs to certify a device."""
    return b"rase/2 device\0" + device_key


def list_input(device_keys: Sequence[bytes]) -> bytes:
    """Return the bytes that the registrar signs to certify a whole list of devices."""
    return b"rase/2 devices\0" + sha256(b"".join(device_keys)).digest()


def proof_input(device_key: bytes) -> bytes:
    """Return the bytes that a device signs to show that the key is its own."""
    return b"rase/2 possession\0" + device_key


def is_certified(device_key: bytes, certificate: bytes, pinned: PinnedKeys) -> bool:
    """Return whether the pinned registrar certified a device."""
    return is_signed_by(pinned.registrar, certificate_input(device_key), certificate)
