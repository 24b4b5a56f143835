"""Sessions of Spark for the tests, with settings as a cluster's operator writes them."""

import importlib.util
import shutil
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.engine.spark.servers import QUICK_JAVA, executor_logs

from rase.engine.spark_session import _gateway_ended, check_master, opened_session
from rase.errors import ConfigurationError

_THREADS = "local[2]"
_EXECUTORS = "local-cluster[2,1,1024]"
_NO_SESSION = "no session"
_NO_JAVA = "no java"
_MASTERS = {
    "session": [_THREADS],
    "cluster": [_EXECUTORS],
    "either_session": [_THREADS, _EXECUTORS],
    "nothing_open": [_NO_SESSION],
    "no_java": [_NO_JAVA],
}
_ORDER = [_THREADS, _EXECUTORS, _NO_SESSION, _NO_JAVA]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests the session they name; those of one master run one after another."""
    for name, masters in _MASTERS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize("spark", masters, indirect=True, scope="session")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Run all of this folder in one worker, by master; skip it where Spark cannot run.

    The group is marked before xdist reads it; its release 3.8 cannot with pytest 9.2, where ids of
    tests have another home, so that its scheduler must go by the folder. The order comes last: each
    session is opened once, and the last tests end the Java that all share.
    """
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    missing = _missing(config) if here else None
    for item in here:
        item.add_marker(pytest.mark.xdist_group("spark"))
        # PySpark leaves its sockets to the collector of garbage; that is no fault of ours.
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
        if missing is not None:
            item.add_marker(pytest.mark.skip(reason=missing))
    yield
    by_master = iter(sorted((item for item in items if item in here), key=_place))
    items[:] = [next(by_master) if item in here else item for item in items]


def _place(item: pytest.Item) -> int:
    """Return when a test has its turn; those that ask for no state of Spark come last."""
    chosen = getattr(item, "callspec", None)
    if chosen is None or "spark" not in chosen.params:
        return len(_ORDER)
    return _ORDER.index(chosen.params["spark"])


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
        # Any free one: other workers may have pages of their own.
        "spark.ui.port": "0",
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
def java(spark_folder: Path) -> Iterator[ExitStack]:
    """What ends the process of Java that sessions share: it takes seconds to start and warm up."""
    with ExitStack() as started:
        yield started


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, java: ExitStack) -> Iterator[Any]:
    """The one session that is open, if any."""
    from pyspark import SparkContext

    if request.param == _NO_JAVA:
        java.close()
        yield None
        return
    if SparkContext._gateway is None:
        java.enter_context(_gateway_ended())
        SparkContext._ensure_initialized()
    if request.param == _NO_SESSION:
        yield None
        return
    with opened_session(request.param) as session:
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
def no_java(spark: None) -> None:
    """No process of Java either: for tests that must see theirs end."""
    from pyspark import SparkContext

    assert SparkContext._gateway is None
