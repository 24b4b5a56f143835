"""The live part of ``rase demo``: a fleet, two servers and a subscriber, hour after hour.

Everything goes the way it goes in life: the campaign is countersigned, homes are enrolled, their
reports are randomized and sealed, the shuffler takes them in, closes and shuffles rounds, the
fusion centre opens and estimates, a subscriber asks. Only the clock is made up: it is moved on when
an hour has nothing left to do.
"""

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol, Self

import numpy as np

from rase.accounting.accountant.calibrate import calibrate
from rase.accounting.accountant.claims import claims
from rase.answer import Answer
from rase.campaign import Campaign
from rase.cli.demo.gateway import Gateway, Sent, Task
from rase.cli.demo.servers import Servers, running_servers
from rase.clock import FakeClock, round_start_s
from rase.domain import Range
from rase.laws.randomizer import RangeRandomizer
from rase.promise import Claim
from rase.subscriber.answers import FusionUnreachable
from rase.wire.keys import Role

__all__ = [
    "FIRST_ROUND",
    "HOURS",
    "LiveDemo",
    "LiveRound",
    "LiveSummary",
    "LiveSystem",
    "Setting",
]

HOURS: Final = 24
_ROUND_S: Final = 3600
# A Sunday at midnight, on which the made-up homes begin.
FIRST_ROUND: Final = 1_767_484_800 // _ROUND_S
# Each home goes through all hours: 25 shares no factor with 24.
_WINDOW: Final = HOURS + 1
# So many standard deviations below the expected number of reports that no honest hour is withheld.
_SPARE: Final = 4.6
_PATIENCE_S: Final = 120.0
# Used where there is one: the servers sync their disks at every commit.
_IN_MEMORY: Final = "/dev/shm"  # noqa: S108 - a folder of its own in it, with a random name
_MISHAPS: Final = {3: "lost answer", 5: "tampered", 29: "offline"}
_MISHAP_WORDS: Final = {
    "lost answer": "an answer was lost: the gateway sends 500 reports again, which count once",
    "tampered": "one report was tampered with on its way: it does not open",
    "offline": "most homes are offline: too few reported, so nothing is released",
}
_SHIFT: Final = (36, 1.25)
_SHIFT_WORDS: Final = "from now on every home uses a quarter more"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Say what is demonstrated.

    Args:
        homes: How many homes.
        days: How many days, a round each hour.
        high_w: The largest power that a home reports; more counts as this.
        shuffled_epsilon: What a home's report may give away towards the fusion centre, in a day.
        delta: The delta of that promise.
        world: The seed of the homes' lives, which is no secret.

    Raises:
        ValueError: If there are too few homes or days.
        PrivacyRefused: If no law keeps the promise in so small a crowd.
    """

    homes: int
    days: int
    high_w: float
    shuffled_epsilon: float
    delta: float = 1e-6
    world: int = 1

    def __post_init__(self) -> None:
        """Check the numbers once."""
        for name, least in (("homes", 2), ("days", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")

    @property
    def expected_reports(self) -> float:
        """How many homes report in an hour, on average."""
        return self.homes / _WINDOW

    @property
    def k_min(self) -> int:
        """The fewest reports that are released, for which the promise is computed."""
        return max(2, math.floor(self.expected_reports - _SPARE * math.sqrt(self.expected_reports)))

    @cached_property
    def _law(self) -> RangeRandomizer:
        return calibrate(
            Range(0, self.high_w),
            shuffled_epsilon=self.shuffled_epsilon,
            delta=self.delta,
            n=self.k_min,
        )

    def campaign(self) -> Campaign:
        """Return what the homes agree to, with the law whose shuffled round keeps the promise."""
        law = self._law
        epsilon = law.guarantee.epsilon
        return Campaign(
            id="demo-homes",
            version=1,
            quantity="mean power of a home in an hour",
            unit="W",
            low=0,
            high=self.high_w,
            mechanism=law.name,
            epsilon=(epsilon,),
            window=_WINDOW,
            window_budget=epsilon,
            round_s=_ROUND_S,
            upload_s=300,
            grace_s=600,
            k_min=self.k_min,
            estimators=("unbiased_mean",),
            target="fleet",
            not_before=FIRST_ROUND,
            not_after=FIRST_ROUND + HOURS * self.days,
        )

    def task(self, seed: int | None) -> Task:
        """Return what the fleet does."""
        return Task(
            homes=self.homes,
            days=self.days,
            world=self.world,
            shift=_SHIFT,
            mishaps=_MISHAPS,
            seed=seed,
        )

    def claim(self, reports: int) -> Claim:
        """Return what so many reports of one home, one a day, give away together."""
        return claims(self._law, self.k_min, delta=self.delta, reports=[reports])[0]


@dataclass(frozen=True, slots=True)
class LiveRound:
    """One hour as a subscriber sees it, and what only a made-up fleet can add.

    Args:
        answer: What the fusion centre answered.
        truth: The true mean of all homes.
        note: What happened in the hour; empty if nothing.
    """

    answer: Answer
    truth: float
    note: str = ""

    @property
    def is_covered(self) -> bool:
        """Whether the 95 % interval holds the truth."""
        answer = self.answer
        if answer.low is None or answer.high is None:
            return False
        return answer.low <= self.truth <= answer.high


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSummary:
    """What became of all hours, by the counters of those who saw it.

    Args:
        homes: How many took part.
        sent: Reports that left the gateway, repeated ones among them.
        accepted: Reports that the shuffler stored.
        repeated: Reports that it had already, and ignored.
        unopened: Reports that did not open when their round was closed.
        withheld_reports: Reports of withheld rounds, erased unread.
        released: Hours with an estimate.
        withheld: Hours without one.
        covered: How many of the 95 % intervals held the truth.
        half_width: Half of the width of the 95 % intervals, on average.
        rmse: Root mean square error of the estimates; NaN without any.
        correlations: Of estimates and truth, one for each day; NaN for a day with too few hours.
        report_bytes: The size of a report.
        envelopes_left: Sealed reports in the shuffler's database at the end.
        values_left: Noisy reports in the fusion centre's database at the end.
        days: What a subscriber is answered for each day, with the true mean of the day.
    """

    homes: int
    sent: int
    accepted: int
    repeated: int
    unopened: int
    withheld_reports: int
    released: int
    withheld: int
    covered: int
    half_width: float
    rmse: float
    correlations: tuple[float, ...]
    report_bytes: int
    envelopes_left: int
    values_left: int
    days: tuple[tuple[Answer, float], ...]


class Demonstrated(Protocol):
    """What is demonstrated: a campaign, and what its fleet does."""

    def campaign(self) -> Campaign:
        """Return what the homes agree to."""

    def task(self, seed: int | None) -> Task:
        """Return what the fleet does."""


class LiveSystem:
    """A fleet, both servers and a subscriber, from the first enrolment to the last answer.

    Args:
        setting: What is demonstrated.
        seed: Makes the noise reproducible, and worthless; None for real noise.
        folder: Where to work; a temporary folder, removed at the end, if None.
    """

    def __init__(
        self, setting: Demonstrated, *, seed: int | None = None, folder: Path | None = None
    ) -> None:
        self.setting = setting
        self.campaign = setting.campaign()
        self._task = setting.task(seed)
        self._folder = folder
        self._stack = ExitStack()
        # Two hours before the first round: tokens are fetched before their window begins.
        self._clock = FakeClock(round_start_s(FIRST_ROUND - 2, _ROUND_S))
        self._sent: list[Sent] = []

    def __enter__(self) -> Self:
        """Start the fleet and the servers, publish the campaign, enrol the homes."""
        with ExitStack() as stack:
            self.gateway = stack.enter_context(Gateway(self._task))
            folder = self._folder or Path(stack.enter_context(_throw_away_folder()))
            self._servers: Servers = stack.enter_context(
                running_servers(folder, self._clock, campaign=self.campaign)
            )
            self.device_keys = self.gateway.device_keys()
            groups = self.campaign.shuffle.groups
            self.credentials = self._servers.enrol(self.device_keys, groups=groups)
            self.gateway.begin(
                self.credentials,
                url=self._servers.shuffler_url,
                registrar=self._servers.registrar_url,
                campaign=self.campaign.id,
                pinned=self._servers.pinned,
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything and remove the folder."""
        self._stack.close()

    @property
    def servers(self) -> Servers:
        """The servers, while they run."""
        return self._servers

    @property
    def rounds(self) -> int:
        """How many hours there are."""
        return HOURS * self._task.days

    def live_through(self, hour: int) -> int:
        """Let the fleet report for an hour and the servers close it; return its round."""
        round = FIRST_ROUND + hour
        self._wait_until(self.campaign.round_end_s(round))
        self._sent.append(self.gateway.send(round))
        self._wait_until(self.campaign.closes_s(round))
        self._servers.has_final.clear()
        while self._servers.closer.step():
            continue
        if not self._servers.has_final.wait(_PATIENCE_S):
            raise FusionUnreachable(f"round {round} did not become final within {_PATIENCE_S} s.")
        return round

    def answer(self, round: int, *, method: str | None = None) -> Answer:
        """Return what a subscriber is answered about a round."""
        at_ms = 1000 * round_start_s(round, _ROUND_S)
        return self._servers.subscriber.average(at=at_ms, method=method)

    def _wait_until(self, second: float) -> None:
        self._clock.advance(max(second - self._clock.now_s(), 0.0) + 0.001)


