"""What the servers sign: campaign and keyset by both, the manifest of a batch by the shuffler.

Two signatures make sure that no single server can give a device parameters or keys of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from rase.campaign import Campaign
from rase.errors import BadSignature, Malformed, WireError
from rase.validation import CampaignInvalid
from rase.wire import cbor
from rase.wire.keys import Keyset, Role, SigningKey
from rase.wire.messages import FORMAT, BatchManifest, check_format

__all__ = [
    "MAX_CAMPAIGN_BYTES",
    "MAX_VERSIONS_BYTES",
    "PinnedKeys",
    "SignedCampaign",
    "SignedKeyset",
    "SignedManifest",
    "campaign_bytes",
    "campaign_from_bytes",
    "campaign_hash",
    "check_signature",
    "is_signed_by",
    "public_key_of",
    "sign_with",
    "signature_of",
    "signing_input",
    "versions_bytes",
    "versions_from_bytes",
]

MAX_CAMPAIGN_BYTES: Final = 1 << 18
# What a device takes in one answer; three of the longest campaigns fit.
MAX_VERSIONS_BYTES: Final = (1 << 20) - 1024
_CAMPAIGN, _KEYSET, _MANIFEST = "campaign", "keyset", "manifest"
_VERSIONS = "rase/1 versions"
# A server knows a few campaigns, each of a few versions.
_REMEMBERED: Final = 64


@dataclass(frozen=True, slots=True)
class PinnedKeys:
    """The public Ed25519 keys that a party trusts, got by another way than the network.

    Args:
        fusion: The fusion centre's.
        shuffler: The shuffler's.
        registrar: The registrar's, which signs tokens.

    Raises:
        ValueError: If a key does not have 32 bytes, or one party has two roles.
    """

    fusion: bytes
    shuffler: bytes
    registrar: bytes

    def __post_init__(self) -> None:
        """Check all once."""
        for name in ("fusion", "shuffler", "registrar"):
            value = getattr(self, name)
            if not isinstance(value, bytes) or len(value) != 32:
                raise ValueError(f"{name} must be the 32 bytes of a public Ed25519 key.")
        if self.fusion == self.shuffler:
            raise ValueError("fusion and shuffler must have different keys.")
        if self.registrar in (self.fusion, self.shuffler):
            raise ValueError("registrar must have a key that neither server has.")

    def of(self, role: Role) -> bytes:
        """Return the key of a server."""
        return self.fusion if role is Role.FUSION else self.shuffler


@dataclass(frozen=True, slots=True)
class SignedCampaign:
    """A campaign with the signatures of both servers.

    Make it of a campaign and two results of `signature_of`; `from_bytes` checks them.

    Args:
        campaign: The campaign.
        fusion_signature: By the fusion centre.
        shuffler_signature: By the shuffler.
    """

    campaign: Campaign
    fusion_signature: bytes = field(repr=False)
    shuffler_signature: bytes = field(repr=False)

    @property
    def hash(self) -> bytes:
        """CH, the campaign's hash."""
        return campaign_hash(self.campaign)

    def to_bytes(self) -> bytes:
        """Return what the servers publish."""
        return _pack(
            _CAMPAIGN,
            campaign_bytes(self.campaign),
            (self.fusion_signature, self.shuffler_signature),
        )

    @classmethod
    def from_bytes(cls, data: bytes, pinned: PinnedKeys) -> "SignedCampaign":
        """Read a campaign that both servers signed.

        Raises:
            BadSignature: If one of them did not.
            WireError: Named otherwise, if the bytes are not such as `to_bytes` writes.
        """
        body, (fusion, shuffler) = _unpack(_CAMPAIGN, data, 2)
        _check(_CAMPAIGN, body, Role.FUSION, fusion, pinned)
        _check(_CAMPAIGN, body, Role.SHUFFLER, shuffler, pinned)
        return cls(campaign_from_bytes(body), fusion, shuffler)


