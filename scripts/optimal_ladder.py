"""Solve the ladder of optimal channels that the package ships; takes about a quarter of an hour.

Run from the project's folder: python scripts/optimal_ladder.py [file]. Budgets that the file holds
already are kept, so that it can be interrupted.
"""

import json
import sys
from pathlib import Path

from rase.lab.optimum import solve
from rase.laws.programme import Programme

SHIPPED = Path(__file__).parents[1] / "src" / "rase" / "laws" / "optimal.jsonl"
RUNGS = (
    *(step / 20 for step in range(5, 40)),
    *(step / 10 for step in range(20, 86)),
    # Budgets that were rungs before the tenths above 4 were.
    *(step / 4 for step in range(17, 33) if step % 2),
)


def main(file: Path) -> None:
    """Write one programme a line, by ascending budget."""
    made: dict[float, Programme] = {}
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            kept = Programme.from_fields(json.loads(line))
            made[kept.epsilon] = kept
    for epsilon in RUNGS:
        if epsilon not in made:
            made[epsilon] = solve(epsilon)
            print(f"{epsilon:g}: {made[epsilon].worst_variance:.6g}", flush=True)
        lines = [json.dumps(made[rung].to_fields(), separators=(",", ":")) for rung in sorted(made)]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED)
