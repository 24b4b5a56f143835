"""Alarms on answers: one look at each final round, kept, and delivered until they arrived."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import httpx

from rase.campaign import Campaign
from rase.clock import round_start_s, time_in_words
from rase.counts.registry import TRACKED
from rase.fusion.parts import EVERY, Part, check_part
from rase.fusion.query import Questions
from rase.fusion.refusals import BAD_QUESTION, Refused
from rase.fusion.settings import AlarmSettings
from rase.series.alarms import AlarmRule, detection_rounds, read_alarm
from rase.service.clients import client
from rase.storage.interface import Database

if TYPE_CHECKING:
    from rase.fusion.centre import FusionCentre

__all__ = [
    "QUIET",
    "RAISED",
    "REFUSED",
    "AlarmEvent",
    "AlarmStatus",
    "Alarms",
    "post_event",
    "watching",
]

RAISED: Final = "raised"
QUIET: Final = "quiet"
REFUSED: Final = "refused"
_TIMEOUT_S: Final = 10.0
# What could not be delivered is tried again, and other processes make rounds final, too.
_LOOK_S: Final = 30.0
_MEAN: Final = "unbiased_mean"
# After an outage only the last rounds are looked at: an alarm about last week helps nobody.
_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmEvent:
    """Say that an alarm was raised, or is quiet again.

    Args:
        alarm: Its name.
        campaign: The campaign's id.
        label: One of its labels; None for all devices.
        category: The state whose share it is about; None for a number.
        kind: What it looks at: above, below or change.
        level: The level.
        state: "raised" or "quiet"; "test" for a test.
        round: The round.
        time: When the round began.
        value: The mean, or how far it differs from the one before.
        standard_error: Its error.
        false_alarms_per_month: How many alarms a month come although nothing is the matter, at
            most, on average.
    """

    alarm: str
    campaign: str
    label: str | None
    category: str | None
    kind: str
    level: float
    state: str
    round: int
    time: str
    value: float
    standard_error: float
    false_alarms_per_month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmStatus:
    """Say how an alarm stands, and what to expect of it.

    Args:
        alarm: Its name.
        campaign: The campaign's id.
        label: One of its labels; None for all devices.
        category: The state whose share it is about; None for a number.
        kind: What it looks at.
        level: The level.
        state: "raised", "quiet", "waiting" if it has not looked at a round yet, or "refused" if it
            never can, for the campaign has no such answer.
        round: The last round that it has looked at; None if there is none.
        threshold: How many standard errors beyond the level raise it.
        false_alarms_per_month: At most, on average.
        shift: A tenth of the level, or for a change of the newest mean.
        detection_rounds: After how many rounds such a shift is noticed, as often as not; None if
            it is too small, or no error is known yet.
        problem: Why it is refused; None if it is not.
    """

    alarm: str
    campaign: str
    label: str | None
    category: str | None
    kind: str
    level: float
    state: str
    round: int | None
    threshold: float
    false_alarms_per_month: float
    shift: float | None
    detection_rounds: int | None
    problem: str | None = None


class Alarms:
    """Look at final rounds, and keep what alarms said.

    Args:
        database: The fusion centre's.
        questions: Where answers come from.
        settings: The alarms, as the operator wrote them down.
    """

    def __init__(
        self, database: Database, questions: Questions, settings: Sequence[AlarmSettings]
    ) -> None:
        self._database = database
        self._questions = questions
        self._settings = {one.name: one for one in settings}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all alarms."""
        return tuple(self._settings)

    @property
    def all_settings(self) -> tuple[AlarmSettings, ...]:
        """All alarms, as the operator wrote them down."""
        return tuple(self._settings.values())

    def settings(self, name: str) -> AlarmSettings:
        """Return an alarm as the operator wrote it down.

        Raises:
            KeyError: If no alarm has the name.
        """
        return self._settings[name]

    def look(self) -> int:
        """Look at the rounds that became final since; return in how many an alarm changed."""
        return sum(self._look_at(one) for one in self._settings.values())

    def problem(self, name: str) -> str | None:
        """Return why an alarm can never be raised; None if it can, or its campaign is to come.

        Raises:
            KeyError: If no alarm has the name.
        """
        one = self._settings[name]
        try:
            campaign = self._questions.campaign(one.campaign)
        except Refused:
            return None
        try:
            _rule_of(one, campaign)
            _check_answered(one, campaign)
        except (Refused, ValueError) as error:
            return f"alarm {one.name!r}: {error}"
        return None

    def waiting(self) -> list[AlarmEvent]:
        """Return what was not delivered yet, oldest first."""
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                "SELECT alarm, campaign, round, state, value, standard_error FROM alarm_history "
                "WHERE delivered = 0 ORDER BY round, alarm"
            )
        return [self._event(row) for row in rows if row[0] in self._settings]

    def mark_delivered(self, event: AlarmEvent) -> None:
        """Note that everybody was notified."""
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE alarm_history SET delivered = 1 WHERE alarm = ? AND round = ?",
                (event.alarm, event.round),
            )

    def history(self, count: int = 100) -> list[AlarmEvent]:
        """Return the last changes of all alarms, newest first."""
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                "SELECT alarm, campaign, round, state, value, standard_error FROM alarm_history "
                "ORDER BY round DESC, alarm LIMIT ?",
                (count,),
            )
        return [self._event(row) for row in rows if row[0] in self._settings]

    def status(self) -> list[AlarmStatus]:
        """Return how each alarm stands."""
        with self._database.snapshot() as transaction:
            rows = transaction.execute("SELECT alarm, round, state FROM alarm_states")
        known = {name: (round, state) for name, round, state in rows}
        return [
            self._status(one, *known.get(one.name, (None, "waiting")))
            for one in self._settings.values()
        ]

    def test_event(self, name: str) -> AlarmEvent:
        """Return an event that tries the ways of delivery.

        Raises:
            KeyError: If there is no alarm of the name.
        """
        one = self._settings[name]
        return AlarmEvent(
            alarm=name,
            campaign=one.campaign,
            label=one.label,
            category=one.category,
            kind=one.kind,
            level=one.level,
            state="test",
            round=0,
            time=time_in_words(0),
            value=0.0,
            standard_error=0.0,
            false_alarms_per_month=one.per_month,
        )

    def _look_at(self, one: AlarmSettings) -> int:
        try:
            campaign = self._questions.campaign(one.campaign)
            rule, part = _rule_of(one, campaign), Part(one.label, one.category)
            _check_answered(one, campaign)
            newest = self._questions.last_round(campaign)
        except Refused:
            # The campaign is not published yet, has no such answer, or no round is final.
            return 0
        with self._database.snapshot() as transaction:
            found = transaction.execute(
                "SELECT round, state FROM alarm_states WHERE alarm = ?", (one.name,)
            )
        last, state = found[0] if found else (newest - 1, QUIET)
        first = max(last + 1, newest - _AT_ONCE + 1)
        if first > newest:
            return 0
        method = None if campaign.states is not None else _MEAN
        known = {
            answer.answer.round: answer.alone
            for answer in self._questions.answered(
                campaign, max(first - rule.needed, 0), newest, method, part
            )
        }
        changes = []
        for round in range(first, newest + 1):
            row = [known.get(number) for number in range(round - rule.needed + 1, round + 1)]
            reading = read_alarm(rule, row)
            if reading is None:
                continue
            then = RAISED if reading.is_beyond else QUIET if reading.is_back else state
            if then != state:
                changes.append(
                    (one.name, campaign.id, round, then, reading.value, reading.standard_error)
                )
            state = then
        with self._database.transaction() as transaction:
            now = transaction.execute("SELECT round FROM alarm_states WHERE alarm = ?", (one.name,))
            if [row[0] for row in now] != [row[0] for row in found]:
                return 0  # another process was faster
            transaction.execute(
                "INSERT INTO alarm_states (alarm, round, state) VALUES (?, ?, ?) ON CONFLICT "
                "(alarm) DO UPDATE SET round = excluded.round, state = excluded.state",
                (one.name, newest, state),
            )
            transaction.execute_many(
                "INSERT INTO alarm_history (alarm, campaign, round, state, value, standard_error, "
                "delivered) VALUES (?, ?, ?, ?, ?, ?, 0)",
                changes,
            )
        return len(changes)

    def _event(self, row: Sequence[object]) -> AlarmEvent:
        name, campaign, round, state, value, error = row
        one = self._settings[str(name)]
        found = self._questions.campaign(str(campaign))
        return AlarmEvent(
            alarm=one.name,
            campaign=found.id,
            label=one.label,
            category=one.category,
            kind=one.kind,
            level=one.level,
            state=str(state),
            round=int(str(round)),
            time=time_in_words(round_start_s(int(str(round)), found.round_s)),
            value=float(str(value)),
            standard_error=float(str(error)),
            false_alarms_per_month=one.per_month,
        )

    def _status(self, one: AlarmSettings, round: int | None, state: str) -> AlarmStatus:
        shift = delay = None
        problem = self.problem(one.name)
        if problem is not None:
            round, state = None, REFUSED
        threshold = 0.0
        with suppress(Refused):
            campaign = self._questions.campaign(one.campaign)
            rule = _rule_of(one, campaign)
            threshold = rule.threshold
            if round is not None:
                method = None if campaign.states is not None else _MEAN
                found = self._questions.answered(
                    campaign, round, round, method, Part(one.label, one.category)
                )
                estimate = found[0].alone if found else None
                if estimate is not None:
                    shift = abs(estimate.value if one.kind == "change" else one.level) / 10
                    delay = detection_rounds(rule, shift, estimate.standard_error)
        return AlarmStatus(
            alarm=one.name,
            campaign=one.campaign,
            label=one.label,
            category=one.category,
            kind=one.kind,
            level=one.level,
            state=state,
            round=round,
            threshold=threshold,
            false_alarms_per_month=one.per_month,
            shift=shift,
            detection_rounds=delay,
            problem=problem,
        )


