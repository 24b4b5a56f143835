"""Token keys at the shuffler: one for a window, within the budget, by the pinned registrar."""

from dataclasses import replace
from typing import Any

import pytest
from tests.cases import each_case
from tests.registering import REGISTRAR_SECRET, issuer
from tests.shuffler.conftest import FIRST, NOW_S, PINNED, POLICY, ROUND_S, SIGNERS, World

from rase.errors import BadSignature, WireError
from rase.shuffler.documents import Countersigner, PolicyRefused
from rase.shuffler.enrolment import NotEnrolled, check_certificate, enrol_many
from rase.shuffler.token_keys import published_token_keys
from rase.wire import cbor
from rase.wire.keys import Role, SigningKey
from rase.wire.signed import PinnedKeys, sign_with
from rase.wire.tokens import TokenKey, list_input, token_keys_bytes, token_keys_from_bytes


def key_of(**changes: Any) -> TokenKey:
    """Return a key for the ten rounds from FIRST + 2 on."""
    values: dict[str, Any] = {
        "campaign": "homes",
        "first_round": FIRST + 2,
        "last_round": FIRST + 11,
        "reports": 10,
        "issue_until_s": (FIRST + 2) * ROUND_S,
        "modulus": issuer(0).modulus.to_bytes(256, "big"),
    }
    return TokenKey(**{**values, **changes})


def proposal_of(key: TokenKey, secret: bytes = REGISTRAR_SECRET) -> bytes:
    """Return what the registrar sends."""
    return cbor.encode([key.to_bytes(), sign_with(secret, key.signing_input("registrar"))])


def signs(world: World, pinned: PinnedKeys = PINNED) -> Countersigner:
    """Return the shuffler's countersigner."""
    return Countersigner(world.database, key=SIGNERS[Role.SHUFFLER], pinned=pinned, policy=POLICY)


def test_a_key_is_signed_once(world: World) -> None:
    """The same again is answered the same; another for one of its rounds is refused for ever."""
    signed, is_new = signs(world).token_key(proposal_of(key_of()), now_s=NOW_S)
    assert is_new
    assert signs(world).token_key(proposal_of(key_of()), now_s=NOW_S) == (signed, False)
    other = {"modulus": issuer(1).modulus.to_bytes(256, "big")}
    for changes in (other, {"first_round": FIRST + 4, "last_round": FIRST + 4, "reports": 1}):
        with pytest.raises(PolicyRefused, match="another key was signed"):
            signs(world).token_key(proposal_of(key_of(**changes)), now_s=NOW_S)
    (published,) = token_keys_from_bytes(published_token_keys(world.database, now_s=NOW_S), PINNED)
    assert published == signed
    late = NOW_S + 200 * ROUND_S
    assert token_keys_from_bytes(published_token_keys(world.database, now_s=late), PINNED) == ()


@each_case(
    ("changes", "words"),
    [
        ({"reports": 11}, "at most 10, which the budget pays for"),
        ({"issue_until_s": (FIRST + 2) * ROUND_S + 1}, "end before the window begins"),
        ({"issue_until_s": NOW_S}, "issuing must not be over"),
    ],
)
def test_a_key_that_allows_too_much_is_refused(
    world: World, changes: dict[str, Any], words: str
) -> None:
    """More tokens than the budget pays for would undo what they are for."""
    with pytest.raises(PolicyRefused, match=words):
        signs(world).token_key(proposal_of(key_of(**changes)), now_s=NOW_S)


def test_unknown_campaigns_and_too_many_windows_are_refused(world: World) -> None:
    """By name."""
    with pytest.raises(WireError, match="no such campaign"):
        signs(world).token_key(proposal_of(key_of(campaign="flats")), now_s=NOW_S)
    for number in range(64):
        at = {"first_round": FIRST + 2 + number, "last_round": FIRST + 2 + number, "reports": 1}
        signs(world).token_key(proposal_of(key_of(**at)), now_s=NOW_S)
    at = {"first_round": FIRST + 90, "last_round": FIRST + 90, "reports": 1}
    with pytest.raises(PolicyRefused, match="at most 64 windows"):
        signs(world).token_key(proposal_of(key_of(**at)), now_s=NOW_S)


def test_only_the_pinned_registrars_keys_are_signed(world: World) -> None:
    """Nobody else's, not the registrar's where another is pinned; one is always pinned."""
    with pytest.raises(BadSignature):
        signs(world).token_key(proposal_of(key_of(), bytes(32)), now_s=NOW_S)
    for other in (bytes(32), SigningKey.generate(Role.SHUFFLER).public_bytes()):
        pinned = replace(PINNED, registrar=other)
        with pytest.raises(BadSignature, match="pinned key of the registrar"):
            signs(world, pinned).token_key(proposal_of(key_of()), now_s=NOW_S)
    assert published_token_keys(world.database, now_s=NOW_S) == token_keys_bytes([])
    _, is_new = signs(world).token_key(proposal_of(key_of()), now_s=NOW_S)
    assert is_new
    with pytest.raises(ValueError, match="registrar must be the 32 bytes"):
        replace(PINNED, registrar=b"")


def test_neither_operator_adds_a_device_alone(world: World) -> None:
    """The shuffler admits none that the registrar did not certify, one by one or as a list."""
    keys = [bytes([number]) * 32 for number in range(40, 43)]
    certificate = sign_with(REGISTRAR_SECRET, list_input(keys))
    for bad in (b"", bytes(64), sign_with(bytes(32), list_input(keys))):
        with pytest.raises(NotEnrolled, match="approved there, too"):
            enrol_many(world.database, keys, certificate=bad, pinned=PINNED)
    with pytest.raises(NotEnrolled):
        enrol_many(world.database, [*keys, bytes(32)], certificate=certificate, pinned=PINNED)
    assert len(enrol_many(world.database, keys, certificate=certificate, pinned=PINNED)) == 3
    for text in ("", "?", "A" * 86):
        with pytest.raises(NotEnrolled):
            check_certificate("A" * 43, text, PINNED)
    with pytest.raises(NotEnrolled):
        check_certificate("short", "", PINNED)
