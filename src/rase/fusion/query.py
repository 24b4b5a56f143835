"""The questions of subscribers, answered from estimates alone: avg(t), Win(t, w), what is new."""

import itertools
import math
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from rase.answer import Answer
from rase.campaign import Campaign
from rase.clock import parse_duration_s, round_number, round_start_s
from rase.counts.estimate import Estimate
from rase.counts.registry import TRACKED
from rase.fusion.answers import (
    AnswerReader,
    RoundAnswer,
    answer_gap,
    answer_window,
    check_method,
    one_method,
)
from rase.fusion.campaigns import current_campaign, known_campaigns
from rase.fusion.parts import EVERY, WHOLE, Part, check_part
from rase.fusion.refusals import BAD_QUESTION, NO_ESTIMATE, Refused
from rase.fusion.tracking import joint_windows
from rase.series.calendar import CalendarUnit, calendar_span_s, check_midnights
from rase.series.window import surer_window
from rase.storage.interface import Database, Transaction
from rase.wire.problems import PROBLEM_TYPES
from rase.wire.signed import SignedCampaign

__all__ = [
    "MAX_ROUNDS",
    "Event",
    "Questions",
    "final_span",
    "parse_moment_s",
    "parse_rounds",
    "round_of",
]

MAX_ROUNDS: Final = 10_000
_MAX_S = 253402300799  # the year 9999, where calendars end
_AT_ONCE = 100
_RECENT = 24


@dataclass(frozen=True, slots=True)
class Event:
    """An answer with its number in the stream of final rounds.

    Args:
        sequence: Its number; a stream is resumed after the last one seen.
        answer: The answer.
    """

    sequence: int
    answer: Answer


