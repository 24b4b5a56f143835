"""``rase run --epsilons``: a table whose devices have budgets of their own, as a stream."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rase.engine.stream import run_table
from rase.engine.table import Table, open_table
from rase.engine.tally import RunSummary
from rase.errors import DataError
from rase.kernels.words import Random
from rase.pipeline import Pipeline, RoundResult

if TYPE_CHECKING:
    from rase.engine.csv_files import CsvTable
    from rase.engine.job import Job

__all__ = ["Budgeted", "one_table"]


class Budgeted:
    """One run of a job whose devices differ in epsilon, on this machine.

    Args:
        job: What to do; one Parquet file, or text files.
        pipeline: The job's pipeline, with a budget for each device.
        rng: None for secure randomness; a `SeededRandom` for study.
        on_progress: Called with what is done and the share of it.

    Raises:
        DataError: If there are several Parquet files.
    """

    def __init__(
        self,
        job: "Job",
        pipeline: Pipeline,
        *,
        rng: Random | None,
        on_progress: Callable[[str, float], None],
    ) -> None:
        self._table = table = one_table(job, asked="--epsilons")
        self._run = run_table(
            table,
            pipeline,
            every=job.every,
            rng=rng,
            truth=job.truth,
            on_batch=lambda: on_progress("read", table.share_read),
        )

    def __iter__(self) -> Iterator[RoundResult]:
        """Return the one iterator over the results."""
        return iter(self._run)

    @property
    def notes(self) -> list[str]:
        """How the columns were understood."""
        return list(self._table.notes)

    @property
    def summary(self) -> RunSummary:
        """What was read, changed and spent; complete when all results have been taken."""
        return self._run.summary

    def finish(self) -> None:
        """Do nothing: such a run keeps nothing to go on from."""


def one_table(job: "Job", *, asked: str) -> "Table | CsvTable":
    """Return the table of a job that must be read in one stream.

    Args:
        job: What to do.
        asked: The option that needs it so.

    Raises:
        DataError: If there are several Parquet files.
    """
    from rase.engine.csv_files import CsvTable

    source = job.source
    if source.kind == "csv":
        return CsvTable(source)
    if len(source.files) > 1:
        raise DataError(f"{asked} takes one Parquet file or text files, got {source.place}.")
    time, device, value = source.columns.names
    return open_table(
        source.files[0].path, time_column=time, device_column=device, value_column=value
    )
