"""Keys of a running server: read again when a file changes, kept when one cannot be read."""

import io
from pathlib import Path

import pytest

from rase.clock import FakeClock
from rase.errors import ConfigurationError
from rase.service.live_keys import LiveKeys
from rase.service.telemetry import Telemetry
from rase.wire.keys import OpeningKey, Role
from rase.wire.private_files import write_private


class Watched:
    """A folder of keys whose settings name some of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = folder / "rase.toml"
        self.clock = FakeClock(1000)
        self.log = io.StringIO()
        self.read = 0
        self.add(1)

    def add(self, number: int) -> None:
        """Make a key and name it in the settings."""
        key = OpeningKey.generate(Role.FUSION, number)
        write_private(self.folder / f"{number}.key", key.to_text())
        names = sorted(path.name for path in self.folder.glob("*.key"))
        self.settings.write_text("\n".join(names))

    def files(self) -> list[Path]:
        """Return the files that the settings name now."""
        self.read += 1
        return [self.folder / name for name in self.settings.read_text().split()]

    def keys(self) -> LiveKeys:
        """Return the keys as a server holds them."""
        return LiveKeys(
            Role.FUSION,
            self.files,
            settings=self.settings,
            clock=self.clock,
            telemetry=Telemetry("fusion", stream=self.log),
        )


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    """A folder with one key."""
    return Watched(tmp_path)


def test_a_new_key_is_read_without_a_restart(watched: Watched) -> None:
    """Within a second of the rotation, and files that stay the same are not read again."""
    keys = watched.keys()
    assert [key.id for key in keys()] == [1]
    watched.add(2)
    assert [key.id for key in keys()] == [1]
    watched.clock.advance(1)
    assert [key.id for key in keys()] == [1, 2]
    assert "keys_reloaded count=2" in watched.log.getvalue()
    read = watched.read
    for _ in range(50):
        watched.clock.advance(1)
        keys()
    assert watched.read == read


def test_what_cannot_be_read_leaves_the_keys(watched: Watched) -> None:
    """A key that others can read is refused once, and taken as soon as it is private."""
    keys = watched.keys()
    watched.add(2)
    path = watched.folder / "2.key"
    path.chmod(0o644)
    for _ in range(3):
        watched.clock.advance(1)
        assert [key.id for key in keys()] == [1]
    assert watched.log.getvalue().count("keys_not_reloaded") == 1
    path.chmod(0o600)
    watched.clock.advance(1)
    assert [key.id for key in keys()] == [1, 2]
    path.unlink()
    watched.clock.advance(1)
    assert [key.id for key in keys()] == [1, 2]


def test_without_settings_the_named_files_are_watched(watched: Watched) -> None:
    """As in a program that was given its files; at the start a mistake ends it."""
    path = watched.folder / "1.key"
    keys = LiveKeys(
        Role.FUSION,
        lambda: [path],
        settings=None,
        clock=watched.clock,
        telemetry=Telemetry("fusion", stream=watched.log),
    )
    before = keys()
    path.unlink()
    write_private(path, OpeningKey.generate(Role.FUSION, 1).to_text())
    watched.clock.advance(1)
    assert keys() != before
    path.unlink()
    with pytest.raises(ConfigurationError):
        watched.keys()
