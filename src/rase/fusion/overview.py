"""What pages show over HTTP: whose token, which campaigns, many rounds at a glance, health.

Long histories are combined into means with their errors, or read page by page.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final

import numpy as np
from fastapi import APIRouter, Query, Request
from numpy.typing import NDArray
from starlette.responses import JSONResponse, Response

from rase.campaign import Campaign
from rase.clock import round_start_s, time_in_words
from rase.counts.estimate import student_quantile
from rase.counts.registry import TRACKED
from rase.fusion.access import (
    BEARER,
    PROBLEMS,
    asker_of,
    centre_of,
    log_answer,
    logging_refusals,
)
from rase.fusion.answers import check_method, speaks_of_readings
from rase.fusion.campaigns import campaign_of_version, known_campaigns
from rase.fusion.health import health_of
from rase.fusion.parts import WHOLE, Part, check_part, default_part, keys_of
from rase.fusion.query import Questions, final_span
from rase.fusion.refusals import BAD_QUESTION, Refused
from rase.fusion.routes import Category, From, Label, Named, To, span_of
from rase.fusion.subscribers import ADMIN_CAMPAIGN, READ_ESTIMATES
from rase.series.answers import finite
from rase.series.window import is_enough, missing_error, with_missing
from rase.storage.interface import Database, Row
from rase.wire.signed import campaign_hash

__all__ = [
    "MAX_POINTS",
    "MAX_TRACED",
    "Point",
    "Trace",
    "kept_in_range",
    "page_of_rounds",
    "router",
    "trace",
]

MAX_POINTS: Final = 2000
# 25 days of rounds of 8 seconds are 270,000.
MAX_TRACED: Final = 400_000
_LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Some rounds that follow each other, put together.

    Args:
        time: When the first of them began: RFC 3339, UTC.
        round: The first round.
        rounds: How many rounds it stands for.
        status: "ok" if three quarters or more were estimated; else "too_few" if one was withheld,
            and "gap" if none is there.
        estimated: How many were estimated.
        withheld: How many were withheld.
        value: The mean of their estimates, for all of them; None unless the status is "ok".
        value_low: The smallest of them.
        value_high: The largest of them.
        standard_error: Its error, what withheld rounds may have done included; None if unknown.
        low: The lower end of the 95 % interval of that mean; None if unknown.
        high: The upper end.
        n: The reports of all of them; 0 where there is no estimate.
        n_low: The fewest reports of a round.
        n_high: The most.
    """

    time: str
    round: int
    rounds: int
    status: str
    estimated: int = 0
    withheld: int = 0
    value: float | None = None
    value_low: float | None = None
    value_high: float | None = None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    n_low: int = 0
    n_high: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """The rounds of a time, at a glance.

    Args:
        width: How many rounds a point stands for.
        points: The points, oldest first.
        whole: All rounds of the time as one point, from the campaign's first final round to its
            newest; None if there is none.
    """

    width: int
    points: list[Point]
    whole: Point | None


