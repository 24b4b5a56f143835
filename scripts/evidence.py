"""Measure what the page of evidence shows, keep each record, and write the pages.

Usage: python scripts/evidence.py [--quick] [PART ...] | --pages | --check | --list
"""

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.records.audit_page import audit_tables, with_audit
from scripts.records.pages import Place, problems, records, state, write_pages
from scripts.records.parts import PARTS, Part
from scripts.records.running import measure

__all__ = ["audit_tables", "main", "with_audit"]

_EPILOG = """\
Without a part, all are measured, one after the other. Each record is kept as soon as its part is
done, so that a run that is cut off loses only the part that was running.
Exit codes: 0 done; 1 a part found a violation or left no record, or --check found a difference;
2 usage; 130 interrupted.
"""


def main(
    arguments: Sequence[str], *, place: Place | None = None, parts: Sequence[Part] = PARTS
) -> int:
    """Measure parts, or write, check or list what was measured; return the exit code.

    Args:
        arguments: What was typed.
        place: Where records and pages are; those of the repository if not given.
        parts: All there are.
    """
    place = Place() if place is None else place
    options = _parser(parts).parse_args(arguments)
    if options.check:
        wrong = problems(place, parts)
        print("\n".join(wrong) or "the evidence is as measured.")
        return 1 if wrong else 0
    if options.list:
        print("\n".join(_listed(place, parts)))
        return 0
    if options.pages:
        write_pages(place, parts)
        return 0
    chosen = [part for part in parts if part.name in options.parts or not options.parts]
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        wrong = measure(chosen, place, is_quick=options.quick, stream=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted: the parts that were done are recorded.", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
        write_pages(place, parts)
    print("\n".join(wrong) or "no violation.")
    return 1 if wrong else 0


def _parser(parts: Sequence[Part]) -> argparse.ArgumentParser:
    names = [part.name for part in parts]

    def known(name: str) -> str:
        if name not in names:
            raise argparse.ArgumentTypeError(f"part must be one of {', '.join(names)}; got {name}.")
        return name

    parser = argparse.ArgumentParser(
        prog="make evidence",
        usage='make evidence ARGS="[--quick] [PART ...]"; or ARGS=--pages, --check, --list',
        description="Measure what the page of evidence shows, and keep each record.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", type=known, metavar="PART", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="a short form of each part")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--pages", action="store_true", help="only write the pages")
    other.add_argument("--check", action="store_true", help="compare pages, records and code")
    other.add_argument("--list", action="store_true", help="show the parts and their state")
    return parser


def _listed(place: Place, parts: Sequence[Part]) -> Iterator[str]:
    """Yield a line for each part: its state, how long it took last, and its command."""
    found = records(place.folder)
    yield f"{'part':<18} {'state':<16} {'took last':>12}  command"
    for part in parts:
        record = found.get(part.name)
        seconds = record and record.get("seconds")
        took = f"{seconds:,.0f} s" if seconds is not None else "not known"
        command = part.full.replace("{file}", "FILE")
        yield f"{part.name:<18} {state(record).value:<16} {took:>12}  {command}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
