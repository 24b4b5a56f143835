"""A registrar in memory: keys of token windows signed by both, and tokens without any device."""

from dataclasses import dataclass, field
from functools import cache

from rase.wire.issuing import Issuer
from rase.wire.keys import SigningKey
from rase.wire.signed import public_key_of, sign_with
from rase.wire.tokens import SignedTokenKey, TokenKey, token_keys_bytes
from rase.wire.wallet import TokenBatch

__all__ = ["REGISTRAR_KEY", "REGISTRAR_SECRET", "Registrar", "issuer"]

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
            modulus=issuer(number).modulus.to_bytes(256, "big"),
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
