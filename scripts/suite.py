"""Run the parts of `make test` at the same time, and say where the time went.

Usage: python -m scripts.suite PART ... [-- ARGUMENT OF PYTEST ...]

Parts: check (style, types, imports), unit (with coverage and its gates), system, spark, lint. All
tests that are asked for run in one pool of processes (tests/pool.py). What is printed goes to
build/suite/check.log, tests.log and lint.log, and is shown at the end of each. What is skipped, the
slowest files and the slowest fixtures come last. The exit code is 0 only if everything and every
gate passed.

More processes than cores run at the same time, on purpose: while tests of the system wait for
sockets, disks and clocks, others compute.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from scripts import skipped
from tests.tiers import SPARK, SYSTEM

__all__ = ["PARTS", "command_of", "gates", "main", "summary"]

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("check", "lint")  # of make, beside the tests
PARTS = ("check", "unit", "system", "spark", "lint")
LOGS = ROOT / "build/suite"
SKIPPED = LOGS / "skipped.jsonl"
TIMES = LOGS / "times.jsonl"
# The mathematics, accounting and the wire: every line and branch must be covered.
MATHEMATICS = (
    *(
        f"src/rase/{name}.py"
        for name in ("answer", "domain", "campaign", "validation", "privacy", "clock")
    ),
    *(
        f"src/rase/{name}/**"
        for name in ("kernels", "laws", "shuffle", "counts", "series", "accounting", "wire")
    ),
)
# Without a C compiler these cannot be covered; CI must have one.
COMPILED = ("src/rase/kernels/**", "src/rase/shuffle/permutation.py")
_PYTEST = (str(Path(sys.executable).parent / "pytest"),)
_COVERED = ("--cov", "--cov-report=", "--cov-fail-under=0")
_WORKERS = 8
_EVERY_S = 30.0
_LOOK_S = 0.2


@dataclass(slots=True)
class Part:
    """A part that runs, and what became of it."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path
    start: float
    seconds: float | None = field(default=None)


def main(arguments: Sequence[str]) -> int:
    """Run the parts that are named, and return the exit code."""
    names, given = _split(arguments)
    unknown = [name for name in names if name not in PARTS]
    if unknown or not names:
        asked = ", ".join(unknown) or "none"
        print(f"parts must be among {', '.join(PARTS)}, got {asked}.", file=sys.stderr)
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    for old in (SKIPPED, TIMES):
        old.unlink(missing_ok=True)
    parts: list[Part] = []
    try:
        make = ["make", "--no-print-directory"]
        parts += [_begin(name, [*make, name]) for name in TARGETS if name in names]
        if tiers := [name for name in names if name not in TARGETS]:
            parts.append(_begin("tests", command_of(tiers, given)))
        failed = _wait(parts)
    except KeyboardInterrupt:
        _stop(parts)
        print("\nInterrupted.", file=sys.stderr)
        return 130
    if "unit" in names and "tests" not in failed and not given:
        failed += gates(skipped.read(SKIPPED))
    for line in [*skipped.summary(skipped.read(SKIPPED)), *summary(TIMES)]:
        print(line)
    print("Parts: " + ", ".join(f"{part.name} {part.seconds or 0:.0f} s" for part in parts) + ".")
    if failed:
        print(f"FAILED: {', '.join(failed)}. What they printed is above and in build/suite.")
    return 1 if failed else 0


def command_of(tiers: Sequence[str], given: Sequence[str] = ()) -> list[str]:
    """Return what runs the tests of some tiers, all in one pool.

    Args:
        tiers: Some of unit, system and spark. Where Spark is no part of a run of the system, its
            tests are named as skipped.
        given: Further arguments of pytest.
    """
    command = [*_PYTEST, f"--workers={_WORKERS}"]
    if "unit" in tiers:
        command += _COVERED
    if "system" not in tiers:
        left_out = [*SYSTEM, *([] if "spark" in tiers else [SPARK])]
        command += [f"--ignore={place}" for place in left_out] if "unit" in tiers else [SPARK]
    elif "unit" not in tiers:
        command += [*SYSTEM, SPARK]
    if "system" in tiers and "spark" not in tiers:
        command.append("--without-spark")
    return [*command, *given]