@dataclass(frozen=True, slots=True)
class SignedKeyset:
    """A keyset with the signatures of both servers.

    Args:
        keyset: The keyset.
        fusion_signature: By the fusion centre.
        shuffler_signature: By the shuffler.
    """

    keyset: Keyset
    fusion_signature: bytes = field(repr=False)
    shuffler_signature: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """Return what the servers publish."""
        signatures = (self.fusion_signature, self.shuffler_signature)
        return _pack(_KEYSET, self.keyset.to_bytes(), signatures)

    @classmethod
    def from_bytes(cls, data: bytes, pinned: PinnedKeys) -> "SignedKeyset":
        """Read a keyset that both servers signed.

        Raises:
            BadSignature: If one of them did not.
            WireError: Named otherwise, if the bytes are not such as `to_bytes` writes.
        """
        body, (fusion, shuffler) = _unpack(_KEYSET, data, 2)
        _check(_KEYSET, body, Role.FUSION, fusion, pinned)
        _check(_KEYSET, body, Role.SHUFFLER, shuffler, pinned)
        return cls(Keyset.from_bytes(body), fusion, shuffler)


@dataclass(frozen=True, slots=True)
class SignedManifest:
    """A batch's manifest with the shuffler's signature.

    Args:
        manifest: The manifest.
        signature: By the shuffler.
    """

    manifest: BatchManifest
    signature: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """Return what travels with the batch."""
        return _pack(_MANIFEST, self.manifest.to_bytes(), (self.signature,))

    @classmethod
    def from_bytes(cls, data: bytes, pinned: PinnedKeys) -> "SignedManifest":
        """Read a manifest that the shuffler signed.

        Raises:
            BadSignature: If it did not.
            WireError: Named otherwise, if the bytes are not such as `to_bytes` writes.
        """
        try:
            body, (signature,) = _unpack(_MANIFEST, data, 1)
            _check(_MANIFEST, body, Role.SHUFFLER, signature, pinned)
        except WireError as error:
            error.problem = "bad-batch"
            raise
        return cls(BatchManifest.from_bytes(body), signature)


def campaign_bytes(campaign: Campaign) -> bytes:
    """Return the one encoding of a campaign, which is signed and hashed."""
    return _campaign_bytes(campaign)


def campaign_hash(campaign: Campaign) -> bytes:
    """Return CH, the SHA-256 of a campaign's bytes."""
    return sha256(campaign_bytes(campaign)).digest()


def campaign_from_bytes(body: bytes) -> Campaign:
    """Read a campaign; this does not check who signed it.

    Raises:
        WireError: Named, if it is not such as `campaign_bytes` writes; all mistakes are listed.
    """
    return _campaign_from_bytes(body)


# Every report and batch asks for one of the same few campaigns; equal ones have equal bytes.
@lru_cache(_REMEMBERED)
def _campaign_bytes(campaign: Campaign) -> bytes:
    return cbor.encode({"format": FORMAT, **campaign.as_fields()})


@lru_cache(_REMEMBERED)
def _campaign_from_bytes(body: bytes) -> Campaign:
    values = check_format(_CAMPAIGN, cbor.decode(body, max_size=MAX_CAMPAIGN_BYTES))
    try:
        campaign = Campaign.from_fields(values)
    except CampaignInvalid as error:
        raise Malformed(str(error)) from None
    # Catches what the value hides: whole numbers for floats, and fields left to their default.
    if campaign_bytes(campaign) != body:
        raise Malformed("a campaign must have all fields, and floats where floats belong.")
    return campaign


def versions_bytes(signed: Iterable[bytes]) -> bytes:
    """Return several signed versions of a campaign as one document, as the shuffler publishes them.

    Versions beyond `MAX_VERSIONS_BYTES` are left off at the end: they come once earlier ones went.

    Args:
        signed: Results of `SignedCampaign.to_bytes`, versions ascending.
    """
    kept: list[bytes] = []
    for version in signed:
        if len(cbor.encode([_VERSIONS, [*kept, version]])) > MAX_VERSIONS_BYTES:
            break
        kept.append(version)
    return cbor.encode([_VERSIONS, kept])


