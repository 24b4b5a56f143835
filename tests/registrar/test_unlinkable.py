"""Blindness tried with all that a registrar has: every request explains every token alike."""

from tests.registering import Registrar, hiding_factor, is_token_of, issuer

from rase.wire.keys import Role, SigningKey
from rase.wire.wallet import TokenBatch

DEVICES = 4


def test_every_request_explains_every_token() -> None:
    """With its private key a registrar computes by which factor a request would hide a token.

    There is one for each pair, so no pair can be excluded, and none is 1, which would show the
    pair. What was sent has no byte string in common with what is spent.
    """
    registrar = Registrar(SigningKey(role=Role.SHUFFLER, secret=bytes([2]) * 32), "homes", 600)
    key = registrar.window(10, 19, reports=2)
    sent, spent = list[bytes](), list[bytes]()
    for device in range(DEVICES):
        batch = TokenBatch(key, (device + 1).to_bytes(32, "big"))
        request = batch.request(bytes([device + 1]) * 32)
        sent += request.blinded
        spent += batch.open([issuer().sign(blinded) for blinded in request.blinded])
    for token in spent:
        assert is_token_of(issuer(), token)
        assert all(hiding_factor(issuer(), token, blinded) > 1 for blinded in sent)
    everything = b"".join(sent)
    for token in spent:
        assert not any(token[at : at + 16] in everything for at in range(0, len(token), 16))
