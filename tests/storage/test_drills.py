"""Restore drills: a copy taken while reports arrive is put back elsewhere; what is lost is counted.

docs/guides/backup.md says what a restore costs; each row of its table is lived through here.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.fusion.conftest import CAMPAIGN, ROUND, made_centre, opened_centre, parcel, reports
from tests.patience import PATIENCE_S, until
from tests.shuffler.conftest import World

from rase.errors import WireError
from rase.registrar.devices import certify_list, known_devices, revoke_devices
from rase.registrar.issuing import WITHOUT_KEYS
from rase.service.acts import list_acts
from rase.shuffler.enrolment import enrolled_devices
from rase.shuffler.enrolment import revoke_devices as revoke_senders
from rase.shuffler.intake import WITHOUT_REPORTS
from rase.storage.backup import back_up
from rase.storage.sqlite import open_sqlite

_LOAD = "CREATE TABLE IF NOT EXISTS load (number BIGINT, data BYTEA)"
PLACES = [1, 2, 3, 4, 5]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a copy take many steps, so that commits fall between them."""
    monkeypatch.setattr("rase.storage.backup._PAGES", 1)


@contextmanager
def busy(path: Path, role: str) -> Iterator[None]:
    """Commit again and again through another connection, until the block ends or for too long."""
    is_over, is_busy = threading.Event(), threading.Event()
    gave_up: list[bool] = []
    until_s = time.monotonic() + PATIENCE_S

    def work() -> None:
        with closing(open_sqlite(path, migrations=role)) as database:
            for number in range(10**9):
                with database.transaction() as transaction:
                    transaction.execute(_LOAD)
                    if not number:
                        # Long enough that no copy ends before the next commit.
                        transaction.execute("INSERT INTO load VALUES (0, ?)", (bytes(8_000_000),))
                    transaction.execute("INSERT INTO load VALUES (?, ?)", (number, b""))
                is_busy.set()
                if is_over.is_set():
                    return
                if time.monotonic() > until_s:
                    gave_up.append(True)
                    return

    thread = threading.Thread(target=work)
    thread.start()
    try:
        until(is_busy.is_set)
        yield
    finally:
        is_over.set()
        thread.join()
    assert not gave_up, "the copy waited for the server to be idle"


def test_a_shuffler_is_restored_with_its_devices_and_loses_open_rounds(tmp_path: Path) -> None:
    """Each acknowledged report of a round that was open is lost, no other, and none is doubled."""
    copy, other = tmp_path / "copy.db", tmp_path / "other.db"
    world = World(tmp_path / "shuffler.db", devices=6)
    world.upload_time(100)
    world.send_each(0, [world.seal(100, place=place) for place in PLACES])
    world.close_time(100)
    closer = world.closer()
    closer.close_one()
    world.upload_time(101)
    world.send_each(0, [world.seal(101) for _ in range(3)])
    with busy(world.path, "shuffler"):
        back_up(world.path, copy, erase=WITHOUT_REPORTS)
    world.send_each(3, [world.seal(101), world.seal(101)])
    lost_device = f"{world.devices[5]:016x}"
    revoke_senders(world.database, [lost_device])
    ((waiting,),) = world.rows("SELECT COUNT(*) FROM report")
    world.close()
    # The machine is gone with all that it had; what a device sent is not sent again.
    assert copy.stat().st_mode & 0o777 == 0o600
    copy.rename(other)
    restored = World.__new__(World)
    restored.__dict__ |= world.__dict__
    restored.database = open_sqlite(other, migrations="shuffler")
    assert restored.rows("SELECT COUNT(*) FROM report") == [(0,)]
    assert restored.rows("SELECT COUNT(*) FROM enrolment_token") == [(0,)]
    assert waiting == 5
    # The round before was closed and its batch on its way: it is still sent, the same bytes.
    restored.close_time(101)
    closer = restored.closer()
    while closer.step():
        pass
    told = {round: one.manifest.n for (round, _), one in restored.ear.manifests.items()}
    assert told == {100: len(PLACES), 101: 0}
    # Everybody who was enrolled reports again, and whoever was revoked since must be once more.
    assert {one.device for one in enrolled_devices(restored.database)} >= {lost_device}
    assert "revoke device" not in {one.act for one in list_acts(restored.database)}
    revoke_senders(restored.database, [lost_device])
    restored.upload_time(102)
    restored.send_each(0, [restored.seal(102) for _ in PLACES])
    restored.close_time(102)
    while closer.step():
        pass
    assert restored.ear.manifests[102, 1].manifest.n == len(PLACES)
    restored.database.close()


