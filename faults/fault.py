"""One planted fault: which text of which source it replaces, and which tests are to notice."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Fault", "FaultOutdated", "plant"]


class FaultOutdated(Exception):
    """The text that a fault replaces is not in the sources exactly once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Hold one fault.

    Args:
        name: A few words with hyphens, unique among all faults.
        wrong: What is wrong once it is planted, in one sentence.
        file: The source below ``src``.
        old: The text to replace; it stands there exactly once.
        new: What replaces it.
        tests: Node ids of tests that are part of ``make test``, as few as catch it.

    Raises:
        ValueError: If it changes nothing, or names no tests.
    """

    name: str
    wrong: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check what would make every run of it meaningless."""
        if not self.old or self.old == self.new:
            raise ValueError(f"new of fault {self.name} must differ from old, and old be a text.")
        if not self.tests:
            raise ValueError(f"tests of fault {self.name} must name at least one test.")


def plant(fault: Fault, sources: Path) -> None:
    """Put a fault into a copy of the sources.

    Args:
        fault: What to plant.
        sources: The copy of ``src``.

    Raises:
        FaultOutdated: If the text to replace is not there exactly once.
    """
    path = sources / fault.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    count = text.count(fault.old)
    if count != 1:
        raise FaultOutdated(
            f"fault {fault.name} must be rewritten: its old text stands {count} times in "
            f"src/{fault.file}, and must stand there once."
        )
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    # Compiled code is told from its source by size and second, which may both be the same.
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
