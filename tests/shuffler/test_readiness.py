"""What /readyz of an intake tells before devices cannot report: expiring keys, ending tokens."""

from typing import TYPE_CHECKING

import pytest
from tests.shuffler.conftest import FIRST, NOW_S, OPENERS
from tests.shuffler.test_token_keys import key_of, proposal_of, signs

from rase.shuffler.health import readiness_of
from rase.wire.keys import Keyset

if TYPE_CHECKING:
    from tests.shuffler.conftest import World


def told(world: "World") -> str:
    """Return what is not well, but for the closer that no test here has."""
    found = readiness_of(world.database, world.clock, obstacles=())
    assert found.is_ready
    return " ".join(one for one in found.reasons if "closer" not in one)


@pytest.mark.sqlite
def test_a_key_about_to_expire_is_told(world: "World") -> None:
    """Of either server, before its last key ends; a longer one ends the warning."""
    assert told(world) == ""
    fusion = OPENERS["fusion"].config(not_before_s=0, not_after_s=NOW_S + 86400)
    shuffler = OPENERS["shuffler"].config(not_before_s=0, not_after_s=10**9)
    keyset = Keyset(version=2, cache_s=3600, configs=(shuffler, fusion))
    with world.database.transaction() as transaction:
        # As it will be when its time comes; the countersigner would not sign so sudden a change.
        transaction.execute("DELETE FROM keyset")
        transaction.execute(
            "INSERT INTO keyset (version, signed, agreed_s) VALUES (2, ?, 0)", (_signed(keyset),)
        )
    assert "the last key of the fusion centre expires in 1.0 days; run rase keys rotate" in told(
        world
    )


@pytest.mark.sqlite
def test_tokens_that_run_out_are_told(world: "World") -> None:
    """When a window begins and the next has no key, the registrar is down or not heard."""
    signs(world).token_key(proposal_of(key_of()), now_s=NOW_S)
    assert told(world) == ""
    world.clock.jump((FIRST + 2) * world.campaign.round_s + 1 - world.clock.now_s())
    assert f"tokens of homes end with round {FIRST + 11}" in told(world)
    assert "see that the registrar runs" in told(world)
    later = key_of(first_round=FIRST + 12, last_round=FIRST + 21, issue_until_s=(FIRST + 12) * 1000)
    signs(world).token_key(proposal_of(later), now_s=world.clock.now_s())
    assert told(world) == ""


def _signed(keyset: Keyset) -> bytes:
    from tests.shuffler.conftest import SIGNERS

    from rase.wire.keys import Role
    from rase.wire.signed import SignedKeyset, signature_of

    signatures = (signature_of(keyset, SIGNERS[role]) for role in (Role.FUSION, Role.SHUFFLER))
    return SignedKeyset(keyset, *signatures).to_bytes()
