"""Commands, the lab and refusals on a real Spark."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from tests.tables.tables import BR, skewed, sorted_by, write_parts

from rase import Robust, RunPlan, SeededRandom
from rase.cli import main
from rase.errors import ConfigurationError, DataError, StorageUnusable
from rase.lab.datasets import open_panel
from rase.lab.experiments.on_spark import SparkCells
from rase.tables.groups import GraphSettings
from rase.tables.release_log import PartResult
from rase.tables.run import run
from rase.tables.spark import run_on_spark

TABLE = skewed()


def plan_of(**changes: Any) -> RunPlan:
    """Return a plan for rounds of five minutes."""
    settings: dict[str, Any] = {"randomizer": BR, "every": "5min", "estimator": "unbiased_mean"}
    return RunPlan(**(settings | changes))


def test_a_round_in_slices(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of more rows than a task may hold gives the same bits, and the same counts."""
    monkeypatch.setattr("rase.tables.spark.FEWEST_ROWS", 300)
    place = write_parts(sorted_by(TABLE, "time"), tmp_path / "table", parts=2)
    local = run(place, plan_of(), rng=SeededRandom(3))
    expected = list(local)
    done = run_on_spark(place, plan_of(), session=session, rng=SeededRandom(3), memory_bytes=1)
    assert list(done) == expected
    assert done.summary == local.summary


