"""Explorer: predict the effect of parameters interactively; nothing is measured.

One question is one address and one answer: the page for browsers without scripts, the same parts
and the curves as JSON for those with them, and the curves as CSV.
"""

import asyncio
import csv
import io
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from rase.dashboard.page import Page, View, render, site_of
from rase.studio.campaign import Studio, apply_links
from rase.studio.explorer.fields import FIELDS, USUAL
from rase.studio.explorer.form import Asked, Refused, asked_of

if TYPE_CHECKING:
    from rase.accounting.error_curves import Curves
    from rase.accounting.plan.values import Plan

__all__ = ["PAGE", "Explored", "explore"]

SCHEMA: Final = "rase.explorer/1"
PARTS: Final = ("summary", "advice", "errors", "guarantees", "shuffler", "precision")
# Answers that may be under way or wait: a slider that is dragged asks often.
_MOST_AT_ONCE: Final = 8
_DIGITS: Final = 5
_FRESH: Final = {"Cache-Control": "no-store"}
_under_way = 0


@dataclass(frozen=True, slots=True, eq=False)
class Explored:
    """The answer to a question.

    Args:
        asked: The question.
        plan: What the planner says.
        curves: Errors along epsilon.
        texts: The plan as texts to take away, by name.
    """

    asked: Asked
    plan: "Plan"
    curves: "Curves"
    texts: Mapping[str, str]


def explore(asked: Asked, now_s: float) -> Explored:
    """Answer a question; tens of milliseconds, whatever it is.

    Args:
        asked: The question.
        now_s: The present time, for the campaign's first round.
    """
    # NumPy and the laws load while the browser opens, not before.
    from rase.accounting.error_curves import error_curves
    from rase.accounting.plan import plan
    from rase.domain import Precision, Range
    from rase.studio.explorer import texts

    public = Range(asked.low, asked.high)
    made = plan(public, asked.epsilon, **asked.for_plan(), detail="live")
    schedule = made.request.schedule
    curves = error_curves(
        public,
        asked.epsilon,
        devices=asked.devices,
        precision=Precision(asked.beta, asked.rho),
        window=schedule.turns * schedule.reports_per_window,
        turns=schedule.turns,
        # The law of the plan all along: the best at each epsilon would jump between laws.
        mechanism=made.mechanism,
    )
    return Explored(
        asked,
        made,
        curves,
        {
            "toml": texts.as_toml(asked, made, now_s),
            "cli": texts.as_command(asked),
            "python": texts.as_python(asked),
            "dpia": texts.as_dpia(asked, made),
        },
    )


async def show_page(request: Request) -> Response:
    """Show the page for the question in the address, with errors next to their fields."""
    given = dict(request.query_params)
    found, mistakes = None, {}
    try:
        found = await _answer(request)
    except Refused as error:
        mistakes = error.mistakes
    filled = {name: given.get(name, "").strip() or usual for name, usual in USUAL.items()}
    return render(
        request,
        "explorer.html",
        status=400 if mistakes else 200,
        parts=FIELDS,
        filled=filled,
        # Groups that are seldom needed are closed, unless something in them was changed.
        opened={
            title
            for title, fields in FIELDS.items()
            if any(filled[one.name] != one.usual for one in fields)
        },
        mistakes=mistakes,
        found=found,
        shown=None if found is None else _shown(request, found),
        curves=None if found is None else curves_of(found),
        query=request.url.query,
    )


async def answer_json(request: Request) -> Response:
    """Answer a question as JSON with the page's parts as HTML, or with its errors."""
    start = time.perf_counter()
    try:
        found = await _answer(request)
    except Refused as error:
        return JSONResponse({"schema": SCHEMA, "mistakes": error.mistakes}, 400, headers=_FRESH)
    parts = site_of(request).templates.get_template("explorer_parts.html").module
    document = document_of(found)
    shown = _shown(request, found)
    answer = {
        "schema": SCHEMA,
        "query": found.asked.query,
        "plan": document,
        "curves": curves_of(found),
        "texts": found.texts,
        "html": {name: str(getattr(parts, name)(shown, None)) for name in PARTS},
    }
    timing = f"explorer;dur={1000 * (time.perf_counter() - start):.1f}"
    return JSONResponse(answer, headers={**_FRESH, "Server-Timing": timing})


