"""What ``rase init`` wrote, served by real processes that can be killed, and a fleet that sends.

The fleet's reports are sealed here, so that every grid place is known; everything else is the
programs as they are deployed.
"""

import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from benchmarks.loading.ports import held_port
from chaos.installation import server_rows
from chaos.wallets import Wallets, enrolled
from tests.live.loaded import start_program
from tests.live.running import answers, enrol, environment, free_ports, rase, shorten_windows
from tests.patience import PATIENCE_S, until

from rase.campaign import Campaign
from rase.clock import SystemClock
from rase.service.key_settings import read_secret_key, read_signing_key
from rase.storage.address import PostgresAddress
from rase.wire import cbor
from rase.wire.frames import authorization_of, frame_of, handle_of
from rase.wire.keys import Keyset, Role
from rase.wire.messages import Content
from rase.wire.problems import Problem
from rase.wire.seal import seal_report
from rase.wire.signed import (
    PinnedKeys,
    SignedCampaign,
    SignedKeyset,
    campaign_hash,
    public_key_of,
)

__all__ = ["Fleet", "Installed", "Report", "Server"]

K_MIN: Final = 3
_PARTS: Final = {
    "intake": ("shuffler", "run", "--part", "intake"),
    "closer": ("shuffler", "run", "--part", "closer"),
    "fusion": ("fusion", "run"),
    "registrar": ("registrar", "run"),
}
_ALREADY: Final = ("listening", "shuffler closing")


class Server:
    """One of the servers' processes, started again after each death.

    Args:
        part: "intake", "closer", "fusion" or "registrar".
        config: Its settings.
        log: Where it tells what happens.
        variables: Settings in which it differs from its like.
    """

    def __init__(
        self, part: str, config: Path, log: Path, *, variables: Mapping[str, str] | None = None
    ) -> None:
        self.command = [sys.executable, "-m", "rase", *_PARTS[part], "--config", str(config)]
        self._environment = {**environment(), **(variables or {})}
        self._log = log
        self.start()

    def start(self) -> None:
        """Start it; it may take a moment until it works."""
        self._told = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as file:
            # The closer ends when this pipe does, as it would with its parent.
            self.process = start_program(self.command[3:], log=file, environment=self._environment)

    @property
    def is_working(self) -> bool:
        """Whether it is past its start."""
        told = self._log.read_bytes()[self._told :].decode()
        return self.process.poll() is None and any(words in told for words in _ALREADY)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self.process.poll() is not None

    def kill(self) -> None:
        """End it without a chance to do anything; nothing happens if it has ended."""
        self.process.send_signal(signal.SIGKILL)
        self._ended()

    def stop(self) -> int:
        """End it in good order and return its exit code."""
        self.process.terminate()
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self.process.stdin.close()
        return code


