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
_QUANTITIES = "quantities"


class FolderBusy(RaseError):
    """Another agent works in the folder."""

    exit_code = 3


class DeviceFolder:
    """Name the files of a device, and make, read and erase them.

    Each further quantity of the device has a folder within, with what it measures and what was
    agreed to about it; key, credential, ledger and switch are those of the device.

    Args:
        path: The folder.
        quantity: The campaign of a further quantity of the device; None for the device itself.
    """

    def __init__(self, path: Path, quantity: str | None = None) -> None:
        self.quantity = quantity
        self.root = self if quantity is None else DeviceFolder(path)
        self.path = path if quantity is None else path / _QUANTITIES / quantity
        self.settings_file = self.path / ("device.toml" if quantity is None else "quantity.toml")
        self.state_file = self.path / "state.json"
        self.pause_file = self.path / "paused"
        # Pauses the first quantity alone; the file above pauses all.
        self.pause_first_file = self.path / "paused-first"
        self.key_file = path / "device.key"
        self.credential_file = path / "credential"
        self.ledger_file = path / "ledger.db"
        self.sharing_file = path / "sharing"
        self.page_file = path / "page"
        self.lock_file = path / "lock"

    def quantities(self) -> "list[DeviceFolder]":
        """Return the folders of the device's further quantities, by name."""
        files = sorted((self.path / _QUANTITIES).glob("*/quantity.toml"))
        return [DeviceFolder(self.path, file.parent.name) for file in files]

    @property
    def is_enrolled(self) -> bool:
        """Whether everything is there that enrolment makes in the folder."""
        return self.credential_file.exists() and self.state_file.exists()

    @property
    def is_paused(self) -> bool:
        """Whether the owner has paused sharing, of this quantity or of all."""
        return self.root.pause_file.exists() or self.is_paused_alone

    @property
    def is_paused_alone(self) -> bool:
        """Whether this quantity is paused by itself."""
        return self._own_pause_file.exists()

    @property
    def _own_pause_file(self) -> Path:
        return self.pause_first_file if self.quantity is None else self.pause_file

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
        further = None if self.quantity is None else self.settings_file
        return read_settings(self.root.settings_file, environment, further=further)

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
        return self.ledger_file if settings.ledger is None else self.root.path / settings.ledger

    def keep_enrolment(self, credential: str, settings: DeviceSettings | None = None) -> None:
        """Keep what enrolment gave; a ledger that is there already goes on counting."""
        ledger = self.ledger_file if settings is None else self.ledger_path(settings)
        if not ledger.exists():
            create_ledger(ledger)
        for one in (self, *self.quantities()):
            one.keep_state()
        replace_private(self.credential_file, credential + "\n")

    def keep_state(self) -> None:
        """Make the state, unless it is there: without one nothing was agreed to."""
        if not self.state_file.exists():
            StateFile(self.state_file).save(DeviceState())

    def ledger(self, settings: DeviceSettings) -> Ledger:
        """Open the ledger.

        Raises:
            LedgerUnusable: If the ledger is missing or damaged.
        """
        return Ledger(self.ledger_path(settings), settings.limits)

    def pause(self, *, is_alone: bool = False) -> None:
        """Pause sharing; an agent that runs notices it, and one after a power cut, too.

        Args:
            is_alone: Of the first quantity alone, where this is the device's folder.
        """
        replace_private(self._own_pause_file if is_alone else self.pause_file, "")

    def resume(self, *, is_alone: bool = False) -> None:
        """End a pause, of all quantities if this is the device's; what is off stays so."""
        if is_alone and self.root.pause_file.exists():
            # All were paused; the others stay so, each by itself, before the file for all goes.
            for one in (self.root, *self.root.quantities()):
                one.pause(is_alone=True)
            self.root.pause_file.unlink(missing_ok=True)
        self._own_pause_file.unlink(missing_ok=True)
        if not is_alone:
            for one in (self, *self.quantities()):
                one.pause_file.unlink(missing_ok=True)

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
                campaigns = {settings.campaign, *(one.quantity for one in self.quantities())}
                with self.ledger(settings) as ledger:
                    # Other quantities go on in it, so its rounds stay open until they are over.
                    for stored in ledger.unsent():
                        if stored.campaign in campaigns:
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
                self.pause_first_file,
                self.sharing_file,
            ):
                file.unlink(missing_ok=True)
            for one in self.quantities():
                one.state_file.unlink(missing_ok=True)
                one.pause_file.unlink(missing_ok=True)

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
