"""Servers that are really killed, again and again, under load: every report counts exactly once."""

import threading
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
from tests.live.counted import check_estimates, check_traces, is_settled
from tests.live.installed import K_MIN, Fleet, Installed, Server
from tests.patience import until

from rase.kernels.words import SeededRandom

DEVICES = 8


def _is_working(server: Server) -> bool:
    return server.is_working


def kill_at_random(installed: Installed, kills: int) -> None:
    """Kill one server after the other, each while it works, and start it again."""
    rng, pause = SeededRandom(2026), threading.Event()
    # In turn: while one starts again, the next is killed in the middle of its work.
    for _, server in zip(range(kills), cycle(installed.servers.values()), strict=False):
        until(partial(_is_working, server), logs=installed.folder)
        pause.wait(int(rng.words(1)[0]) % 300 / 1000)
        server.kill()
        server.start()


@pytest.mark.parametrize("kills", [12, pytest.param(150, marks=pytest.mark.slow)])
def test_every_acknowledged_report_counts_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kills: int
) -> None:
    """Intake, closer and fusion centre die at random moments while a fleet sends.

    Afterwards each round's estimate is that of what was acknowledged, no round has two batches,
    and the shuffler's files hold no byte of any report.
    """
    installed = Installed(tmp_path, capsys)
    try:
        installed.publish()
        fleet = Fleet(installed, DEVICES)
        try:
            # Without tokens nothing is sent that a death could lose.
            until(lambda: len(fleet.acknowledged()) >= K_MIN, logs=tmp_path)
            kill_at_random(installed, kills)
        finally:
            fleet.stop()
        until(lambda: is_settled(installed, fleet), logs=tmp_path)
        assert installed.end() == [0, 0, 0, 0]
    finally:
        installed.kill()
    check_estimates(installed, fleet)
    check_traces(installed, fleet)
