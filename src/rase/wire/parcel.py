"""How a batch travels over HTTP: with its signed manifest, which is also sent ahead of it.

The receiver checks the manifest in the header before it reads a byte of the body: who does not
hold the shuffler's key cannot make it read anything.
"""

import base64
import binascii
from typing import Final

from rase.errors import Malformed, WireError
from rase.wire import cbor

__all__ = ["MANIFEST_HEADER", "header_of", "manifest_of", "pack", "unpack"]

MANIFEST_HEADER: Final = "RASE-Manifest"
_BAD = "bad-batch"


def pack(body: bytes, manifest: bytes) -> bytes:
    """Return batch and signed manifest as they travel together."""
    return cbor.encode([body, manifest])


def unpack(payload: bytes, *, max_size: int) -> tuple[bytes, bytes]:
    """Return batch and signed manifest.

    Raises:
        WireError: With problem ``bad-batch``, if it is something else.
    """
    try:
        parts = cbor.decode(payload, max_size=max_size)
    except WireError as error:
        error.problem = _BAD
        raise
    if not isinstance(parts, list) or [type(part) for part in parts] != [bytes, bytes]:
        raise Malformed("a batch must travel as [batch, signed manifest].", problem=_BAD)
    return parts[0], parts[1]


def header_of(manifest: bytes) -> dict[str, str]:
    """Return the header that tells a signed manifest ahead of its batch.

    Example:
        >>> header_of(bytes([131, 255]))
        {'RASE-Manifest': 'g_8='}
    """
    return {MANIFEST_HEADER: base64.urlsafe_b64encode(manifest).decode()}


def manifest_of(header: str | None) -> bytes:
    """Return the signed manifest out of its header.

    Raises:
        Malformed: If there is none.
    """
    try:
        manifest = base64.b64decode((header or "").encode(), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError):
        manifest = b""
    if not manifest:
        raise Malformed(
            f"a batch must come with its signed manifest in the header {MANIFEST_HEADER}.",
            problem=_BAD,
        )
    return manifest
