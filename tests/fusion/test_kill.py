"""A fusion centre that is really killed, again and again, tells the same as one that is not."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.fusion.conftest import (
    CAMPAIGN,
    FUSION_SIGNER,
    KEYS,
    SHUFFLER_SIGNER,
    Centre,
    Parcel,
    keyset,
    parcel,
    reports,
)
from tests.patience import PATIENCE_S
from tests.registering import REGISTRAR_KEY, Registrar
from tests.storage.engines import NewAddress, setting_of

from rase.answer import Answer
from rase.clock import FakeClock, SystemClock
from rase.kernels.words import SeededRandom
from rase.storage.address import DatabaseAddress
from rase.storage.opening import open_database
from rase.wire.private_files import write_private

LAST = int(SystemClock().now_s()) // CAMPAIGN.round_s - 2
PAST = replace(CAMPAIGN, not_before=LAST - 1000, not_after=LAST + 1000)


def prepared(folder: Path, address: DatabaseAddress) -> Path:
    """Write keys, settings and a database with a campaign whose rounds are over."""
    write_private(folder / "signing.key", FUSION_SIGNER.to_text())
    write_private(folder / "opening.key", KEYS[7].to_text())
    config = folder / "rase.toml"
    config.write_text(
        f'[fusion]\ndatabase = "{setting_of(address)}"\nsigning_key_file = "signing.key"\n'
        'opening_key_files = ["opening.key"]\nport = 0\nworkers = 2\n'
        f'shuffler_key = "{SHUFFLER_SIGNER.public_bytes().hex()}"\n'
        'shuffler_url = "http://localhost:1"\n'
        f'registrar_key = "{REGISTRAR_KEY.hex()}"\n'
    )
    with published(address) as centre:
        window = Registrar(SHUFFLER_SIGNER, PAST.id, PAST.round_s)
        key = window.window(PAST.not_before, PAST.not_after)
        (signed,) = window.windows
        with centre.database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO window_key (campaign, first_round, last_round, over_s, signed) "
                "VALUES (?, ?, ?, ?, ?)",
                (
                    key.campaign,
                    key.first_round,
                    key.last_round,
                    2**40,
                    signed.to_bytes(),
                ),
            )
        return config


@contextmanager
def published(address: DatabaseAddress) -> Iterator[Centre]:
    """Open a centre with the campaign."""
    database = open_database(address, migrations="fusion")
    centre = Centre(database, FakeClock(SystemClock().now_s()))
    try:
        centre.publisher.publish(PAST)
        centre.publisher.publish_keyset(keyset(7))
        yield centre
    finally:
        database.close()


class Server:
    """A fusion centre in a process of its own."""

    def __init__(self, config: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rase", "fusion", "run", "--config", str(config)],
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        assert self.process.stderr is not None
        self.url = f"http://127.0.0.1:{self.process.stderr.readline().strip().rpartition('=')[2]}"

    def kill(self) -> None:
        """End it without a chance to do anything."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def is_taken(url: str, sent: Parcel) -> bool:
    """Send a batch; return whether the answer came."""
    try:
        answer = httpx.put(
            url + sent.path, content=sent.body, headers=sent.headers, timeout=PATIENCE_S
        )
    except httpx.HTTPError:
        return False
    return answer.status_code in {200, 201}


def told(address: DatabaseAddress, *, parts: int = 1) -> list[Answer]:
    """Return what a subscriber would be told, and check that no report is left."""
    with published(address) as centre:
        centre.rounds.tick()
        assert centre.count("opened") == 0
        assert centre.count("batches") == parts * centre.count("rounds")
        return centre.questions.between(PAST, 0, 2**32, method="all")


@pytest.mark.any_store
@pytest.mark.parametrize(
    ("kills", "n", "parts"),
    [
        (2, 40, 1),
        (2, 40, 2),
        pytest.param(30, 400, 1, marks=pytest.mark.slow),
        pytest.param(30, 400, 4, marks=pytest.mark.slow),
    ],
)
def test_kills_change_no_estimate(
    new_address: NewAddress, tmp_path: Path, kills: int, n: int, parts: int
) -> None:
    """Every batch is sent until it is acknowledged, while the server dies at moments of chance.

    Where rounds come in parts it also dies between two of them: neither is lost nor counts twice.
    """
    rng = SeededRandom(2026)
    rounds = range(LAST - 3 * kills, LAST)
    inner = {round: reports([round % 4000] * n, round=round, campaign=PAST) for round in rounds}
    # The first parts of all rounds, then the second ones: every death is between two parts.
    sent = [
        parcel(
            inner[round][part::parts],
            round=round,
            campaign=PAST,
            part=part if parts > 1 else None,
            parts=parts if parts > 1 else None,
        )
        for part in range(parts)
        for round in rounds
    ]
    calm, stormy = new_address("calm.sqlite"), new_address("stormy.sqlite")
    with published(calm) as centre:
        for one in sent:
            one.deliver(centre.intake)
    config = prepared(tmp_path, stormy)
    waiting, deaths = list(sent), 0
    server = Server(config)
    try:
        while waiting or deaths < kills:
            delay_s = int(rng.words(1)[0] % 100) / 1000
            killer = threading.Timer(delay_s, server.process.kill)
            if deaths < kills:
                killer.start()
            # What was acknowledged just before a death must still be there after it.
            waiting = [one for one in waiting or sent if not is_taken(server.url, one)]
            killer.cancel()
            if deaths < kills:
                server.kill()
                deaths += 1
                server = Server(config)
    finally:
        server.kill()
    assert told(stormy, parts=parts) == told(calm, parts=parts)
