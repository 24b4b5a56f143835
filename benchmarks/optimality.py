"""How near is the worst variance of each mechanism to the least that any mechanism can have?

No times are taken: the ratio is the worst variance of a decoded report over readings from end to
end of the range, divided by a lower bound that is computed in fractions from dual prices. The bound
holds for every unbiased epsilon-LDP mechanism for bounded readings.
"""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.harness import Row, Target, versions
from rase import BudgetAware, Duchi, Hybrid, Laplace, Optimal, Piecewise, Precision, Range
from rase.laws.randomizer import RangeRandomizer

UNIT = Range(0, 1)
TARGETS = {0.5: 1.01, 0.75: 1.01, 1.0: 1.01, 1.5: 1.01, 2.0: 1.01, 3.0: 1.01, 4.0: 1.01, 6.0: 1.05}
OTHERS: dict[str, Callable[[float], RangeRandomizer]] = {
    "Laplace": lambda epsilon: Laplace(epsilon, UNIT),
    "BudgetAware, clamped": lambda epsilon: BudgetAware(epsilon, UNIT, Precision(0, 0.9)),
    "Duchi": lambda epsilon: Duchi(epsilon, UNIT),
    "Piecewise": lambda epsilon: Piecewise(epsilon, UNIT),
    "Hybrid": lambda epsilon: Hybrid(epsilon, UNIT),
}


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the optimal mechanism with its targets, and what the others reach."""
    for epsilon in (1.0, 4.0) if quick else (0.25, *TARGETS, 8.0):
        optimal = Optimal(epsilon, UNIT)
        bound = optimal.lower_bound()
        limit = TARGETS.get(epsilon)
        yield _row(
            "Optimal",
            epsilon,
            worst(optimal) / bound,
            target=None if limit is None else Target("at most", limit),
            note=f"worst variance {worst(optimal):.6g}, bound {bound:.6g} squared widths",
        )
        for name, make in OTHERS.items():
            yield _row(name, epsilon, worst(make(epsilon)) / bound)


def worst(randomizer: RangeRandomizer) -> float:
    """Return the largest variance over readings, between grid points included."""
    return float(randomizer.variance(np.linspace(0, 1, 10_001)).max())


def _row(
    name: str, epsilon: float, ratio: float, *, target: Target | None = None, note: str = ""
) -> Row:
    return Row(
        what=name,
        against="certified lower bound",
        size=f"epsilon {epsilon:g}",
        ratio=ratio,
        means="worst variance / lower bound",
        target=target,
        packages=versions("numpy"),
        note=note,
    )
