"""Blindness tried with all that a registrar has: every request explains every token alike."""

from tests.registering import Registrar, issuer

from rase.wire.blind import EXPONENT
from rase.wire.keys import Role, SigningKey
from rase.wire.tokens import NONCE_SIZE
from rase.wire.wallet import TokenBatch

DEVICES = 4


def test_every_request_explains_every_token() -> None:
    """With its private key a registrar computes by which factor a request would hide a token.

    There is one for each pair, so no pair can be excluded, and none is 1, which would show the
    pair. What was sent has no byte string in common with what is spent.
    """
    registrar = Registrar(SigningKey(role=Role.SHUFFLER, secret=bytes([2]) * 32), "homes", 600)
    key = registrar.window(10, 19, reports=2)
    numbers = issuer().key.private_numbers()
    n, d = numbers.public_numbers.n, numbers.d
    sent, spent = list[bytes](), list[bytes]()
    for device in range(DEVICES):
        batch = TokenBatch(key, (device + 1).to_bytes(32, "big"))
        request = batch.request(bytes([device + 1]) * 32)
        sent += request.blinded
        spent += batch.open([issuer().sign(blinded) for blinded in request.blinded])
    for token in spent:
        signature = int.from_bytes(token[NONCE_SIZE:], "big")
        # What a registrar signed if this token came of a request; by it a nonce is encoded.
        message = pow(signature, EXPONENT, n)
        for blinded in sent:
            factor = pow(int.from_bytes(blinded, "big") * pow(message, -1, n) % n, d, n)
            assert pow(factor, EXPONENT, n) * message % n == int.from_bytes(blinded, "big")
            answered = int.from_bytes(issuer().sign(blinded), "big")
            assert answered * pow(factor, -1, n) % n == signature
            assert factor != 1
    everything = b"".join(sent)
    for token in spent:
        assert not any(token[at : at + 16] in everything for at in range(0, len(token), 16))
