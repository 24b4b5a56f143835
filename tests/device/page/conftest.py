"""A device with its owner's page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.device.owning import Owned, owned


@pytest.fixture
def device(quick_folder: Path) -> Iterator[Owned]:
    """A device that has just started; the owner has said nothing yet."""
    with owned(quick_folder / "device") as one:
        yield one
