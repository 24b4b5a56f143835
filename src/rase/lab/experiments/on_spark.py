"""Measure the cells of experiments on a Spark cluster: the same numbers as on one machine.

A cell depends on its settings and the readings alone, and its counts are whole numbers, so it does
not matter where it is measured, or whether Spark measures it twice.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rase.lab.experiments.conduct import weight
from rase.lab.experiments.measure import run_measurement
from rase.lab.experiments.study import Cell
from rase.lab.panel import Panel
from rase.tables.spark_tasks import tasks_on_spark

__all__ = ["SparkCells"]


@dataclass(frozen=True, slots=True)
class SparkCells:
    """Measure cells on a cluster; a `CellEngine`. The readings are sent with the tasks.

    Args:
        master: Where the cluster is.
        workers: How many executors; what the cluster's settings say if None.
    """

    master: str
    workers: int | None = None

    def __call__(
        self, cells: Sequence[Cell], panel: Panel, /
    ) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """Yield each cell with its outcome, some at a time."""
        if not cells:
            return
        # Long cells first, so that no executor waits for the last one.
        ordered = sorted(cells, key=weight, reverse=True)

        def work(text: str) -> str:
            name, settings = json.loads(text)
            return json.dumps(run_measurement(panel, name, settings))

        tasks = [json.dumps([cell.measure, dict(cell.settings)]) for cell in ordered]
        for place, answer in tasks_on_spark(work, tasks, master=self.master, workers=self.workers):
            yield ordered[place], json.loads(answer)
