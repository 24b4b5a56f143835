"""Sessions of Spark for the tests, with settings as a cluster's operator writes them."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rase.engine.spark_session import opened_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip all of this folder, with the reason, where Spark cannot run.

    PySpark leaves its sockets to the collector of garbage; that is no fault of ours.
    """
    missing = None
    if importlib.util.find_spec("pyspark") is None:
        missing = "pyspark is not installed here: make spark runs these tests"
    elif shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        missing = "there is no Java here: apt install openjdk-17-jre-headless"
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
        if missing is not None:
            item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into pieces and buckets as a table a thousand times as large would be."""
    monkeypatch.setattr("rase.engine.pieces._PIECE_ROWS", 2000)
    monkeypatch.setattr("rase.engine.pieces.BUCKET_ROWS", 2000)


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder where Spark keeps all its files: event logs and shuffles."""
    folder = tmp_path_factory.mktemp("spark")
    for name in ("events", "local", "conf"):
        (folder / name).mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.local.dir": f"{folder}/local",
        "spark.ui.enabled": "true",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (folder / "conf" / "spark-defaults.conf").write_text("".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder / "conf"))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield folder


@pytest.fixture(scope="module", params=["local[2]", "local-cluster[2,1,1024]"])
def either_session(request: pytest.FixtureRequest, spark_folder: Path) -> Iterator[Any]:
    """A session with two threads, then one with two executors of their own."""
    with opened_session(request.param) as session:
        yield session


@pytest.fixture(scope="module")
def session(spark_folder: Path) -> Iterator[Any]:
    """A session with two threads."""
    with opened_session("local[2]") as session:
        yield session


@pytest.fixture(scope="module")
def cluster(spark_folder: Path) -> Iterator[Any]:
    """A session with two executors, each a process of its own."""
    with opened_session("local-cluster[2,1,1024]") as session:
        yield session
