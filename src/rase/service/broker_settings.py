"""An MQTT broker as a setting: what both servers read, and check alike."""

from pathlib import Path
from typing import Any

from pydantic import Field

from rase.errors import ConfigurationError
from rase.service.settings import PathSetting, Settings
from rase.wire.private_files import read_private

__all__ = ["BrokerSettings"]


class BrokerSettings(Settings):
    """How a server reaches its broker.

    Args:
        url: mqtts://host:port; mqtt:// on this machine.
        client_id: The server's name to the broker; fixed, and different for each process.
        user: The user to log in as.
        password_file: The file of the password, for its owner only.
        tls_ca_file: The only authority whose certificates are accepted; None for the system's.
        tls_certificate_file: The server's own certificate, where the broker asks for one.
        tls_key_file: Its private key; None if it is in the same file.
    """

    url: str
    client_id: str = Field(default="", max_length=64, pattern=r"^[A-Za-z0-9._-]*$")
    user: str | None = None
    password_file: PathSetting | None = None
    tls_ca_file: PathSetting | None = None
    tls_certificate_file: PathSetting | None = None
    tls_key_file: PathSetting | None = None

    def secrets(self) -> dict[str, Any]:
        """Return what logs in: user and password, read now.

        Raises:
            ConfigurationError: If the file of the password cannot be read.
        """
        password = None
        if self.password_file is not None:
            password = _text(self.password_file)
        return {"user": self.user, "password": password}

    def tls_files(self) -> tuple[Path | None, Path | None, Path | None]:
        """Return authority, certificate and its key."""
        return self.tls_ca_file, self.tls_certificate_file, self.tls_key_file


def _text(path: Path) -> str:
    try:
        return read_private(path).strip()
    except OSError as error:
        # A file that is open to others is named already.
        reason = f"{path}: {error.strerror}." if error.strerror else str(error)
        raise ConfigurationError([f"mqtt.password_file: {reason}"]) from None
