"""The live part of ``rase demo``: a fleet, two servers and a subscriber, round after round.

Everything goes the way it goes in life: the campaign is countersigned, devices enrol, randomize
and seal, the shuffler takes reports in, closes and shuffles rounds, the fusion centre opens and
estimates, a subscriber asks. Only the clock is made up: it is moved on when a round has nothing
left to do.
"""

import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from rase.answer import Answer
from rase.campaign import Campaign
from rase.cli.demo.installation import (
    DemoFleet,
    Disturbance,
    Servers,
    enrolled_fleet,
    running_servers,
)
from rase.clock import FakeClock, round_start_s
from rase.domain import Range
from rase.lab.fleet import SyntheticFleet
from rase.laws.registry import best_mechanism
from rase.subscriber.answers import FusionUnreachable
from rase.wire.keys import Role

__all__ = ["HOURS", "LiveDemo", "LiveRound", "LiveSummary"]

HOURS: Final = 24
_ROUND_S: Final = 3600
_K_MIN: Final = 20
_PATIENCE_S: Final = 30.0
# Used where there is one: devices sync their disks at every step.
_IN_MEMORY: Final = "/dev/shm"  # noqa: S108 - a folder of its own in it, with a random name
# Three mishaps of every day, by the hour: what is disturbed, on how many lines, and in words.
_ANSWERS_LOST: Final = 3
_MISHAPS: Final[Mapping[int, tuple[Disturbance, str]]] = {
    1: ("lose-answer", "3 answers lost: the devices send the same bytes again"),
    3: ("tamper", "1 report tampered with on its way: it does not open"),
    5: ("down", "the network is down for most devices: their reports come too late"),
}


@dataclass(frozen=True, slots=True)
class LiveRound:
    """Hold one round as a subscriber sees it, beside what only a synthetic fleet can tell.

    Args:
        answer: What the fusion centre told.
        truth: The true mean of the fleet.
        mean_so_far: The mean of all estimates up to here; None before the first.
        error_so_far: How far it is from the mean of the same rounds' truths.
        mishap: What went wrong on purpose; empty if nothing.
    """

    answer: Answer
    truth: float
    mean_so_far: float | None
    error_so_far: float | None
    mishap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSummary:
    """Hold what became of all rounds, by the counters of those who saw it.

    Args:
        devices: How many took part.
        sent: Reports that left devices, repeated ones among them.
        accepted: Reports that the shuffler stored.
        repeated: Reports that it had already, and ignored.
        late: Reports that came after their round was closed.
        unopened: Reports that did not open when their round was closed.
        withheld_reports: Reports of withheld rounds, erased unread.
        released: Rounds with an estimate.
        withheld: Rounds without one.
        rmse: Root mean square error of the estimates against the truth; NaN without any.
        predicted: The root mean square of the standard errors they came with.
        covered: How many of their 95 % intervals held the truth.
        report_bytes: The size of a report; the largest, should they differ.
        epsilon_spent: The most a device spent, by its ledger.
        guarantee: What one report promises.
        shuffle: What the shuffler says it did, in the last released round.
        envelopes_left: Sealed reports in the shuffler's database at the end.
        values_left: Noisy reports in the fusion centre's database at the end.
    """

    devices: int
    sent: int
    accepted: int
    repeated: int
    late: int
    unopened: int
    withheld_reports: int
    released: int
    withheld: int
    rmse: float
    predicted: float
    covered: int
    report_bytes: int
    epsilon_spent: float
    guarantee: str
    shuffle: str
    envelopes_left: int
    values_left: int


