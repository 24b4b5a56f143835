"""How long does the studio work for one change in the Explorer?

Walks of 200 changes, one parameter at a time, each to a random place of its slider; the whole
answer as JSON, parts of the page included. CPU time, so that other work on the machine does not
count; the walks are seeded. Before them the studio has answered the usual question, as it does when
it starts.
"""

import asyncio
import math
import time
from collections.abc import Iterator

import httpx
import numpy as np

from benchmarks.harness import Row, Target
from rase.clock import SystemClock
from rase.studio.app import studio_app
from rase.studio.explorer.fields import FIELDS, USUAL, Choice, Field

LIMIT_S = 0.050
PORT = 8000
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
    app = studio_app(SystemClock(), PORT)
    fields = [one for part in FIELDS.values() for one in part if USUAL[one.name]]
    state = dict(USUAL)
    taken = []
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=app.address) as client:
        await client.get("explorer/plan.json")
        for _ in range(CHANGES):
            one = fields[int(draw.integers(len(fields)))]
            state[one.name] = changed(one, draw)
            start = time.process_time()
            answer = await client.get("explorer/plan.json", params=state)
            # A window of one round cannot be split; such a question is refused, and not counted.
            if answer.status_code == 200:
                taken.append((time.process_time() - start, one.name, dict(state)))
    return taken


def rows(*, quick: bool) -> Iterator[Row]:
    """Walk, and compare median and 95th percentile with the limit."""
    seeds = (2026,) if quick else (1, 2, 3, 2026)
    taken = [one for seed in seeds for one in asyncio.run(walk(seed))]
    seconds = np.array([one for one, _, _ in taken])
    slowest, name, state = max(taken, key=lambda one: one[0])
    kept = {key: value for key, value in state.items() if value != USUAL[key]}
    for words, share in (("median", 0.5), ("95th percentile", 0.95)):
        found = float(np.quantile(seconds, share))
        yield Row(
            what=f"CPU time of a change in the Explorer, {words}",
            against="the limit of 50 ms",
            size=f"{len(taken):,} changes",
            ratio=found / LIMIT_S,
            means="time / limit",
            target=Target("at most", 1),
            ours_s=found,
            note=(
                f"{(seconds > LIMIT_S).mean():.1%} above the limit, the slowest {slowest:.3f} s "
                f"after a change of {name}: {kept}"
                if share > 0.5
                else ""
            ),
        )
