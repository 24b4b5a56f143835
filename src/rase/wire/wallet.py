"""The device's tokens of a window, from secret seed to what stands in a report.

Everything follows from one seed, so a device that dies between asking and storing asks for the same
bytes again, and the registrar answers them again.
"""

import hmac
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256

from rase.wire.blind import blind, finalize, inverses
from rase.wire.signed import public_key_of, sign_with
from rase.wire.tokens import NONCE_SIZE, TokenKey, TokenRequest

__all__ = ["TokenBatch"]

_SALT_SIZE = 48


class TokenBatch:
    """Ask for all tokens of a window, and open what comes back.

    Args:
        key: The window's key, signed by registrar and shuffler.
        seed: 32 secret random bytes, kept until the tokens are.
        raise_all: Raises a number to the key's exponent, where something does so quicker.
    """

    def __init__(
        self, key: TokenKey, seed: bytes, *, raise_all: Callable[[bytes], bytes] | None = None
    ) -> None:
        self.key = key
        self._seed = seed
        self._raise = raise_all

    @cached_property
    def _factors(self) -> list[int]:
        size = len(self.key.modulus)
        # Eight bytes more than the modulus: what the remainder favours cannot be noticed.
        return [
            2 + int.from_bytes(self._secret("factor", at, size + 8), "big") % (self.key.number - 2)
            for at in range(self.key.reports)
        ]

    def request(self, device_secret: bytes) -> TokenRequest:
        """Return what is sent to the registrar, the same bytes each time."""
        number, size = self.key.number, len(self.key.modulus)
        blinded = []
        for at, factor in enumerate(self._factors):
            raised = 0
            if self._raise is not None:
                raised = int.from_bytes(self._raise(factor.to_bytes(size, "big")), "big")
            salt = self._secret("salt", at, _SALT_SIZE)
            nonce = self._nonce(at)
            blinded.append(blind(number, nonce, salt=salt, factor=factor, raised=raised))
        public = public_key_of(device_secret)
        request = TokenRequest(public, self.key.campaign, self.key.first_round, tuple(blinded))
        signature = sign_with(device_secret, request.signing_input())
        return replace(request, signature=signature)

    def open(self, signatures: Sequence[bytes]) -> list[bytes]:
        """Return the tokens, in an order that says nothing of that in which they were signed.

        Raises:
            ValueError: If a token is not a signature by the window's key.
        """
        if len(signatures) != self.key.reports:
            raise ValueError(f"signatures must be {self.key.reports}, got {len(signatures)}.")
        number = self.key.number
        tokens = []
        for at, inverse in enumerate(inverses(self._factors, number)):
            nonce = self._nonce(at)
            opened = finalize(number, nonce, signatures[at], inverse=inverse, raise_all=self._raise)
            tokens.append(nonce + opened)
        # Nonces are random and were hidden from the registrar: their order is a shuffle.
        return sorted(tokens)

    def _nonce(self, at: int) -> bytes:
        return self._secret("nonce", at, NONCE_SIZE)

    def _secret(self, purpose: str, at: int, size: int) -> bytes:
        """Return secret bytes that follow from the seed (HKDF-Expand of RFC 5869)."""
        info = f"rase/2 token {purpose} {at}\0".encode()
        block, found = b"", b""
        for counter in range(1, size // 32 + 2):
            block = hmac.new(self._seed, block + info + bytes([counter]), sha256).digest()
            found += block
        return found[:size]
