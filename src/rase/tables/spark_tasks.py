"""Run independent tasks on a Spark cluster: texts in, texts out, one task at a time each."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from rase.errors import DataError, RaseError
from rase.tables.spark_session import in_words, opened_session

__all__ = ["answered", "tasks_on_spark"]

# Tasks sent together; answers are given on when all of them are there.
_WAVE = 32


def tasks_on_spark(
    work: Callable[[str], str],
    tasks: Sequence[str],
    *,
    master: str,
    workers: int | None = None,
) -> Iterator[tuple[int, str]]:
    """Run a function on many texts, on the executors of a cluster.

    Args:
        work: The function; sent to the executors with all that it refers to. It must give the same
            answer again, for Spark repeats tasks of executors that were lost.
        tasks: The texts, long tasks first.
        master: Where the cluster is.
        workers: How many executors; what the cluster's settings say if None.

    Yields:
        The place of each text and its answer, some at a time.

    Raises:
        ConfigurationError: If the cluster cannot be reached.
        DataError: If the function refused a text.
    """

    def answer(batches: Iterator[Any]) -> Iterator[Any]:
        return answered(batches, work)

    with opened_session(master, workers=workers) as session:
        for start in range(0, len(tasks), _WAVE):
            wave = tasks[start : start + _WAVE]
            places = range(start, start + len(wave))
            columns = {"place": pa.array(places, pa.int64()), "text": pa.array(wave, pa.string())}
            with in_words(master):
                table = session.createDataFrame(pa.table(columns), "place long, text string")
                dealt = table.coalesce(1).repartition(len(wave))
                found = dealt.mapInArrow(answer, _ANSWERS).toArrow().to_pylist()
            for row in sorted(found, key=lambda row: int(row["place"])):
                if row["refusal"] is not None:
                    raise DataError(row["refusal"])
                yield row["place"], row["answer"]


def answered(batches: Iterator[Any], work: Callable[[str], str]) -> Iterator[Any]:
    """Answer texts as rows of Arrow; a refusal is an answer, too."""
    for batch in batches:
        rows = []
        for task in batch.to_pylist():
            row = {"place": task["place"], "answer": None, "refusal": None}
            try:
                row["answer"] = work(task["text"])
            except RaseError as error:
                row["refusal"] = str(error)
            rows.append(row)
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW_ANSWERS)


_ANSWERS = "place long, answer string, refusal string"
_ARROW_ANSWERS = pa.schema(
    [("place", pa.int64()), ("answer", pa.string()), ("refusal", pa.string())]
)
