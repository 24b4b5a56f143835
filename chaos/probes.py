"""Devices that seal known grid places: they tell exactly what must be in every estimate."""

import threading
from collections import Counter
from dataclasses import dataclass, field

import httpx

from chaos.installation import Installation
from rase.campaign import Campaign
from rase.clock import SystemClock
from rase.errors import RaseError
from rase.wire.frames import authorization_of
from rase.wire.keys import Keyset, Role
from rase.wire.messages import Content
from rase.wire.problems import PROBLEM_TYPES, Problem
from rase.wire.seal import seal_report
from rase.wire.signed import campaign_hash

__all__ = ["Probes", "Report"]

_TIMEOUT_S = 5.0
_FRESH_S = 1.0
_OUTDATED = ("outdated-config", "other-keyset")
_REFUSALS = ("round-closed", *_OUTDATED)
_PATIENCE = ("unavailable", "round-not-open", "too-many")


@dataclass(slots=True)
class Report:
    """One report and what became of it.

    Args:
        round: Its round.
        place: The grid place inside.
        device: Whose.
        wire: Its bytes, the same at every attempt as long as the keys are.
        token: What it counts by.
        fate: "waiting", "acknowledged", "refused", or "unknown" if an attempt may have arrived
            although no answer came back.
    """

    round: int
    place: int
    device: int
    wire: bytes = field(repr=False)
    token: bytes = field(repr=False)
    fate: str = "waiting"
    may_have_arrived: bool = False


class Probes:
    """Devices in threads: each reports every round, and repeats the same bytes until answered.

    Args:
        installation: Where to, through the proxy.
        count: How many.
    """

    def __init__(self, installation: Installation, count: int) -> None:
        self._installation = installation
        self._url = installation.proxies[Role.SHUFFLER].url
        self._stop = threading.Event()
        self._credentials, self._wallets = installation.enrolled(count)
        self._agreed: tuple[Campaign, Keyset] = installation.agreed()
        self._wallets.keep_full()
        self.reports: list[Report] = []
        self.answers: Counter[str] = Counter()
        self.unexplained: list[str] = []
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(count)
        ]
        self._threads.append(threading.Thread(target=self._keep_fresh, daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def campaign(self) -> Campaign:
        """What was agreed."""
        return self._agreed[0]

    def acknowledged(self) -> int:
        """Return how many reports were acknowledged."""
        return sum(report.fate == "acknowledged" for report in list(self.reports))

    def stop(self) -> None:
        """Let no device begin another round, and wait until all know what became of theirs."""
        self._stop.set()
        self._wallets.stop()
        for thread in self._threads:
            thread.join(60)

    def _keep_fresh(self) -> None:
        while not self._stop.wait(_FRESH_S):
            try:
                self._agreed = self._installation.agreed()
            except (OSError, RaseError, ValueError):
                continue

    def _run(self, number: int) -> None:
        clock, waiting = SystemClock(), list[Report]()
        newest: Report | None = None
        last = int(clock.now_s()) // self.campaign.round_s - 1
        with httpx.Client(timeout=_TIMEOUT_S, trust_env=False) as client:
            while waiting or not self._stop.is_set():
                ended = int(clock.now_s()) // self.campaign.round_s - 1
                if ended > last and not self._stop.is_set():
                    last = ended
                    place = (997 * ended + 31 * number) % self.campaign.steps
                    token = self._wallets.take(number, ended)
                    # Without one a device has nothing to send.
                    if token is not None:
                        wire = self._sealed(ended, place, token)
                        newest = Report(ended, place, number, wire, token)
                        waiting.append(newest)
                        self.reports.append(newest)
                # The newest is sent even if acknowledged: an answer may always get lost.
                for one in {id(report): report for report in (*waiting, newest) if report}.values():
                    self._send(client, one)
                waiting = [report for report in waiting if report.fate == "waiting"]
                self._stop.wait(0.05)

    def _sealed(self, round: int, place: int, token: bytes, *, is_anew: bool = False) -> bytes:
        """Seal as a device does: anew for the shuffler's key of now."""
        campaign, keyset = self._agreed
        end_s = float(campaign.round_end_s(round))
        moment_s = SystemClock().now_s() if is_anew else end_s
        return seal_report(
            Content(round, place, 0, token),
            campaign_hash=campaign_hash(campaign),
            shuffler=keyset.active(Role.SHUFFLER, now_s=moment_s),
            fusion=keyset.active(Role.FUSION, now_s=end_s),
            keyset=keyset.version,
        )

    def _send(self, client: httpx.Client, report: Report) -> None:
        headers = {
            "Content-Type": "application/rase-report",
            "Authorization": authorization_of(report.wire, self._credentials[report.device]),
        }
        try:
            answer = client.post(f"{self._url}/v1/reports", content=report.wire, headers=headers)
        except httpx.ConnectError:
            self.answers["not connected"] += 1
            return
        except httpx.HTTPError:
            self.answers["no answer"] += 1
            report.may_have_arrived = True
            return
        self.answers[str(answer.status_code)] += 1
        if answer.status_code in (200, 201):
            report.fate = "acknowledged"
        elif report.fate != "acknowledged":
            self._refused(report, answer)

    def _refused(self, report: Report, answer: httpx.Response) -> None:
        try:
            problem = Problem.from_json(answer.content).type.name
        except (RaseError, ValueError):
            problem = "?"
        if problem in _OUTDATED and not report.may_have_arrived:
            # As a device does: the same place, sealed for the keys of now.
            report.wire = self._sealed(report.round, report.place, report.token, is_anew=True)
        elif problem in _REFUSALS:
            report.fate = "unknown" if report.may_have_arrived else "refused"
        elif problem not in _PATIENCE:
            known = problem if problem in PROBLEM_TYPES else answer.text[:100]
            self.unexplained.append(f"{answer.status_code} {known}")
            report.fate = "unknown"
