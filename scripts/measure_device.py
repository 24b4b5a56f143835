"""Measure ``rase-device.pyz``: its size, and what a start and a refusal cost a bare Python.

    python scripts/measure_device.py dist/rase-device.pyz [command that runs Python ...]

The command is this Python without its packages unless one is named, such as
``chroot /srv/debian python3``; then the file must be named as it is seen from there.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

TIMES = 15
# Everything that an agent loads when it starts, and its law's first draw.
_LOAD = """
import sys
sys.path.insert(0, sys.argv[1])
import rase.device.program, rase.transport.http, rase.device.sources.csv
"""
_DRAW = """
from rase.domain import Range
from rase.kernels.entropy import SecureEntropy
from rase.laws.registry import randomizer_named
randomizer_named("optimal", 1.0, domain=Range(0.0, 3000.0)).draw_one(1000.0, SecureEntropy())
"""


def main() -> int:
    """Print a table: processor time, time by the wall, and the most memory, in the median."""
    file = sys.argv[1]
    python = sys.argv[2:] or [sys.executable, "-I", "-S"]
    if Path(file).exists():
        print(f"size {Path(file).stat().st_size:,} bytes")
    for name, words in (
        ("bare interpreter", ["-c", "pass"]),
        ("--version", [file, "--version"]),
        ("agent loaded", ["-c", _LOAD, file]),
        ("agent loaded, one reading drawn", ["-c", _LOAD + _DRAW, file]),
    ):
        costs = [_cost([*python, *words]) for _ in range(TIMES)]
        processor, wall, memory = (statistics.median(one) for one in zip(*costs, strict=True))
        print(f"{name:32} {processor * 1e3:4.0f} ms CPU {wall * 1e3:5.0f} ms {memory:5.1f} MB")
    return 0


def _cost(command: list[str]) -> tuple[float, float, float]:
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={"LC_ALL": "C.UTF-8"})
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} must succeed, got exit code {process.returncode}.")
    return used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
