"""Print the description of the HTTP interface, for docs/reference/openapi-registrar.json."""

import tempfile
from contextlib import closing
from pathlib import Path

from rase.clock import SystemClock
from rase.registrar.app import registrar_app
from rase.service.openapi import describe_as_json
from rase.service.telemetry import Telemetry
from rase.storage.sqlite import open_sqlite
from rase.wire.signed import PinnedKeys

__all__ = ["description"]


def description() -> str:
    """Return the description as indented JSON; it does not depend on any setting."""
    pinned = PinnedKeys(*(bytes([number]) * 32 for number in range(3)))
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_sqlite(Path(folder) / "empty.sqlite", migrations="registrar")) as database,
    ):
        app = registrar_app(
            database,
            SystemClock(),
            secret=bytes(32),
            pinned=pinned,
            telemetry=Telemetry("registrar"),
        )
        return describe_as_json(app)


if __name__ == "__main__":
    print(description(), end="")  # noqa: T201 - data on stdout
