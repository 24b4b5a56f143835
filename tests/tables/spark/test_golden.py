"""Golden outputs on a real Spark: the numbers recorded of one machine."""

from pathlib import Path

import pytest
from tests.golden.command_cases import run_of_parquet
from tests.golden.compare import differences, load, report
from tests.golden.flatten import flattened, name_maps


@pytest.mark.usefixtures("nothing_open")
def test_the_numbers_on_spark_are_those_of_one_machine(tmp_path: Path) -> None:
    """The command on Spark prints the numbers that were recorded of the local engine."""
    document = run_of_parquet(tmp_path, "--engine", "spark", "--master", "local[1]")
    numbers = flattened(document, name_maps()["run"], name_maps()["words"])
    found = differences(load("run-parquet"), numbers)
    assert not found, report(found)
