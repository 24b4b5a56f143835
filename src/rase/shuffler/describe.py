"""Print the description of the HTTP interface, for docs/reference/openapi-shuffler.json."""

import tempfile
from contextlib import closing
from pathlib import Path

from rase.clock import SystemClock
from rase.service.openapi import describe_as_json
from rase.service.telemetry import Telemetry
from rase.shuffler.app import create_shuffler_app
from rase.storage.sqlite import open_sqlite
from rase.wire.signed import PinnedKeys

__all__ = ["description"]


def description() -> str:
    """Return the description as indented JSON; it does not depend on any setting."""
    pinned = PinnedKeys(*(bytes([number]) * 32 for number in range(3)))
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_sqlite(Path(folder) / "empty.sqlite", migrations="shuffler")) as database,
    ):
        app = create_shuffler_app(
            database, SystemClock(), pinned=pinned, telemetry=Telemetry("shuffler")
        )
        return describe_as_json(app)


if __name__ == "__main__":
    print(description(), end="")  # noqa: T201 - data on stdout