def trace(
    database: Database,
    campaign: Campaign,
    *,
    first: int,
    last: int,
    points: int,
    method: str,
    part: Part = WHOLE,
) -> Trace:
    """Return the rounds of a time, put together into few points and into one.

    A point is the mean of its rounds with the interval of that mean, by the rule of windows
    (`rase.series.window`): errors of different rounds average out, those of tracked rounds
    are taken as if they went together, what withheld rounds may have done is added, and with fewer
    than three quarters of its rounds there is no mean. The smallest and largest estimate are kept,
    too.

    Args:
        database: The fusion centre's; it is only read.
        campaign: The campaign.
        first: The first round.
        last: The last round, included.
        points: How many points at most; one more if the raster cuts the first.
        method: The estimator.
        part: Which of a round's answers, where it has several.

    Raises:
        Refused: If there are too many rounds or points, or no such part.
    """
    check_part(campaign, part)
    table, which, given = "answers", "e.method = ?", [method]
    if part != WHOLE:
        key = keys_of(campaign, part, None)[0]
        table, given = "parts", [key.method, key.label, key.category]
        which = "e.method = ? AND e.label = ? AND e.category = ?"
    if not 1 <= points <= MAX_POINTS:
        raise Refused(BAD_QUESTION, f"points must be from 1 to {MAX_POINTS}.")
    with database.snapshot() as transaction:
        ((low, high),) = transaction.execute(
            "SELECT MIN(round), MAX(round) FROM rounds WHERE campaign = ? AND round >= ? "
            "AND round <= ? AND state <> 'open'",
            (campaign.id, first, last),
        )
        if low is None:
            return Trace(1, [], None)
        oldest, newest = final_span(transaction, campaign.id) or (low, high)
        rows = transaction.execute(
            "SELECT r.round, e.value, e.standard_error, e.degrees_of_freedom, e.n FROM rounds r "  # noqa: S608 - constants
            f"LEFT JOIN {table} e ON e.campaign = r.campaign AND e.round = r.round "
            f"AND {which} WHERE r.campaign = ? AND r.round >= ? AND r.round <= ? "
            "AND (r.state = 'withheld' OR e.value IS NOT NULL) ORDER BY r.round LIMIT ?",
            (*given, campaign.id, low, high, MAX_TRACED + 1),
        )
    if len(rows) > MAX_TRACED:
        raise Refused(BAD_QUESTION, f"Ask for at most {MAX_TRACED} rounds at once.")
    if not rows:
        return Trace(1, [], None)
    width = math.ceil((high - low + 1) / points)
    # Points stay where they are while rounds come in.
    begin = low - low % width
    is_tracked = method == TRACKED
    found = _points(
        campaign, rows, begin, width, start=rows[0][0], last=high, is_tracked=is_tracked
    )
    begin, end = max(first, oldest), min(last, newest)
    (whole,) = _points(
        campaign, rows, begin, end - begin + 1, start=begin, last=end, is_tracked=is_tracked
    )
    return Trace(width, found, whole)


def page_of_rounds(
    database: Database,
    questions: Questions,
    campaign: Campaign,
    *,
    before: int | None,
    limit: int,
    method: str | None,
    part: Part,
    with_counts: bool = True,
) -> dict[str, Any]:
    """Return some rounds, newest first, also those still open, and where the next page begins.

    Counts of all rounds by state are read from all of them.
    """
    with database.snapshot() as transaction:
        rows = transaction.execute(
            "SELECT round, version, state, batches FROM rounds WHERE campaign = ? AND round < ? "
            "ORDER BY round DESC LIMIT ?",
            (campaign.id, 2**32 if before is None else before, limit + 1),
        )
        counts = []
        if with_counts:
            counts = transaction.execute(
                "SELECT state, COUNT(*) FROM rounds WHERE campaign = ? GROUP BY state",
                (campaign.id,),
            )
    more, rows = len(rows) > limit, rows[:limit]
    answered: dict[int, dict[str, Any]] = {}
    if rows:
        answers = questions.between(campaign, rows[-1][0], rows[0][0], method=method, part=part)
        answered = {one.round: one.as_fields() for one in answers}
    return {
        "campaign": campaign.id,
        "rounds": [_round(campaign, row, answered.get(row[0])) for row in rows],
        "counts": dict(sorted(counts)),
        "next": rows[-1][0] if more else None,
    }


def _round(campaign: Campaign, row: Row, answered: dict[str, Any] | None) -> dict[str, Any]:
    round, version, state, batches = row
    time = time_in_words(round_start_s(round, campaign.round_s))
    more = {"version": version, "state": state, "batches": batches}
    if answered is not None:
        return {**answered, **more}
    # A final round whose version did not have the estimator says nothing about it.
    status = "open" if state == "open" else "gap"
    return {"time": time, "round": round, "status": status, "value": None, "n": 0, **more}