async def download_csv(request: Request) -> Response:
    """Answer with the curves as CSV."""
    try:
        found = await _answer(request)
    except Refused as error:
        return PlainTextResponse(f"{error}\n", 400, headers=_FRESH)
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["epsilon", "mechanism", "estimator", "bias", "noise", "error"])
    curves = found.curves
    for curve in curves.curves:
        for epsilon, bias, noise, total in zip(
            curves.epsilon.tolist(),
            curve.bias.tolist(),
            curve.noise.tolist(),
            curve.total.tolist(),
            strict=True,
        ):
            if not math.isnan(noise):
                writer.writerow([epsilon, curve.mechanism, curve.estimator, bias, noise, total])
    return Response(
        file.getvalue(),
        media_type="text/csv",
        headers={**_FRESH, "Content-Disposition": 'attachment; filename="rase-explorer.csv"'},
    )


def _shown(request: Request, found: Explored) -> dict[str, Any]:
    """Return the plan as the page shows it: with links to the campaign that the studio has."""
    site, wish = site_of(request), found.plan.wish
    published = site.published if isinstance(site, Studio) else None
    links = []
    if published is not None:
        asked = found.asked
        links = apply_links(
            published,
            low=asked.low,
            high=asked.high,
            devices=asked.devices,
            epsilon=asked.epsilon,
            wished=None if wish is None else wish.epsilon.value,
        )
    return {**document_of(found), "apply": links}


def document_of(found: Explored) -> dict[str, Any]:
    """Return the plan as JSON values, without its curve."""
    document: dict[str, Any] = found.plan.to_dict()
    del document["curve"], document["curve_readings"]
    return document


def curves_of(found: Explored) -> dict[str, Any]:
    """Return the curves as lists of numbers of five digits; None where nothing was computed."""
    bound = found.plan.precision.epsilon_bound
    return {
        "epsilon": [_round(one, 9) for one in found.curves.epsilon.tolist()],
        "epsilon_bound": bound if math.isfinite(bound) else None,
        "asked": found.asked.epsilon,
        "mechanism": found.plan.mechanism,
        "series": [
            {
                "mechanism": curve.mechanism,
                "estimator": curve.estimator,
                "bias": [_round(one) for one in curve.bias.tolist()],
                "noise": [_round(one) for one in curve.noise.tolist()],
                "error": [_round(one) for one in curve.total.tolist()],
            }
            for curve in found.curves.curves
        ],
    }


async def _answer(request: Request) -> Explored:
    global _under_way  # noqa: PLW0603 - one count for the process; only the event loop touches it
    asked = asked_of(request.query_params)
    if _under_way >= _MOST_AT_ONCE:
        raise HTTPException(503, "Too many plans are being made at once. Try again in a moment.")
    _under_way += 1
    try:
        now_s = site_of(request).clock.now_s()
        return await run_in_threadpool(explore, asked, now_s)
    except ValueError as error:
        if isinstance(error, Refused):
            raise
        # The planner names what is wrong in its first word; it may be more than one field's fault.
        name = str(error).split(" ", 1)[0]
        raise Refused({name if name in USUAL else "": str(error)}) from error
    finally:
        _under_way -= 1


def _round(value: float, digits: int = _DIGITS) -> float | None:
    return None if math.isnan(value) else float(f"{value:.{digits}g}")


@asynccontextmanager
async def _lifespan() -> AsyncIterator[None]:
    # The first question pays for imports and for the laws that all curves share: ask it before
    # anybody waits.
    first = asyncio.create_task(run_in_threadpool(explore, asked_of({}), 0.0))
    try:
        yield
    finally:
        await first


PAGE = Page(
    name="explorer",
    title="Explorer",
    group="Studio",
    views=(
        View("/explorer", show_page),
        View("/explorer/plan.json", answer_json),
        View("/explorer/curves.csv", download_csv),
    ),
    is_open=True,
    lifespan=_lifespan,
)
