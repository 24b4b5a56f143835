"""How long does the server work for one change in the Explorer?

A walk of 200 changes, one parameter at a time, each to a random place of its slider; the whole
answer as JSON, parts of the page included. Prints the CPU time of a change as a share of the limit
of 50 ms: median, 95th percentile, largest. CPU time, so that other work on the machine does not
count; the walk is seeded. Before it the server has answered the usual question, as it does when it
starts.

Run from the project's folder: python benchmarks/explorer_walk.py [seed]
"""

import asyncio
import math
import sys
import time
from pathlib import Path

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from rase.clock import SystemClock
from rase.dashboard import explorer
from rase.dashboard.app import dashboard_app
from rase.dashboard.explorer_form import FIELDS, USUAL, Choice, Field
from rase.subscriber.operator import AsyncOperator

LIMIT_S = 0.050
CHANGES = 200


def changed(one: Field | Choice, draw: np.random.Generator) -> str:
    """Return a random value of a parameter, as its slider would write it."""
    if isinstance(one, Choice):
        return str(draw.choice([value for value, _ in one.options]))
    if one.scale == "stops":
        return str(draw.choice(one.stops))
    if one.scale == "log":
        value = float(np.exp(draw.uniform(math.log(one.low), math.log(one.high))))
        return str(round(value)) if one.is_whole else f"{value:.3g}"
    if one.scale == "both":
        return f"{10 ** draw.uniform(0, 5):.2g}" if one.name == "high" else "0"
    return f"{draw.uniform(one.low, one.high):.3f}"


async def walk(seed: int) -> list[tuple[float, str, dict[str, str]]]:
    """Return the CPU seconds of each change, and what was changed."""
    draw = np.random.default_rng(seed)
    app = dashboard_app(
        lambda token: AsyncOperator("http://localhost", token),
        SystemClock(),
        pages=[explorer.PAGE],
    )
    fields = [one for part in FIELDS.values() for one in part if USUAL[one.name]]
    state = dict(USUAL)
    taken = []
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://walk.test") as client:
        await client.get("/explorer/plan.json")
        for _ in range(CHANGES):
            one = fields[int(draw.integers(len(fields)))]
            state[one.name] = changed(one, draw)
            start = time.process_time()
            answer = await client.get("/explorer/plan.json", params=state)
            # A window of one round cannot be split; such a question is refused, and not counted.
            if answer.status_code == 200:
                taken.append((time.process_time() - start, one.name, dict(state)))
    return taken


def main(seed: int) -> None:
    """Print the shares."""
    taken = asyncio.run(walk(seed))
    seconds = np.array([one for one, _, _ in taken])
    for name, share in (("median", 0.5), ("95th percentile", 0.95), ("largest", 1.0)):
        found = float(np.quantile(seconds, share))
        print(f"{name:<16} {found / LIMIT_S:5.2f} of the limit ({1000 * found:.1f} ms)")
    print(f"above the limit  {(seconds > LIMIT_S).mean():5.1%} of {len(taken)} changes")
    for second, name, state in sorted(taken, key=lambda one: -one[0])[:5]:
        kept = {key: value for key, value in state.items() if value != USUAL[key]}
        print(f"  {1000 * second:.1f} ms after {name}: {kept}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2026)