def test_a_fusion_centre_is_restored_and_loses_the_rounds_since(tmp_path: Path) -> None:
    """Rounds that were final in the copy are the same; those since are gone, and none is wrong."""
    copy, file = tmp_path / "copy.db", tmp_path / "fusion.db"
    sent = {
        round: parcel(reports(PLACES, round=round), round=round)
        for round in range(ROUND, ROUND + 5)
    }
    with made_centre(file) as centre:

        def live(*rounds: int) -> None:
            for round in rounds:
                now_s = CAMPAIGN.closes_s(round) + 60
                centre.clock.jump(now_s - centre.clock.now_s())
                sent[round].deliver(centre.intake)
                centre.rounds.tick()

        live(ROUND, ROUND + 1)
        with centre.database.snapshot() as transaction:
            before = transaction.execute("SELECT round, method, value, n FROM answers")
        with busy(file, "fusion"):
            back_up(file, copy)
        live(ROUND + 2, ROUND + 3)
        assert centre.count("rounds") == 4
        now_s = centre.clock.now_s()
    assert copy.stat().st_mode & 0o777 == 0o600
    with opened_centre(copy, now_s) as restored:
        with restored.database.snapshot() as transaction:
            assert transaction.execute("SELECT round, method, value, n FROM answers") == before
        # What the shuffler had handed over it does not have any more: two rounds are lost.
        lost = 4 - restored.count("rounds")
        assert lost == 2
        # A batch that it did not hear confirmed comes again: known, or taken in once.
        assert not sent[ROUND].deliver(restored.intake).is_new
        assert sent[ROUND + 3].deliver(restored.intake).is_new
        assert not sent[ROUND + 3].deliver(restored.intake).is_new
        restored.rounds.tick()
        restored.clock.jump(CAMPAIGN.closes_s(ROUND + 4) + 60 - restored.clock.now_s())
        sent[ROUND + 4].deliver(restored.intake)
        restored.rounds.tick()
        with restored.database.snapshot() as transaction:
            final: dict[int, int] = dict(
                transaction.execute(
                    "SELECT round, n FROM answers WHERE method = 'unbiased_mean' ORDER BY round"
                )
            )
        assert final == dict.fromkeys((ROUND, ROUND + 1, ROUND + 3, ROUND + 4), len(PLACES))
        with pytest.raises(WireError, match="final"):
            parcel(reports(PLACES, round=ROUND), round=ROUND).deliver(restored.intake)


def test_a_registrar_is_restored_with_its_devices_and_without_keys(tmp_path: Path) -> None:
    """Devices stay certified; its windows' keys are gone; revocations since are forgotten."""
    file, copy = tmp_path / "registrar.db", tmp_path / "copy.db"
    keys = [bytes([number]) * 32 for number in range(1, 4)]
    with closing(open_sqlite(file, migrations="registrar")) as database:
        certify_list(database, keys[:2], secret=bytes(32))
        with database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO token_key (campaign, first_round, last_round, issue_until_s, over_s, "
                "body, private) VALUES ('homes', 1, 2, 3, 4, ?, ?)",
                (b"body", b"private"),
            )
        with busy(file, "registrar"):
            back_up(file, copy, erase=WITHOUT_KEYS)
        revoke_devices(database, [keys[0].hex()])
        certify_list(database, keys[2:], secret=bytes(32))
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(open_sqlite(copy, migrations="registrar")) as restored:
        found = {one.device_key: one.is_revoked for one in known_devices(restored)}
        assert found == {keys[0].hex(): False, keys[1].hex(): False}
        with restored.snapshot() as transaction:
            assert transaction.execute("SELECT private FROM token_key") == [(None,)]
        revoke_devices(restored, [keys[0].hex()])
        certify_list(restored, keys[2:], secret=bytes(32))
        assert len(known_devices(restored)) == 3
