"""The device's side: put a report into two envelopes, one for each server."""

from rase.errors import Malformed, Unsupported
from rase.wire import pure
from rase.wire.keys import KeyConfig, Role
from rase.wire.messages import CONTENT_SIZE, Content, Header, Mark, inner_info, outer_info
from rase.wire.suites import CHACHA20_POLY1305, X25519, public_key, suite

__all__ = ["seal_cover", "seal_report"]


def seal_report(
    content: Content,
    *,
    campaign_hash: bytes,
    shuffler: KeyConfig,
    fusion: KeyConfig,
    keyset: int,
    round: int | None = None,
    label: int = 0,
) -> bytes:
    """Return the bytes of a report, as they are stored and sent.

    Seal once and store the result: a retry must repeat the same bytes. Where cryptography is not
    installed the pure sealer does the work, slower and with the default suite only.

    Args:
        content: What the fusion centre reads.
        campaign_hash: CH, the campaign's hash.
        shuffler: The shuffler's active key.
        fusion: The fusion centre's active key, of the campaign's KEM.
        keyset: The number of the keyset that both are from.
        round: The round that the shuffler sees, if another than the content's: where the
            campaign carries rounds, the content names the first of the block.
        label: The public kind of the report, which the shuffler's closer reads.

    Returns:
        437 bytes, or 1525 with X-Wing inside.

    Raises:
        ValueError: If the keys are not those of the two servers, or the hash has not 32 bytes.
        Malformed: If a public key is none.
        Unsupported: If a suite is not available here.
    """
    return _seal(
        content.to_bytes(),
        Mark(fusion.id, label=label),
        block=content.round,
        round=content.round if round is None else round,
        campaign_hash=campaign_hash,
        keys=(shuffler, fusion),
        keyset=keyset,
    )


def seal_cover(
    *,
    round: int,
    block: int,
    campaign_hash: bytes,
    shuffler: KeyConfig,
    fusion: KeyConfig,
    keyset: int,
) -> bytes:
    """Return the bytes of a cover report, which say nothing and look like those of `seal_report`.

    The shuffler's closer reads the mark and drops it. What is inside no fusion centre counts.

    Args:
        round: The round.
        block: The first round of its block where the campaign carries rounds; otherwise the round.
        campaign_hash: CH, the campaign's hash.
        shuffler: The shuffler's active key.
        fusion: The fusion centre's active key, of the campaign's KEM.
        keyset: The number of the keyset that both are from.

    Returns:
        As many bytes as a report of the campaign has; errors are those of `seal_report`, too.
    """
    return _seal(
        bytes(CONTENT_SIZE),
        Mark(fusion.id, is_cover=True),
        block=block,
        round=round,
        campaign_hash=campaign_hash,
        keys=(shuffler, fusion),
        keyset=keyset,
    )


def _seal(
    content: bytes,
    mark: Mark,
    *,
    block: int,
    round: int,
    campaign_hash: bytes,
    keys: tuple[KeyConfig, KeyConfig],
    keyset: int,
) -> bytes:
    shuffler, fusion = keys
    if (shuffler.role, fusion.role) != (Role.SHUFFLER, Role.FUSION):
        raise ValueError("shuffler and fusion must be the keys of those servers.")
    if len(campaign_hash) != 32:
        raise ValueError(f"campaign_hash must have 32 bytes, got {len(campaign_hash)}.")
    header = Header(shuffler.id, campaign_hash[:8], round, keyset).to_bytes()
    inner = _seal_part(fusion, inner_info(campaign_hash, block), content)
    outer = _seal_part(shuffler, outer_info(campaign_hash, header), mark.to_bytes() + inner)
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
