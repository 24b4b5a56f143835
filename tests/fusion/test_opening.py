"""Envelopes are opened in one process or in several, with the same result."""

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.fusion.conftest import CAMPAIGN, KEYS, ROUND, Centre, envelope, parcel, reports
from tests.patience import until
from tests.registering import modulus

from rase.errors import UnknownKey
from rase.fusion import opening
from rase.fusion.mechanism import drawable
from rase.fusion.opening import BatchOpener
from rase.service import workers
from rase.wire.messages import Batch
from rase.wire.signed import campaign_hash


def batch(inner: list[bytes]) -> Batch:
    """Return a batch of the round."""
    return Batch(campaign_hash(CAMPAIGN), ROUND, 7, tuple(inner))


def test_a_pool_opens_what_one_process_opens() -> None:
    """Order and refusals are the same however the work is shared."""
    inner = reports(range(60))
    inner[7] = bytes(368)
    alone = BatchOpener(list(KEYS.values()), processes=0).open(
        batch(inner), class_count=1, modulus=modulus()
    )
    with BatchOpener(list(KEYS.values()), processes=2, many=10) as pool:
        shared = pool.open(batch(inner), class_count=1, modulus=modulus())
        again = pool.open(batch(inner), class_count=1, modulus=modulus())
    for found in (shared, again):
        assert found.tags == alone.tags
        assert (found.places == alone.places).all()
        assert (found.is_report == alone.is_report).all()
    assert alone.refused_count == 1
    pool.close()


@pytest.mark.uncovered
def test_a_killed_worker_loses_no_batch() -> None:
    """The batch is opened all the same, and the next one has new workers."""
    inner = reports(range(60))
    with BatchOpener([KEYS[7]], processes=2, many=10) as pool:
        pool.open(batch(inner), class_count=1, modulus=modulus())
        for number in list(pool._workers()._processes):
            os.kill(number, signal.SIGKILL)
        for _ in range(2):
            found = pool.open(batch(inner), class_count=1, modulus=modulus())
            assert sorted(found.places.tolist()) == list(range(60))


@pytest.mark.uncovered
def test_workers_end_with_their_server() -> None:
    """A server that is killed leaves no process behind that holds its keys."""
    code = (
        "from tests.fusion.conftest import *\n"
        "from tests.registering import modulus\n"
        "if __name__ == '__main__':\n"
        "    pool = BatchOpener([KEYS[7]], processes=2, many=1)\n"
        "    inner = tuple(reports([1]))\n"
        "    batch = Batch(campaign_hash(CAMPAIGN), ROUND, 7, inner)\n"
        "    pool.open(batch, class_count=1, modulus=modulus())\n"
        "    print(*pool._workers()._processes, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", "import sys\n" + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as server:
        assert server.stdout is not None
        workers = [Path(f"/proc/{number}/stat") for number in server.stdout.readline().split()]
        assert workers
        server.kill()
        # The workers hold the other end of this pipe: it ends when the last of them has.
        assert server.stdout.read() == ""
    # A process closes its files a moment before it is gone.
    until(lambda: all(map(has_ended, workers)))


def has_ended(stat: Path) -> bool:
    """Return whether a process, named by its file in /proc, is gone or waits to be buried."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.uncovered
def test_workers_hold_the_keys_they_were_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs in a worker opens with its own keys and no others."""
    monkeypatch.setattr(workers, "_keys", ())
    workers._begin((KEYS[7],))
    work = partial(
        opening._open_piece,
        campaign_hash=campaign_hash(CAMPAIGN),
        class_count=1,
        key_id=7,
        round=ROUND,
        size=368,
        modulus=modulus(),
    )
    rows, _ = workers._in_worker(work, envelope(42))
    row = np.frombuffer(rows, opening._ROW)
    assert row["place"].tolist() == [42]


@pytest.mark.uncovered
def test_a_key_that_is_not_held_is_named() -> None:
    """The number is told, nothing else."""
    with pytest.raises(UnknownKey, match="key 7"):
        BatchOpener([KEYS[9]]).open(batch(reports([1])), class_count=1, modulus=modulus())


def test_keys_and_reports_are_not_shown() -> None:
    """No repr holds a place or a secret."""
    found = BatchOpener([KEYS[7]], processes=0).open(
        batch(reports([1234])), class_count=1, modulus=modulus()
    )
    # Its address is a number of its own.
    assert "1234" not in re.sub(r" at 0x\w+", "", repr(found))


@pytest.mark.uncovered
@pytest.mark.any_store
@pytest.mark.parametrize("count", [2500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_large_batches_are_opened_rightly(centre: Centre, count: int) -> None:
    """A large batch goes through the pool, and its mean is that of its places."""
    rng = np.random.default_rng(2026)
    places = rng.integers(0, 4097, count).tolist()
    sent = parcel(reports(places))
    with BatchOpener(list(KEYS.values()), processes=2) as opener:
        centre.opener = opener
        centre.__post_init__()
        assert sent.deliver(centre.intake).is_new
    centre.rounds.tick()
    answers = centre.questions.between(CAMPAIGN, ROUND, ROUND, method="all")
    assert answers[0].n == count
    assert answers[1].value == pytest.approx(np.mean(places) * CAMPAIGN.domain.step)


def test_made_up_places_are_found_among_many() -> None:
    """Half of all places may be made up; each is found."""
    places = np.array([5, -1, 4096, 4097, 7, 2**62, 0, -(2**62)])
    expected = [True, False, True, False, True, False, True, False]
    assert drawable(CAMPAIGN, places, np.zeros(8, np.uint8)).tolist() == expected
    assert drawable(CAMPAIGN, places[:0], np.zeros(0, np.uint8)).tolist() == []
