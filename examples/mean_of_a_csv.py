"""The hourly means of a CSV file, privately: columns time, device and value.

    python examples/mean_of_a_csv.py [readings.csv]

Without a file it makes one: 200 homes over two days. Tables need the extra ``tables``.
"""

import csv
import sys
from pathlib import Path

from rase import Range, aggregate


def main(path: Path) -> None:
    """Print one line for each hour."""
    # The range is public: choose it from what meters can show, not from what these have shown.
    for hour in aggregate(path, Range(0, 3000), epsilon=1, every="1h"):
        print(f"hour {hour.round}: {hour.estimate} W")


def write_readings(path: Path) -> None:
    """Write what 200 homes might have measured."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["time", "device", "value"])
        for hour in range(48):
            for home in range(200):
                load = 180 + 40 * (home % 7) + (900 if 17 <= hour % 24 < 21 else 0)
                rows.writerow([3600 * hour, f"home-{home}", load])


if __name__ == "__main__":
    made = Path("readings.csv")
    if not sys.argv[1:] and not made.exists():
        write_readings(made)
    main(Path(sys.argv[1]) if sys.argv[1:] else made)
