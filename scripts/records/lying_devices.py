"""Run the study of lying devices, and record it with the header that all records have.

Usage: python -m scripts.records.lying_devices --json FILE [--fast]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from rase.lab.provenance import Measurement

__all__ = ["main"]

_ROOMS: Final = ("lab/attacks", "lab/experiments/measure.py", "lab/experiments/own_figures.py")
_SEED: Final = 1


def main(arguments: list[str]) -> int:
    """Run the study and write its record; returns the exit code of the study."""
    parser = argparse.ArgumentParser(prog="python -m scripts.records.lying_devices")
    parser.add_argument("--json", type=Path, required=True, help="where the record goes")
    parser.add_argument("--fast", action="store_true", help="fewer points")
    options = parser.parse_args(arguments)
    words = ["lab", "run", "poisoning", "--data", "fleet", "--trials", "1", "--seed", str(_SEED)]
    words += ["--fast"] if options.fast else []
    measurement = Measurement(_ROOMS)
    with tempfile.TemporaryDirectory() as folder:
        # In a new folder no cell is found that was measured before.
        command = [sys.executable, "-m", "rase", *words, "--out", folder]
        done = subprocess.run(command, check=False)
        file = Path(folder) / "poisoning.json"
        if not file.is_file():
            return done.returncode or 1
        study = json.loads(file.read_text(encoding="utf-8"))
    header = measurement.header(f"rase {' '.join(words)}", seed=_SEED)
    record = {"schema": study["schema"], **header, **(study | header)}
    text = json.dumps(record, indent=1, ensure_ascii=False)
    options.json.write_text(text + "\n", encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
