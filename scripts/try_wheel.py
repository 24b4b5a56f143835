"""Try an installed wheel: the version, the kernels, and the means of a small table of readings.

Run by the environment in which the wheel is installed, far from the source. With
RASE_NEEDS_KERNELS=1 it fails where the compiled kernels are absent.
"""

import csv
import os
import sys
import tempfile
from pathlib import Path

import rase
from rase.cli import main
from rase.kernels.backend import kernels_in_use


def try_wheel() -> int:
    """Run the commands of the first page, and return the exit code."""
    print(f"rase {rase.__version__} in {Path(rase.__file__).parent}; kernels: {kernels_in_use()}")
    if os.environ.get("RASE_NEEDS_KERNELS") == "1" and "NumPy" in kernels_in_use():
        print("the wheel must hold compiled kernels, got NumPy's.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "readings.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(("time", "device", "value"))
            rows.writerows((3600 * hour, f"d{n}", 100 + n) for hour in range(3) for n in range(50))
        words = ["--range", "0", "3000", "--epsilon", "1"]
        return main(["run", str(table), *words])


if __name__ == "__main__":
    sys.exit(try_wheel())
