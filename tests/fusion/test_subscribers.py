"""Tokens open what their scope says, until they expire or are taken back."""

import pytest
from tests.fusion.conftest import Centre

from rase.fusion.refusals import REFUSALS, Refused
from rase.fusion.settings import FusionPolicy
from rase.fusion.subscribers import (
    ADMIN_CAMPAIGN,
    READ_ESTIMATES,
    add_subscriber,
    authenticate,
    list_access,
    list_subscribers,
    record_access,
    revoke_subscriber,
)


def test_a_token_says_who_asks(centre: Centre) -> None:
    """The right token is known, and only its hash is kept."""
    token = add_subscriber(centre.database, "grid operator")
    asker = authenticate(centre.database, centre.clock, token=token)
    assert (asker.name, asker.scopes) == ("grid operator", (READ_ESTIMATES,))
    with centre.database.snapshot() as transaction:
        rows = transaction.execute("SELECT * FROM subscribers")
    secret = token.split("_", 2)[2]
    assert secret not in str(rows)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda token: None,
        lambda token: "",
        lambda token: "rase_x",
        lambda token: token[:-1],
        lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"),
        lambda token: "rase_" + "0" * 16 + token[21:],
        lambda token: token + "\n",
    ],
    ids=["none", "empty", "short", "cut", "changed", "foreign", "longer"],
)
def test_other_tokens_open_nothing(centre: Centre, spoil) -> None:  # type: ignore[no-untyped-def]
    """Missing, shortened, changed and foreign tokens are refused alike."""
    token = add_subscriber(centre.database, "a")
    with pytest.raises(Refused) as refused:
        authenticate(centre.database, centre.clock, token=spoil(token))
    assert refused.value.problem.type.name == "no-token"


def test_tokens_expire(centre: Centre) -> None:
    """From its last second on a token opens nothing."""
    expires_s = int(centre.clock.now_s()) + 60
    token = add_subscriber(centre.database, "a", expires_s=expires_s)
    centre.clock.advance(59)
    assert authenticate(centre.database, centre.clock, token=token).expires_s == expires_s
    centre.clock.advance(1)
    with pytest.raises(Refused):
        authenticate(centre.database, centre.clock, token=token)


def test_tokens_are_taken_back(centre: Centre) -> None:
    """At once, and for ever; the name stays taken."""
    token = add_subscriber(centre.database, "a")
    revoke_subscriber(centre.database, centre.clock, name="a")
    with pytest.raises(Refused):
        authenticate(centre.database, centre.clock, token=token)
    (one,) = list_subscribers(centre.database)
    assert one.revoked_s == int(centre.clock.now_s())
    centre.clock.advance(5)
    revoke_subscriber(centre.database, centre.clock, name="a")
    assert list_subscribers(centre.database) == [one]
    with pytest.raises(ValueError, match="must be a new one"):
        add_subscriber(centre.database, "a")


def test_scopes_are_checked(centre: Centre) -> None:
    """A token for reading does not administer."""
    token = add_subscriber(centre.database, "a")
    asker = authenticate(centre.database, centre.clock, token=token)
    asker.check_allows(READ_ESTIMATES)
    with pytest.raises(Refused, match="admin:campaign") as refused:
        asker.check_allows(ADMIN_CAMPAIGN)
    assert refused.value.problem.type.status == 403


@pytest.mark.parametrize(
    ("name", "scopes", "words"),
    [
        ("", (READ_ESTIMATES,), "name must be"),
        ("a\nb", (READ_ESTIMATES,), "name must be"),
        ("a", ("read:reports",), "scopes must be out of"),
        ("a", (), "scopes must be out of"),
    ],
)
def test_bad_subscribers_are_refused(
    centre: Centre, name: str, scopes: tuple[str, ...], words: str
) -> None:
    """There is no scope that reads reports."""
    with pytest.raises(ValueError, match=words):
        add_subscriber(centre.database, name, scopes=scopes)


def test_unknown_subscribers_cannot_be_revoked(centre: Centre) -> None:
    """A typing mistake is told."""
    with pytest.raises(ValueError, match="must be that of a subscriber"):
        revoke_subscriber(centre.database, centre.clock, name="nobody")


def test_the_access_log_tells_who_asked_what(centre: Centre) -> None:
    """Oldest first, of all or of one, and long questions are cut."""
    for name in ("a", "b", "a"):
        record_access(
            centre.database, centre.clock, subscriber=name, question="x" * 999, answer="200"
        )
    found = list_access(centre.database)
    assert [line.subscriber for line in found] == ["a", "b", "a"]
    assert len(found[0].question) == 300
    assert len(list_access(centre.database, subscriber="b")) == 1
    assert len(list_access(centre.database, limit=2)) == 2


def test_old_lines_of_the_access_log_are_forgotten(centre: Centre) -> None:
    """The log does not grow for ever."""
    centre.policy = FusionPolicy(keep_access_log_s=86400)
    centre.__post_init__()
    for _ in range(3):
        record_access(centre.database, centre.clock, subscriber="a", question="", answer="")
        centre.clock.advance(80000)
    centre.rounds.tick()
    assert len(list_access(centre.database)) == 1


def test_problem_names_are_not_those_of_the_protocol() -> None:
    """Problems of subscribers stand beside those between devices and servers."""
    from rase.wire.problems import PROBLEM_TYPES

    assert not {kind.name for kind in REFUSALS} & set(PROBLEM_TYPES)
