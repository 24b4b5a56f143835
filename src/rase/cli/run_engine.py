"""Where the work of ``rase run`` and ``rase lab run`` is done, as it was typed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import click

from rase.engine.tally import RunSummary
from rase.kernels.words import Random
from rase.pipeline import RoundResult

if TYPE_CHECKING:
    from rase.engine.job import Job
    from rase.lab.experiments.conduct import CellEngine

__all__ = ["EngineOptions", "Run"]


# Local masters say how many threads or executors they have; a server of Spark Connect has its own.
_FIXED = ("sc://", "local")


class Run(Protocol):
    """One run of a job on any engine: results in the order of time, to be iterated once."""

    @property
    def notes(self) -> list[str]:
        """How the columns were understood."""

    @property
    def summary(self) -> RunSummary:
        """What was read, changed and spent; complete when all results have been taken."""

    def __iter__(self) -> Iterator[RoundResult]:
        """Return the one iterator over the results."""

    def finish(self) -> None:
        """Forget what an interrupted run would need: the results are in their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Hold which engine does the work, and with what.

    Args:
        engine: "local" or "spark".
        master: The address of a cluster; for spark alone.
        workers: Threads or executors; as many as there are if None.
        memory_bytes: Memory to use; half of what is free if None.

    Raises:
        click.UsageError: If options contradict each other.
    """

    engine: str = "local"
    master: str | None = None
    workers: int | None = None
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.master is not None and self.engine != "spark":
            raise click.UsageError("--master needs --engine spark.")
        if self.master is None and self.engine == "spark":
            raise click.UsageError(
                "--engine spark needs --master: local[2], spark://HOST:7077, yarn, k8s://HOST:443 "
                "or sc://HOST."
            )
        if self.workers is not None and (self.master or "").startswith(_FIXED):
            raise click.UsageError(
                "--workers is for clusters that are asked for executors; local masters and sc:// "
                "have theirs."
            )
        if self.memory_bytes is not None and self.memory_bytes < 1:
            raise click.UsageError("--memory must be more than nothing.")

    def run(
        self,
        job: "Job",
        *,
        rng: Random | None,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> Run:
        """Begin a run of a job on the chosen engine."""
        if self.engine == "spark":
            from rase.engine.spark import run_spark

            return run_spark(
                job,
                master=self.master or "",
                rng=rng,
                workers=self.workers,
                memory_bytes=self.memory_bytes,
                on_progress=on_progress,
            )
        from rase.engine.local import run_local

        return run_local(
            job,
            rng=rng,
            workers=self.workers,
            memory_bytes=self.memory_bytes,
            on_progress=on_progress,
        )

    def cell_engine(self) -> "CellEngine | None":
        """Return where the lab measures its cells; None for processes on this machine."""
        if self.master is None:
            return None
        from rase.lab.experiments.on_spark import SparkCells

        return SparkCells(self.master, workers=self.workers)
