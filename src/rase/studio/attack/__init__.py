"""Attack lab: what a configuration reveals, tried on synthetic readings or your own file.

Never on live reports: the page has no way to them. Attacks run in a process of their own.
"""

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response

from rase.dashboard.page import Page, View, address_of, render
from rase.studio.attack.form import ATTACKS, MOST_BYTES, NUMBERS, SCHEMES, Wanted, wanted_of
from rase.studio.attack.jobs import Run, Runs, TooManyRuns
from rase.studio.attack_worker import CSV_FILE, REPORT_FILE

__all__ = ["PAGE", "RUNS"]

# What the extra `lab` brings; looked for, never loaded here.
_PACKAGES: Final = ("sklearn", "scipy", "matplotlib", "pyarrow")
_FRESH: Final = {"Cache-Control": "no-store"}

RUNS = Runs()


async def show_form(request: Request) -> Response:
    """Show the form and the runs."""
    return _form(request, Wanted.usual())


async def start_run(request: Request) -> Response:
    """Start a run, or show the errors next to their fields."""
    form = await request.form()
    try:
        return await _start(request, form)
    finally:
        # The file lies in memory or an unnamed file until here, and no longer.
        await form.close()


async def _start(request: Request, form: FormData) -> Response:
    if missing := _missing():
        raise HTTPException(409, _without(missing))
    upload = form.get("file")
    file = upload if isinstance(upload, UploadFile) else None
    wanted = wanted_of(
        {name: value for name, value in form.items() if isinstance(value, str)},
        attacks=[str(one) for one in form.getlist("attacks")],
        schemes=[str(one) for one in form.getlist("schemes")],
        file_name=(file.filename or "") if file else "",
        file_bytes=(file.size or 0) if file else 0,
    )
    if wanted.job is None:
        return _form(request, wanted, status=400)
    try:
        run = await run_in_threadpool(
            RUNS.start,
            wanted.job,
            upload=file.file if file and wanted.job["file"] else None,
        )
    except TooManyRuns as error:
        return _form(request, wanted, status=429, problem=str(error))
    return RedirectResponse(address_of(request, f"/attack/runs/{run.id}"), 303)


async def show_run(request: Request) -> Response:
    """Show how far a run is, or what it found."""
    run = _run(request)
    study = await run_in_threadpool(run.study) if run.state == "done" else None
    return render(
        request,
        "attack_run.html",
        run=run,
        study=study,
        attacks=ATTACKS,
        schemes=SCHEMES,
        chart=None if study is None else _chart(study),
    )


async def report_progress(request: Request) -> Response:
    """Report the progress of a run."""
    return JSONResponse(_run(request).progress(), headers=_FRESH)


async def cancel_run(request: Request) -> Response:
    """End a run."""
    run = _run(request)
    await run_in_threadpool(RUNS.cancel, run)
    return RedirectResponse(address_of(request, f"/attack/runs/{run.id}"), 303)


async def erase_run(request: Request) -> Response:
    """Remove a run and its files."""
    await run_in_threadpool(RUNS.erase, _run(request))
    return RedirectResponse(address_of(request, "/attack"), 303)


async def download_file(request: Request) -> Response:
    """Serve the report or the table of a finished run."""
    run, name = _run(request), request.path_params["name"]
    if run.state != "done" or name not in (REPORT_FILE, CSV_FILE):
        raise HTTPException(404, "There is no such file.")
    return FileResponse(
        run.folder / name,
        media_type="text/csv" if name == CSV_FILE else "text/html",
        filename=f"rase-attack-{name}",
        headers=_FRESH,
    )


def _form(request: Request, wanted: Wanted, *, status: int = 200, problem: str = "") -> Response:
    missing = _missing()
    return render(
        request,
        "attack.html",
        status=status,
        wanted=wanted,
        numbers=NUMBERS,
        attacks=ATTACKS,
        schemes=SCHEMES,
        most_mib=MOST_BYTES >> 20,
        runs=RUNS.newest_first(),
        missing=_without(missing) if missing else "",
        problem=problem,
    )


def _run(request: Request) -> Run:
    run = RUNS.find(request.path_params["run"])
    if run is None:
        raise HTTPException(404, "There is no such run.")
    return run


def _chart(study: dict[str, Any]) -> dict[str, Any]:
    return {
        "devices": study["devices"],
        "chance": study["chance"],
        "results": [
            {
                "attack": one["attack"],
                "scheme": one["scheme"],
                "recall": one["device_recall"],
                "precision": one["device_precision"],
            }
            for one in study["results"]
        ],
    }


def _missing() -> list[str]:
    return [name for name in _PACKAGES if importlib.util.find_spec(name) is None]


def _without(missing: list[str]) -> str:
    return (
        f'Attacks need {", ".join(missing)}, which are not installed: pip install "rase-iot[lab]", '
        "then restart it."
    )


@asynccontextmanager
async def _lifespan() -> AsyncIterator[None]:
    try:
        yield
    finally:
        await run_in_threadpool(RUNS.close)


PAGE = Page(
    name="attack",
    title="Attack lab",
    group="Studio",
    is_open=True,
    views=(
        View("/attack", show_form),
        View("/attack", start_run, ("POST",)),
        View("/attack/runs/{run}", show_run),
        View("/attack/runs/{run}/state.json", report_progress),
        View("/attack/runs/{run}/cancel", cancel_run, ("POST",)),
        View("/attack/runs/{run}/erase", erase_run, ("POST",)),
        View("/attack/runs/{run}/{name}", download_file),
    ),
    # The file, and the form around it.
    max_body_bytes=MOST_BYTES + (1 << 16),
    lifespan=_lifespan,
)
