"""Where a database is: paths, addresses, and what of them is shown."""

from pathlib import Path

import pytest

from rase.storage.address import PostgresAddress, parse_address


def test_a_path_starts_at_its_folder() -> None:
    """Anything that is no address is a path; an absolute one stays."""
    assert parse_address("a.db", folder=Path("/srv")) == Path("/srv/a.db")
    assert parse_address(Path("a.db"), folder=Path("/srv")) == Path("/srv/a.db")
    assert parse_address("/var/a.db", folder=Path("/srv")) == Path("/var/a.db")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p4ss@h:5/d?sslmode=require", "postgresql://u@h:5/d"),
        ("postgres:///d?host=/run/postgresql&password=p4ss", "postgresql:///d"),
        ("postgresql://h", "postgresql://h"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    """Neither printed nor in a repr."""
    address = parse_address(url)
    assert isinstance(address, PostgresAddress)
    assert str(address) == shown
    assert "p4ss" not in repr(address)
    assert address.has_password == ("p4ss" in url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://h:0/d", "port must be 1 to 65535, got 0"),
        ("postgresql://h:x/d", "cannot be read"),
        ("postgresql://h/d p4ss", "has a blank"),
        ("mysql://h/d", "begins otherwise"),
        ("postgresql://rase:12/p4ss@h/d", "a / in its user or password must be written %2F"),
    ],
)
def test_a_wrong_address_is_refused_without_quoting_it(url: str, words: str) -> None:
    """The message says what is wrong; the text may hold a password."""
    with pytest.raises(ValueError, match=words) as caught:
        PostgresAddress(url)
    assert "p4ss" not in str(caught.value)
