"""A registrar in memory: keys of token windows signed by both, and tokens without any device."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha384

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from rase.accounting.ledger import Ledger
from rase.device.tokens import TokenFetcher
from rase.fusion.token_keys import TokenKeys
from rase.transport.interface import Answer
from rase.transport.memory import Message
from rase.wire.blind import EXPONENT
from rase.wire.issuing import Issuer, verifier_of
from rase.wire.keys import SigningKey
from rase.wire.signed import public_key_of, sign_with
from rase.wire.tokens import (
    NONCE_SIZE,
    SignedTokenKey,
    TokenKey,
    certificate_input,
    list_input,
    token_keys_bytes,
)
from rase.wire.wallet import TokenBatch

__all__ = [
    "REGISTRAR_KEY",
    "REGISTRAR_SECRET",
    "STOCK",
    "EveryWindow",
    "Registrar",
    "Stock",
    "Stocked",
    "certificate_of",
    "certificate_of_list",
    "certify",
    "hiding_factor",
    "is_token_of",
    "issuer",
    "keep_tokens",
    "modulus",
]

REGISTRAR_SECRET = bytes([77]) * 32
REGISTRAR_KEY = public_key_of(REGISTRAR_SECRET)
# Tests of the registrar give it kept keys in place of fresh ones.
_generate = Issuer.generate


def issuer(number: int = 0) -> Issuer:
    """Return one of some keys, made when it is first asked for."""
    return _issuer(number)


@cache
def _issuer(number: int) -> Issuer:
    return _generate()


def modulus(number: int = 0) -> bytes:
    """Return the public side of one of them."""
    return issuer(number).modulus.to_bytes(256, "big")


def certificate_of(device_key: bytes) -> bytes:
    """Return the certificate of a device's key."""
    return sign_with(REGISTRAR_SECRET, certificate_input(device_key))


def certificate_of_list(device_keys: Sequence[bytes]) -> bytes:
    """Return the certificate of a whole fleet."""
    return sign_with(REGISTRAR_SECRET, list_input(device_keys))


def certify(message: Message) -> Answer:
    """Answer a device that asks for its certificate, whatever its approval is."""
    asked = json.loads(message.body)
    signed = certificate_of(base64.urlsafe_b64decode(asked["device_key"] + "="))
    text = base64.urlsafe_b64encode(signed).decode().rstrip("=")
    return Answer(201, json.dumps({"certificate": text}).encode())


def is_token_of(holder: Issuer, token: bytes) -> bool:
    """Return whether a token was signed with a key."""
    return verifier_of(holder.modulus.to_bytes(256, "big")).is_signed(
        token[:NONCE_SIZE], token[NONCE_SIZE:]
    )


def hiding_factor(holder: Issuer, token: bytes, blinded: bytes) -> int:
    """Return by which factor a request would hide a token; 0 if by none.

    Who has the private key can compute it for every pair of a token and a request.
    """
    n = holder.modulus
    # What was signed if this token came of the request; by it a nonce is encoded.
    message = pow(int.from_bytes(token[NONCE_SIZE:], "big"), EXPONENT, n)
    asked = int.from_bytes(blinded, "big")
    hidden = asked * pow(message, -1, n) % n
    factor = int.from_bytes(holder.sign(hidden.to_bytes(len(blinded), "big")), "big")
    answered = int.from_bytes(holder.sign(blinded), "big")
    signature = int.from_bytes(token[NONCE_SIZE:], "big")
    explains = pow(factor, EXPONENT, n) * message % n == asked
    return factor if explains and answered * pow(factor, -1, n) % n == signature else 0


class Stock:
    """Hand out tokens of one window that never ends, none twice; they are made once a process."""

    def __init__(self) -> None:
        self._next = 0

    def begin(self, at: int = 0) -> None:
        """Begin again with one of them, where no token was counted yet."""
        self._next = at

    def take(self) -> bytes:
        """Return the next one."""
        self._next += 1
        return _token(self._next)


STOCK = Stock()


@cache
def _token(number: int) -> bytes:
    """Return a token as blind signing gives it, signed in one step because the test has the key."""
    nonce = number.to_bytes(32, "big")
    salted = padding.PSS(padding.MGF1(hashes.SHA384()), 48)
    signed = issuer().key.sign(sha384(nonce).digest(), salted, Prehashed(hashes.SHA384()))
    return nonce + signed


class EveryWindow(TokenKeys):
    """Let the tokens of `STOCK` count in all rounds of all campaigns."""

    def __init__(self) -> None:
        """Nothing is fetched."""

    def of_round(self, campaign: str, round: int) -> TokenKey:
        """Return the one window."""
        return TokenKey(
            campaign=campaign,
            first_round=1,
            last_round=2**32 - 1,
            reports=1,
            issue_until_s=1,
            modulus=modulus(),
        )


def keep_tokens(ledger: Ledger, campaign: str, *, count: int = 400) -> None:
    """Give a device tokens of a window that never ends, which only its reports' readers verify."""
    ledger.begin_tokens(campaign, (0, 2**32 - 1), key=b"", seed=bytes(32))
    ledger.keep_tokens(campaign, 0, [at.to_bytes(288, "big") for at in range(count)])


class Stocked(TokenFetcher):
    """Fetch nothing, for a device that was given its tokens."""

    next_due_s = None

    def __init__(self) -> None:
        """Nothing is asked."""

    def look_for_keys(self) -> None:
        """Find no new window."""

    def lasts_s(self, round_s: int) -> float | None:
        """Look again as often as for keysets."""
        return float(2**40)

    def step(self) -> None:
        """Fetch nothing."""

    def forget_before(self, round: int) -> None:
        """Keep what there is."""


@dataclass
class Registrar:
    """Sign windows and tokens.

    Args:
        shuffler: The shuffler's signing key.
        campaign: The campaign's id.
        round_s: Its rounds' length.
    """

    shuffler: SigningKey
    campaign: str
    round_s: int
    windows: list[SignedTokenKey] = field(default_factory=list)

    def window(
        self, first: int, last: int, *, reports: int = 1, number: int = 0, campaign: str = ""
    ) -> TokenKey:
        """Make a window and publish it."""
        key = TokenKey(
            campaign=campaign or self.campaign,
            first_round=first,
            last_round=last,
            reports=reports,
            issue_until_s=first * self.round_s,
            modulus=modulus(number),
        )
        own = sign_with(REGISTRAR_SECRET, key.signing_input("registrar"))
        theirs = self.shuffler.sign(key.signing_input("shuffler"))
        self.windows.append(SignedTokenKey(key, own, theirs))
        return key

    def published(self) -> bytes:
        """Return the document of all windows."""
        return token_keys_bytes(one.to_bytes() for one in self.windows)

    def tokens(self, key: TokenKey, seed: int = 0, *, number: int = 0) -> list[bytes]:
        """Return the tokens of one device."""
        batch = TokenBatch(key, seed.to_bytes(32, "big"))
        request = batch.request(bytes(32))
        return batch.open([issuer(number).sign(blinded) for blinded in request.blinded])
