"""The device's side: put a report into two envelopes, one for each server."""

from rase.errors import Malformed, Unsupported
from rase.wire import pure
from rase.wire.keys import KeyConfig, Role
from rase.wire.messages import Content, Header, inner_info, outer_info
from rase.wire.suites import CHACHA20_POLY1305, X25519, public_key, suite

__all__ = ["seal_report"]


def seal_report(
    content: Content,
    *,
    campaign_hash: bytes,
    shuffler: KeyConfig,
    fusion: KeyConfig,
    round: int | None = None,
) -> bytes:
    """Return the bytes of a report, as they are stored and sent.

    Seal once and store the result: a retry must repeat the same bytes. Where cryptography is not
    installed the pure sealer does the work, slower and with the default suite only.

    Args:
        content: What the fusion centre reads.
        campaign_hash: CH, the campaign's hash.
        shuffler: The shuffler's active key.
        fusion: The fusion centre's active key, of the campaign's KEM.
        round: The round that the shuffler sees, if another than the content's: where the
            campaign carries rounds, the content names the first of the block.

    Returns:
        143 bytes, or 1231 with X-Wing inside.

    Raises:
        ValueError: If the keys are not those of the two servers, or the hash has not 32 bytes.
        Malformed: If a public key is none.
        Unsupported: If a suite is not available here.
    """
    if (shuffler.role, fusion.role) != (Role.SHUFFLER, Role.FUSION):
        raise ValueError("shuffler and fusion must be the keys of those servers.")
    if len(campaign_hash) != 32:
        raise ValueError(f"campaign_hash must have 32 bytes, got {len(campaign_hash)}.")
    visible = content.round if round is None else round
    header = Header(shuffler.id, campaign_hash[:8], visible).to_bytes()
    inner = _seal_part(fusion, inner_info(campaign_hash, content.round), content.to_bytes())
    outer = _seal_part(shuffler, outer_info(campaign_hash, header), bytes((fusion.id,)) + inner)
    return header + outer


def _seal_part(config: KeyConfig, info: bytes, plaintext: bytes) -> bytes:
    try:
        hpke = suite(config.kem, config.aead)
    except ImportError:
        return _sealed_purely(config, info, plaintext)
    key = public_key(config.kem, config.public_key)
    try:
        return hpke.encrypt(plaintext, key, info)
    except ValueError:
        raise Malformed(f"key {config.id} of the {config.role} cannot be sealed for.") from None


def _sealed_purely(config: KeyConfig, info: bytes, plaintext: bytes) -> bytes:
    if (config.kem, config.aead) != (X25519, CHACHA20_POLY1305):
        raise Unsupported(
            f"key {config.id} of the {config.role} needs the package cryptography, 48 or newer; "
            "without it only X25519 with ChaCha20-Poly1305 can be sealed."
        )
    try:
        return pure.hpke_seal(config.public_key, info, plaintext, pure.random_bytes(32))
    except ValueError:
        raise Malformed(f"key {config.id} of the {config.role} cannot be sealed for.") from None