class Questions:
    """Answer questions about final rounds.

    Args:
        database: The fusion centre's; it is only read.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def database(self) -> Database:
        """The database that answers come from."""
        return self._database

    def campaign(self, campaign_id: str | None) -> Campaign:
        """Return the newest version of a campaign; None means the only one there is.

        Raises:
            Refused: If there is no such campaign, or several and none was named.
        """
        return self.signed_campaign(campaign_id).campaign

    def signed_campaign(self, campaign_id: str | None) -> SignedCampaign:
        """Return the newest version as both servers signed it, as `campaign` does.

        Raises:
            Refused: Likewise.
        """
        with self._database.snapshot() as transaction:
            if campaign_id is None:
                names = known_campaigns(transaction)
                if len(names) > 1:
                    raise Refused(BAD_QUESTION, f"Name a campaign: one of {', '.join(names)}.")
                campaign_id = names[0] if names else ""
            found = current_campaign(transaction, campaign_id)
        if found is None:
            raise Refused(PROBLEM_TYPES["unknown-campaign"], "There is no such campaign here.")
        return found

    def between(
        self,
        campaign: Campaign,
        first: int,
        last: int,
        *,
        method: str | None = None,
        part: Part = WHOLE,
    ) -> list[Answer]:
        """Return the final rounds from first to last, oldest first; missing rounds are gaps.

        Args:
            campaign: The campaign.
            first: The first round.
            last: The last round, included.
            method: The estimator; None for the first one of each round, "all" for every one.
            part: Which of a round's answers, where it has several.

        Raises:
            Refused: If the method is none of the campaign's, or there are too many rounds.
        """
        check_method(campaign, method)
        check_part(campaign, part)
        return [one.answer for one in self.answered(campaign, first, last, method, part)]

    def at(
        self,
        campaign: Campaign,
        round: int,
        *,
        method: str | None = None,
        part: Part = WHOLE,
    ) -> Answer:
        """Return avg(t): one estimate of one round, or why there is none.

        Raises:
            Refused: If a round has several, and none of them is named.
        """
        _check_one(campaign, part)
        found = self.between(campaign, round, round, method=method, part=part)
        return found[0] if found else answer_gap(campaign, round, method, part)

    def latest(
        self, campaign: Campaign, *, method: str | None = None, part: Part = WHOLE
    ) -> Answer:
        """Return the newest final round.

        Raises:
            Refused: If there is no estimate yet, or as `at` does.
        """
        return self.at(campaign, self.last_round(campaign), method=method, part=part)

    def last_round(self, campaign: Campaign) -> int:
        """Return the number of the newest final round.

        Raises:
            Refused: If there is no estimate yet.
        """
        with self._database.snapshot() as transaction:
            ((last,),) = transaction.execute(
                "SELECT MAX(round) FROM rounds WHERE campaign = ? AND state <> 'open'",
                (campaign.id,),
            )
        if last is None:
            raise Refused(NO_ESTIMATE, "No round of the campaign is final yet.")
        return int(last)

    def windows(
        self,
        campaign: Campaign,
        w: int,
        *,
        first: int,
        last: int,
        method: str | None = None,
        strict: bool = False,
        part: Part = WHOLE,
    ) -> list[Answer]:
        """Return Win(t, w) for each t from first to last.

        Where rounds were withheld or are missing, a window answers with those it has, three
        quarters or more, and its error includes what the others may have done
        (`rase.series.window`). Else it is "too_few" if a round was withheld, "gap" if one is
        missing. A window that begins before the campaign's first final round, or ends after its
        newest, is not over: it answers only if all its rounds are there. Windows of ``tracked``
        average tracked or unbiased means, whichever are surer; their method says which.

        Args:
            campaign: The campaign.
            w: The number of rounds in a window.
            first: The first round with which a window ends.
            last: The last one, included.
            method: The estimator.
            strict: Whether windows that lack a round have no mean.
            part: Which of a round's answers.

        Raises:
            Refused: If w is out of bounds, or there are too many rounds.
        """
        check_method(campaign, method)
        check_part(campaign, part)
        _check_one(campaign, part)
        if not 1 <= w <= MAX_ROUNDS or last - first + w > MAX_ROUNDS:
            raise Refused(BAD_QUESTION, f"Ask for windows over 1 to {MAX_ROUNDS} rounds in all.")
        begin = first - w + 1
        method = one_method(campaign, method)
        known = {
            one.answer.round: one
            for one in self.answered(campaign, max(begin, 0), last, method, part)
        }
        row = [known.get(number) for number in range(begin, last + 1)]
        means = surer_window(
            (None if one is None else one.estimate for one in row),
            (None if one is None else one.alone for one in row),
            w=w,
            strict=strict,
        )
        if part == WHOLE and (method or campaign.estimators[0]) == TRACKED:
            means = self._surer(campaign, w, means, last=last, strict=strict)
        oldest, newest = self._final_span(campaign)
        return [
            answer_window(
                campaign,
                first + place,
                mean if oldest <= begin + place and first + place <= newest else None,
                row[place : place + w],
                method,
                part=part,
            )
            for place, mean in enumerate(means)
        ]

    def calendar(
        self,
        campaign: Campaign,
        unit: CalendarUnit,
        zone: ZoneInfo,
        *,
        first: int,
        last: int,
        is_whole: bool = True,
        method: str | None = None,
        strict: bool = False,
        part: Part = WHOLE,
    ) -> list[Answer]:
        """Return the mean of each calendar day or week in a zone, oldest first.

        A day has 23 or 25 hours where clocks change. Otherwise it is a window like any other.

        Args:
            campaign: The campaign.
            unit: The part of the calendar.
            zone: Where midnight is.
            first: The first round with which a day or week ends.
            last: The last one, included.
            is_whole: Whether the last day or week must end by ``last``; else it is the one that
                ``last`` belongs to.
            method: The estimator.
            strict: Whether one that lacks a round has no mean.
            part: Which of a round's answers.

        Raises:
            Refused: If rounds do not begin at midnight there, or as `windows` does.
        """
        try:
            check_midnights(zone, campaign.round_s)
        except ValueError as error:
            raise Refused(BAD_QUESTION, str(error)) from None
        if last - first > MAX_ROUNDS:
            raise Refused(BAD_QUESTION, f"Ask for windows over 1 to {MAX_ROUNDS} rounds in all.")
        answers, round = [], first
        while round <= last:
            span_s = calendar_span_s(unit, zone, round_start_s(round, campaign.round_s))
            begin, end = (round_of(campaign, second) for second in span_s)
            if is_whole and end - 1 > last:
                break
            answers += self.windows(
                campaign,
                end - begin,
                first=end - 1,
                last=end - 1,
                method=method,
                strict=strict,
                part=part,
            )
            round = end
        return answers

    def last_calendar_end(self, campaign: Campaign, unit: CalendarUnit, zone: ZoneInfo) -> int:
        """Return the last round of the newest day or week that is over.

        Raises:
            Refused: If there is no estimate yet.
        """
        newest = self.last_round(campaign)
        begin_s, end_s = calendar_span_s(unit, zone, round_start_s(newest, campaign.round_s))
        end = round_of(campaign, end_s) - 1
        return end if end == newest else round_of(campaign, begin_s) - 1

    def _surer(
        self,
        campaign: Campaign,
        w: int,
        means: list[Estimate | None],
        *,
        last: int,
        strict: bool,
    ) -> list[Estimate | None]:
        """Return windows from the joint law of their rounds where these are kept and surer."""
        with self._database.snapshot() as transaction:
            joint = joint_windows(transaction, campaign, w, first=last - len(means) + 1, last=last)
        found = []
        for round, mean in enumerate(means, start=last - len(means) + 1):
            both = [one for one in (joint.get(round), mean) if one is not None]
            both = [one for one in both if one.rounds == w or not strict]
            found.append(min(both, key=lambda one: one.standard_error, default=None))
        return found

    def _final_span(self, campaign: Campaign) -> tuple[int, int]:
        """Return the first and the newest final round; an empty span if there is none."""
        with self._database.snapshot() as transaction:
            return final_span(transaction, campaign.id) or (0, -1)

    def events_after(
        self,
        campaign: Campaign,
        sequence: int,
        *,
        method: str | None = None,
        is_final: bool = False,
    ) -> list[Event]:
        """Return the rounds that were estimated after an event, in that order; some at a time.

        Args:
            campaign: The campaign.
            sequence: The number of the event.
            method: The estimator; None for the first one of each round.
            is_final: Whether a round waits until no later one will revise it, and those after it
                wait with it.
        """
        check_method(campaign, method)
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                "SELECT round, version, state, shuffle, sequence FROM rounds WHERE campaign = ? "
                "AND sequence > ? ORDER BY sequence LIMIT ?",
                (campaign.id, sequence, _AT_ONCE),
            )
            reader = AnswerReader(transaction, campaign.id)
            name = one_method(campaign, method)
            events = []
            for row in rows:
                *earlier, last = reader.answer_rounds([row[:4]], name)
                # A reader that has not seen the last answer of a round is sent all of it again.
                events += [Event(row[4] - 1, found.answer) for found in earlier]
                events.append(Event(row[4], last.answer))
        if is_final:
            return list(itertools.takewhile(lambda event: event.answer.final, events))
        return events

    def last_sequence(self, campaign: Campaign) -> int:
        """Return the number of the newest event; 0 if there is none."""
        with self._database.snapshot() as transaction:
            ((last,),) = transaction.execute(
                "SELECT COALESCE(MAX(sequence), 0) FROM rounds WHERE campaign = ?", (campaign.id,)
            )
        return int(last)

    def recent_n(self, campaign: Campaign) -> int:
        """Return how many reports a recent round had on average; k_min if there was none."""
        with self._database.snapshot() as transaction:
            where, given = "answers WHERE campaign = ? AND method = ? ", [campaign.estimators[0]]
            if campaign.states is not None:
                where = "parts WHERE campaign = ? AND method = ? AND label = '' AND category = ? "
                given.append(campaign.categories[0])
            rows = transaction.execute(
                f"SELECT n FROM {where}ORDER BY round DESC LIMIT ?",  # noqa: S608 - constants
                (campaign.id, *given, _RECENT),
            )
        return round(sum(row[0] for row in rows) / len(rows)) if rows else campaign.k_min

    def answered(
        self,
        campaign: Campaign,
        first: int,
        last: int,
        method: str | None,
        part: Part = WHOLE,
    ) -> list[RoundAnswer]:
        """Return the answers about final rounds, and what they were made of."""
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                "SELECT round, version, state, shuffle FROM rounds WHERE campaign = ? "
                "AND round >= ? AND round <= ? AND state <> 'open' ORDER BY round LIMIT ?",
                (campaign.id, first, last, MAX_ROUNDS + 1),
            )
            if len(rows) > MAX_ROUNDS:
                raise Refused(BAD_QUESTION, f"Ask for at most {MAX_ROUNDS} rounds at once.")
            return AnswerReader(transaction, campaign.id).answer_rounds(rows, method, part)


def final_span(transaction: Transaction, campaign_id: str) -> tuple[int, int] | None:
    """Return the first and the newest final round of a campaign; None if there is none.

    Each is looked up from its end: a question for both at once would read all rounds.
    """
    where = "FROM rounds WHERE campaign = ? AND state <> 'open'"
    ((oldest, newest),) = transaction.execute(
        f"SELECT (SELECT MIN(round) {where}), (SELECT MAX(round) {where})",
        (campaign_id, campaign_id),
    )
    return None if oldest is None else (int(oldest), int(newest))


def _check_one(campaign: Campaign, part: Part) -> None:
    """Refuse a question for one number that a round has several of."""
    if part.label == EVERY:
        raise Refused(BAD_QUESTION, "label must be one label here.")
    if campaign.states is not None and part.category is None:
        raise Refused(
            BAD_QUESTION,
            f"category must be one of {', '.join(campaign.categories)}; /v1/shares has all.",
        )


def parse_moment_s(text: str) -> float:
    """Return the second since 1970 of a time given in milliseconds or as RFC 3339.

    Example:
        >>> parse_moment_s("1782000000000") == parse_moment_s("2026-06-21T00:00:00Z")
        True

    Raises:
        ValueError: If the text is neither, has no time zone, or lies outside the calendar.
    """
    try:
        moment_s = int(text) / 1000 if text.isdecimal() else _rfc3339_s(text)
    except (ValueError, OverflowError):
        moment_s = math.nan
    if not 0 <= moment_s <= _MAX_S:
        raise ValueError(
            "a time must be milliseconds since 1970 or RFC 3339 with its zone, such as "
            f"2026-06-21T00:00:00Z, got {text[:40]!r}."
        )
    return moment_s


def parse_rounds(text: str, campaign: Campaign) -> int:
    """Return how many rounds a window holds: a number, or a duration of whole rounds.

    Raises:
        ValueError: If the text is neither.
    """
    if text.isdecimal() and len(text) < 10:
        return int(text)
    if len(text) > 40:
        raise ValueError(f"w must be a number of rounds or a duration, got {text[:40]!r}….")
    rounds, rest = divmod(parse_duration_s(text), campaign.round_s)
    if rest or not rounds:
        raise ValueError(f"w must hold whole rounds of {campaign.round_s} s, got {text[:40]!r}.")
    return rounds


def round_of(campaign: Campaign, moment_s: float) -> int:
    """Return the round of the campaign that contains a moment."""
    return int(round_number(moment_s, campaign.round_s))


def _rfc3339_s(text: str) -> float:
    # A plus sign that was not escaped in an address arrives as a blank.
    moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else "")
    if moment.tzinfo is None:
        raise ValueError("no zone")
    return moment.timestamp()