class Installed:
    """All servers as ``rase init`` made them, running, with a published campaign.

    Args:
        folder: An empty folder.
        capsys: Takes what commands print.
        grace_s: How long a round waits for reports.
        postgres: Where the state of all is, if not in files.
        counts: How many processes of a part there are, if not one of each.
        options: More words for ``rase init``.
        token_rounds: How many rounds a token window has.
    """

    def __init__(
        self,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        *,
        grace_s: int = 4,
        postgres: PostgresAddress | None = None,
        counts: Mapping[str, int] | None = None,
        options: Sequence[object] = (),
        token_rounds: int = 8,
    ) -> None:
        self.folder = folder
        self._capsys = capsys
        self._postgres = postgres
        ports = free_ports()
        self.shuffler_url, self.fusion_url = (f"http://127.0.0.1:{port}" for port in ports)
        asked = ["--range", 0, 3000, "--epsilon", 2, "--round", "2s", "--upload", "1s"]
        asked += ["--grace", f"{grace_s}s", "--k-min", K_MIN, "--window", 100]
        # Rounds of seconds are for tests: owners must allow them, and the operator accept them.
        asked += ["--schedule", "every-round", "--owner-day", 100_000, "--accept-weak"]
        # Reports with known places: below its bound this law draws every place of the grid.
        asked += ["--mechanism", "budget-aware"]
        self.registrar_url = f"http://127.0.0.1:{held_port()}"
        asked += ["--shuffler-url", self.shuffler_url, "--fusion-url", self.fusion_url]
        asked += ["--registrar-url", self.registrar_url]
        rase(capsys, "init", folder / "installed", *asked, *options)
        self.configs = {
            role: folder / "installed" / role / "rase.toml" for role in (Role.SHUFFLER, Role.FUSION)
        }
        shuffler = self.configs[Role.SHUFFLER]
        # A closer that was killed shall not keep its round for a minute.
        shuffler.write_text(
            shuffler.read_text().replace("[shuffler]", "[shuffler]\nlease_s = 1", 1)
            + "\n[shuffler.limits]\nreports_per_minute = 100000\n"
        )
        self.registrar_config = folder / "installed/registrar/rase.toml"
        shorten_windows(self.registrar_config, rounds=token_rounds)
        if postgres is not None:
            configs: dict[str, Path] = {"registrar": self.registrar_config}
            configs |= {str(role): config for role, config in self.configs.items()}
            for name, config in configs.items():
                text = config.read_text().replace(f'"{name}.db"', f'"{postgres.url}"')
                config.write_text(text)
        self.intake_urls, self.fusion_urls = [self.shuffler_url], [self.fusion_url]
        self.servers = {
            f"{part}-{number}" if number else part: self.served(part, number)
            for part in ("fusion", "intake", "closer", "registrar")
            for number in range((counts or {}).get(part, 1))
        }

    def served(self, part: str, number: int = 0) -> Server:
        """Start one of the servers; all but the first of a kind get a port of their own."""
        config = self.configs[Role.FUSION if part == "fusion" else Role.SHUFFLER]
        config = self.registrar_config if part == "registrar" else config
        variables = {}
        if number and part == "closer":
            # As behind a balancer: each closer reaches another fusion centre.
            variables["RASE_SHUFFLER__FUSION_URL"] = self.fusion_urls[-1]
        elif number:
            port, _ = free_ports()
            section = "SHUFFLER" if part == "intake" else part.upper()
            variables[f"RASE_{section}__PORT"] = str(port)
            urls = {"fusion": self.fusion_urls, "intake": self.intake_urls}.get(part, [])
            urls.append(f"http://127.0.0.1:{port}")
        log = f"{part}-{number}.log" if number else f"{part}.log"
        return Server(part, config, self.folder / log, variables=variables)

    def publish(self) -> None:
        """Publish keys and campaign once both servers answer."""
        urls = (*self.intake_urls, *self.fusion_urls, self.registrar_url)
        until(lambda: all(map(answers, urls)), logs=self.folder)
        # The shuffler countersigns no keyset before its closer has told which keys it has.
        told = "SELECT id FROM opening_key"
        until(lambda: bool(self.rows(Role.SHUFFLER, told)), logs=self.folder)
        at_fusion = ("--config", self.configs[Role.FUSION])
        folder = self.folder / "installed/fusion"
        rase(self._capsys, "fusion", "publish-keys", folder / "keyset.json", *at_fusion)
        rase(self._capsys, "campaign", "publish", folder / "campaign.toml", *at_fusion)

    def admissions(self, count: int) -> list[tuple[str, str]]:
        """Return the token of the shuffler's operator and the approval of the registrar's."""
        at_shuffler = ("--config", self.configs[Role.SHUFFLER], "--count", count)
        at_registrar = ("--config", self.registrar_config, "--count", count)
        tokens = rase(self._capsys, "shuffler", "enrol", *at_shuffler).split()
        approvals = rase(self._capsys, "registrar", "approve", *at_registrar).split()
        return list(zip(tokens, approvals, strict=True))

    def enrol(self, folder: Path) -> None:
        """Enrol the device of a folder."""
        enrol(self._capsys, self.folder / "installed", [folder])

    def enrolled(self, secrets: Sequence[bytes]) -> list[str]:
        """Enrol devices with keys of their own and return their credentials."""
        return [
            enrolled(
                secret,
                shuffler=self.shuffler_url,
                registrar=self.registrar_url,
                token=token,
                approval=approval,
            )
            for secret, (token, approval) in zip(
                secrets, self.admissions(len(secrets)), strict=True
            )
        ]

    def database(self, role: Role) -> Path:
        """Return the file of a server's state."""
        return self.configs[role].parent / f"{role}.db"

    def rows(self, role: Role, sql: str) -> list[tuple[Any, ...]]:
        """Return what is in a server's database."""
        return server_rows(self.database(role), self._postgres, role=role, query=sql)

    def end(self) -> list[int]:
        """End all servers in good order once they are past their start; return exit codes."""
        servers = self.servers.values()
        # One that was started a moment ago does not know yet what a signal means.
        until(lambda: all(one.is_working or one.has_ended for one in servers), logs=self.folder)
        return [server.stop() for server in servers]

    def kill(self) -> None:
        """End all servers, whatever they do."""
        for server in self.servers.values():
            server.kill()


