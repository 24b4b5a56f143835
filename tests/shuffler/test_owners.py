"""Owners: one is no crowd, whatever the number of tokens and however fast they are used."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from tests.enrolling import enrol
from tests.patience import PATIENCE_S

from rase.shuffler.enrolment import NotEnrolled, make_tokens, revoke_devices
from rase.storage.copy import tables_of

if TYPE_CHECKING:
    from tests.shuffler.conftest import World

NAME = "customer-4711"


def test_an_owner_has_so_many_devices(world: "World") -> None:
    """Beyond the limit tokens wait unused; other owners and nobody's tokens are not concerned."""
    database = world.database
    # SubmittedReport out at different times, so that each lot alone was allowed.
    tokens = [
        token
        for _ in range(2)
        for token in make_tokens(database, 2, expires_s=10, owner=NAME, most=2)
    ]
    devices = [
        enrol(database, token, number=number, now_s=9, most=2).device
        for number, token in enumerate(tokens[:2])
    ]
    with pytest.raises(NotEnrolled, match="as many devices as the operator allows"):
        enrol(database, tokens[2], number=2, now_s=9, most=2)
    with pytest.raises(ValueError, match="at most 2 devices, got 3"):
        make_tokens(database, 1, expires_s=10, owner=NAME, most=2)
    for number, owner in enumerate(["another", "", ""], start=10):
        (token,) = make_tokens(database, 1, expires_s=10, owner=owner, most=1)
        assert enrol(database, token, number=number, now_s=9, most=1).device
    revoke_devices(database, devices[:1])
    assert enrol(database, tokens[2], number=2, now_s=9, most=2).device


def test_asking_again_needs_no_second_place(world: "World") -> None:
    """A device whose answer was lost gets the same answer although its owner is at the limit."""
    (token,) = make_tokens(world.database, 1, expires_s=10, owner=NAME, most=1)
    lost = enrol(world.database, token, number=1, now_s=9, most=1)
    again = enrol(world.database, token, number=1, now_s=9, most=1)
    assert again == lost


def test_two_at_once_share_the_last_place(world: "World") -> None:
    """Of several that enrol in the same moment as many get in as there are places."""
    crowd, most = 6, 3
    tokens = [
        make_tokens(world.database, 1, expires_s=10, owner=NAME, most=most)[0] for _ in range(crowd)
    ]
    ready = Barrier(crowd)

    def ask(number: int) -> bool:
        ready.wait(PATIENCE_S)
        try:
            enrol(world.database, tokens[number], number=number, now_s=9, most=most)
        except NotEnrolled:
            return False
        return True

    with ThreadPoolExecutor(crowd) as threads:
        assert sum(threads.map(ask, range(crowd))) == most


def test_the_owners_name_is_not_stored(world: "World") -> None:
    """Neither tables nor files hold the operator's word, and it must not be endless."""
    (token,) = make_tokens(world.database, 1, expires_s=10, owner=NAME)
    enrol(world.database, token, number=1, now_s=9)
    rows = [world.rows(f"SELECT * FROM {table}") for table in tables_of("shuffler")]  # noqa: S608 - known names
    stored = repr(rows).encode()
    if isinstance(world.address, Path):
        stored += b"".join(path.read_bytes() for path in world.path.parent.iterdir())
    assert NAME.encode() not in stored
    with pytest.raises(ValueError, match="at most 200 characters, got 201"):
        make_tokens(world.database, 1, expires_s=10, owner="x" * 201)
