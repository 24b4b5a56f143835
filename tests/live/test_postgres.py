"""Several processes of each server on one PostgreSQL, killed and cut off: each report once."""

import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.live.counted import check_estimates, is_settled
from tests.live.installed import Fleet, Installed
from tests.live.test_kills import kill_at_random
from tests.patience import until

from rase.wire.keys import Role

if TYPE_CHECKING:
    from benchmarks.loading.postgres import PostgresServer

DEVICES = 8
MANY = {"intake": 3, "closer": 2, "fusion": 2, "registrar": 2}


def check_closed_once(installed: Installed, fleet: Fleet) -> None:
    """Compare estimates with what was acknowledged; rounds are numbered without gap or double."""
    check_estimates(installed, fleet)
    rows = installed.rows(Role.FUSION, "SELECT sequence FROM rounds WHERE state <> 'open'")
    assert sorted(row[0] for row in rows) == list(range(1, len(rows) + 1))
    assert installed.rows(Role.SHUFFLER, "SELECT count(*) FROM report") == [(0,)]


def has_sent(fleet: Fleet, count: int) -> bool:
    """Return whether more than so many of a fleet's reports were acknowledged."""
    return len(fleet.acknowledged()) > count


@pytest.mark.parametrize("kills", [7, pytest.param(150, marks=pytest.mark.slow)])
def test_many_processes_are_killed_and_each_report_counts_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], postgres: "PostgresServer", kills: int
) -> None:
    """Three intakes, two closers, two fusion centres die in turn while a fleet sends.

    Afterwards each round's estimate is that of what was acknowledged, each round has one batch and
    became final once.
    """
    installed = Installed(tmp_path, capsys, postgres=postgres.new_database(), counts=MANY)
    try:
        installed.publish()
        fleet = Fleet(installed, DEVICES)
        try:
            until(partial(has_sent, fleet, DEVICES), logs=tmp_path)
            kill_at_random(installed, kills)
            seen = len(fleet.acknowledged()) + DEVICES
            until(partial(has_sent, fleet, seen), logs=tmp_path)
        finally:
            fleet.stop()
        until(lambda: is_settled(installed, fleet), logs=tmp_path)
        assert installed.end() == [0] * sum(MANY.values())
    finally:
        installed.kill()
    check_closed_once(installed, fleet)


@pytest.mark.parametrize("restarts", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_database_that_crashes_loses_nothing_acknowledged(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    durable_postgres: "PostgresServer",
    restarts: int,
) -> None:
    """The database's server is ended without warning and started again in the middle of a load.

    No process of ours ends for it, and each round's estimate is that of what was acknowledged.
    """
    pause = threading.Event()
    installed = Installed(tmp_path, capsys, postgres=durable_postgres.new_database())
    try:
        installed.publish()
        fleet = Fleet(installed, DEVICES)
        try:
            for number in range(restarts):
                seen = len(fleet.acknowledged()) + DEVICES
                until(partial(has_sent, fleet, seen), logs=tmp_path)
                durable_postgres.stop("fast" if number % 2 else "immediate")
                pause.wait(0.2)
                durable_postgres.start()
        finally:
            fleet.stop()
        until(lambda: is_settled(installed, fleet), logs=tmp_path)
        assert installed.end() == [0, 0, 0, 0]
    finally:
        installed.kill()
    check_closed_once(installed, fleet)
