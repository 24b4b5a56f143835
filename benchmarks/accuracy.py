"""How much nearer to the truth is the mean followed through time than the paper's estimators?

On the five slices of measured data of `rase.lab.accuracy`, 20 drawings of the noise each, at equal
epsilon. Needs the folder of RASE_DATA; takes about half an hour of one core.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.harness import PeerMissing, Row, Target
from rase.errors import DataError
from rase.lab.accuracy import PAPERS, SETS, Accuracy, accuracy

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
SEEDS = range(1, 21)
_TWICE = (0.5, 1.0, 2.0)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each slice and epsilon how many times nearer we are, and how often we are right."""
    seeds = SEEDS[:1] if quick else SEEDS
    for name in list(SETS)[:1] if quick else SETS:
        try:
            panel = SETS[name].panel()
        except DataError as error:
            raise PeerMissing(str(error)) from error
        for epsilon in EPSILONS[2:4] if quick else EPSILONS:
            found = [
                accuracy(panel, SETS[name].value_range, epsilon=epsilon, seed=seed)
                for seed in seeds
            ]
            yield from rows_of(name, epsilon, found)


def rows_of(name: str, epsilon: float, found: list[Accuracy]) -> Iterator[Row]:
    """Yield the rows of one slice at one epsilon."""
    auto, history, *papers = (
        float(np.mean([one.rmse[which] for one in found])) for which in ("auto", "history", *PAPERS)
    )
    size = f"{name}, epsilon {epsilon:g}, {len(found)} seeds"
    yield Row(
        "auto",
        "best of the paper's estimators",
        size,
        min(papers) / auto,
        means="its RMSE / our RMSE",
        target=Target("at least", 2.0 if epsilon in _TWICE else 0.95),
    )
    yield Row("auto", "constant of earlier rounds", size, history / auto, "its RMSE / our RMSE")
    covered = float(np.mean([one.coverage for one in found]))
    yield Row("auto, 95 % intervals", "the truth", size, covered, "share of rounds covered")
