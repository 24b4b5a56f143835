"""What the shuffler's files tell: no value while a round is open, nothing of anybody afterwards."""

from typing import TYPE_CHECKING

import pytest
from cryptography.exceptions import InvalidTag

from rase.errors import StorageError
from rase.wire.outer import OuterOpener
from rase.wire.suites import private_key, suite

if TYPE_CHECKING:
    from tests.shuffler.conftest import MakeWorld, World


def files_of(world: "World") -> bytes:
    """Return every byte that the shuffler's database has on the disk."""
    return b"".join(
        path.read_bytes()
        for path in sorted(world.path.parent.iterdir())
        if path.name.startswith(world.path.name)
    )


@pytest.mark.sqlite
def test_after_the_close_no_byte_of_a_device_remains(make_world: "MakeWorld") -> None:
    """Rounds that overlap in time, and so share pages: what was closed has left all files.

    Every report is searched for by its outer key, its header with key, and its last bytes.
    """
    world = make_world(devices=60, round_s=1000, grace_s=1500, upload_s=1400)
    sent: dict[int, list[bytes]] = {}
    for round in range(100, 106):
        world.upload_time(round)
        sent[round] = [world.seal(round) for _ in world.devices]
        for first in range(0, 60, 7):
            world.send_each(first, sent[round][first : first + 7])
        stored = files_of(world)
        assert all(wire[14:46] in stored for wire in sent[round])
        world.clock.jump(world.campaign.closes_s(round - 1) - world.clock.now_s())
        if round == 100:
            continue
        while world.closer().step():
            pass
        left = files_of(world)
        for old in range(100, round):
            for wire in sent[old]:
                assert wire[14:46] not in left
                assert wire[-32:] not in left
        # The open round is whole.
        assert all(wire[14:46] in left for wire in sent[round])
    assert len(world.ear.batches) >= 5


def test_neither_files_nor_log_hold_a_value(
    make_world: "MakeWorld", capsys: pytest.CaptureFixture[str]
) -> None:
    """With the shuffler's own keys the inner envelopes stay closed, and logs name nobody."""
    world = make_world()
    world.upload_time(100)
    for device in range(4):
        world.send(device, world.seal(100, place=42 + device))
    opener = OuterOpener(world.hash, [world.openers["shuffler"]])
    key = world.openers["shuffler"]
    for (wire,) in world.rows("SELECT wire FROM report"):
        inner = opener.open(wire).inner
        with pytest.raises(InvalidTag):
            suite(key.kem, key.aead).decrypt(inner, private_key(key.kem, key.secret), b"")
    world.close_time(100)
    while world.closer().step():
        pass
    log = capsys.readouterr().err
    assert "round_released campaign=homes round=100 n=4" in log
    for device, credential in zip(world.devices, world.credentials, strict=True):
        assert f"{device:016x}" not in log
        assert str(device) not in log
        assert credential not in log


@pytest.mark.sqlite
def test_no_table_reveals_the_order_of_arrival(world: "World") -> None:
    """Reports are kept in the order of random device numbers, whatever order they came in."""
    world.upload_time(100)
    for device in (3, 0, 2, 1):
        world.send(device, world.seal(100))
    stored = [device for (device,) in world.rows("SELECT device FROM report")]
    assert stored == sorted(world.devices)
    with pytest.raises(StorageError, match="no such column: rowid"):
        world.rows("SELECT rowid FROM report")
    columns = [name for _, name, *_ in world.rows("PRAGMA table_info(report)")]
    assert columns == ["round", "device", "tag", "wire"]
