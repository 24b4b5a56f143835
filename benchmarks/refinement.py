"""Does regrouping contributors take time in proportion to their number?"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.harness import Row, Target, taken_in_turn
from rase import refine

__all__ = ["rows"]


def rows(*, quick: bool) -> Iterator[Row]:
    """Compare n with 2n, for contributors in sequence and in random places."""
    n = 10**5 if quick else 10**6
    generator = np.random.default_rng(1)
    mixed = generator.permutation(n), generator.permutation(2 * n)
    for name, ranks in (("in sequence", (None, None)), ("in random places", mixed)):
        timed = taken_in_turn(
            partial(refine, 2 * n, 1000, rank=ranks[1]),
            partial(refine, n, 1000, rank=ranks[0]),
            repeats=3 if quick else 9,
        )
        yield Row(
            what=f"group refinement into 1000 groups, contributors {name}",
            against="itself at half the size",
            size=f"n = {n:.0e} and {2 * n:.0e}",
            ratio=timed.ratio,
            means="time(2n) / time(n)",
            target=Target("at most", 2.3),
            ours_s=timed.ours_s,
            theirs_s=timed.theirs_s,
            repeats=timed.repeats,
        )
