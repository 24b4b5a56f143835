"""Shares of categories on a real Spark: the same reports, shares and promises."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables.test_categories import table

from rase.cli import main


@pytest.mark.usefixtures("nothing_open")
def test_shares_on_spark_are_those_of_one_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one seed both engines print one document; names of devices are found there, too."""
    path = tmp_path / "states.parquet"
    rows = table(["on", "off", "standby", "on", "off"] * 60, devices=100, minutes=60)
    pq.write_table(pa.table(rows), path, row_group_size=50)

    def printed(*engine: str) -> str:
        asked = ("--categories", "on,off,standby", "--every", "1h", "--seed", "1", "--json")
        assert main(["run", str(path), *asked, "--shuffled-epsilon", "1", *engine]) == 0
        return capsys.readouterr().out

    assert printed("--engine", "spark", "--master", "local[1]") == printed()


@pytest.mark.usefixtures("nothing_open")
def test_quantities_on_spark_are_those_of_one_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One document with one seed: the same turns, reports and totals, whoever counts devices."""
    path = tmp_path / "both.parquet"
    rows = table(["on", "off", "standby", "on", "off"] * 60, devices=100, minutes=60)
    rows["power"] = list(range(300))
    pq.write_table(pa.table(rows), path, row_group_size=20)

    def printed(*engine: str) -> str:
        asked = ("--quantity", "value=on,off,standby", "--quantity", "power=0:300")
        shared = ("--turns", "1,2", "--every", "1h", "--epsilon", "1", "--seed", "1", "--json")
        assert main(["run", str(path), *asked, *shared, *engine]) == 0
        return capsys.readouterr().out

    assert printed("--engine", "spark", "--master", "local[1]") == printed()
