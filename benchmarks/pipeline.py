"""Is the whole pipeline as fast as the naive unsafe script, and does it grow linearly?

Ours draws certified noise from a secure source, shuffles every round by Robust, and gives each
round an unbiased mean with its standard error. The script adds float noise, permutes and averages.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Row, Target, taken_in_turn, versions
from rase import BudgetAware, Pipeline, Precision, Range, Robust
from rase.kernels import backend

__all__ = ["rows"]

DEVICES = 64
PUBLIC = Range(0, 3000)
RANDOMIZER = BudgetAware(1.0, PUBLIC, Precision(beta=0.5, rho=0.9))
# Alpha 30 in 16 groups would let an observer of order do better than twice chance, so that Robust
# draws uniformly; alpha 0.3 keeps it to a Mallows law.
SHUFFLERS = {
    "uniform": Robust(alpha=30, group_count=16),
    "Mallows": Robust(alpha=0.3, group_count=16),
}
# In a process of its own: readings by round, CPU time, and how far memory grew beyond them.
GROWTH = """
import json, resource, sys, time
import numpy as np
from benchmarks.pipeline import DEVICES, PUBLIC, RANDOMIZER, SHUFFLERS
from rase import Pipeline
rounds = int(sys.argv[1]) // DEVICES
pipeline = Pipeline(RANDOMIZER, SHUFFLERS["uniform"])
pipeline.run_rounds(np.zeros((100, DEVICES)))
readings = np.random.default_rng(1).uniform(PUBLIC.low, PUBLIC.high, (rounds, DEVICES))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
times = []
for _ in range(5):
    start = time.process_time()
    pipeline.run_rounds(readings)
    times.append(time.process_time() - start)
grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print(json.dumps([min(times), grown, readings.nbytes]))
"""


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare with the script, then ten times the readings with the readings."""
    rounds = 10**3 if quick else 10**5
    generator = np.random.default_rng(1)
    readings = generator.uniform(PUBLIC.low, PUBLIC.high, (rounds, DEVICES))

    def naive() -> Any:
        noisy = readings + generator.laplace(0, PUBLIC.width, readings.shape)
        return generator.permuted(noisy, axis=1).mean(axis=1)

    for name, shuffler in SHUFFLERS.items():
        pipeline = Pipeline(RANDOMIZER, shuffler)
        timed = taken_in_turn(
            partial(pipeline.run_rounds, readings),
            naive,
            repeats=3 if quick else 7,
        )
        yield Row(
            what=f"BR, Robust ({name}) and unbiased mean, {backend.kernels_in_use()}",
            against="numpy script: laplace, permuted, mean (unsafe, biased when clamped)",
            size=f"{DEVICES} devices x {rounds:.0e} rounds",
            ratio=timed.ratio,
            target=Target("at most", 1.0) if rounds == 10**5 else None,
            ours_s=timed.ours_s,
            theirs_s=timed.theirs_s,
            repeats=timed.repeats,
            packages=versions("numpy", "cryptography"),
        )
    less, more = (_measured(size) for size in ((10**5, 10**6) if quick else (10**6, 10**7)))
    size = "1e5 and 1e6 readings" if quick else "1e6 and 1e7 readings"
    yield Row(
        what="time of the whole pipeline at ten times the readings",
        against="itself",
        size=size,
        ratio=more[0] / less[0],
        means="time(10 n) / time(n)",
        target=Target("at most", 11.0),
        ours_s=more[0],
        theirs_s=less[0],
        repeats=5,
    )
    yield Row(
        what="memory of the whole pipeline, readings included",
        against="the readings",
        size=size.split(" and ")[1],
        ratio=(more[2] + more[1]) / more[2],
        means="(readings + growth of resident memory) / readings",
        target=Target("at most", 2.0),
        repeats=5,
    )


def _measured(readings: int) -> tuple[float, int, int]:
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, str(readings)], capture_output=True, text=True, check=True
    )
    seconds, grown, size = json.loads(done.stdout)
    return seconds, grown, size