@pytest.mark.parametrize("seed", [3, None])
def test_an_interrupted_run_goes_on(
    seed: int | None, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was drawn before an interruption stays bit by bit, and only the rest is drawn."""
    monkeypatch.setattr("rase.tables.spark.FEWEST_ROWS", 300)
    monkeypatch.setattr("rase.tables.parts._USUAL_ROWS", 300)
    monkeypatch.setattr("rase.tables.spark._WAVE_PARTS", 2)
    monkeypatch.setattr("rase.tables.spark._MOST_WAVES", 4)
    place = write_parts(sorted_by(TABLE, "time"), tmp_path / "table", parts=3, row_group=100)
    work = tmp_path / "out.csv.unfinished"

    def asked(**more: Any) -> Any:
        rng = None if seed is None else SeededRandom(seed)
        return run_on_spark(place, plan_of(), session=session, rng=rng, work=work, **more)

    def interrupt(_what: str, share: float) -> None:
        if share > 0.4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(asked(memory_bytes=1, on_progress=interrupt))
    held = {
        result.round: result
        for path in work.glob("part*.npz")
        for result in PartResult.from_bytes(path.read_bytes()).results
    }
    assert held
    with pytest.raises(StorageUnusable, match="interrupted run of another plan"):
        list(run(place, plan_of(), work=work))
    done = asked(memory_bytes=1)
    results = list(done)
    local = run(place, plan_of(), rng=SeededRandom(3))
    expected = list(local)
    assert 0 < len(held) < len(results) == len(expected)
    assert done.resumed > 0
    assert done.summary.devices == local.summary.devices
    assert done.summary.most_reports == local.summary.most_reports
    assert done.summary.rows == local.summary.rows
    assert all(held.get(one.round, one).alone == one.alone for one in results)
    assert (results == expected) == (seed is not None)
    done.finish()
    assert not work.exists()


def test_a_table_of_the_catalogue(session: Any, tmp_path: Path) -> None:
    """A table by its name gives the bits of its files; what has no such files is refused."""
    place = write_parts(sorted_by(TABLE, "time"), tmp_path / "a folder", parts=2)
    expected = list(run(place, plan_of(), rng=SeededRandom(3)))
    session.sql(f"CREATE TABLE readings USING parquet LOCATION '{place}'")
    session.sql("CREATE TEMPORARY VIEW some AS SELECT * FROM readings LIMIT 5")
    session.sql(f"CREATE TABLE lines USING csv LOCATION '{tmp_path}/lines' AS SELECT 1")
    try:
        done = run_on_spark(
            "table:default.readings", plan_of(), session=session, rng=SeededRandom(3)
        )
        assert list(done) == expected
        for name, says in (
            ("some", "the table some is a view"),
            ("lines", "the table lines is of csv"),
            ("none", "has no table none that can be read"),
            ("a; DROP TABLE readings", "must be table: and a name"),
        ):
            with pytest.raises(DataError, match=says):
                run_on_spark(f"table:{name}", plan_of(), session=session)
    finally:
        for name in ("VIEW some", "TABLE readings", "TABLE lines"):
            session.sql(f"DROP {name}")


def test_a_delta_table(session: Any, tmp_path: Path) -> None:
    """The driver reads the table's log itself; tasks read the files that count, not removed ones.

    This Spark has no Delta of its own, so its catalogue can hold no such table.
    """
    deltalake = pytest.importorskip("deltalake")
    place, rows = tmp_path / "a table", sorted_by(TABLE, "time")
    half = rows.num_rows // 2
    deltalake.write_deltalake(place, rows.slice(0, 5))
    deltalake.write_deltalake(place, rows.slice(0, half), mode="overwrite")
    deltalake.write_deltalake(place, rows.slice(half), mode="append")
    plain = write_parts(rows, tmp_path / "plain", parts=2)
    expected = list(run(plain, plan_of(), rng=SeededRandom(3)))
    assert len(list(place.glob("*.parquet"))) == 3
    assert list(run(place, plan_of(), rng=SeededRandom(3))) == expected
    assert list(run_on_spark(place, plan_of(), session=session, rng=SeededRandom(3))) == expected


def test_real_groups_and_truth(session: Any, tmp_path: Path) -> None:
    """Real groups and true means are those of one machine."""
    names = sorted({name for name in TABLE["device"].to_pylist() if name < "meter-01000"})
    edges = tuple((names[place], names[place + 1]) for place in range(0, len(names) - 1, 2))
    small = TABLE.filter(pc.less(TABLE["device"], "meter-01000"))
    place = write_parts(sorted_by(small, "time"), tmp_path / "table", parts=2)
    plan = plan_of(
        graph=GraphSettings(edges, 5.0, len(names) // 2),
        shuffler=Robust(5.0, len(names) // 2),
        truth=True,
    )
    expected = list(run(place, plan, rng=SeededRandom(3)))
    assert list(run_on_spark(place, plan, session=session, rng=SeededRandom(3))) == expected


def test_rows_that_cannot_be_used(session: Any, tmp_path: Path) -> None:
    """What an executor refuses is said as on one machine, without Spark's pages of Java."""
    values = np.ones(len(TABLE))
    values[3000] = np.nan
    place = write_parts(TABLE.set_column(2, "value", [values]), tmp_path / "table", parts=2)
    with pytest.raises(DataError, match=r"part-01\.parquet: column 'value' must hold finite"):
        list(run_on_spark(place, plan_of(), session=session))


def test_another_python(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors with another Python than the driver are told from other mistakes."""
    place = write_parts(TABLE, tmp_path / "table", parts=1)
    monkeypatch.setattr(session.sparkContext, "pythonVer", "3.9")
    with pytest.raises(ConfigurationError, match=r"the driver runs Python 3\.\d+ and the execu"):
        list(run_on_spark(place, plan_of(), session=session))


def test_tasks_too_large_for_secrets(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that PySpark would write to a file, with the key in it, is refused."""
    place = write_parts(TABLE, tmp_path / "table", parts=1)
    monkeypatch.setattr("rase.tables.spark._MOST_CLOSURE", 100)
    with pytest.raises(ConfigurationError, match="a task must be smaller than 100 bytes"):
        list(run_on_spark(place, plan_of(), session=session))


@pytest.mark.usefixtures("nothing_open")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command gives the same file on both engines, also where owners set limits."""
    limits = tmp_path / "limits.csv"
    limits.write_text("meter-00001,0.25\n")
    more = ["--epsilons", str(limits)]
    place = write_parts(sorted_by(TABLE, "time"), tmp_path / "table", parts=2)
    asked = ["run", str(place), "--range", "0", "100", "--epsilon", "1", "--every", "5min"]
    asked += ["--seed", "3", "--window", "4", *more]
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
    monkeypatch.setattr("rase.tables.spark_tasks._WAVE", 4)
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
