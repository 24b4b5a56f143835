"""Sessions of Spark for the tests, with settings as a cluster's operator writes them."""

import importlib.util
import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.tables.spark.keys import KeysElsewhere, keys_alive
from tests.tables.spark.servers import Java, connect_server, executor_logs, write_settings

from rase.errors import ConfigurationError
from rase.tables.spark_session import check_master, opened_session

_THREADS = "local[2]"
_EXECUTORS = "local-cluster[2,1,1024]"
_SERVER = "server"
_NO_SESSION = "no session"
_NO_JAVA = "no java"
_MASTERS = {
    "session": [_THREADS],
    "cluster": [_EXECUTORS],
    "either_session": [_THREADS, _EXECUTORS],
    "nothing_open": [_NO_SESSION],
    "server": [_SERVER],
    "ended_java": [_NO_JAVA],
}
_ORDER = [_THREADS, _EXECUTORS, _NO_SESSION, _SERVER, _NO_JAVA]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests the session they name; those of one master run one after another."""
    for name, masters in _MASTERS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize("spark", masters, indirect=True, scope="session")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Run all of this folder by master; skip it where Spark cannot run.

    The order comes last: each session is opened once, executors are killed when nobody needs them
    any more, and the last tests end the Java that all share. In a pool one process runs them all.
    """
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    missing = _missing(config) if here else None
    for item in here:
        # PySpark leaves its sockets to the collector of garbage; that is no fault of ours.
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
        if missing is not None:
            item.add_marker(pytest.mark.skip(reason=missing))
    yield
    by_master = iter(sorted((item for item in items if item in here), key=_place))
    items[:] = [next(by_master) if item in here else item for item in items]


def _place(item: pytest.Item) -> tuple[int, bool]:
    """Return when a test has its turn; those that ask for no state of Spark come last."""
    chosen = getattr(item, "callspec", None)
    if chosen is None or "spark" not in chosen.params:
        return len(_ORDER), False
    return _ORDER.index(chosen.params["spark"]), item.path.name == "test_killed.py"


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


@pytest.fixture(scope="session", autouse=True)
def keys_elsewhere() -> KeysElsewhere:
    """The run keys of tests' modules that this process has imported, before any run on Spark."""
    return frozenset(map(id, keys_alive()))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into parts as a table a thousand times as large would be."""
    monkeypatch.setattr("rase.tables.parts._USUAL_ROWS", 500)


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder where Spark keeps all its files: settings, logs, event logs and shuffles."""
    folder = tmp_path_factory.mktemp("spark")
    write_settings(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder / "conf"))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers find quick_daemon.py here.
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        yield folder


@pytest.fixture(scope="session")
def java(spark_folder: Path) -> Iterator[Java]:
    """The process of Java that sessions share: it takes seconds to start and warm up."""
    with ExitStack() as started:
        yield Java(started, spark_folder)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, java: Java) -> Iterator[Any]:
    """The one session that is open, if any."""
    first = java.started(_THREADS)
    if request.param == _THREADS:
        yield first
        first.stop()
        return
    first.stop()
    if request.param == _NO_JAVA:
        java.end()
        yield None
    elif request.param == _NO_SESSION:
        yield None
    elif request.param == _SERVER:
        with connect_server(java) as server:
            yield server
    else:
        # What an operator may have switched on, and where a key must not get.
        told = {"spark.eventLog.enabled": "true", "spark.ui.enabled": "true"}
        with java.with_settings(told), opened_session(request.param) as session:
            # Executors of a local cluster log in Spark's own folder, under the application's name.
            logs = executor_logs(session)
            yield session
        shutil.rmtree(logs, ignore_errors=True)


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
    """No session: for tests that open and end one of their own."""
    assert spark is None


@pytest.fixture
def server(spark: Any) -> Any:
    """A server of Spark Connect."""
    return spark


@pytest.fixture
def ended_java(spark: None, java: Java) -> Java:
    """The process of Java after the session that started it was closed."""
    return java
