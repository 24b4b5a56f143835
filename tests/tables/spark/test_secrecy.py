"""The run's key: in tasks alone, in no file, log or page, and gone afterwards."""

import base64
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S
from tests.tables.spark.keys import KeysElsewhere, keys_alive
from tests.tables.spark.servers import Java, Server, executor_logs
from tests.tables.tables import BR, skewed, sorted_by, write_parts

from rase import RunPlan, SeededRandom
from rase.kernels.keyed import RunKey
from rase.tables.run import run
from rase.tables.spark import run_on_spark

KEY = bytes(range(200, 232))


PLAN = RunPlan(randomizer=BR, every="5min")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A small table of several parts."""
    rows = sorted_by(skewed(), "time")
    return write_parts(rows, tmp_path / "table", parts=2, row_group=200)


def test_the_key_is_nowhere(
    cluster: Any,
    table: Path,
    spark_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys_elsewhere: KeysElsewhere,
) -> None:
    """Neither shuffle files, event log, logs of executors nor Spark's pages hold the key."""
    monkeypatch.setattr("rase.tables.spark.RunKey.draw_key", lambda _rng: RunKey(KEY))
    before = set(_shuffles(spark_folder))
    assert len(list(run_on_spark(table, PLAN, session=cluster))) == 40
    # Files of this run's shuffle, and not of another, are still there.
    assert set(_shuffles(spark_folder)) - before
    # Pages and the event log are written from events that may still be under way.
    cluster.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(1000 * PATIENCE_S)
    pages = "".join(_pages(cluster.sparkContext.uiWebUrl))
    assert "work(part" in pages
    assert "spark.io.encryption.enabled" in pages
    assert not [needle for needle in _needles() if needle in pages.encode()]
    kept = [*_files(spark_folder), *_files(executor_logs(cluster))]
    assert [path for path in kept if path.name == "stderr"]
    events = _files(spark_folder / "events")
    assert any(b"work(part" in path.read_bytes() for path in events)
    assert not _holding(kept)
    _check_no_key_object(keys_elsewhere)


def test_java_ends_with_the_session_that_started_it(
    ended_java: Java, keys_elsewhere: KeysElsewhere
) -> None:
    """What saw keys is gone when the session is closed, and left none of them in a file."""
    assert ended_java.process.poll() is not None
    assert not _holding(_files(ended_java.folder))
    _check_no_key_object(keys_elsewhere)


def test_the_search_finds_keys(tmp_path: Path) -> None:
    """A key that is written in any of the usual ways is found."""
    for number, needle in enumerate((KEY, KEY.hex().encode(), base64.b64encode(b"12345" + KEY))):
        path = tmp_path / f"{number}"
        path.write_bytes(b"some " + needle + b" more")
        assert _holding([path]) == [path]


def test_spark_connect(server: Server, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over Spark Connect the bits are those of one machine, and the server writes no key."""
    local = run(table, PLAN, rng=SeededRandom(3))
    done = run_on_spark(table, PLAN, master=server.address, rng=SeededRandom(3))
    assert list(done) == list(local)
    assert done.summary == local.summary
    monkeypatch.setattr("rase.tables.spark.RunKey.draw_key", lambda _rng: RunKey(KEY))
    before = set(_shuffles(server.folder))
    assert len(list(run_on_spark(table, PLAN, master=server.address))) == 40
    shuffles = set(_shuffles(server.folder)) - before
    # Neither encrypted nor compressed: arrays of results are seen in them, so a key would be, too.
    assert any(b"\x93NUMPY" in path.read_bytes() for path in shuffles)
    log = server.folder.parent / "spark.log"
    assert b"TaskSetManager: Finished task" in log.read_bytes()
    found = _files(server.folder)
    assert any(b"work(part" in path.read_bytes() for path in found)
    assert not _holding([*found, log])


def _check_no_key_object(elsewhere: KeysElsewhere) -> None:
    assert {id(one) for one in keys_alive()} <= elsewhere


def _pages(root: str) -> Iterator[str]:
    """Yield what Spark's pages tell of the application."""
    with urllib.request.urlopen(f"{root}/api/v1/applications") as answer:  # noqa: S310 - our own
        number = answer.read().decode().split('"id" : "')[1].split('"')[0]
    for page in (
        f"api/v1/applications/{number}/environment",
        f"api/v1/applications/{number}/jobs",
        f"api/v1/applications/{number}/stages",
        f"api/v1/applications/{number}/sql?details=true&planDescription=true",
        "environment/",
        "SQL/",
        "SQL/execution/?id=0",
        "jobs/",
        "stages/",
    ):
        with urllib.request.urlopen(f"{root}/{page}") as answer:  # noqa: S310 - our own
            yield answer.read().decode()


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _shuffles(folder: Path) -> list[Path]:
    found = _files(folder / "local")
    return [one for one in found if one.name.startswith("shuffle") and one.suffix == ".data"]


def _holding(paths: list[Path]) -> list[Path]:
    return [path for path in paths if any(needle in path.read_bytes() for needle in _needles())]


def _needles() -> list[bytes]:
    """Return the key as it could be written: raw, in hexadecimal digits, in base 64."""
    inside = [base64.b64encode(b"\0" * shift + KEY)[4:40] for shift in range(3)]
    return [KEY, KEY.hex().encode(), KEY.hex().upper().encode(), *inside]