def gates(reasons: Mapping[str, int]) -> list[str]:
    """Ask for the coverage, of the whole and of the mathematics; return which gate failed."""
    coverage = [sys.executable, "-m", "coverage", "report"]
    # What skipped tests would cover is not covered: the whole has its gate only where all ran.
    is_bare = any(skipped.ABSENT in reason for reason in reasons)
    whole = [*coverage, "--fail-under=0"] if is_bare else coverage
    maths = [*coverage, f"--include={','.join(MATHEMATICS)}", "--fail-under=100"]
    has_kernels = any((ROOT / "src/rase/kernels").glob("*.so"))
    if not has_kernels and not os.environ.get("CI"):
        maths.append(f"--omit={','.join(COMPILED)}")
    # Both at the same time: each reads all data and sources again.
    asked = {"coverage": whole, "coverage of the mathematics": maths}
    running = {
        name: subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for name, command in asked.items()
    }
    failed = []
    for name, process in running.items():
        print(process.communicate()[0], end="", flush=True)
        if process.returncode:
            failed.append(name)
    if is_bare:
        print(skipped.UNGATED)
    return failed


def summary(path: Path, most: int = 8) -> list[str]:
    """Return the lines on where the time of the tests went."""
    sums: dict[str, defaultdict[str, float]] = {
        "file": defaultdict(float),
        "fixture": defaultdict(float),
    }
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            sums[entry["kind"]][entry["name"]] += entry["seconds"]
    lines = []
    for kind, found in sums.items():
        if found:
            what = {"file": "of the processor", "fixture": "by the wall"}[kind]
            lines.append(f"Slowest {kind}s, of {sum(found.values()):.0f} s {what} in all:")
            slowest = sorted(found.items(), key=lambda pair: -pair[1])[:most]
            lines += [f"{seconds:7.1f} s  {name}" for name, seconds in slowest]
    return lines


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return list(arguments), []
    at = list(arguments).index("--")
    return list(arguments[:at]), list(arguments[at + 1 :])


def _begin(name: str, command: Sequence[str]) -> Part:
    log = LOGS / f"{name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "RASE_SKIPPED": str(SKIPPED), "RASE_TIMES": str(TIMES)},
            start_new_session=True,
        )
    print(f"{name}: {' '.join(_short(command))}", flush=True)
    return Part(name, process, log, time.monotonic())


def _short(command: Sequence[str]) -> list[str]:
    is_long = ("--ignore=", *SYSTEM)
    return [Path(command[0]).name, *(one for one in command[1:] if not one.startswith(is_long))]


def _wait(parts: Sequence[Part]) -> list[str]:
    """Print each part as it ends, and now and then what runs; return the names of the failed."""
    failed = []
    shown = time.monotonic()
    while waiting := [part for part in parts if part.seconds is None]:
        for part in waiting:
            if part.process.poll() is not None:
                part.seconds = time.monotonic() - part.start
                is_ok = part.process.returncode == 0
                words = "passed" if is_ok else f"FAILED with exit code {part.process.returncode}"
                print(f"\n===== {part.name} =====", flush=True)
                sys.stdout.buffer.write(part.log.read_bytes())
                print(f"{part.name} {words} after {part.seconds:.0f} s.", flush=True)
                if not is_ok:
                    failed.append(part.name)
        if time.monotonic() - shown > _EVERY_S and waiting:
            shown = time.monotonic()
            print("; ".join(_state(part) for part in waiting if part.seconds is None), flush=True)
        with suppress(subprocess.TimeoutExpired):
            waiting[0].process.wait(timeout=_LOOK_S)
    return failed


def _state(part: Part) -> str:
    """Return how long a part has run, and how far pytest says it is."""
    text = part.log.read_bytes()[-4096:].decode("utf-8", "replace")
    share = [word.rstrip("%]") for word in text.replace("[", " ").split() if word.endswith("%]")]
    done = f", {share[-1]} %" if share else ""
    return f"{part.name} {time.monotonic() - part.start:.0f} s{done}"


def _stop(parts: Sequence[Part]) -> None:
    """Interrupt what runs, as Ctrl-C would, and wait for its end."""
    for part in parts:
        if part.process.poll() is None:
            os.killpg(part.process.pid, signal.SIGINT)
    for part in parts:
        try:
            part.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(part.process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
