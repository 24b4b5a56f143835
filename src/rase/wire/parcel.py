"""How the signed manifest of a batch travels over HTTP: in a header, ahead of the batch.

The receiver checks the manifest in the header before it reads a byte of the body: who does not
hold the shuffler's key cannot make it read anything.
"""

import base64
import binascii
from typing import Final

from rase.errors import Malformed

__all__ = ["MANIFEST_HEADER", "header_of", "manifest_of"]

MANIFEST_HEADER: Final = "RASE-Manifest"


def header_of(manifest: bytes) -> dict[str, str]:
    """Return the header in which a signed manifest travels.

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
            problem="bad-batch",
        )
    return manifest
