"""A promise of shuffled reports on a real Spark: the same law, rounds, claims and words."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables.test_promise import HOURS, table

from rase.cli import main


@pytest.mark.usefixtures("nothing_open")
def test_a_promise_on_spark_is_that_of_one_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one seed both engines fit the same noise, withhold the same round, answer the same."""
    path = tmp_path / "readings.parquet"
    pq.write_table(pa.table(table()), path, row_group_size=50)

    def printed(*engine: str) -> dict[str, Any]:
        asked = ("--range", "0", "10", "--every", "1h", "--window", "2", "--seed", "1", "--json")
        assert main(["run", str(path), *asked, "--shuffled-epsilon", "1", *engine]) == 0
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    local = printed()
    assert printed("--engine", "spark", "--master", "local[1]") == local
    small = [n for n in HOURS if n < 80]
    assert local["summary"]["withheld"] == len(small) > 0
    assert {row["n"] for row in local["results"] if row["of_rounds"] == 1} == {90, 100}
    assert all(0.98 < row["shuffled_epsilon"] <= 1.0 for row in local["results"][:1])