class LiveDemo:
    """Run the live system, from the first enrolment to the last answer.

    Args:
        fleet: The readings.
        epsilon: The budget of one report.
        value_range: The public range of readings.
        rounds: After how many rounds it ends.
        seed: Makes the noise reproducible, and worthless; None for real noise.
        folder: Where to work; a temporary folder, removed at the end, if None.
    """

    def __init__(
        self,
        fleet: SyntheticFleet,
        *,
        epsilon: float,
        value_range: Range,
        rounds: int,
        seed: int | None = None,
        folder: Path | None = None,
    ) -> None:
        self._readings = fleet
        self.rounds = rounds
        self._seed = seed
        self._folder = folder
        self._stack = ExitStack()
        self._seen: list[LiveRound] = []
        first = next(iter(fleet.batches())).time_ms[0] // 1000 // _ROUND_S
        self.campaign = Campaign(
            id="demo-power",
            version=1,
            quantity="mean power of an appliance in an hour",
            unit="W",
            low=value_range.low,
            high=value_range.high,
            steps=value_range.steps,
            mechanism=best_mechanism(epsilon),
            epsilon=(epsilon,),
            window=HOURS,
            window_budget=HOURS * epsilon,
            round_s=_ROUND_S,
            upload_s=300,
            grace_s=600,
            k_min=max(2, min(_K_MIN, fleet.devices // 2)),
            not_before=int(first),
            not_after=int(first) + HOURS * fleet.days,
        )
        self._clock = FakeClock(round_start_s(int(first), _ROUND_S))

    def __enter__(self) -> Self:
        """Start the servers, publish the campaign, enrol the devices."""
        with ExitStack() as stack:
            folder = self._folder or Path(stack.enter_context(_throw_away_folder()))
            self._servers: Servers = stack.enter_context(
                running_servers(
                    folder,
                    self._clock,
                    campaign=self.campaign,
                    devices=self._readings.devices,
                )
            )
            self._fleet: DemoFleet = stack.enter_context(
                enrolled_fleet(
                    folder / "devices",
                    self._clock,
                    campaign=self.campaign,
                    shuffler_url=self._servers.shuffler_url,
                    pinned=self._servers.pinned,
                    tokens=self._servers.tokens,
                    total_epsilon=self.rounds * self.campaign.epsilon[0],
                    seed=self._seed,
                )
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop everything and remove the folder."""
        self._stack.close()

    @property
    def servers(self) -> Servers:
        """The servers, while they run."""
        return self._servers

    @property
    def fleet(self) -> DemoFleet:
        """The devices, while they run."""
        return self._fleet

    def run(self) -> Iterator[LiveRound]:
        """Live through the rounds.

        Yields:
            Each as soon as a subscriber can ask for it.
        """
        for place, readings in zip(range(self.rounds), self._hours(), strict=False):
            mishap = self._disturb(place)
            round = self.campaign.not_before + place
            self._fleet.live_through(round, readings.tolist())
            answer = self._closed(round)
            self._disturb(None)
            yield self._told(answer, float(readings.mean()), mishap)

    def summary(self) -> LiveSummary:
        """Return what became of the rounds so far."""
        counts = self._servers.shuffler.counters()

        def count(name: str) -> int:
            return counts.get(f"rase_shuffler_{name}_total", 0)

        told = [(one.answer, one.truth) for one in self._seen if one.answer.value is not None]
        last = self._seen[-1].answer if self._seen else None
        return LiveSummary(
            devices=len(self._fleet.devices),
            sent=self._fleet.sent,
            accepted=count("reports_stored"),
            repeated=count("reports_repeated"),
            late=count("problem_round_closed"),
            unopened=count("reports_unopened"),
            withheld_reports=count("reports_dropped"),
            released=len(told),
            withheld=len(self._seen) - len(told),
            rmse=_root_mean_square([(one.value or 0.0) - truth for one, truth in told]),
            predicted=_root_mean_square([one.standard_error or 0.0 for one, _ in told]),
            covered=sum(_covers(one, truth) for one, truth in told),
            report_bytes=max(self._fleet.report_sizes, default=0),
            epsilon_spent=self._fleet.epsilon_spent(),
            guarantee="" if last is None else last.promise,
            shuffle=told[-1][0].shuffle if told else "",
            envelopes_left=self._left(Role.SHUFFLER, "report"),
            values_left=self._left(Role.FUSION, "opened"),
        )

    def _hours(self) -> Iterator[NDArray[np.float64]]:
        for day in self._readings.batches():
            yield from np.asarray(day.value).reshape(HOURS, self._readings.devices)

    def _disturb(self, place: int | None) -> str:
        """Disturb the lines as the hour of the day says; mend them all if ``place`` is None."""
        disturbance, words = _MISHAPS.get(-1 if place is None else place % HOURS, (None, ""))
        lines = [device.line for device in self._fleet.devices]
        many = {
            "lose-answer": _ANSWERS_LOST,
            "tamper": 1,
            # One fewer than may be told together still get through.
            "down": len(lines) - self.campaign.k_min + 1,
            None: 0,
        }[disturbance]
        for number, line in enumerate(lines):
            line.disturbance = disturbance if number < many else None
        return words

    def _closed(self, round: int) -> Answer:
        """Let the shuffler close a round, and ask for it as soon as it is final."""
        self._servers.has_final.clear()
        while self._servers.closer.step():
            continue
        if not self._servers.has_final.wait(_PATIENCE_S):
            raise FusionUnreachable(f"round {round} did not become final within {_PATIENCE_S} s.")
        return self._servers.subscriber.average(at=1000 * round_start_s(round, _ROUND_S))

    def _told(self, answer: Answer, truth: float, mishap: str) -> LiveRound:
        told = [(one.answer.value, one.truth) for one in self._seen]
        pairs = [pair for pair in [*told, (answer.value, truth)] if pair[0] is not None]
        mean = error = None
        if pairs:
            mean = sum(value or 0.0 for value, _ in pairs) / len(pairs)
            error = mean - sum(true for _, true in pairs) / len(pairs)
        self._seen.append(LiveRound(answer, truth, mean, error, mishap))
        return self._seen[-1]

    def _left(self, role: Role, table: str) -> int:
        with self._servers.databases[role].snapshot() as transaction:
            ((count,),) = transaction.execute(f"SELECT count(*) FROM {table}")  # noqa: S608
        return int(count)


def _throw_away_folder() -> "tempfile.TemporaryDirectory[str]":
    try:
        return tempfile.TemporaryDirectory(prefix="rase-demo-", dir=_IN_MEMORY)
    except OSError:
        return tempfile.TemporaryDirectory(prefix="rase-demo-")


def _root_mean_square(errors: list[float]) -> float:
    if not errors:
        return math.nan
    return math.sqrt(sum(error * error for error in errors) / len(errors))


def _covers(answer: Answer, truth: float) -> bool:
    if answer.low is None or answer.high is None:
        return False
    return answer.low <= truth <= answer.high
