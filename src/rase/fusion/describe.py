"""Print the description of the HTTP interface, for the copy in docs/reference/openapi.json."""

import json
import tempfile
from pathlib import Path

from rase.clock import SystemClock
from rase.fusion.app import openapi_document
from rase.fusion.centre import FusionCentre
from rase.fusion.intake import Intake
from rase.fusion.opening import BatchOpener
from rase.fusion.query import Questions
from rase.fusion.rounds import Rounds
from rase.fusion.token_keys import TokenKeys
from rase.storage.sqlite import open_sqlite
from rase.wire.signed import PinnedKeys

__all__ = ["description"]


def description() -> str:
    """Return the description as indented JSON; it does not depend on any setting."""
    clock = SystemClock()
    pinned = PinnedKeys(*(bytes([number]) * 32 for number in range(3)))
    with tempfile.TemporaryDirectory() as folder:
        database = open_sqlite(Path(folder) / "empty.sqlite", migrations="fusion")
        try:
            centre = FusionCentre(
                database=database,
                clock=clock,
                intake=Intake(
                    database,
                    clock,
                    pinned=pinned,
                    opener=BatchOpener([]),
                    token_keys=TokenKeys(database, clock, pinned=pinned, fetch=bytes),
                ),
                rounds=Rounds(database, clock),
                questions=Questions(database),
            )
            return json.dumps(openapi_document(centre), indent=1, ensure_ascii=False) + "\n"
        finally:
            database.close()


if __name__ == "__main__":
    print(description(), end="")  # noqa: T201 - data on stdout
