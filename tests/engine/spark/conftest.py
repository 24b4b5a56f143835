"""Sessions of Spark for the tests, with settings as a cluster's operator writes them."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.spark.servers import QUICK_JAVA

from rase.engine.spark_session import check_master, opened_session
from rase.errors import ConfigurationError

_THREADS = "local[2]"
_EXECUTORS = "local-cluster[2,1,1024]"
_MASTERS: dict[str, list[str | None]] = {
    "session": [_THREADS],
    "cluster": [_EXECUTORS],
    "either_session": [_THREADS, _EXECUTORS],
    "nothing_open": [None],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests the session they name; those of one master run one after another."""
    for name, masters in _MASTERS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize("spark", masters, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip all of this folder, with the reason, where Spark cannot run.

    PySpark leaves its sockets to the collector of garbage; that is no fault of ours.
    """
    missing = _missing(config)
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
        if missing is not None:
            item.add_marker(pytest.mark.skip(reason=missing))


def _missing(config: pytest.Config) -> str | None:
    if config.getoption("--without-spark"):
        return "Spark was not asked for (Java 17 and a large download): make test SPARK=1"
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed here: make spark installs it"
    try:
        check_master(_THREADS)
    except ConfigurationError as error:
        return str(error)
    return None


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
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.executor.extraJavaOptions": QUICK_JAVA,
    }
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (folder / "conf" / "spark-defaults.conf").write_text("".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder / "conf"))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        yield folder


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, spark_folder: Path) -> Iterator[Any]:
    """The one session that is open: starting Java and executors takes longer than most tests."""
    if request.param is None:
        yield None
        return
    with opened_session(request.param) as session:
        yield session


@pytest.fixture
def session(spark: Any) -> Any:
    """A session with two threads."""
    return spark


@pytest.fixture
def cluster(spark: Any) -> Any:
    """A session with two executors, each a process of its own."""
    return spark


@pytest.fixture
def either_session(spark: Any) -> Any:
    """A session with two threads, then one with two executors."""
    return spark


@pytest.fixture
def nothing_open(spark: None) -> None:
    """No session: for tests that open and end one of their own, a process of Java with it."""
    assert spark is None
