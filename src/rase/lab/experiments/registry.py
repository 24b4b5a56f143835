"""All experiments by name, in the order of the paper, then what it hides."""

import difflib
from collections.abc import Sequence

from rase.lab.experiments.attack_figures import FIG5, FIG6A, FIG6B, FIG6C, FIG6D
from rase.lab.experiments.comparisons import EQUAL_EPSILON, STRONGER
from rase.lab.experiments.departures import BIAS_CLIFF, COMPOSITION, SWITCH_OFF
from rase.lab.experiments.error_figures import FIG7, FIG8, FIG9
from rase.lab.experiments.law_figures import (
    LOW_BITS,
    MALLOWS_CENTRE,
    MALLOWS_DISTANCE,
    OPTIMUM,
    TABLE1,
)
from rase.lab.experiments.own_figures import ACCURACY, AUDIT, POISONING, RANGES
from rase.lab.experiments.study import Experiment

__all__ = ["EXPERIMENTS", "experiments_named"]

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        MALLOWS_DISTANCE,
        MALLOWS_CENTRE,
        TABLE1,
        FIG5,
        FIG6A,
        FIG6B,
        FIG6C,
        FIG6D,
        FIG7,
        FIG8,
        FIG9,
        SWITCH_OFF,
        BIAS_CLIFF,
        COMPOSITION,
        STRONGER,
        EQUAL_EPSILON,
        OPTIMUM,
        LOW_BITS,
        ACCURACY,
        POISONING,
        AUDIT,
        RANGES,
    )
}


def experiments_named(names: Sequence[str]) -> list[Experiment]:
    """Return experiments by name, each once, in the order of the paper.

    Args:
        names: Names; "all" for all, "fig6" for all whose name begins so.

    Raises:
        ValueError: If a name is unknown; the message suggests the nearest.

    Example:
        >>> [experiment.name for experiment in experiments_named(["fig6", "table1"])]
        ['table1', 'fig6a', 'fig6b', 'fig6c', 'fig6d']
    """
    chosen: set[str] = set()
    for name in names:
        matching = [known for known in EXPERIMENTS if name in ("all", known) or known[:-1] == name]
        if not matching:
            near = difflib.get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else "rase lab list names them."
            raise ValueError(f"there is no experiment {name!r}; {hint}")
        chosen.update(matching)
    return [experiment for name, experiment in EXPERIMENTS.items() if name in chosen]
