"""What does a token cost each party, against opening the envelope that it comes in?"""

import os
from collections.abc import Callable, Iterator
from time import process_time

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from benchmarks.harness import Row, Target, versions
from rase.wire.issuing import Issuer, TokenVerifier, raise_all
from rase.wire.messages import CONTENT_SIZE
from rase.wire.suites import CHACHA20_POLY1305, X25519, suite
from rase.wire.tokens import TokenKey
from rase.wire.wallet import TokenBatch

_TOKENS = 24
_VERIFYING = Target("at most", 0.5)


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare each step of a token to opening an inner envelope, which each report costs."""
    repeats = 2 if quick else 5
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
    by_gateway = raise_all(key.modulus)
    request = TokenBatch(key, seed).request(secret)
    signed = [issuer.sign(blinded) for blinded in request.blinded]
    token = TokenBatch(key, seed).open(signed)[0]
    verifier = TokenVerifier(key.modulus)
    hpke, own = suite(X25519, CHACHA20_POLY1305), X25519PrivateKey.generate()
    envelope = hpke.encrypt(bytes(CONTENT_SIZE), own.public_key(), b"")
    opening_s = _cost_s(lambda: hpke.decrypt(envelope, own, b""), 2000, repeats=repeats)
    steps: tuple[tuple[str, Callable[[], object], int, int, Target | None], ...] = (
        ("verify", lambda: verifier.is_signed(token[:32], token[32:]), 2000, 1, _VERIFYING),
        ("sign, with blinding and check", lambda: issuer.sign(request.blinded[0]), 200, 1, None),
        ("sign, in pure Python", lambda: slow.sign(request.blinded[0]), 10, 1, None),
        ("blind, in pure Python", lambda: TokenBatch(key, seed).request(secret), 4, _TOKENS, None),
        (
            "blind, gateway with libcrypto",
            lambda: TokenBatch(key, seed, raise_all=by_gateway).request(secret),
            10,
            _TOKENS,
            None,
        ),
        (
            "unblind and check, in pure Python",
            lambda: TokenBatch(key, seed).open(signed),
            4,
            _TOKENS,
            None,
        ),
        (
            "unblind and check, gateway with libcrypto",
            lambda: TokenBatch(key, seed, raise_all=by_gateway).open(signed),
            10,
            _TOKENS,
            None,
        ),
    )
    for what, work, times, tokens, target in steps:
        ours_s = _cost_s(work, times, repeats=repeats) / tokens
        yield Row(
            what=what,
            against="opening an inner envelope",
            size="a token of 2048 bits",
            ratio=ours_s / opening_s,
            target=target,
            ours_s=ours_s,
            theirs_s=opening_s,
            repeats=repeats,
            packages=versions("cryptography"),
            note=f"{1e6 * ours_s:.0f} µs of processor time",
        )


def _cost_s(work: Callable[[], object], times: int, *, repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        begin = process_time()
        for _ in range(times):
            work()
        best = min(best, (process_time() - begin) / times)
    return best
