"""A real mosquitto on a port of its own, as deploy/mosquitto configures it or open to everybody."""

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.loading.ports import held_port
from tests.patience import PATIENCE_S, until
from tests.programs import program

from rase.shuffler.mosquitto import password_line
from rase.transport.broker import Broker
from rase.transport.http import ClientTls

__all__ = ["DEPLOYED", "Mosquitto"]

DEPLOYED = Path(__file__).parents[1] / "deploy/mosquitto"


class Mosquitto:
    """Run a broker in a folder; it can be killed and started again.

    Args:
        folder: Where it keeps everything.
        users: Passwords by user; None lets everybody do everything.
        is_deployed: Use the deployed configuration with TLS; the certificate must be in place.
        acl: Use the deployed ACL without TLS.
    """

    def __init__(
        self,
        folder: Path,
        users: Mapping[str, str] | None = None,
        *,
        is_deployed: bool = False,
        acl: bool = False,
    ) -> None:
        self._program = program("mosquitto")
        self.folder = folder
        self.is_deployed = is_deployed
        folder.mkdir(exist_ok=True)
        self.port = held_port()
        lines = [
            f"listener {self.port} 127.0.0.1",
            f"allow_anonymous {'true' if users is None else 'false'}",
            "persistence true",
            f"persistence_location {folder}/",
            "set_tcp_nodelay true",
            "max_queued_messages 0",
            "max_inflight_messages 0",
            "log_dest none",
        ]
        if is_deployed:
            text = (DEPLOYED / "mosquitto.conf").read_text()
            text = text.replace("/etc/mosquitto/rase", str(folder))
            text = text.replace("/var/lib/mosquitto/rase", str(folder))
            lines = [text.replace("listener 8883", f"listener {self.port} 127.0.0.1")]
            self.set_users(users or {})
        elif users is not None:
            lines.append(f"password_file {folder}/passwords")
            self.set_users(users)
        if is_deployed or acl:
            shutil.copy(DEPLOYED / "acl", folder / "acl")
            (folder / "acl").chmod(0o600)
            lines += [] if is_deployed else [f"acl_file {folder}/acl"]
        if os.geteuid() == 0:
            lines.append("user root")
        self._config = folder / "mosquitto.conf"
        self._config.write_text("\n".join(lines) + "\n")
        self.start()

    def set_users(self, users: Mapping[str, str]) -> None:
        """Write the password file; a broker that runs reads it at its next start."""
        lines = [password_line(user, password) + "\n" for user, password in users.items()]
        passwords = self.folder / "passwords"
        passwords.write_text("".join(lines))
        passwords.chmod(0o600)

    def start(self) -> None:
        """Start it and wait until it listens."""
        with (self.folder / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-c", str(self._config)], stdout=log, stderr=log
            )
        until(self._listens)

    def kill(self) -> None:
        """End it without a chance to do anything."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def stop(self) -> None:
        """End it in good order."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    def memory_kb(self) -> int:
        """Return how much memory it has."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def broker(self, user: str | None = None, password: str | None = None) -> Broker:
        """Return how it is reached."""
        scheme = "mqtts" if self.is_deployed else "mqtt"
        tls = ClientTls(self.folder / "ca.pem" if self.is_deployed else None)
        return Broker(
            url=f"{scheme}://127.0.0.1:{self.port}",
            user=user,
            password=password,
            tls=tls,
            timeout_s=PATIENCE_S,
        )

    def _listens(self) -> bool:
        assert self._process.poll() is None, (self.folder / "mosquitto.log").read_text()
        try:
            with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S):
                return True
        except OSError:
            return False
