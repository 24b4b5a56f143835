"""Shared settings of the test suite."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

    from rase.kernels.backend import Compiled
    from rase.storage.address import DatabaseAddress

# The benchmarks are no installed package; tests of them, and of formulas there, need the root.
sys.path.insert(0, str(Path(__file__).parents[1]))

from tests import pool, times, uncovered
from tests.programs import NEEDED_BY, absence, program

# Small matrices: threads of their own would only get into each other's way.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

# Shells start what goes to the background deaf to Ctrl-C, and so would be all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No example depends on chance, and no test on how fast the machine draws examples.
settings.register_profile(
    "default",
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
_profile = os.environ.get("HYPOTHESIS_PROFILE", "default")
settings.load_profile(_profile)
if _profile == "default":
    # Else constants of all modules that earlier tests have loaded would be among the examples, and
    # which these are depends on how the files were shared out to the processes.
    _no_constants = providers._local_constants
    providers._get_local_constants = lambda: _no_constants


def pytest_configure(config: pytest.Config) -> None:
    """Measure where the time goes, and pause coverage where it is dear."""
    config.pluginmanager.register(times, "times")
    config.pluginmanager.register(uncovered, "uncovered")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Let the servers' tests run on either engine, and all tests in several processes."""
    pluginmanager.register(pool, "pool")  # with an option of its own
    parser.addoption(
        "--store",
        choices=["both", "sqlite", "postgres"],
        default="both",
        help="where the servers of the tests keep their state",
    )
    parser.addoption(
        "--without-spark",
        action="store_true",
        help="skip the tests on Spark, even where it could run",
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
    request: pytest.FixtureRequest, quick_folder: Path
) -> Callable[[str], "DatabaseAddress"]:
    """Return places for databases, each under a name of its own, in one engine or the other."""
    if request.param == "sqlite":
        return lambda name: quick_folder / name
    server: PostgresServer = request.getfixturevalue("postgres")
    return cache(lambda name: server.new_database())


@pytest.fixture
def native() -> "Compiled":
    """Return the compiled kernels; where none were built the test has nothing to say."""
    from rase.kernels import backend

    if backend.compiled is None:
        pytest.skip("the kernels are not compiled: apt-get install gcc python3-dev, then make test")
    return backend.compiled


@pytest.fixture(params=["compiled", "numpy"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test once on the compiled kernels and once on their NumPy twins."""
    from rase.kernels import backend

    chosen = request.getfixturevalue("native") if request.param == "compiled" else None
    monkeypatch.setattr(backend, "native", chosen)
    return str(request.param)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with genuine data sets, named by RASE_DATA."""
    folder = os.environ.get("RASE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("RASE_DATA names no folder with data sets: see docs/guides/data.md")
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
    program("initdb")
    # Imported here: most tests need neither psycopg nor a server.
    from benchmarks.loading.postgres import running_postgres

    with running_postgres(is_durable=is_durable) as server:
        yield server


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests whose fixtures start a program as those that name it themselves."""
    for item in items:
        fixtures = list(getattr(item, "fixturenames", ()))
        chosen = getattr(item, "callspec", None)
        if chosen is not None:
            # Engines are a parameter that names the fixture.
            fixtures += [one for one in chosen.params.values() if isinstance(one, str)]
        names = dict.fromkeys(name for one in fixtures for name in NEEDED_BY.get(one, ()))
        if names:
            item.add_marker(pytest.mark.needs(*names))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test before anything of it is made where a program it needs is absent."""
    names = [name for marker in item.iter_markers("needs") for name in marker.args]
    if reasons := [reason for name in names if (reason := absence(name))]:
        pytest.skip("; ".join(reasons))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Say what was skipped and how to get it, or leave that to the end of `make test`."""
    from scripts import skipped

    reasons: Counter[str] = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    )
    file = os.environ.get("RASE_SKIPPED")
    if file and exitstatus == 0:
        skipped.add(Path(file), reasons)
        return
    for line in skipped.summary(reasons):
        terminalreporter.write_line(line)


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
