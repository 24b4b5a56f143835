"""Lines of a password file for mosquitto, as mosquitto_passwd writes them."""

import base64
import hashlib
import secrets
from typing import Final

__all__ = ["password_line"]

_KIND: Final = 7  # PBKDF2 with SHA-512
_SALT_BYTES: Final = 12
# Few are enough: the passwords have 256 random bits, and thousands of devices connect at once.
_ITERATIONS: Final = 101


def password_line(user: str, password: str, *, salt: bytes | None = None) -> str:
    """Return ``user:$7$iterations$salt$hash``.

    Args:
        user: The name.
        password: What proves it; must be hard to guess.
        salt: 12 bytes; random ones if None.

    Example:
        >>> password_line("rase", "hush", salt=bytes(12))[:36]
        'rase:$7$101$AAAAAAAAAAAAAAAA$mB03hyt'
    """
    salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    words = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"{user}:${_KIND}${_ITERATIONS}${'$'.join(words)}"