def post_event(
    url: str, event: AlarmEvent, *, transport: httpx.BaseTransport | None = None
) -> None:
    """Post an event to a webhook, as JSON.

    Raises:
        httpx.HTTPError: If it does not arrive, or is refused.
    """
    with client(url, timeout=_TIMEOUT_S, transport=transport) as sender:
        sender.post(url, json=asdict(event)).raise_for_status()


@asynccontextmanager
async def watching(centre: "FusionCentre", alarms: Alarms) -> AsyncIterator[None]:
    """Look at final rounds and deliver alarms while the block lasts.

    Args:
        centre: Wakes, and counts.
        alarms: The alarms.
    """
    woken, loop = asyncio.Event(), asyncio.get_running_loop()
    logged: set[str] = set()

    def wake() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(woken.set)

    async def work() -> None:
        while True:
            woken.clear()
            try:
                await asyncio.to_thread(_deliver, centre, alarms, logged)
            except Exception as error:  # noqa: BLE001 - whatever it was, it is tried again
                centre.telemetry.event("alarm_failed", error=type(error).__name__)
                centre.telemetry.count("alarms_failed")
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), _LOOK_S)

    centre.on_final.append(wake)
    task = asyncio.create_task(work())
    try:
        yield
    finally:
        centre.on_final.remove(wake)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _deliver(
    centre: "FusionCentre",
    alarms: Alarms,
    logged: set[str],
    *,
    post: Callable[[str, AlarmEvent], None] = post_event,
) -> None:
    """Look at new rounds, and post what was not delivered yet; the rest waits for the next time."""
    alarms.look()
    for name in alarms.names:
        # Said once in the life of a server; `rase fusion alarms list` says it every time.
        if alarms.problem(name) is not None and name not in logged:
            logged.add(name)
            centre.telemetry.event("alarm_refused", problem=name)
    for event in alarms.waiting():
        webhook = alarms.settings(event.alarm).webhook
        if webhook is not None:
            try:
                post(webhook, event)
            except httpx.HTTPError as error:
                centre.telemetry.event("alarm_not_delivered", error=type(error).__name__)
                centre.telemetry.count("alarms_failed")
                continue
        alarms.mark_delivered(event)
        centre.telemetry.count("alarms_delivered")


def _check_answered(one: AlarmSettings, campaign: Campaign) -> None:
    """Refuse an alarm on an answer that the campaign's rounds do not have.

    Raises:
        Refused: Naming what it must have.
    """
    check_part(campaign, Part(one.label, one.category))
    if one.label == EVERY:
        raise Refused(BAD_QUESTION, "label must be one label here.")
    if campaign.states is not None:
        if one.category is None:
            names = ", ".join(campaign.categories)
            raise Refused(BAD_QUESTION, f"category must be one of {names}.")
    elif one.label is None and not {_MEAN, TRACKED} & set(campaign.estimators):
        raise Refused(
            BAD_QUESTION,
            f"estimators of campaign {campaign.id!r} must have {_MEAN} or {TRACKED}, on whose "
            f"means alarms are raised, got {', '.join(campaign.estimators)}; publish a version "
            "that has one.",
        )


def _rule_of(one: AlarmSettings, campaign: Campaign) -> AlarmRule:
    return AlarmRule(
        kind=one.kind,
        level=one.level,
        rounds=one.rounds,
        against=one.against if one.against is not None else one.rounds,
        per_month=one.per_month,
        round_s=campaign.round_s,
    )