def _points(
    campaign: Campaign,
    rows: list[Row],
    begin: int,
    width: int,
    *,
    start: int,
    last: int,
    is_tracked: bool,
) -> list[Point]:
    """Return points of so many rounds each, from the first; start and last bound what is due."""
    place = np.array([row[0] for row in rows], np.int64)
    is_ok = np.array([row[1] is not None for row in rows], np.bool_)
    mean = _floats([row[1] for row in rows])
    error = _floats([row[2] for row in rows])
    degrees = np.array([math.inf if row[3] is None else row[3] for row in rows])
    n = np.array([row[4] or 0 for row in rows], np.int64)
    bucket = (place - begin) // width
    begins = np.flatnonzero(np.diff(bucket, prepend=bucket[0] - 1))
    ends = np.append(begins[1:], len(rows))
    found: list[Point] = []
    previous: int | None = None
    for at, end in zip(begins.tolist(), ends.tolist(), strict=True):
        number = int(bucket[at])
        if previous is not None and number > previous + 1:
            # Rounds that never came are listed once, however many they are.
            missing = begin + (previous + 1) * width
            found.append(_bare(campaign, missing, (number - previous - 1) * width, "gap", 0))
        previous = number
        good = np.flatnonzero(is_ok[at:end]) + at
        withheld = end - at - len(good)
        first = begin + number * width
        # Rounds that are still to come are not missing, nor those before the first one asked for.
        of = min(first + width - 1, last) - max(first, start) + 1
        if not is_enough(len(good), of):
            status = "too_few" if withheld else "gap"
            few = _bare(campaign, first, width, status, withheld)
            found.append(replace(few, estimated=len(good)))
            continue
        middle = float(mean[good].mean())
        wrong = float(error[good].mean())
        if not is_tracked:
            wrong = float(np.sqrt(np.square(error[good]).sum())) / len(good)
        # The round whose error is known least decides how far an interval reaches.
        known_by = float(degrees[good].min())
        if len(good) < of:
            lacking = missing_error(
                mean[good].tolist(), np.square(error[good]).tolist(), w=of, is_tracked=is_tracked
            )
            wrong, known_by = with_missing(wrong, known_by, lacking, m=len(good))
        reaches = student_quantile(_LEVEL, known_by) * wrong
        found.append(
            Point(
                time=time_in_words(round_start_s(first, campaign.round_s)),
                round=first,
                rounds=width,
                status="ok",
                estimated=len(good),
                withheld=withheld,
                value=middle,
                value_low=float(mean[good].min()),
                value_high=float(mean[good].max()),
                standard_error=finite(wrong),
                low=finite(middle - reaches),
                high=finite(middle + reaches),
                n=int(n[good].sum()),
                n_low=int(n[good].min()),
                n_high=int(n[good].max()),
            )
        )
    return found


def kept_in_range(
    database: Database, campaign: Campaign, points: list[Point], *, method: str
) -> list[Point]:
    """Return points whose intervals end where the range does, as those of single rounds do.

    Versions may differ in range, and a point may hold rounds of two: the widest bounds all. What
    speaks of the reports has no bounds (`rase.counts.estimate.Estimate`).
    """
    if not speaks_of_readings(method):
        return points
    with database.snapshot() as transaction:
        held = [
            campaign_of_version(transaction, campaign.id, number)
            for number in range(1, campaign.version + 1)
        ]
    low, high = min(one.low for one in held), max(one.high for one in held)
    if campaign.states is not None:
        low, high = 0.0, 1.0
    return [_cut(one, low, high) for one in points]


def _cut(point: Point, low: float, high: float) -> Point:
    if point.value is None or point.low is None or point.high is None:
        return point
    reach = (point.high - point.low) / 2
    centre = min(max(point.value, low), high)
    return replace(point, low=max(centre - reach, low), high=min(centre + reach, high))


def _bare(campaign: Campaign, round: int, rounds: int, status: str, withheld: int) -> Point:
    time = time_in_words(round_start_s(round, campaign.round_s))
    return Point(time=time, round=round, rounds=rounds, status=status, withheld=withheld)


def _floats(values: list[float | None]) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else value for value in values])


_FRESH = {"Cache-Control": "no-store"}

router = APIRouter()


@router.get("/v1/token", tags=["subscriber"], responses=PROBLEMS, dependencies=BEARER)
def get_token(request: Request) -> Response:
    """Return whose token this is, its scopes and when it ends."""
    asker = asker_of(request, None)
    document = {"name": asker.name, "scopes": list(asker.scopes), "expires_s": asker.expires_s}
    return JSONResponse(document, headers=_FRESH)


