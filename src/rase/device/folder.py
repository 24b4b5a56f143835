"""What lies on the device's disk: settings, key, credential, state and ledger, in one folder.

The folder and its files are for their owner only. One agent at a time works in it.
"""

import base64
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from rase.accounting.ledger import Ledger, create_ledger
from rase.device.settings import DeviceSettings, read_settings
from rase.device.state import DeviceState, StateFile
from rase.errors import ConfigurationError, RaseError
from rase.wire.private_files import read_private, replace_private, write_private

__all__ = ["DeviceFolder", "FolderBusy", "secret_in"]

_ON = "on\n"


class FolderBusy(RaseError):
    """Another agent works in the folder."""

    exit_code = 3


class DeviceFolder:
    """Name the files of a device, and make, read and erase them.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings_file = path / "device.toml"
        self.key_file = path / "device.key"
        self.credential_file = path / "credential"
        self.state_file = path / "state.json"
        self.ledger_file = path / "ledger.db"
        self.pause_file = path / "paused"
        self.sharing_file = path / "sharing"
        self.page_file = path / "page"
        self.lock_file = path / "lock"

    @property
    def is_enrolled(self) -> bool:
        """Whether everything is there that enrolment makes."""
        files = (self.credential_file, self.state_file, self.ledger_file)
        return all(file.exists() for file in files)

    @property
    def is_paused(self) -> bool:
        """Whether the owner has paused sharing."""
        return self.pause_file.exists()

    @property
    def is_off(self) -> bool:
        """Whether sharing is switched off: nothing may leave, not even cover reports."""
        try:
            return self.sharing_file.read_text(encoding="ascii") != _ON
        except FileNotFoundError:
            return False
        except (OSError, UnicodeDecodeError):
            # Whatever it says, it does not say that something may leave.
            return True

    def make(self) -> None:
        """Make the folder, for its owner only.

        Raises:
            ConfigurationError: If the folder cannot be made, or others can read it.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = self.path.stat().st_mode & 0o777
        except OSError as error:
            raise ConfigurationError([f"{self.path}: {error.strerror}."]) from None
        if mode & 0o077:
            raise ConfigurationError(
                [f"{self.path} must be for its owner only (chmod 700), got {mode:o}."]
            )

    def settings(self, environment: Mapping[str, str]) -> DeviceSettings:
        """Read the settings.

        Raises:
            ConfigurationError: With all mistakes.
        """
        return read_settings(self.settings_file, environment)

    def device_secret(self) -> bytes:
        """Return the secret bytes of the device's key, made when first asked for.

        Raises:
            ConfigurationError: If the file is damaged or open to others.
        """
        if not self.key_file.exists():
            write_private(self.key_file, base64.b64encode(os.urandom(32)).decode() + "\n")
        try:
            data = base64.b64decode(self._private_text(self.key_file))
        except ValueError:
            data = b""
        if len(data) != 32:
            raise ConfigurationError([f"{self.key_file} is damaged; enrol as a new device."])
        return data

    def credential(self) -> str:
        """Return the credential.

        Raises:
            ConfigurationError: If the device is not enrolled.
        """
        if not self.credential_file.exists():
            raise ConfigurationError([f"{self.path} is not enrolled; run rase device enrol first."])
        return self._private_text(self.credential_file)

    def ledger_path(self, settings: DeviceSettings) -> Path:
        """Return where the ledger is: in the folder, or where others of the owner count, too."""
        return self.ledger_file if settings.ledger is None else self.path / settings.ledger

    def keep_enrolment(self, credential: str, settings: DeviceSettings | None = None) -> None:
        """Keep what enrolment gave; a ledger that is there already goes on counting."""
        ledger = self.ledger_file if settings is None else self.ledger_path(settings)
        if not ledger.exists():
            create_ledger(ledger)
        if not self.state_file.exists():
            StateFile(self.state_file).save(DeviceState())
        replace_private(self.credential_file, credential + "\n")

    def ledger(self, settings: DeviceSettings) -> Ledger:
        """Open the ledger.

        Raises:
            LedgerUnusable: If the ledger is missing or damaged.
        """
        return Ledger(self.ledger_path(settings), settings.limits)

    def pause(self) -> None:
        """Pause sharing; an agent that runs notices it, and one after a power cut, too."""
        replace_private(self.pause_file, "")

    def resume(self) -> None:
        """End a pause; what is switched off stays so."""
        self.pause_file.unlink(missing_ok=True)

    def switch(self, *, is_on: bool) -> None:
        """Switch sharing on or off, for agents with and without the owner's page."""
        # There is no moment without the file, which would be read as a yes.
        replace_private(self.sharing_file, _ON if is_on else "off\n")

    def keep_off_unless_said(self) -> None:
        """Switch sharing off, unless the owner has said something already."""
        if not self.sharing_file.exists():
            self.switch(is_on=False)

    def keep_page(self, address: str) -> None:
        """Keep the address of the owner's page, which opens it, where only its owner can read."""
        replace_private(self.page_file, address + "\n")

    def page_address(self) -> str:
        """Return the address of the owner's page.

        Raises:
            ConfigurationError: If no agent with a page runs.
        """
        if not self.page_file.exists():
            raise ConfigurationError(
                [f"no agent in {self.path} shows a page; start one: rase device run --page."]
            )
        return self._private_text(self.page_file)

    def forget(self, settings: DeviceSettings) -> None:
        """Erase what could still be sent, the credential and the key; keep what was spent.

        Raises:
            FolderBusy: If an agent runs.
            LedgerUnusable: If the ledger cannot be written.
        """
        with self.lock():
            if settings.ledger is not None:
                with self.ledger(settings) as ledger:
                    # Other quantities go on in it, so its rounds stay open until they are over.
                    for stored in ledger.unsent():
                        if stored.campaign == settings.campaign:
                            ledger.mark_sent(stored.campaign, stored.round)
            elif self.ledger_file.exists():
                with self.ledger(settings) as ledger:
                    starts = {
                        item.limits.campaign: item.limits for item in ledger.status(0).campaigns
                    }
                    last_s = max(
                        (
                            starts[entry.campaign].start_s(entry.round)
                            for entry in ledger.history(-1)
                        ),
                        default=-1,
                    )
                    # Closing a round overwrites its noisy value; the entry stays.
                    ledger.close_rounds(last_s + 1)
                    for window in ledger.token_windows():
                        ledger.drop_tokens(window.campaign, window.last_round + 1)
            for file in (
                self.credential_file,
                self.key_file,
                self.state_file,
                self.pause_file,
                self.sharing_file,
            ):
                file.unlink(missing_ok=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only agent in the folder.

        Raises:
            FolderBusy: If there is another.
        """
        handle = os.open(self.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise FolderBusy(f"another agent works in {self.path}; stop it first.") from None
            yield
        finally:
            with suppress(OSError):
                os.close(handle)

    def _private_text(self, file: Path) -> str:
        try:
            return read_private(file).strip()
        except OSError as error:
            # What we refuse ourselves names the file already.
            reason = f"{file}: {error.strerror}." if error.strerror else str(error)
            raise ConfigurationError([reason]) from None


def secret_in(path: Path) -> str:
    """Return the secret in a file that is for its owner only.

    Raises:
        ConfigurationError: If the file cannot be read, or others can read it.
    """
    from rase.wire.private_files import read_private

    try:
        return read_private(path).strip()
    except OSError as error:
        # A file that is open to others is named already.
        reason = f"{path}: {error.strerror}." if error.strerror else str(error)
        raise ConfigurationError([reason]) from None