@dataclass(slots=True)
class Report:
    """One report of the fleet and what became of it.

    Args:
        round: Its round.
        place: The grid place inside.
        wire: Its bytes, the same at every attempt.
        fate: "waiting", "acknowledged", "refused", or "unknown" if an attempt may have arrived
            although no answer came back.
    """

    round: int
    place: int
    wire: bytes = field(repr=False)
    fate: str = "waiting"
    may_have_arrived: bool = False


class Fleet:
    """Devices in threads: each reports every round, and repeats the same bytes until answered.

    Args:
        installed: Where to.
        devices: How many.
        starts: Whether the threads start; if not, `send_together` reports for all of them.
    """

    def __init__(self, installed: Installed, devices: int, *, starts: bool = True) -> None:
        self._urls = installed.intake_urls
        self._stop = threading.Event()
        secrets = [number.to_bytes(32, "big") for number in range(1, devices + 1)]
        self._credentials = installed.enrolled(secrets)
        ((signed,),) = installed.rows(Role.SHUFFLER, "SELECT signed FROM campaign")
        pinned = _pinned(installed)
        self.campaign: Campaign = SignedCampaign.from_bytes(bytes(signed), pinned).campaign
        self.read_keys(installed)
        self._secrets, self._pinned = secrets, pinned
        self._registrar_url = installed.registrar_url
        self.wallets = self.wallets_for(self.campaign.id)
        if starts:
            self.wallets.keep_full()
        self._failures: list[BaseException] = []
        self.reports: list[Report] = []
        self._threads = [
            threading.Thread(target=self._run, args=(number,))
            for number in range(devices if starts else 0)
        ]
        for thread in self._threads:
            thread.start()

    def read_keys(self, installed: Installed) -> None:
        """Seal from now on with the newest keyset."""
        newest = "SELECT signed FROM keyset ORDER BY version DESC LIMIT 1"
        ((signed,),) = installed.rows(Role.SHUFFLER, newest)
        keyset = SignedKeyset.from_bytes(bytes(signed), _pinned(installed)).keyset
        self._keyset: Keyset = keyset

    def wallets_for(self, campaign: str) -> Wallets:
        """Return what holds the tokens of a campaign; none is fetched yet."""
        return Wallets(
            self._secrets,
            registrar=self._registrar_url,
            campaign=campaign,
            pinned=self._pinned,
        )

    def tokened_round(self) -> int:
        """Wait for a round whose tokens are here to end, and return it."""
        clock, ended = SystemClock(), [0]

        def is_over() -> bool:
            self.wallets.fetch()
            # Kept: when this returns, the next one may be over, and its tokens not be here.
            ended[0] = int(clock.now_s()) // self.campaign.round_s - 1
            return self.wallets.holds(ended[0])

        until(is_over)
        return ended[0]

    def acknowledged(self) -> list[Report]:
        """Return the reports that the shuffler has taken in so far."""
        return [report for report in list(self.reports) if report.fate == "acknowledged"]

    def send_together(self, round: int, *, places: Sequence[int]) -> list[int]:
        """Report once for each of the first devices, in one request as a gateway would.

        Returns:
            The status that each report was answered with.
        """
        wires = [
            self._sealed(round, place=place, token=self.wallets.take(number, round)).wire
            for number, place in enumerate(places)
        ]
        pairs = [
            [handle_of(credential), frame_of(wire, credential)]
            for credential, wire in zip(self._credentials, wires, strict=False)
        ]
        answer = httpx.post(
            f"{self._urls[0]}/v1/reports",
            content=cbor.encode(pairs),
            headers={"Content-Type": "application/cbor"},
            timeout=PATIENCE_S,
        )
        return [reply["status"] for reply in cbor.decode(answer.content, max_size=1 << 24)]

    def stop(self) -> None:
        """Let no device begin another round, and wait until all know what became of theirs."""
        self._stop.set()
        self.wallets.stop()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _run(self, number: int) -> None:
        try:
            with httpx.Client(timeout=PATIENCE_S) as client:
                self._report(number, client)
        except BaseException as error:
            self._failures.append(error)
            raise

    def _report(self, number: int, client: httpx.Client) -> None:
        clock, pause = SystemClock(), threading.Event()
        last, waiting = int(clock.now_s()) // self.campaign.round_s - 1, list[Report]()
        newest: Report | None = None
        # Any intake will do, and a retry may reach another one.
        urls = cycle(self._urls[number % len(self._urls) :] + self._urls)
        while waiting or not self._stop.is_set():
            ended = int(clock.now_s()) // self.campaign.round_s - 1
            if ended > last and not self._stop.is_set():
                last = ended
                token = self.wallets.take(number, ended)
                if token is not None:
                    place = (997 * ended + 31 * number) % 4096
                    newest = self._sealed(ended, place=place, token=token)
                    waiting.append(newest)
                    self.reports.append(newest)
            # The newest is sent even if it was acknowledged: an answer may always get lost.
            for report in {id(report): report for report in (*waiting, newest) if report}.values():
                _send(client, next(urls), report, self._credentials[number])
            waiting = [report for report in waiting if report.fate == "waiting"]
            # What waits meets a server as soon as it is back. What is only repeated writes nothing
            # there, and would take the processor from what the test is about.
            pause.wait(0.01 if waiting else 0.1)

    def _sealed(self, round: int, *, place: int, token: bytes | None) -> Report:
        end_s = self.campaign.round_end_s(round)
        wire = seal_report(
            Content(round, place, 0, token or b""),
            campaign_hash=campaign_hash(self.campaign),
            shuffler=self._keyset.active(Role.SHUFFLER, now_s=end_s),
            fusion=self._keyset.active(Role.FUSION, now_s=end_s),
            keyset=self._keyset.version,
        )
        return Report(round, place, wire)


def _send(client: httpx.Client, url: str, report: Report, credential: str) -> None:
    headers = {
        "Content-Type": "application/rase-report",
        "Authorization": authorization_of(report.wire, credential),
    }
    try:
        answer = client.post(f"{url}/v1/reports", content=report.wire, headers=headers)
    except httpx.ConnectError:
        return
    except httpx.HTTPError:
        report.may_have_arrived = True
        return
    if answer.status_code in (200, 201):
        report.fate = "acknowledged"
        return
    if report.fate == "acknowledged":
        return
    problem = Problem.from_json(answer.content).type.name
    if problem in ("round-closed", "outdated-config"):
        report.fate = "unknown" if report.may_have_arrived else "refused"
    else:
        assert problem in ("unavailable", "round-not-open"), problem


def _pinned(installed: Installed) -> PinnedKeys:
    keys = {
        role: read_signing_key(config.parent / "keys/signing.key", role=role).public_bytes()
        for role, config in installed.configs.items()
    }
    registrar = read_secret_key(
        installed.registrar_config.parent / "keys/signing.key", "registrar.signing_key_file"
    )
    return PinnedKeys(keys[Role.FUSION], keys[Role.SHUFFLER], public_key_of(registrar))
