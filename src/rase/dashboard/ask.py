"""Ask: the mean of a round or a window with error and guarantee, as chart, files and snippets."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rase.answer import Answer
from rase.campaign import Campaign
from rase.clock import parse_duration_s
from rase.dashboard.fleet import Fleet, fleet_of
from rase.dashboard.page import READ, Page, View, client_of, dashboard_of, render
from rase.dashboard.snippets import Question, snippets
from rase.dashboard.tables import chart_rows, file_response
from rase.subscriber.answers import FusionRefused
from rase.subscriber.operator import AsyncOperator, Raw
from rase.theme.formatting import sentence

__all__ = ["PAGE"]


_AROUND: Final = 48
_MOST_ROUNDS: Final = 10_000
# Any of them in an address is a question; without one the form alone is shown.
_ASKED: Final = ("kind", "at", "w", "method")


async def show_ask(request: Request) -> Response:
    """Show the form, and the answer once something was asked."""
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            return render(request, "no_campaign.html")
        answer: dict[str, Any] = {"mean": None, "rows": [], "snippets": [], "saved": ""}
        mistake = ""
        if any(name in request.query_params for name in _ASKED):
            try:
                answer = await _answer(request, client, fleet)
            except ValueError as error:
                mistake = str(error)
            except FusionRefused as error:
                if error.status not in (400, 404):
                    raise
                mistake = str(error).removeprefix("the fusion centre refuses: ")
    return render(
        request,
        "ask.html",
        status=400 if mistake else 200,
        fleet=fleet,
        mistake=sentence(mistake),
        typed=_read_form(request, fleet),
        **answer,
    )


async def table(request: Request) -> Response:
    """Return what the chart shows as CSV, as the fusion centre writes it."""
    return await _save_answer(request, "csv")


async def document(request: Request) -> Response:
    """Return what the chart shows as JSON, as the fusion centre writes it."""
    return await _save_answer(request, "json")


async def _save_answer(request: Request, form: str) -> Response:
    async with client_of(request) as client:
        fleet = await fleet_of(request, client)
        if fleet is None:
            raise HTTPException(404, "There is no campaign yet.")
        try:
            question = _question(request, fleet)
            query = await _series(request, client, fleet, question)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        path = "/v1/windows" if question.w else "/v1/estimates"
        raw: Raw = await client.raw(path, {**query, "format": form})
    return file_response(raw, f"{fleet.campaign.id}.{form}")


async def _answer(request: Request, client: AsyncOperator, fleet: Fleet) -> dict[str, Any]:
    question = _question(request, fleet)
    at, method = question.at or None, question.method or None
    if question.w:
        mean = await client.window(question.w, at, method=method, strict=bool(question.strict))
    else:
        mean = await client.average(at, method=method)
    query = await _series(request, client, fleet, question, end=mean)
    start, end = query["from"], query["to"]
    if question.w:
        rows = await client.windows(
            question.w, start, end, method=method, strict=bool(question.strict)
        )
    else:
        rows = await client.averages(start, end, method=method)
    return {
        "mean": mean,
        "rows": chart_rows([asdict(one) for one in rows], fleet.campaign.round_s),
        "snippets": snippets(question),
        "saved": str(request.query_params),
    }


async def _series(
    request: Request,
    client: AsyncOperator,
    fleet: Fleet,
    question: Question,
    *,
    end: Answer | None = None,
) -> dict[str, str]:
    """Return the question about the rounds that lead to the moment asked for."""
    if end is None:
        end = await client.average(question.at or None)
    campaign = fleet.campaign
    w = _rounds(question.w, campaign) if question.w else 1
    around = max(min(_AROUND, _MOST_ROUNDS - w), 1)
    first = max(end.round - around + 1, 0)
    times = {
        "from": str(1000 * first * campaign.round_s),
        "to": str(1000 * end.round * campaign.round_s),
    }
    return {**{k: v for k, v in question.query().items() if k != "at"}, **times}


def _question(request: Request, fleet: Fleet) -> Question:
    typed = _read_form(request, fleet)
    campaign = fleet.campaign
    w = typed["w"]
    if w:
        _rounds(w, campaign)
    elif request.query_params.get("kind") == "win":
        raise ValueError("Give the length of the window: rounds, or a duration such as 24h.")
    return Question(
        base=str(request.base_url).rstrip("/"),
        campaign=campaign.id,
        quantity=campaign.quantity,
        unit=campaign.unit,
        round_s=campaign.round_s,
        w=w,
        at=_moment(typed["at"]),
        method="" if typed["method"] == campaign.estimators[0] else typed["method"],
        strict=typed["strict"] if w else "",
    )


def _read_form(request: Request, fleet: Fleet) -> dict[str, str]:
    asked = request.query_params
    method = asked.get("method", "")
    estimators = fleet.campaign.estimators
    return {
        "at": asked.get("at", "")[:40].strip(),
        "w": asked.get("w", "")[:40].strip(),
        "method": method if method in estimators else estimators[0],
        "strict": "true" if asked.get("strict") == "true" else "",
        "now": _now(request),
    }


def _now(request: Request) -> str:
    now_s = dashboard_of(request).clock.now_s()
    return datetime.fromtimestamp(int(now_s), UTC).strftime("%Y-%m-%dT%H:%M")


def _moment(text: str) -> str:
    """Return what a field for date and time holds, which is UTC here, as RFC 3339."""
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"The time must be a date and a time such as 2026-06-21T13:00, got {text!r}."
        ) from None
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _rounds(text: str, campaign: Campaign) -> int:
    if text.isdecimal() and len(text) < 10:
        rounds, rest = int(text), 0
    else:
        rounds, rest = divmod(parse_duration_s(text), campaign.round_s)
    if rest or not 1 <= rounds <= _MOST_ROUNDS:
        raise ValueError(
            f"The window must hold 1 to {_MOST_ROUNDS} whole rounds of {campaign.round_s} s, "
            f"got {text!r}."
        )
    return rounds


PAGE = Page(
    name="ask",
    title="Ask",
    group="Fleet",
    scope=READ,
    views=(View("/ask", show_ask), View("/ask.csv", table), View("/ask.json", document)),
)
