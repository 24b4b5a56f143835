"""All golden cases: what each runs, and which map of names its document has."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden.command_cases import COMMANDS
from tests.golden.flatten import Numbers, flattened, name_maps
from tests.golden.library_cases import LIBRARY
from tests.golden.live_cases import LIVE

__all__ = ["CASES", "Case", "numbers_of"]


@dataclass(frozen=True, slots=True)
class Case:
    """Hold one case.

    Args:
        kind: The map of names.
        document: Makes the document, with an empty folder to work in.
    """

    kind: str
    document: Callable[[Path], Any]


CASES = {
    name: Case(kind, document)
    for cases in (COMMANDS, LIBRARY, LIVE)
    for kind, named in cases.items()
    for name, document in named.items()
}


def numbers_of(name: str, folder: Path) -> Numbers:
    """Run a case in an empty folder and return its numbers.

    Raises:
        Unmapped: If a number has no neutral name.
    """
    case = CASES[name]
    return flattened(case.document(folder), name_maps()[case.kind], name_maps()["words"])
