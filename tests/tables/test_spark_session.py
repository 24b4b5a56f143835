"""Reaching a cluster: whatever is missing is said in one line, with the way out."""

import builtins
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.loading.ports import held_port
from tests.tables.tables import BR, skewed, write_parts

from rase import RunPlan
from rase.errors import ConfigurationError, DataError, RaseError, StorageUnusable
from rase.tables.feedback import RangeFeedback
from rase.tables.files import find_files
from rase.tables.spark import run_on_spark
from rase.tables.spark_session import check_master, opened_session, refusal


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that says which it is, and nothing else."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return program


def test_addresses_that_are_none() -> None:
    """What cannot be an address is refused, and all kinds of addresses are named."""
    for master in ("", "here", "local[", "http://host", "spark://"):
        with pytest.raises(ConfigurationError, match=r"must be local\[N\], .* or sc://HOST, got"):
            check_master(master)


@pytest.mark.usefixtures("java")
def test_addresses_on_this_machine() -> None:
    """Here nobody needs to answer, if there is a Java."""
    for master in ("local", "local[2]", "local[*]", "local-cluster[2,1,1024]"):
        check_master(master)


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("scheme", ["spark", "k8s", "sc", "k8s://https"])
def test_nobody_answers(scheme: str) -> None:
    """An address at which nobody answers is refused at once, not after minutes."""
    port, silent = held_port(), held_port()
    with socket.create_server(("127.0.0.1", port)):
        check_master(f"{scheme}://127.0.0.1:{port}")
        # One of several masters is enough.
        check_master(f"{scheme}://127.0.0.1:{silent},127.0.0.1:{port}")
    with pytest.raises(ConfigurationError, match=f"nobody answers at {scheme}://127.0.0.1:{port}"):
        check_master(f"{scheme}://127.0.0.1:{port}")


def test_tokens_are_not_shown() -> None:
    """The token in an address of Spark Connect is in no message."""
    place = f"sc://127.0.0.1:{held_port()}/"
    with pytest.raises(ConfigurationError, match=f"nobody answers at {place}; check"):
        check_master(f"{place};token=abc")


def test_no_java(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java, an old one, one that does not start: each is said; Spark Connect needs none."""
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    with pytest.raises(ConfigurationError, match=r"needs Java 17 or newer, got 8 at .*bin/java"):
        check_master("local[2]")
    java.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ConfigurationError, match="got one that does not start"):
        check_master("local[2]")
    java.unlink()
    with pytest.raises(ConfigurationError, match=r"none in JAVA_HOME=.*openjdk-17-jre-headless"):
        check_master("local[2]")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(java.parent))
    with pytest.raises(ConfigurationError, match="there is none on PATH; install one"):
        check_master("yarn")
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"sc://127.0.0.1:{server.getsockname()[1]}/;token=abc")


@pytest.mark.usefixtures("java")
def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyspark, the extra that brings it is named."""
    real = builtins.__import__

    def without(name: str, *others: Any) -> Any:
        if name.startswith("pyspark"):
            raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", without)
    with (
        pytest.raises(ConfigurationError, match=r'needs pyspark; pip install "rase-iot\[spark\]"'),
        opened_session("local[2]"),
    ):
        pass


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12",
            r"the driver runs Python 3\.\d+ and the executors another; .* with PYSPARK_PYTHON",
        ),
        (
            "ModuleNotFoundError: No module named 'rase'",
            r"have no module rase; .* pip install \"rase-iot\[spark\]==",
        ),
        (
            "RuntimeError: executors must run the code of the driver, got other code of rase.",
            "have other code of rase than the driver; install the same",
        ),
        ('Cannot run program "python3": error=2', "cannot start their Python"),
        ("ExecutorLostFailure (executor 0 exited", "for want of memory; give a smaller --memory"),
        ("java.lang.OutOfMemoryError: Java heap space", "for want of memory"),
        ("Job 0 cancelled because SparkContext was shut down", "the cluster at yarn ended the job"),
    ],
)
def test_what_spark_says(says: str, words: str) -> None:
    """What Spark says in a page of Java is said in one line, with the way out."""
    error = refusal(says, "yarn")
    assert isinstance(error, ConfigurationError)
    with pytest.raises(ConfigurationError, match=words):
        raise error


def test_what_nobody_foresaw() -> None:
    """An error that is not known is named by its kind; what it says may quote a reading."""
    says = "An exception was thrown from the Python worker.\nValueError: meter-7 read 12.5 W"
    assert str(refusal(says, "yarn")) == (
        "Spark stopped the job with ValueError; the logs of driver and executors say more. Nothing "
        "was released."
    )
    assert "an error" in str(refusal("no such thing", "yarn"))
    assert type(refusal("", "yarn")) is RaseError


def test_stores_without_a_connector() -> None:
    """A store that pyarrow does not know is refused before anything is sent, with those it does."""
    for place in ("wasb://store/x", "s3a://bucket/x", "dbfs:/x"):
        with pytest.raises(DataError, match=r"that pyarrow does not know; use s3://, gs://"):
            find_files(place)


def test_runs_that_no_cluster_can_do(tmp_path: Path) -> None:
    """Text is refused, and so is going on with an interrupted run of which nothing was kept."""
    (tmp_path / "table.csv").write_text("time,device,value\n1,a,2\n")
    plan = RunPlan(randomizer=BR)
    with pytest.raises(DataError, match=r"is not Parquet with .* cannot be shared among executors"):
        run_on_spark(tmp_path / "table.csv", plan, master="local[2]")
    place = write_parts(skewed(rounds=2, crowd=1), tmp_path / "table", parts=1)
    (tmp_path / "work").mkdir()
    feedback = replace(plan, feedback=lambda: RangeFeedback(1.0, BR.domain))
    with pytest.raises(StorageUnusable, match="holds an interrupted run"):
        run_on_spark(place, feedback, master="local[2]", work=tmp_path / "work")


def test_arguments(tmp_path: Path) -> None:
    """Wrong arguments are refused before a file is read."""
    place = write_parts(skewed(rounds=2, crowd=1), tmp_path / "table", parts=1)
    plan = RunPlan(randomizer=BR)
    with pytest.raises(ValueError, match="a master or a session, and not both"):
        run_on_spark(place, plan)
    with pytest.raises(ValueError, match="a master or a session, and not both"):
        run_on_spark(place, plan, master="local", session=object())
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        run_on_spark(place, plan, master="local", workers=0)
    with pytest.raises(ValueError, match="memory_bytes must be at least 1, got 0"):
        run_on_spark(place, plan, master="local", memory_bytes=0)
    assert run_on_spark(place, plan, master="local").summary.rows == 0
