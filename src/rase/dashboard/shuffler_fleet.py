"""The page of a shuffler's operator: participation, what waits, and who may send.

A local program, apart from every server, that reads the shuffler's database; it knows handles and
counts, and can open no report. It makes enrolment tokens, revokes devices and has batches sent
again, as the command line does.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rase.clock import Clock, parse_duration_s, round_start_s, time_in_words
from rase.dashboard.app import pages_app
from rase.dashboard.local import LocalPages
from rase.dashboard.page import Page, Site, View, render, site_of
from rase.dashboard.sessions import Sessions
from rase.dashboard.timeline import zone_of_visitor
from rase.shuffler.enrolment import make_tokens, revoke_devices
from rase.shuffler.health import backlog_of, trouble_in
from rase.shuffler.outbox import list_outbox, retry_batches
from rase.shuffler.participation import CampaignRounds, devices_by_group, newest_rounds
from rase.storage.interface import Database
from rase.theme.formatting import sentence

__all__ = ["ShufflerSite", "shuffler_pages"]

_RECENT: Final = 96
_SHOWN: Final = 12
_AGAIN_S: Final = 15
_MOST_TOKENS: Final = 1000
_WORDS: Final = {"released": "released", "carried": "carried", "below_k": "withheld"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShufflerSite(Site):
    """What the pages of a shuffler's operator share.

    Args:
        database: The shuffler's.
        most_per_owner: How many devices an owner may have.
    """

    database: Database
    most_per_owner: int


def shuffler_pages(
    database: Database, clock: Clock, *, port: int, most_per_owner: int
) -> LocalPages:
    """Return the operator's pages as they are served on a port of this machine.

    Args:
        database: The shuffler's.
        clock: The present time.
        port: Where they are served.
        most_per_owner: How many devices an owner may have.
    """
    site = ShufflerSite(
        clock=clock,
        sessions=Sessions(clock),
        pages=(PAGE,),
        database=database,
        most_per_owner=most_per_owner,
    )
    return LocalPages(pages_app(site), port=port, command="rase shuffler page")


async def show_fleet(request: Request) -> Response:
    """Show the fleet; a script asks for the changing part alone."""
    if request.query_params.get("part") == "1":
        part = site_of(request).templates.get_template("fleet_part.html")
        return HTMLResponse(part.render(**_read(request)), headers={"Cache-Control": "no-store"})
    return _render(request)


async def change_fleet(request: Request) -> Response:
    """Make tokens, revoke devices, or have batches sent again, by the form that was sent."""
    form = await request.form()
    act = {"enrol": _enrol, "revoke": _revoke, "retry": _retry}.get(str(form.get("act")))
    try:
        if act is None:
            raise ValueError("this form is not known.")
        return _render(request, **act(_site(request), form))
    except (ValueError, LookupError) as error:
        return _render(request, status=400, mistake=sentence(str(error.args[0])))


def _render(request: Request, *, status: int = 200, **more: Any) -> Response:
    said: dict[str, Any] = {"tokens": (), "done": "", "mistake": "", **more}
    return render(request, "fleet.html", status=status, again_s=_AGAIN_S, **_read(request), **said)


def _site(request: Request) -> ShufflerSite:
    site = site_of(request)
    assert isinstance(site, ShufflerSite)  # noqa: S101 - what the page is served with
    return site


def _read(request: Request) -> dict[str, Any]:
    site = _site(request)
    now_s = site.clock.now_s()
    with site.database.snapshot() as transaction:
        backlog = backlog_of(transaction, now_s=now_s)
    groups = devices_by_group(site.database)
    return {
        "backlog": backlog,
        "trouble": [sentence(one) for one in trouble_in(backlog)],
        "batches": list_outbox(site.database, now_s=now_s),
        "devices": groups.total(),
        "device_groups": sorted(groups.items()),
        "campaigns": [_view(one) for one in newest_rounds(site.database, limit=_RECENT)],
        "zone": zone_of_visitor(request),
        "now_s": now_s,
    }


def _view(found: CampaignRounds) -> dict[str, Any]:
    campaign = found.campaign
    rows = [
        {
            "round": one.round,
            "time": time_in_words(round_start_s(one.round, campaign.round_s)),
            "status": _WORDS.get(one.state, one.state),
            "reports": one.reports,
            "short": max(campaign.k_min - one.reports, 0) if one.reports is not None else None,
        }
        for one in found.rounds
    ]
    known = [one.reports for one in found.rounds if one.reports is not None]
    return {
        "campaign": campaign,
        "rows": rows[:_SHOWN],
        "bars": _bars([one.reports for one in reversed(found.rounds)], campaign.k_min),
        "waiting": found.waiting,
        "usual": round(sum(known) / len(known)) if known else None,
        "below": sum(one.state == "below_k" for one in found.rounds),
        "recent": len(found.rounds),
    }


def _bars(counts: Sequence[int | None], k_min: int) -> dict[str, Any]:
    """Return a bar for each round, oldest first, in a box of 960 by 80, and where k_min is."""
    top = 1.1 * max([k_min, 1, *(one for one in counts if one is not None)])
    step = 960 / max(len(counts), 1)
    return {
        "line": round(80 - 80 * k_min / top, 1),
        "bars": [
            {
                "x": round(place * step, 1),
                "y": round(80 - 80 * (count or 0) / top, 1),
                "width": round(max(step - 1.5, 0.5), 1),
                "height": round(80 * (count or 0) / top, 1),
                "is_below": count is not None and count < k_min,
            }
            for place, count in enumerate(counts)
        ],
    }


def _enrol(site: ShufflerSite, form: FormData) -> dict[str, Any]:
    text = str(form.get("count", ""))
    if not text.isdecimal() or not 1 <= int(text[:9]) <= _MOST_TOKENS:
        raise ValueError(f"devices must be a whole number from 1 to {_MOST_TOKENS}.")
    try:
        valid_s = parse_duration_s(str(form.get("valid", "7d")))
    except ValueError as error:
        raise ValueError(f"valid for: {error}") from None
    made = make_tokens(
        site.database,
        int(text),
        expires_s=int(site.clock.now_s()) + valid_s,
        group=str(form.get("group", "")).strip(),
        owner=str(form.get("owner", "")).strip(),
        most=site.most_per_owner,
    )
    return {"tokens": made}


def _revoke(site: ShufflerSite, form: FormData) -> dict[str, Any]:
    handles = str(form.get("handles", "")).split()
    if not handles:
        raise ValueError("name at least one device by its handle.")
    if form.get("confirmed") != "yes":
        raise ValueError("nothing was revoked: tick the box to confirm that you want it.")
    revoked = revoke_devices(site.database, handles)
    return {"done": f"{len(revoked)} revoked; running intakes notice within 5 seconds."}


def _retry(site: ShufflerSite, form: FormData) -> dict[str, Any]:
    batches = [str(one) for one in form.getlist("batch")]
    with suppress(LookupError):
        # One that was taken meanwhile needs no other try.
        return {"done": f"{len(retry_batches(site.database, batches))} sent again."}
    return {"done": "The batch is no longer in the outbox."}


PAGE: Final = Page(
    name="fleet",
    title="Fleet",
    group="Shuffler",
    is_open=True,
    views=(View("/fleet", show_fleet), View("/fleet", change_fleet, ("POST",))),
)
