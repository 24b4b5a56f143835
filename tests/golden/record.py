"""Record the numbers of golden cases: ``python -m tests.golden.record [--overwrite] [CASE ...]``.

Without names all cases are recorded. A case that has numbers already is refused unless
``--overwrite`` is given, which is right only where a number was meant to change; the commit then
says why. A change of names alone belongs into ``names.json``, and leaves the numbers as they are.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden.cases import CASES, numbers_of
from tests.golden.compare import FOLDER, recorded_form, save

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record cases and return the exit code: 1 if numbers would be overwritten."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.record")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="all if none is named")
    parser.add_argument("--overwrite", action="store_true", help="replace numbers that exist")
    asked = parser.parse_args(arguments)
    names: list[str] = asked.cases or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"no such case: {', '.join(unknown)}")
    existing = [name for name in names if (FOLDER / f"{name}.json").exists()]
    if existing and not asked.overwrite:
        sys.stderr.write(
            f"{len(existing)} cases have numbers, such as {existing[0]}; nothing was recorded. "
            "Give --overwrite to replace them.\n"
        )
        return 1
    for name in names:
        with TemporaryDirectory() as folder:
            path = save(name, recorded_form(numbers_of(name, Path(folder))))
        sys.stdout.write(f"{path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