def versions_from_bytes(data: bytes) -> tuple[bytes, ...]:
    """Read what `versions_bytes` writes; each version is still to be read, and its signatures.

    Raises:
        WireError: Named, if it is something else.
    """
    parts: Any = cbor.decode(data, max_size=MAX_VERSIONS_BYTES)
    is_named = isinstance(parts, list) and len(parts) == 2 and parts[0] == _VERSIONS
    if not is_named or not isinstance(parts[1], list) or not parts[1]:
        raise Malformed(f"versions must be [{_VERSIONS}, [signed campaign …]]; this is not.")
    if not all(isinstance(version, bytes) for version in parts[1]):
        raise Malformed("versions must be byte strings, each a signed campaign.")
    return tuple(parts[1])


def signature_of(value: Campaign | Keyset | BatchManifest, key: SigningKey) -> bytes:
    """Return a server's signature of a campaign, keyset or manifest."""
    if isinstance(value, Campaign):
        return key.sign(signing_input(_CAMPAIGN, key.role, campaign_bytes(value)))
    kind = _KEYSET if isinstance(value, Keyset) else _MANIFEST
    return key.sign(signing_input(kind, key.role, value.to_bytes()))


def check_signature(
    value: Campaign | Keyset, role: Role, *, signature: bytes, pinned: PinnedKeys
) -> None:
    """Refuse a campaign or keyset that one server did not sign.

    Args:
        value: The document.
        role: The server.
        signature: What is said to be its signature.
        pinned: The public signing keys of both servers.

    Raises:
        BadSignature: If it is not.
    """
    if isinstance(value, Campaign):
        _check(_CAMPAIGN, campaign_bytes(value), role, signature, pinned)
    else:
        _check(_KEYSET, value.to_bytes(), role, signature, pinned)


def signing_input(kind: str, role: Role, body: bytes) -> bytes:
    r"""Return the bytes under a signature: what it is and who signs stand before the body.

    Example:
        >>> signing_input("keyset", Role.FUSION, b"...")
        b'rase/1 keyset by fusion\x00...'
    """
    return f"rase/1 {kind} by {role}\0".encode() + body


def _pack(kind: str, body: bytes, signatures: tuple[bytes, ...]) -> bytes:
    return cbor.encode([f"rase/1 {kind}", body, *signatures])


def _unpack(kind: str, data: bytes, count: int) -> tuple[bytes, list[bytes]]:
    parts: Any = cbor.decode(data, max_size=MAX_CAMPAIGN_BYTES + 1024)
    expected = [str, bytes] + [bytes] * count
    if not isinstance(parts, list) or [type(part) for part in parts] != expected:
        raise Malformed(f"a signed {kind} must be [name, body, signature …]; this is not.")
    if parts[0] != f"rase/1 {kind}":
        raise Malformed(f"a signed {kind} must be named rase/1 {kind}; this is not.")
    return parts[1], parts[2:]


def _check(kind: str, body: bytes, role: Role, signature: bytes, pinned: PinnedKeys) -> None:
    if not is_signed_by(pinned.of(role), signing_input(kind, role, body), signature):
        raise BadSignature(f"the {kind} is not signed by the pinned key of the {role}.")


def sign_with(secret: bytes, message: bytes) -> bytes:
    """Return the Ed25519 signature by a secret of 32 bytes: a device's, or the registrar's."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        from rase.wire.ed25519 import sign

        return sign(message, secret)
    return Ed25519PrivateKey.from_private_bytes(secret).sign(message)


def public_key_of(secret: bytes) -> bytes:
    """Return the public Ed25519 key of a secret of 32 bytes."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        from rase.wire import ed25519

        return ed25519.public_key_of(secret)
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def is_signed_by(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether the owner of a public Ed25519 key signed a message."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        from rase.wire.ed25519 import is_signed

        return is_signed(message, signature=signature, public_key=public_key)
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
