"""All targets by name, and where the corpus of each is kept."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from fuzz.answer_targets import ANSWER_TARGETS
from fuzz.settings_targets import SETTINGS_TARGETS
from fuzz.source_targets import SOURCE_TARGETS
from fuzz.table_targets import TABLE_TARGETS
from fuzz.wire_targets import WIRE_TARGETS

__all__ = ["CORPUS", "TARGETS", "corpus_of"]

CORPUS: Final = Path(__file__).parent / "corpus"
TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    **WIRE_TARGETS,
    **ANSWER_TARGETS,
    **SOURCE_TARGETS,
    **TABLE_TARGETS,
    **SETTINGS_TARGETS,
}


def corpus_of(name: str) -> Iterator[bytes]:
    """Yield the kept inputs of a target, in the order of their names."""
    for path in sorted((CORPUS / name).iterdir()):
        yield path.read_bytes()
