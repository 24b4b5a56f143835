"""What a token costs each party, in processor time: ``python -m benchmarks.tokens``."""

import os
import sys
from collections.abc import Callable
from time import process_time

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rase.wire.issuing import Issuer, TokenVerifier, raise_all
from rase.wire.messages import CONTENT_SIZE
from rase.wire.suites import CHACHA20_POLY1305, X25519, suite
from rase.wire.tokens import TokenKey
from rase.wire.wallet import TokenBatch

_TOKENS = 24
_BEST_OF = 5


def cost_us(work: Callable[[], object], times: int, *, of: int = 1) -> float:
    """Return the least processor time of one of several pieces of work, in microseconds."""
    best = float("inf")
    for _ in range(_BEST_OF):
        begin = process_time()
        for _ in range(times):
            work()
        best = min(best, (process_time() - begin) / (times * of))
    return 1e6 * best


def main() -> None:
    """Measure and print a table."""
    issuer = Issuer.generate()
    slow = Issuer(issuer.key, uses_libcrypto=False)
    key = TokenKey(
        campaign="fleet",
        first_round=0,
        last_round=_TOKENS - 1,
        reports=_TOKENS,
        issue_until_s=0,
        modulus=issuer.modulus.to_bytes(256, "big"),
    )
    secret, seed = os.urandom(32), os.urandom(32)
    quick = raise_all(key.modulus)
    request = TokenBatch(key, seed).request(secret)
    signed = [issuer.sign(blinded) for blinded in request.blinded]
    token = TokenBatch(key, seed).open(signed)[0]
    verifier = TokenVerifier(key.modulus)
    hpke, own = suite(X25519, CHACHA20_POLY1305), X25519PrivateKey.generate()
    envelope = hpke.encrypt(bytes(CONTENT_SIZE), own.public_key(), b"")
    for name, work, times, of in (
        ("blind, pure Python", lambda: TokenBatch(key, seed).request(secret), 4, _TOKENS),
        (
            "blind, gateway with libcrypto",
            lambda: TokenBatch(key, seed, raise_all=quick).request(secret),
            10,
            _TOKENS,
        ),
        ("open and check, pure Python", lambda: TokenBatch(key, seed).open(signed), 4, _TOKENS),
        (
            "open and check, gateway with libcrypto",
            lambda: TokenBatch(key, seed, raise_all=quick).open(signed),
            10,
            _TOKENS,
        ),
        ("sign, check included", lambda: issuer.sign(request.blinded[0]), 200, 1),
        ("sign, check included, pure Python", lambda: slow.sign(request.blinded[0]), 10, 1),
        ("verify", lambda: verifier.is_signed(token[:32], token[32:]), 2000, 1),
        ("open an inner envelope", lambda: hpke.decrypt(envelope, own, b""), 2000, 1),
    ):
        sys.stdout.write(f"{name:<40} {cost_us(work, times, of=of):8.1f} µs\n")


if __name__ == "__main__":
    main()
