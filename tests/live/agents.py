"""Device agents as processes that can be killed, with folders that outlive them."""

import re
import shutil
import signal
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType

from tests.live.installed import Installed
from tests.live.loaded import start_program
from tests.live.running import environment
from tests.patience import PATIENCE_S

from rase.accounting.ledger import Entry
from rase.clock import SystemClock
from rase.device.folder import DeviceFolder

__all__ = ["Agent", "enrolled_agents"]


class Agent:
    """One device: ``rase device run`` in a process of its own, started again after each death.

    Args:
        folder: The device's, enrolled.
        log: Where it tells what happens.
    """

    def __init__(self, folder: Path, log: Path) -> None:
        self._folder = DeviceFolder(folder)
        self._log = log
        self.start()

    def start(self) -> None:
        """Start it; it may take a moment until it works."""
        self._told = self._log.stat().st_size if self._log.exists() else 0
        folder = str(self._folder.path)
        command = ["device", "run", "--folder", folder]
        with self._log.open("ab") as file:
            self.process = start_program(command, log=file, environment=environment())
        self.process.stdin.close()

    @property
    def is_working(self) -> bool:
        """Whether it is past its start."""
        told = self._log.read_bytes()[self._told :]
        return self.process.poll() is None and b"event=started" in told

    def kill(self) -> None:
        """End it without a chance to do anything."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def stop(self) -> int:
        """End it in good order and return its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def sent(self) -> set[int]:
        """Return the rounds whose reports or covers were acknowledged, by its own log."""
        return {int(round) for round in re.findall(r"event=sent round=(\d+)", self.log())}

    def log(self) -> str:
        """Return all it has told, in all of its lives."""
        return self._log.read_text(encoding="utf-8")

    def given(self) -> float:
        """Return what its reports of a day give away to the fusion centre, by its ledger."""
        with closing(self._folder.ledger(self._folder.settings({}))) as ledger:
            return ledger.status(int(SystemClock().now_s())).span_given

    def ledger(self) -> tuple[list[Entry], float]:
        """Return what it paid for, and what that sums up to."""
        with closing(self._folder.ledger(self._folder.settings({}))) as ledger:
            return ledger.history(10_000), ledger.status(int(SystemClock().now_s())).total_spent


def enrolled_agents(
    installed: Installed,
    *,
    count: int,
    name: str = "device",
    owner: Mapping[str, float] = MappingProxyType({}),
) -> list[Agent]:
    """Enrol devices that read a file, and run them; owners may have other limits."""
    agents = []
    for number in range(count):
        folder = installed.folder / f"{name}-{number}"
        shutil.copytree(installed.folder / "installed/device", folder)
        (folder / "power.csv").write_text("power_w\n" + "1000\n" * 5000)
        settings = folder / "device.toml"
        source = 'kind = "csv"\npath = "power.csv"\ncolumn = "power_w"\nevery_s = 0.2'
        text = settings.read_text().replace('kind = "stdin"', source)
        for limit, value in owner.items():
            text = re.sub(rf"^{limit} = .*$", f"{limit} = {value!r}", text, flags=re.MULTILINE)
        settings.write_text(text)
        installed.enrol(folder)
        agents.append(Agent(folder, installed.folder / f"{name}-{number}.log"))
    return agents
