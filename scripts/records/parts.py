"""The parts of the evidence: what each measures, by which command, in full and in short."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["PARTS", "ROOT", "Part"]

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Part:
    """Describe one measurement: a command that writes a record, and ends with 0 if all is well.

    Args:
        name: What it is called on the command line; its record is ``docs/evidence/NAME.json``.
        title: What its row on the page says.
        heading: The heading of its section on the page.
        full: The command; ``{file}`` stands for the file of the record.
        quick: The same in short.
        setup: A command to run before, if any.
        python: The interpreter that ``python`` means.
    """

    name: str
    title: str
    heading: str
    full: str
    quick: str
    setup: str = ""
    python: Path = Path(sys.executable)

    def command(self, file: Path, *, is_quick: bool) -> list[str]:
        """Return the command that writes a file."""
        words = shlex.split(self.quick if is_quick else self.full)
        values = {"python": str(self.python), "{file}": str(file)}
        return [values.get(word, word) for word in words]

    def setup_command(self) -> list[str]:
        """Return what has to run before; empty if nothing has."""
        return [sys.executable if word == "python" else word for word in shlex.split(self.setup)]


def _slow(name: str, title: str) -> Part:
    command = f"python -m scripts.records.slow_tests {name} --json {{file}}"
    return Part(name, title, "Slow tests", command, f"{command} --seconds 60")


def _chaos(name: str, title: str, *, options: str, seconds: int) -> Part:
    command = f"python -m chaos {options} --json {{file}} --seconds"
    heading = "Faults with real processes"
    return Part(name, title, heading, f"{command} {seconds}", f"{command} 30")


PARTS: Final = (
    _slow("statistics", "slow statistics"),
    _slow("simulations", "long simulations"),
    _slow("processes", "slow tests of processes"),
    _chaos("chaos", "faults, SQLite", options="--seed 43 --store sqlite", seconds=640),
    _chaos(
        "chaos-postgresql",
        "faults, PostgreSQL",
        options="--seed 44 --store postgresql",
        seconds=640,
    ),
    Part(
        "load",
        "load",
        "Load",
        "python -m chaos.load --first 3200 --step 2 --json {file}",
        "python -m chaos.load --first 800 --step 1 --json {file}",
    ),
    Part(
        "soak",
        "soak",
        "Soak",
        "python -m chaos.soak --seconds 3600 --json {file}",
        "python -m chaos.soak --seconds 120 --json {file}",
    ),
    Part(
        "fuzz",
        "bad inputs",
        "Bad inputs",
        "python -m fuzz --runs 100000 --seconds 600 --results {file}",
        "python -m fuzz --runs 100000 --seconds 5 --results {file}",
        setup="python scripts/bootstrap.py fuzz",
        python=ROOT / ".venv-fuzz/bin/python",
    ),
    Part(
        "audit",
        "privacy claims",
        "Privacy claims",
        "python -m rase lab audit --samples 10000000 --out {file}",
        "python -m rase lab audit --samples 100000 --out {file}",
    ),
    Part(
        "poisoning",
        "lying devices",
        "Lying devices",
        "python -m scripts.records.lying_devices --json {file}",
        "python -m scripts.records.lying_devices --fast --json {file}",
    ),
    Part(
        "faults",
        "planted faults",
        "Planted faults",
        "python -m faults --json {file}",
        "python -m faults --only lease-missing key-survives-fork --json {file}",
    ),
)
