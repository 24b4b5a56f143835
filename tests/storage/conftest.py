"""An empty database of each engine, for the tests of what both must do."""

from collections.abc import Iterator

import pytest
from tests.storage.engines import ENGINES, Engine


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """One engine after the other, with a place for a database of its own."""
    if request.param == "sqlite":
        opened = Engine(request.getfixturevalue("quick_folder") / "a.db")
    else:
        opened = Engine(request.getfixturevalue("postgres").new_database())
    yield opened
    opened.close()