@router.get("/v1/campaigns", tags=["subscriber"], responses=PROBLEMS, dependencies=BEARER)
def get_campaigns(request: Request) -> Response:
    """Return the newest version of every campaign, with how many reports recent rounds had."""
    asker_of(request, None)
    centre = centre_of(request)
    with centre.database.snapshot() as transaction:
        names = known_campaigns(transaction)
    found = [centre.questions.campaign(name) for name in names]
    documents = [
        {
            **one.as_fields(),
            "hash": campaign_hash(one).hex(),
            "noisy_values_kept_s": centre.policy.keep_values_s,
            "expected_n": centre.questions.recent_n(one),
        }
        for one in found
    ]
    return JSONResponse({"campaigns": documents}, headers=_FRESH)


@router.get("/v1/trace", tags=["subscriber"], responses=PROBLEMS, dependencies=BEARER)
def get_trace(
    request: Request,
    *,
    start: From = None,
    to: To = None,
    campaign: Named = None,
    method: Annotated[str | None, Query(description="The estimator.")] = None,
    label: Label = None,
    category: Category = None,
    points: Annotated[int, Query(ge=1, le=MAX_POINTS, description="At most so many.")] = 300,
) -> Response:
    """Return the rounds of a time put together into few points: means with their intervals."""
    asker = asker_of(request, READ_ESTIMATES)
    centre = centre_of(request)

    def ask() -> dict[str, Any]:
        found = centre.questions.campaign(campaign)
        check_method(found, method)
        part = default_part(found, Part(label, category))
        name = found.estimators[0] if method in (None, "all") else str(method)
        if part != WHOLE:
            check_part(found, part)
            name = keys_of(found, part, None)[0].method
        first, last = span_of(found, start, to, None)
        answered = trace(
            centre.database, found, first=first, last=last, points=points, method=name, part=part
        )
        whole = [] if answered.whole is None else [answered.whole]
        shown = [
            asdict(one)
            for one in kept_in_range(
                centre.database, found, [*answered.points, *whole], method=name
            )
        ]
        return {
            "campaign": found.id,
            "unit": found.unit if part.category is None else "",
            "label": part.label,
            "category": part.category,
            "method": name,
            "round_s": found.round_s,
            "rounds_per_point": answered.width,
            "points": shown[: len(answered.points)],
            "whole": shown[-1] if whole else None,
        }

    document = logging_refusals(request, asker, ask)
    log_answer(request, asker, f"200 {len(document['points'])} points")
    return JSONResponse(document, headers=_FRESH)


@router.get("/v1/rounds", tags=["subscriber"], responses=PROBLEMS, dependencies=BEARER)
def get_rounds(
    request: Request,
    *,
    campaign: Named = None,
    method: Annotated[str | None, Query(description="The estimator.")] = None,
    label: Label = None,
    category: Category = None,
    before: Annotated[int | None, Query(ge=0, le=2**32, description="Only earlier rounds.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    counts: Annotated[bool, Query(description="Whether to count all rounds by state.")] = True,
) -> Response:
    """Return a page of rounds, newest first, also those still open; `next` begins the next page."""
    asker = asker_of(request, READ_ESTIMATES)
    centre = centre_of(request)

    def ask() -> dict[str, Any]:
        found = centre.questions.campaign(campaign)
        return page_of_rounds(
            centre.database,
            centre.questions,
            found,
            before=before,
            limit=limit,
            method=None if method == "all" else method,
            part=default_part(found, Part(label, category)),
            with_counts=counts,
        )

    document = logging_refusals(request, asker, ask)
    log_answer(request, asker, f"200 {len(document['rounds'])} rows")
    return JSONResponse(document, headers=_FRESH)


@router.get("/v1/health", tags=["operator"], responses=PROBLEMS, dependencies=BEARER)
def get_health(request: Request) -> Response:
    """Return how the fusion centre does: rounds behind, newest batch, space, counters."""
    asker_of(request, ADMIN_CAMPAIGN)
    return JSONResponse(health_of(centre_of(request)), headers=_FRESH)
