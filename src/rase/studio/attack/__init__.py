"""Attack lab: what a configuration reveals, tried on synthetic readings or your own file.

Never on live reports: the page has no way to them. Attacks run in a process of their own.
"""

import importlib.util
import math
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response

from rase.clock import parse_duration_s
from rase.dashboard.page import Page, View, address_of, render
from rase.privacy import MAX_EPSILON, MIN_EPSILON
from rase.studio.attack.jobs import Run, Runs, TooManyRuns
from rase.studio.attack_worker import CSV_FILE, REPORT_FILE

__all__ = [
    "ATTACKS",
    "MOST_BYTES",
    "NUMBERS",
    "PAGE",
    "RUNS",
    "SCHEMES",
    "Number",
    "Wanted",
    "wanted_of",
]

# What the extra `lab` brings; looked for, never loaded here.
_PACKAGES: Final = ("sklearn", "scipy", "matplotlib", "pyarrow")
_FRESH: Final = {"Cache-Control": "no-store"}

RUNS = Runs()
MOST_BYTES: Final = 16 << 20
_ENDINGS: Final = (".csv", ".parquet")
_MOST_SCHEMES: Final = 5
_LONGEST_ECHO: Final = 40
_LONGEST_NAME: Final = 64

# What each attacker knows and does. A test keeps the names equal to the lab's, whose modules need
# packages that a server does not load.
ATTACKS: Final[Mapping[str, str]] = {
    "value": "a random forest on single values; learns from reports whose sender it knows",
    "value_time": "the same with the time of the round",
    "value_slot": "the same with the place in the release, so it learns the shuffler's patterns",
    "slot": "a forest on places alone: what the order gives away",
    "profile": "a forest on the daily profile of a place; right is the place (the paper's set-up)",
    "bayes": "knows the mechanism and each device's past; the likeliest sender of each report",
    "matching": "the same for a whole round at once, one report a device",
    "mallows_aware": "also knows the law of the order and who arrived where; the strongest",
    "linkage": "follows each place over rounds, as if it belonged to one device",
    "averaging": "averages the noise of each place away, and knows each device's mean",
    "range": "names the senders of outliers from the largest reading of each device",
}
SCHEMES: Final[Mapping[str, str]] = {
    "raw": "no noise, order of arrival: no protection",
    "br": "budget-aware noise, order of arrival",
    "laplace-fisher": "Laplace noise, uniform order",
    "br-mallows": "budget-aware noise, Mallows order of fixed groups",
    "rase-paper": "budget-aware noise, Algorithm 2 as printed",
    "rase": "budget-aware noise, Algorithm 2 corrected",
    "best": "the best mechanism for means, uniform order",
}
_USUAL_ATTACKS: Final = ("value", "bayes", "mallows_aware")
_USUAL_SCHEMES: Final = ("raw", "br", "rase", "best")


@dataclass(frozen=True, slots=True)
class Number:
    """A number in the form.

    Args:
        name: Its name.
        label: As the form calls it.
        hint: What it means.
        usual: What stands in the box at first.
        low: The smallest allowed.
        high: The largest allowed.
        is_whole: Whether it must be whole.
    """

    name: str
    label: str
    hint: str
    usual: str
    low: float
    high: float
    is_whole: bool = False

    def read(self, text: str) -> float | int:
        """Return the number in a box; the usual one if it is empty.

        Raises:
            ValueError: If the text is not a number, or out of bounds.
        """
        text = text.strip() or self.usual
        try:
            value = float(text) if len(text) <= 24 else math.nan
        except ValueError:
            value = math.nan
        if not self.low <= value <= self.high or (self.is_whole and value != int(value)):
            what = "a whole number" if self.is_whole else "a number"
            raise ValueError(
                f"{self.name} must be {what} from {self.low:g} to {self.high:g}, got {_echo(text)}."
            )
        return int(value) if self.is_whole else value


