"""What the fusion centre proposes: a document with its signature, read without a private key."""

from typing import Final

from rase.campaign import Campaign
from rase.errors import BadSignature, Malformed
from rase.wire import cbor
from rase.wire.keys import Keyset, Role
from rase.wire.signed import (
    MAX_CAMPAIGN_BYTES,
    PinnedKeys,
    campaign_from_bytes,
    check_signature,
)

__all__ = [
    "MAX_PROPOSAL_BYTES",
    "is_keyset",
    "proposed_campaign",
    "proposed_keyset",
    "split_proposal",
]

MAX_PROPOSAL_BYTES: Final = MAX_CAMPAIGN_BYTES + 1024


def proposed_campaign(
    proposal: bytes, pinned: PinnedKeys, *, expected: tuple[str, int] | None = None
) -> Campaign:
    """Read the CBOR array [campaign, fusion centre's signature]; this needs no private key.

    Args:
        proposal: The array.
        pinned: The public signing keys of both servers.
        expected: The id and version it was announced with.

    Raises:
        BadSignature: If the fusion centre did not sign it.
        WireError: Named otherwise, if the bytes are not such as they must be.
    """
    body, signature = split_proposal(proposal)
    campaign = campaign_from_bytes(body)
    if expected not in (None, (campaign.id, campaign.version)):
        raise Malformed("the campaign must be of the id and version in its address.")
    check_signature(campaign, Role.FUSION, signature=signature, pinned=pinned)
    return campaign


def proposed_keyset(proposal: bytes, pinned: PinnedKeys) -> Keyset:
    """Read the CBOR array [keyset, fusion centre's signature]; this needs no private key.

    Raises:
        BadSignature: If the fusion centre did not sign it.
        WireError: Named otherwise, if the bytes are not such as they must be.
    """
    body, signature = split_proposal(proposal)
    keyset = Keyset.from_bytes(body)
    check_signature(keyset, Role.FUSION, signature=signature, pinned=pinned)
    return keyset


def is_keyset(proposal: bytes) -> bool:
    """Return whether a proposal holds a keyset; a campaign otherwise.

    Raises:
        WireError: Named, if it is no proposal at all.
    """
    body, _ = split_proposal(proposal)
    fields = cbor.decode(body, max_size=MAX_PROPOSAL_BYTES)
    return isinstance(fields, dict) and "configs" in fields


def split_proposal(data: bytes) -> tuple[bytes, bytes]:
    """Return the document and the signature of a proposal; neither is looked into.

    Raises:
        WireError: Named, if it is not a proposal.
    """
    parts = cbor.decode(data, max_size=MAX_PROPOSAL_BYTES)
    if not isinstance(parts, list) or [type(part) for part in parts] != [bytes, bytes]:
        raise Malformed("a proposal must be [document, fusion centre's signature]; this is not.")
    if len(parts[1]) != 64:
        raise BadSignature(f"the document is not signed by the pinned key of the {Role.FUSION}.")
    return parts[0], parts[1]