class LiveDemo(LiveSystem):
    """Run the live system over some days of a large fleet.

    Args:
        setting: What is demonstrated.
        seed: As for `LiveSystem`.
        folder: As for `LiveSystem`.
    """

    setting: Setting

    def __init__(
        self, setting: Setting, *, seed: int | None = None, folder: Path | None = None
    ) -> None:
        super().__init__(setting, seed=seed, folder=folder)
        self._seen: list[LiveRound] = []

    def run(self) -> Iterator[LiveRound]:
        """Live through the hours.

        Yields:
            Each as soon as a subscriber can ask for it.
        """
        for hour in range(self.rounds):
            answer = self.answer(self.live_through(hour))
            note = _MISHAP_WORDS.get(_MISHAPS.get(hour, ""), "")
            if hour == _SHIFT[0]:
                note = _SHIFT_WORDS
            self._seen.append(LiveRound(answer, self._sent[-1].truth, note))
            yield self._seen[-1]

    def summary(self) -> LiveSummary:
        """Return what became of the hours so far."""
        counts = self._servers.shuffler.counters()

        def count(name: str) -> int:
            return counts.get(f"rase_shuffler_{name}_total", 0)

        shown = [one for one in self._seen if one.answer.value is not None]
        answers: Counter[int] = Counter()
        for sent in self._sent:
            answers.update(sent.answers)
        return LiveSummary(
            homes=self.setting.homes,
            sent=answers.total(),
            accepted=count("reports_stored"),
            repeated=count("reports_repeated"),
            unopened=count("reports_unopened"),
            withheld_reports=count("reports_dropped"),
            released=len(shown),
            withheld=len(self._seen) - len(shown),
            covered=sum(one.is_covered for one in shown),
            half_width=_mean([(_high(one) - _low(one)) / 2 for one in shown]),
            rmse=math.sqrt(_mean([(_value(one) - one.truth) ** 2 for one in shown])),
            correlations=tuple(_correlation(day) for day in self._days()),
            report_bytes=max((sent.report_bytes for sent in self._sent), default=0),
            envelopes_left=self._count_left(Role.SHUFFLER, "report"),
            values_left=self._count_left(Role.FUSION, "opened"),
            days=tuple(self._ask_for_days()),
        )

    def _days(self) -> list[list[LiveRound]]:
        """Return the hours seen so far, by day."""
        return [self._seen[start : start + HOURS] for start in range(0, len(self._seen), HOURS)]

    def _ask_for_days(self) -> Iterator[tuple[Answer, float]]:
        for day, hours in enumerate(self._days()):
            if len(hours) == HOURS:
                last = FIRST_ROUND + HOURS * (day + 1) - 1
                at_ms = 1000 * round_start_s(last, _ROUND_S)
                answer = self._servers.subscriber.window(HOURS, at=at_ms)
                yield answer, _mean([one.truth for one in hours])

    def _count_left(self, role: Role, table: str) -> int:
        with self._servers.databases[role].snapshot() as transaction:
            ((count,),) = transaction.execute(f"SELECT count(*) FROM {table}")  # noqa: S608
        return int(count)


def _throw_away_folder() -> "tempfile.TemporaryDirectory[str]":
    try:
        return tempfile.TemporaryDirectory(prefix="rase-demo-", dir=_IN_MEMORY)
    except OSError:
        return tempfile.TemporaryDirectory(prefix="rase-demo-")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _correlation(hours: Sequence[LiveRound]) -> float:
    shown = [one for one in hours if one.answer.value is not None]
    if len(shown) < 3:
        return math.nan
    pairs = np.array([(_value(one), one.truth) for one in shown])
    return float(np.corrcoef(pairs.T)[0, 1])


def _value(one: LiveRound) -> float:
    return math.nan if one.answer.value is None else one.answer.value


def _low(one: LiveRound) -> float:
    return math.nan if one.answer.low is None else one.answer.low


def _high(one: LiveRound) -> float:
    return math.nan if one.answer.high is None else one.answer.high