NUMBERS: Final = (
    Number("devices", "Devices", "Of a file, those with most readings.", "32", 2, 256, True),
    Number("days", "Days", "Of the synthetic fleet.", "14", 3, 60, True),
    Number("low", "Range from", "The public range of a reading.", "0", -1e9, 1e9),
    Number("high", "Range to", "Readings beyond count at its end.", "3000", -1e9, 1e9),
    Number("epsilon", "Epsilon", "The budget of one report.", "1", MIN_EPSILON, MAX_EPSILON),
    Number("alpha", "Alpha", "The loss allowed to a Mallows order.", "30", 1e-6, 1000),
    Number("groups", "Groups, k", "For the orders with groups.", "8", 1, 256, True),
    Number("seed", "Seed", "The same seed gives the same result.", "1", 0, 4_000_000, True),
)
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "data": ("fleet", "file"),
    "split": ("random", "time"),
    "arrival": ("fixed", "random"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A submitted form and its errors.

    Args:
        texts: Each box and choice as it was filled in.
        attacks: The attacks chosen.
        schemes: The schemes chosen.
        mistakes: One sentence for each field that is wrong.
        job: What the worker does; None if something is wrong.
    """

    texts: Mapping[str, str]
    attacks: Sequence[str] = _USUAL_ATTACKS
    schemes: Sequence[str] = _USUAL_SCHEMES
    mistakes: Mapping[str, str] = field(default_factory=dict)
    job: dict[str, Any] | None = None

    @classmethod
    def usual(cls) -> "Wanted":
        """Return the initial form."""
        boxes = {one.name: one.usual for one in NUMBERS}
        return cls({**boxes, **{name: one[0] for name, one in _CHOICES.items()}, "every": ""})


async def show_form(request: Request) -> Response:
    """Show the form, with the numbers of the address, and the runs."""
    usual = Wanted.usual()
    given = {one.name: request.query_params.get(one.name, "") for one in NUMBERS}
    texts = {name: text[:24] for name, text in given.items() if text}
    return _form(request, replace(usual, texts={**usual.texts, **texts}))


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


def wanted_of(
    given: Mapping[str, str],
    *,
    attacks: Sequence[str],
    schemes: Sequence[str],
    file_name: str,
    file_bytes: int,
) -> Wanted:
    """Return a submitted form, as a job or with its errors.

    Args:
        given: Boxes and choices.
        attacks: The attacks ticked.
        schemes: The schemes ticked.
        file_name: The name of the file that came with it; empty without one.
        file_bytes: Its size.
    """
    usual = Wanted.usual()
    texts = {name: given.get(name, text) for name, text in usual.texts.items()}
    mistakes: dict[str, str] = {}
    values: dict[str, Any] = {}
    for one in NUMBERS:
        _take(mistakes, values, one.name, partial(one.read, texts[one.name]))
    for name, known in _CHOICES.items():
        _take(mistakes, values, name, partial(_read_choice, name, texts[name], known))
    _take(mistakes, values, "every", lambda: _every(texts["every"]))
    _take(
        mistakes,
        values,
        "attacks",
        lambda: _read_choices("attacks", attacks, ATTACKS, len(ATTACKS)),
    )
    _take(
        mistakes,
        values,
        "schemes",
        lambda: _read_choices("schemes", schemes, SCHEMES, _MOST_SCHEMES),
    )
    if {"low", "high"} <= set(values) and values["low"] >= values["high"]:
        mistakes["high"] = f"high must be above low, {values['low']:g}, got {values['high']:g}."
    if values.get("data") == "file":
        _take(mistakes, values, "file", lambda: _file(file_name, file_bytes))
    job = None if mistakes else _job(values, file_name)
    return Wanted(texts, tuple(attacks), tuple(schemes), mistakes, job)


def _job(values: Mapping[str, Any], file_name: str) -> dict[str, Any]:
    is_file = values["data"] == "file"
    fleet = f"fleet:{values['devices']}x{values['days']}:{values['seed']}"
    return {
        "source": fleet,
        "file": values["file"] if is_file else None,
        "label": _harmless(file_name) if is_file else _fleet_words(values),
        "every": values["every"],
        "devices": values["devices"] if is_file else None,
        "plan": {
            name: values[name]
            for name in (
                "attacks",
                "schemes",
                "low",
                "high",
                "epsilon",
                "alpha",
                "groups",
                "split",
                "arrival",
                "seed",
            )
        },
    }


def _fleet_words(values: Mapping[str, Any]) -> str:
    return f"A synthetic fleet of {values['devices']} devices over {values['days']} days"


def _take(
    mistakes: dict[str, str], values: dict[str, Any], name: str, read: Callable[[], Any]
) -> None:
    try:
        values[name] = read()
    except ValueError as error:
        mistakes[name] = str(error)


def _read_choice(name: str, text: str, known: Sequence[str]) -> str:
    if text not in known:
        raise ValueError(f"{name} must be {' or '.join(known)}, got {_echo(text)}.")
    return text


def _every(text: str) -> str | None:
    text = text.strip()
    if not text:
        return None
    try:
        seconds = parse_duration_s(text) if len(text) <= 12 else 0
    except ValueError:
        seconds = 0
    if not 60 <= seconds <= 7 * 86400:
        raise ValueError(
            f"every must be a duration from 1min to 7d, such as 1h, got {_echo(text)}."
        )
    return text


def _read_choices(
    name: str, chosen: Sequence[str], known: Mapping[str, str], most: int
) -> list[str]:
    if not chosen:
        raise ValueError(f"{name} must be chosen: tick at least one.")
    if len(chosen) > most or set(chosen) - set(known):
        raise ValueError(f"{name} must be one to {most} of those listed, got {len(chosen)}.")
    return [one for one in known if one in chosen]


def _file(name: str, size: int) -> str:
    ending = PurePath(name).suffix.lower()
    if not name or not size:
        raise ValueError("file must be chosen and hold something; or take the synthetic fleet.")
    if ending not in _ENDINGS:
        raise ValueError(f"file must end in {' or '.join(_ENDINGS)}, got {_echo(name)}.")
    if size > MOST_BYTES:
        raise ValueError(f"file must have at most {MOST_BYTES >> 20} MiB, got {size / 2**20:.1f}.")
    # The name on our disk is ours; what somebody called it is only shown.
    return f"data{ending}"


def _harmless(name: str) -> str:
    return re.sub(r"[^\w .()-]", "_", PurePath(name).name)[:_LONGEST_NAME]


def _echo(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}…")


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
