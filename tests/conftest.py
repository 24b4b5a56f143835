"""Shared settings of the test suite."""

import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

    from rase.storage.address import DatabaseAddress

# The benchmarks are no installed package; tests of them, and of formulas there, need the root.
sys.path.insert(0, str(Path(__file__).parents[1]))

# Shells start what goes to the background deaf to Ctrl-C, and so would be all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("default", max_examples=60, deadline=None, derandomize=True)
settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the servers' tests run on either engine."""
    parser.addoption(
        "--store",
        choices=["both", "sqlite", "postgres"],
        default="both",
        help="where the servers of the tests keep their state",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that asks for a database on each engine; those about files on SQLite alone.

    What never gets as far as the database, or is not about it, waits for the long run to meet
    PostgreSQL as well.
    """
    if "new_address" not in metafunc.fixturenames:
        return
    asked = metafunc.config.getoption("--store")
    engines: list[Any] = ["sqlite", "postgres"] if asked == "both" else [asked]
    if asked == "both" and metafunc.definition.get_closest_marker("any_store"):
        engines[1] = pytest.param("postgres", marks=pytest.mark.slow)
    if metafunc.definition.get_closest_marker("sqlite"):
        engines = ["sqlite"]
    metafunc.parametrize("new_address", engines, indirect=True)


@pytest.fixture
def new_address(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[str], "DatabaseAddress"]:
    """Return places for databases, each under a name of its own, in one engine or the other."""
    if request.param == "sqlite":
        return lambda name: tmp_path / name
    server: PostgresServer = request.getfixturevalue("postgres")
    return cache(lambda name: server.new_database())


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with genuine data sets, named by RASE_DATA."""
    folder = os.environ.get("RASE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("RASE_DATA does not name a folder with the data sets")
    return Path(folder)


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a simulated disk is synced often."""
    shared = Path("/dev/shm")  # noqa: S108 - throw-away folders of random names
    if not shared.is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(dir=shared) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def postgres() -> Iterator["PostgresServer"]:
    """A PostgreSQL server of our own, fast and not durable."""
    with _started(is_durable=False) as server:
        yield server


@pytest.fixture
def durable_postgres() -> Iterator["PostgresServer"]:
    """A PostgreSQL server on the disk, with every commit waiting for it; may be killed."""
    with _started(is_durable=True) as server:
        yield server


@contextmanager
def _started(*, is_durable: bool) -> Iterator["PostgresServer"]:
    # Imported here: most tests need neither psycopg nor a server.
    from benchmarks.loading.postgres import PostgresMissing, running_postgres

    with ExitStack() as stack:
        try:
            server = stack.enter_context(running_postgres(is_durable=is_durable))
        except PostgresMissing as error:
            pytest.skip(f"{error}")
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where CI is set: there, everything must run."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped in CI: {call.excinfo}"
    return report
