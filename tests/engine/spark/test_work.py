"""Commands, the lab and refusals on a real Spark."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from tests.engine.tables import BR, skewed, sorted_by, write_parts

from rase import Robust, SeededRandom
from rase.cli import main
from rase.engine.files import find_files
from rase.engine.job import GraphSettings, Job
from rase.engine.local import run_local
from rase.engine.spark import run_spark
from rase.errors import ConfigurationError, DataError
from rase.lab.datasets import open_panel
from rase.lab.experiments.on_spark import SparkCells

TABLE = skewed()


def job_of(place: Path, **changes: Any) -> Job:
    """Return a job over a table."""
    settings: dict[str, Any] = {"randomizer": BR, "every": "5min", "estimators": ("unbiased_mean",)}
    return Job(source=find_files(str(place)), **(settings | changes))


def test_a_round_in_shards(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round far larger than a bucket goes through shards, and gives the same bits."""
    monkeypatch.setattr("rase.engine.pieces.BUCKET_ROWS", 400)
    monkeypatch.setattr("rase.engine.pieces._MOST_BUCKETS", 1)
    place = write_parts(sorted_by(TABLE, "device"), tmp_path / "table", parts=2)
    expected = list(run_local(job_of(place), rng=SeededRandom(3)))
    assert list(run_spark(job_of(place), session=session, rng=SeededRandom(3))) == expected


def test_real_groups_and_truth(session: Any, tmp_path: Path) -> None:
    """Real groups and true means are those of one machine."""
    names = sorted({name for name in TABLE["device"].to_pylist() if name < "meter-01000"})
    edges = tuple((names[place], names[place + 1]) for place in range(0, len(names) - 1, 2))
    small = TABLE.filter(pc.less(TABLE["device"], "meter-01000"))
    place = write_parts(sorted_by(small, "time"), tmp_path / "table", parts=2)
    job = job_of(
        place,
        graph=GraphSettings(edges, 5.0, len(names) // 2),
        shuffler=Robust(5.0, len(names) // 2),
        truth=True,
    )
    expected = list(run_local(job, rng=SeededRandom(3)))
    assert list(run_spark(job, session=session, rng=SeededRandom(3))) == expected


def test_rows_that_cannot_be_used(session: Any, tmp_path: Path) -> None:
    """What an executor refuses is said as on one machine, without Spark's pages of Java."""
    values = np.ones(len(TABLE))
    values[3000] = np.nan
    place = write_parts(TABLE.set_column(2, "value", [values]), tmp_path / "table", parts=2)
    with pytest.raises(DataError, match=r"part-01\.parquet: column 'value' must hold finite"):
        list(run_spark(job_of(place), session=session))


def test_another_python(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors with another Python than the driver are told from other mistakes."""
    place = write_parts(TABLE, tmp_path / "table", parts=1)
    monkeypatch.setattr(session.sparkContext, "pythonVer", "3.9")
    with pytest.raises(ConfigurationError, match=r"the driver runs Python 3\.\d+ and the execu"):
        list(run_spark(job_of(place), session=session))


def test_tasks_too_large_for_secrets(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that PySpark would write to a file, with the key in it, is refused."""
    place = write_parts(TABLE, tmp_path / "table", parts=1)
    monkeypatch.setattr("rase.engine.spark._MOST_CLOSURE", 100)
    with pytest.raises(ConfigurationError, match="a task must be smaller than 100 bytes"):
        list(run_spark(job_of(place), session=session))


@pytest.mark.usefixtures("nothing_open")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command gives the same file on both engines."""
    place = write_parts(sorted_by(TABLE, "time"), tmp_path / "table", parts=2)
    asked = ["run", str(place), "--range", "0", "100", "--epsilon", "1", "--every", "5min"]
    asked += ["--seed", "3", "--window", "4"]
    assert main([*asked, "--out", str(tmp_path / "local.csv")]) == 0
    spark = ["--engine", "spark", "--master", "local[2]"]
    assert main([*asked, *spark, "--out", str(tmp_path / "spark.csv")]) == 0, capsys.readouterr()
    assert (tmp_path / "spark.csv").read_text() == (tmp_path / "local.csv").read_text()
    assert '"engine": "spark"' in (tmp_path / "spark.csv.manifest.json").read_text()


@pytest.mark.usefixtures("nothing_open")
def test_the_command_of_the_lab(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells of a figure measured on Spark, attacks among them, give the study of this process."""
    monkeypatch.setattr("rase.engine.spark_tasks._WAVE", 4)
    asked = ["lab", "run", "fig5", "--data", "fleet:16x5:1", "--fast", "--trials", "1", "--json"]
    studies = []
    # One thread: each has to load what attacks need.
    for engine in (["--jobs", "1"], ["--engine", "spark", "--master", "local[1]"]):
        out = tmp_path / engine[-1]
        code = main([*asked, *engine, "--out", str(out)])
        told = capsys.readouterr()
        assert code in {0, 7}, told.err
        studies.append((code, json.loads(told.out)["studies"]))
        # Measured there, and not taken from elsewhere.
        assert len(list((out / ".cache").rglob("*.json"))) > 3
    assert studies[0] == studies[1]
    assert list(SparkCells("local[2]")([], open_panel("fleet:16x5:1"))) == []
