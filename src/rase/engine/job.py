"""A batch job as data: what is read, what becomes of it, and where the results go.

A job holds no randomness and no open file; whoever runs it, on one machine or on many, gives it a
source of randomness, and the same seed gives the same results.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rase.clock import parse_duration_s
from rase.engine.files import Files
from rase.engine.groups import GraphGroups
from rase.kernels.words import Words
from rase.pipeline import Pipeline
from rase.randomize.protocol import Randomizer
from rase.shuffle.shufflers import Shuffler, Uniform

__all__ = ["GraphSettings", "Job"]


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """Hold the real groups of contributors: a graph of their relationships and what it may lose.

    Args:
        edges: Pairs of devices that belong together; the first may be a header.
        alpha: The loss allowed for the groups used.
        group_count: How many groups.
    """

    edges: tuple[tuple[str, str], ...]
    alpha: float
    group_count: int

    def groups(self, devices: Words) -> GraphGroups:
        """Return the groups of all devices of a table, given by their public numbers.

        Raises:
            DataError: If the graph does not fit the table.
        """
        return GraphGroups(self.edges, devices, alpha=self.alpha, group_count=self.group_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Hold a batch job: source, rounds, randomizer, shuffler, estimators, windows and sink.

    Args:
        source: The files of the table.
        randomizer: What each device does to a reading; contributors share one epsilon.
        shuffler: What stands between devices and estimates; `Uniform` unless given.
        estimators: Their names.
        every: The length of a round, such as ``15min``; None makes each time a round.
        window: Over how many rounds to slide a mean as well; None for no windows.
        graph: The real groups, where the shuffler of a round follows from who reports in it.
        truth: Whether results hold the mean of the readings themselves; for study.
        work: A folder where results of buckets are kept until all are there, so that an interrupted
            job can go on; None to keep nothing.

    Raises:
        ValueError: If an estimator is unknown, ``every`` no duration, ``window`` below 2, or
            contributors differ in epsilon.
    """

    source: Files
    randomizer: Randomizer
    shuffler: Shuffler = field(default_factory=Uniform)
    estimators: tuple[str, ...] = ("auto",)
    every: str | None = None
    window: int | None = None
    graph: GraphSettings | None = None
    truth: bool = False
    work: Path | None = None

    def __post_init__(self) -> None:
        """Check what can be checked before a file is read."""
        if self.every is not None:
            parse_duration_s(self.every)
        if self.window is not None and self.window < 2:
            raise ValueError(f"window must hold two rounds or more, got {self.window}.")
        if isinstance(self.randomizer.epsilon, tuple):
            raise ValueError(
                "epsilon must be one number for a job; for a budget each use Pipeline.run."
            )
        _ = self.pipeline

    @property
    def pipeline(self) -> Pipeline:
        """What the readings go through."""
        return Pipeline(self.randomizer, self.shuffler, list(self.estimators))

    @property
    def epsilon(self) -> float:
        """The budget of one report."""
        return float(np.max(self.randomizer.epsilon))

    @property
    def interval_ms(self) -> int | None:
        """The length of a round in milliseconds; None where each time is a round."""
        return None if self.every is None else 1000 * parse_duration_s(self.every)

    def described(self) -> dict[str, Any]:
        """Return the job's parameters and input in words and numbers, for a manifest."""
        return {
            "input": {
                "place": self.source.place,
                "kind": self.source.kind,
                "columns": list(self.source.columns.names),
                "fingerprint": self.source.fingerprint,
                "files": self.source.listing,
            },
            "randomizer": repr(self.randomizer),
            "guarantee": str(self.randomizer.guarantee),
            "shuffler": repr(self.shuffler),
            "estimators": list(self.estimators),
            "every": self.every,
            "window": self.window,
        }

    def fingerprint(self, *, seed: object, version: str) -> str:
        """Return a hash of all that decides on the results, but for secure randomness.

        Args:
            seed: What makes the noise reproducible; None in production.
            version: The version of the code.
        """
        graph = None if self.graph is None else asdict(self.graph)
        told = [self.described(), graph, self.source.skips_bad, self.truth, repr(seed), version]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
