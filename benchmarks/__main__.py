"""Run benchmarks, keep their rows, and write RESULTS.md and its picture from all that are kept."""

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.harness import PeerMissing, Row
from benchmarks.report import written
from benchmarks.sizing import fill_guides

FOLDER = Path(__file__).parent
KEPT = FOLDER / "results"
NOT_QUESTIONS = {
    *("__init__", "__main__", "appliances", "cells", "harness", "measured_cells", "published"),
    *("report", "sizing", "worlds"),
}


def main() -> int:
    """Run what was asked for, each file in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(names())}")
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is kept")
    parser.add_argument(
        "--rows", type=int, metavar="N", help="rows of a table, for engine; nothing is kept"
    )
    parser.add_argument("--list", action="store_true", help="list the questions and stop")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"NAME must be one of {', '.join(names())}, got {', '.join(unknown)}.")
    if options.rows is not None and (options.names != ["engine"] or options.rows < 1):
        parser.error("--rows must be 1 or more, and takes engine alone.")
    if options.list:
        for name in names():
            print(f"{name:20} {question(name)}")
        return 0
    if options.here:
        run_here(options.names[0], quick=options.quick, table_rows=options.rows)
        return 0
    failed = [
        name
        for name in options.names or names()
        if not run(name, quick=options.quick, table_rows=options.rows)
    ]
    if not options.quick and options.rows is None:
        written(FOLDER / "RESULTS.md", sorted(KEPT.glob("*.json")))
        fill_guides(FOLDER.parent / "docs/guides", KEPT)
    for name in failed:
        print(f"{name} failed; its earlier rows were kept.", file=sys.stderr)
    return 1 if failed else 0


def names() -> list[str]:
    """List the benchmarks of this folder."""
    return sorted({file.stem for file in FOLDER.glob("*.py")} - NOT_QUESTIONS)


def question(name: str) -> str:
    """Return the first line of a benchmark's docstring."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    return text.removeprefix('"""').split("\n", 1)[0].removesuffix('"""')


def run(name: str, *, quick: bool, table_rows: int | None = None) -> bool:
    """Run one benchmark in a process of its own; tell whether it came to its end."""
    print(f"{name}: {question(name)}", flush=True)
    command = [sys.executable, "-m", "benchmarks", name, "--here", *(["--quick"] if quick else [])]
    command += [] if table_rows is None else [f"--rows={table_rows}"]
    return subprocess.run(command, cwd=FOLDER.parent, check=False).returncode == 0


def run_here(name: str, *, quick: bool, table_rows: int | None = None) -> None:
    """Measure, print each row as it comes, and keep all of them."""
    rows: list[Row] = []
    size = {} if table_rows is None else {"table_rows": table_rows}
    try:
        for row in importlib.import_module(f"benchmarks.{name}").rows(quick=quick, **size):
            rows.append(row)
            print(f"  {line(row)}", flush=True)
    except PeerMissing as missing:
        print(f"  {missing}", flush=True)
    if quick or table_rows is not None or not rows:
        return
    KEPT.mkdir(exist_ok=True)
    kept = {"question": question(name), "machine": machine(), "rows": [asdict(row) for row in rows]}
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    (KEPT / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def line(row: Row) -> str:
    """Say one row in one line."""
    told = f"{row.what} / {row.against} ({row.size}): {row.ratio:.3g}"
    if row.target is None:
        return told
    verdict = "met" if row.target.is_met(row.ratio) else "MISSED"
    return f"{told}  target {row.target.sense} {row.target.limit:g}: {verdict}"


def machine() -> str:
    """Describe the processor and the interpreter, and nothing that names the machine."""
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        model = next(
            (x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), model
        )
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
