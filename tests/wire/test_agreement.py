"""The key behind a device's tags: both ends agree on it, and nobody else can."""

import sys
from hashlib import sha512
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from rase.errors import Malformed
from rase.wire import agreement as module
from rase.wire.agreement import Agreement, Applicant, Application, agree, is_proven, read_key
from rase.wire.frames import credential_key

TOKEN = "00000000000000a1.words"  # noqa: S105 - of a test
TOKEN_KEY = credential_key("words")
SECRET = bytes(range(32))
HANDLE = "3f2a90c1d45b6e78"


def agreed(monkeypatch: pytest.MonkeyPatch) -> tuple[Agreement, bytes]:
    """Return an answer with a half of the exchange that is not random, and the device's hash."""
    monkeypatch.setattr("secrets.token_bytes", lambda count: bytes(range(count)))
    server_key, key = agree(Applicant(TOKEN, SECRET).application, TOKEN_KEY)
    return Agreement.of(HANDLE, server_key=server_key, key=key), key


def test_both_ends_agree() -> None:
    """What the device derives hashes to what the shuffler keeps, for any halves."""
    applicant = Applicant(TOKEN, SECRET)
    secrets = set()
    for _ in range(8):
        server_key, key = agree(applicant.application, TOKEN_KEY)
        answer = Agreement.of(HANDLE, server_key=server_key, key=key)
        handle, _, secret = applicant.credential(answer).partition(".")
        assert (handle, credential_key(secret)) == (HANDLE, key)
        secrets.add(secret)
    assert len(secrets) == 8


def test_the_bytes_never_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/reference/wire-format.md."""
    asked = Applicant(TOKEN, SECRET).application
    assert asked.device_key == "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg"
    assert asked.proof == "oauVeU71B1hrsFCVurz0zr1wZX82xEJrKnYCMU4UFcA"
    answer, key = agreed(monkeypatch)
    assert answer.server_key == "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF8"
    assert answer.proof == "ZIKV4lfWfHrTJjOWNoulEkPRdUo5omDQ6M3gBl5K_wg"
    credential = Applicant(TOKEN, SECRET).credential(answer)
    assert credential == f"{HANDLE}.U92HpdrqO22AfjB9b55TxVgAuugvR-C3wALjboD9V5k"
    assert credential_key(credential.partition(".")[2]) == key


def test_without_any_wheel_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device in pure Python asks and derives alike, and refuses what cryptography refuses."""
    answer, _ = agreed(monkeypatch)
    asked, credential = (one := Applicant(TOKEN, SECRET)).application, one.credential(answer)
    for name in ("ed25519", "x25519"):
        monkeypatch.setitem(sys.modules, f"cryptography.hazmat.primitives.asymmetric.{name}", None)
    import cryptography.hazmat.primitives.asymmetric as package

    monkeypatch.delattr(package, "x25519", raising=False)
    pure = Applicant(TOKEN, SECRET)
    assert pure.application == asked
    assert pure.credential(answer) == credential
    with pytest.raises(Malformed, match="somebody can have"):
        pure.credential(answer._replace(server_key=module._text(bytes(32))))


@pytest.mark.parametrize("number", range(1, 6))
def test_the_two_forms_of_a_key_belong_together(number: int) -> None:
    """The public key on one curve, moved to the other, is that of the moved secret."""
    secret = number.to_bytes(32, "big")
    edwards = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    scalar = sha512(secret).digest()[:32]
    moved = module._montgomery(edwards)
    assert module._multiply(scalar, module._BASE_POINT) == moved
    X25519PublicKey.from_public_bytes(moved)


def test_who_has_not_the_token_proves_and_answers_nothing() -> None:
    """A proof holds for one token and one key; an answer needs both halves and the token."""
    asked = Applicant(TOKEN, SECRET).application
    assert is_proven(asked, TOKEN_KEY)
    other = Applicant("00000000000000a1.guess", SECRET)
    for wrong in (
        other.application,
        asked._replace(token="00000000000000a2"),  # noqa: S106
        asked._replace(device_key=Applicant(TOKEN, bytes(32)).application.device_key),
        asked._replace(proof=""),
        asked._replace(proof="\u00e9"),
    ):
        assert not is_proven(wrong, TOKEN_KEY)
    server_key, key = agree(asked, TOKEN_KEY)
    answer = Agreement.of(HANDLE, server_key=server_key, key=key)
    for wrong_answer in (
        answer._replace(device="0" * 16),
        answer._replace(server_key=asked.device_key),
        answer._replace(proof=asked.proof),
        Agreement.of(HANDLE, server_key=server_key, key=bytes(32)),
    ):
        with pytest.raises(Malformed, match="not by who made the token"):
            Applicant(TOKEN, SECRET).credential(wrong_answer)
    for stranger in (other, Applicant(TOKEN, bytes(32))):
        with pytest.raises(Malformed, match="not by who made the token"):
            stranger.credential(answer)


@pytest.mark.parametrize("point", [0, 1, 2**255 - 20])
def test_points_of_small_order_are_refused(point: int) -> None:
    """Their secret would be known to everybody."""
    text = module._text(point.to_bytes(32, "little"))
    with pytest.raises(Malformed, match="somebody can have"):
        agree(Application("a1", text, ""), TOKEN_KEY)


@pytest.mark.parametrize("text", ["", "!!", "AAAA", "\u00e9", "A" * 44])
def test_a_key_has_32_bytes(text: str) -> None:
    """Anything else is refused by name."""
    with pytest.raises(Malformed, match="32 bytes"):
        read_key(text)


@pytest.mark.parametrize("token", ["", "words", ".words", "a1."])
def test_a_token_has_two_parts(token: str) -> None:
    """Half a token is refused before anything is sent."""
    made: Any = Applicant
    with pytest.raises(ValueError, match="rase shuffler enrol prints"):
        made(token, SECRET)
