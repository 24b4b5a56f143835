"""The fusion centre over HTTP: who may do what, in which form, and what is written down."""

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.fusion.conftest import (
    CAMPAIGN,
    PINNED,
    ROUND,
    After,
    Centre,
    Signs,
    app_of,
    ask,
    parcel,
    reports,
)
from tests.patience import turn_on
from tests.storage.engines import columns_of

from rase.answer import FIELDS
from rase.errors import StorageBusy
from rase.fusion.app import _BODY_S, openapi_document
from rase.fusion.countersign import NotCountersigned
from rase.fusion.describe import description
from rase.fusion.refusals import REFUSALS
from rase.fusion.settings import FusionLimits, FusionPolicy, FusionSettings
from rase.fusion.subscribers import ADMIN_CAMPAIGN, add_subscriber, list_access, revoke_subscriber
from rase.service.telemetry import Telemetry
from rase.wire.keys import Role, SigningKey
from rase.wire.parcel import MANIFEST_HEADER
from rase.wire.signed import SignedCampaign

OPENAPI = Path(__file__).parents[2] / "docs/reference/openapi.json"
TIME_MS = ROUND * 3600 * 1000


class Asked:
    """An app with three rounds, and two subscribers."""

    def __init__(self, centre: Centre, app: FastAPI) -> None:
        self.centre = centre
        self.app = app
        self.reader = add_subscriber(centre.database, "reader")
        self.admin = add_subscriber(centre.database, "admin", scopes=(ADMIN_CAMPAIGN,))

    def get(self, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        """Ask as the reader unless told otherwise."""
        headers = {"Authorization": f"Bearer {token or self.reader}", **more.pop("headers", {})}
        return ask(self.app, "GET", path, headers=headers, **more)

    def log(self) -> list[tuple[str, str, str]]:
        """Return the access log."""
        lines = list_access(self.centre.database)
        return [(line.subscriber, line.question, line.answer) for line in lines]


def three_rounds(centre: Centre) -> None:
    """Let two rounds become final, and withhold one."""
    for round, places in ((ROUND, [0] * 5), (ROUND + 1, [4096] * 6), (ROUND + 2, [])):
        centre.clock.jump(CAMPAIGN.closes_s(round) - centre.clock.now_s())
        one = parcel(reports(places, round=round), round=round)
        one.deliver(centre.intake)
        centre.rounds.tick()


@pytest.fixture
def asked(after: After) -> Asked:
    """A fusion centre with two estimates and a withheld round."""
    centre = after(three_rounds)
    return Asked(centre, app_of(centre, publisher=centre.publisher))


@pytest.mark.uncovered
def test_estimates_are_an_array_of_flat_objects(asked: Asked) -> None:
    """With n, interval, epsilon and promise in each, as Grafana likes them."""
    answer = asked.get("/v1/estimates")
    assert answer.status_code == 200
    rows = answer.json()
    assert [row["status"] for row in rows] == ["ok", "ok", "too_few"]
    for row in rows:
        assert tuple(row) == FIELDS
        assert not any(isinstance(value, dict | list) for value in row.values())
    assert rows[0]["value"] < 0
    assert rows[0]["time"] == "2026-06-21T01:00:00Z"


@pytest.mark.uncovered
@pytest.mark.parametrize(
    ("query", "rounds"),
    [
        (f"from={TIME_MS}", [0, 1, 2]),
        (f"from={TIME_MS + 1}", [1, 2]),
        (f"to={TIME_MS + 3599_999}", [0]),
        (f"from={TIME_MS}&to={TIME_MS + 3600_000}", [0, 1]),
        ("from=2026-06-21T02:00:00Z&to=2026-06-21T04:30:00%2B01:00", [1, 2]),
        ("at=2026-06-21T02:59:59Z", [1]),
        ("at=2026-06-21T04:00:00Z", [3]),
    ],
)
def test_times_choose_rounds(asked: Asked, query: str, rounds: list[int]) -> None:
    """A round belongs to an answer if it begins in the time."""
    rows = asked.get(f"/v1/estimates?{query}").json()
    assert [row["round"] - ROUND for row in rows] == rounds


def test_latest_and_windows(asked: Asked) -> None:
    """The newest round may be withheld; a window says so too."""
    assert asked.get("/v1/estimates/latest").json()["status"] == "too_few"
    (row,) = asked.get("/v1/windows?w=2&at=2026-06-21T02:00:00Z").json()
    assert (row["of_rounds"], row["status"], row["n"]) == (2, "ok", 11)
    (row,) = asked.get("/v1/windows?w=2h").json()
    assert row["status"] == "too_few"
    for when, rounds in (("", 24), ("&at=2026-06-21T02:00:00Z", 24), (f"&from={TIME_MS}", None)):
        rows = asked.get(f"/v1/windows?w=1d&timezone=Europe/Zurich{when}").json()
        assert [row["of_rounds"] for row in rows] == ([] if rounds is None else [rounds])
    rows = asked.get(f"/v1/windows?w=1&from={TIME_MS}&to={TIME_MS + 7200_000}").json()
    assert [row["status"] for row in rows] == ["ok", "ok", "too_few"]


def test_forms(asked: Asked) -> None:
    """CSV and Influx lines by address or by Accept."""
    by_address = asked.get("/v1/estimates?format=csv")
    by_accept = asked.get("/v1/estimates", headers={"Accept": "text/csv, */*;q=0.1"})
    assert by_address.text == by_accept.text
    assert by_address.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(by_address.text.splitlines()))
    assert [row["n"] for row in rows] == ["5", "6", "0"]
    influx = asked.get("/v1/estimates/latest?format=influx")
    assert influx.text.startswith("rase,campaign=street-power")
    assert influx.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.any_store
@pytest.mark.parametrize(
    "query",
    [
        "estimates?from=yesterday",
        "estimates?to=2026-06-21T00:00:00",
        "estimates?from=9&to=8",
        "estimates?at=1&to=8",
        "estimates?at=-1",
        "estimates?method=mode",
        "estimates?format=xml",
        "windows?w=0",
        "windows?w=90min",
        "windows?w=99999",
        "windows?w=2h&timezone=Europe/Zurich",
        "windows?w=1d&timezone=Atlantis",
    ],
)
def test_what_cannot_be_understood_is_a_problem(asked: Asked, query: str) -> None:
    """Status 400 with a stable type and one sentence."""
    answer = asked.get(f"/v1/{query}")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:rase:problem:bad-question"
    assert answer.json()["detail"]


def test_missing_parts_are_problems(asked: Asked) -> None:
    """Unknown campaigns, missing parameters and unknown addresses are problems too."""
    for path, status in (
        ("/v1/estimates?campaign=elsewhere", 404),
        ("/v1/windows", 422),
        ("/v1/reports", 404),
        ("/v1/campaigns/elsewhere", 404),
    ):
        answer = asked.get(path)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.any_store
@pytest.mark.parametrize(
    "route", ["/v1/estimates", "/v1/estimates/latest", "/v1/windows?w=2", "/v1/stream"]
)
def test_questions_need_a_token(asked: Asked, route: str) -> None:
    """Missing, unknown and wrongly sent tokens are refused, and say how."""
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {asked.reader}"}):
        answer = ask(asked.app, "GET", route, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["type"] == "urn:rase:problem:no-token"
    # A token for administering is not one for reading.
    answer = asked.get(route, asked.admin)
    assert answer.status_code == 403
    assert answer.json()["type"] == "urn:rase:problem:not-allowed"


def test_a_revoked_token_opens_nothing(asked: Asked) -> None:
    """From the moment it is taken back."""
    assert asked.get("/v1/estimates").status_code == 200
    revoke_subscriber(asked.centre.database, asked.centre.clock, name="reader")
    assert asked.get("/v1/estimates").status_code == 401


def test_a_reader_can_change_nothing(asked: Asked) -> None:
    """No route of a reader writes anything but the access log, and none tells a report."""
    before = [asked.centre.count(table) for table in ("campaigns", "rounds", "answers", "batches")]
    header = {"Authorization": f"Bearer {asked.reader}"}
    changes = {"not_before": ROUND + 9, "beta": 0.1}
    version = ask(
        asked.app, "POST", "/v1/campaigns/street-power/versions", headers=header, json=changes
    )
    assert version.status_code == 403
    for path in ("/v1/access-log", "/v1/campaigns/street-power/effect"):
        assert asked.get(path).status_code == 403
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(asked.app, method, "/v1/estimates", headers=header).status_code == 405
    after = [asked.centre.count(table) for table in ("campaigns", "rounds", "answers", "batches")]
    assert after == before
    routes = set(asked.app.openapi()["paths"])
    assert not [path for path in routes if "report" in path or "value" in path]


def test_every_question_is_in_the_access_log(asked: Asked) -> None:
    """Answers and refusals alike, with what was asked."""
    asked.get("/v1/estimates?from=0")
    asked.get("/v1/estimates?from=x")
    asked.get("/v1/access-log")
    assert asked.log() == [
        ("reader", "GET /v1/estimates?from=0", "200 3 rows"),
        ("reader", "GET /v1/estimates?from=x", "400 bad-question"),
        ("reader", "GET /v1/access-log", "403 not-allowed"),
    ]
    lines = asked.get("/v1/access-log?limit=2&subscriber=reader", asked.admin).json()
    assert [line["answer"] for line in lines] == ["400 bad-question", "403 not-allowed"]


def test_the_campaign_is_public(asked: Asked) -> None:
    """As JSON for people, as signed bytes for whoever checks them, with an ETag."""
    answer = ask(asked.app, "GET", "/v1/campaigns/street-power")
    assert answer.json()["epsilon"] == [1.0]
    assert answer.json()["noisy_values_kept_s"] == 0
    etag = answer.headers["etag"]
    again = ask(asked.app, "GET", "/v1/campaigns/street-power", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    signed = ask(
        asked.app, "GET", "/v1/campaigns/street-power", headers={"Accept": "application/cbor"}
    )
    assert SignedCampaign.from_bytes(signed.content, PINNED).campaign == CAMPAIGN


def test_the_range_of_probes_is_asked_for_by_operators(asked: Asked) -> None:
    """Before there are probes the answer has no advice; impossible limits are refused."""
    answer = asked.get("/v1/campaigns/street-power/range", asked.admin)
    assert answer.status_code == 200
    assert (answer.json()["probes"], answer.json()["advice"]) == (0, None)
    wide = asked.get("/v1/campaigns/street-power/range?high=9000&n=5", asked.admin)
    assert wide.status_code == 200
    bad = asked.get("/v1/campaigns/street-power/range?low=9000", asked.admin)
    assert bad.status_code == 400


def test_the_effect_is_shown_before_it_is_published(asked: Asked) -> None:
    """Other parameters, another error, for the reports that rounds had of late."""
    answer = asked.get("/v1/campaigns/street-power/effect?epsilon=4&beta=0.1", asked.admin)
    now, then = answer.json()["now"][0], answer.json()["then"][0]
    assert then["standard_error"] < now["standard_error"]
    assert now["n"] == 6
    more = asked.get("/v1/campaigns/street-power/effect?n=600", asked.admin).json()
    assert more["now"][0]["standard_error"] == pytest.approx(now["standard_error"] / 10)
    narrow = asked.get("/v1/campaigns/street-power/effect?high=1500", asked.admin).json()
    assert narrow["then"][0]["standard_error"] == pytest.approx(now["standard_error"] / 2, rel=0.1)
    assert (narrow["campaign"]["high"], narrow["campaign"]["version"]) == (1500, 2)
    assert narrow["clipping"] is None
    lower = asked.get("/v1/campaigns/street-power/effect?k_min=2", asked.admin)
    assert lower.status_code == 400
    assert "k_min" in lower.json()["detail"]
    bad = asked.get("/v1/campaigns/street-power/effect?beta=7", asked.admin)
    assert (bad.status_code, bad.json()["type"]) == (400, "urn:rase:problem:bad-question")


def test_new_versions_are_published_over_http(asked: Asked) -> None:
    """By whoever has the scope, for rounds to come, and nothing else."""

    def post(changes: Any) -> httpx.Response:
        header = {"Authorization": f"Bearer {asked.admin}"}
        path = "/v1/campaigns/street-power/versions"
        return ask(asked.app, "POST", path, headers=header, json=changes)

    assert post({"beta": 0.1}).status_code == 400
    assert post({"not_before": ROUND, "beta": 0.1}).json()["type"].endswith("bad-question")
    assert post({"not_before": ROUND + 9, "colour": "red"}).status_code == 400
    assert post([]).status_code == 422
    made = post({"not_before": ROUND + 9, "beta": 0.1})
    assert (made.status_code, made.json()["version"]) == (201, 2)
    assert asked.centre.questions.campaign(None).beta == 0.1
    assert asked.log()[-1][2] == "201 version 2"


class Refuses(Signs):
    """A shuffler that does not agree."""

    def campaign(self, campaign: object, fusion_signature: bytes) -> bytes:
        """Refuse."""
        raise NotCountersigned("the shuffler does not sign: epsilon is too large.")


def test_a_refusal_of_the_shuffler_reaches_the_operator(asked: Asked) -> None:
    """Nothing is published then; without a publisher nothing can be."""
    header = {"Authorization": f"Bearer {asked.admin}"}
    path = "/v1/campaigns/street-power/versions"
    asked.centre.shuffler = Refuses()
    asked.centre.__post_init__()
    changes = {"not_before": ROUND + 9, "beta": 0.1}
    app = app_of(asked.centre, publisher=asked.centre.publisher)
    answer = ask(app, "POST", path, headers=header, json=changes)
    assert (answer.status_code, answer.json()["type"]) == (
        502,
        "urn:rase:problem:not-countersigned",
    )
    answer = ask(app_of(asked.centre), "POST", path, headers=header, json=changes)
    assert answer.status_code == 403


def test_batches_are_put(centre: Centre) -> None:
    """201 for new bytes, 200 for the same again, problems for all else."""
    app = app_of(centre)
    sent = parcel(reports([1, 2, 3, 4]))

    def put(name: str, payload: bytes) -> httpx.Response:
        return ask(app, "PUT", f"/v1/batches/{name}", content=payload, headers=sent.headers)

    assert put(sent.id.hex(), sent.body).status_code == 201
    assert put(sent.id.hex(), sent.body).status_code == 200
    for name, payload in (("xyz", sent.body), ("00", sent.body), (sent.id.hex(), b"")):
        answer = put(name, payload)
        assert (answer.status_code, answer.json()["type"]) == (400, "urn:rase:problem:bad-batch")
    centre.rounds.tick()
    late = parcel(reports([5] * 9))
    answer = ask(app, "PUT", late.path, content=late.body, headers=late.headers)
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:rase:problem:final-round")


def test_oversized_batches_are_not_read(centre: Centre) -> None:
    """The limit is checked before the body is taken in."""
    centre.policy = FusionPolicy(limits=FusionLimits(max_batch_bytes=2048))
    centre.__post_init__()
    sent = parcel(reports(range(40)))
    answer = ask(app_of(centre), "PUT", sent.path, content=sent.body, headers=sent.headers)
    assert answer.status_code == 413


class Untouched:
    """A body that must not be read."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Fail when it is."""
        raise AssertionError("the body was read")
        yield b""


def test_no_body_is_read_without_a_manifest_of_the_shuffler(centre: Centre) -> None:
    """A missing, garbled, foreign or moved manifest is refused before the first byte."""
    app = app_of(centre)
    sent, other = parcel(reports([1] * 4)), parcel(reports([2] * 4))
    forged = parcel(reports([1] * 4), signer=SigningKey.generate(Role.SHUFFLER))
    cases = [
        (sent.path, {}),
        (sent.path, {MANIFEST_HEADER: "!"}),
        (sent.path, {MANIFEST_HEADER: "AAAA"}),
        (sent.path, other.headers),
        (forged.path, forged.headers),
        ("/v1/batches/00", sent.headers),
    ]
    for path, headers in cases:
        answer = ask(app, "PUT", path, content=Untouched(), headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (400, "urn:rase:problem:bad-batch")
    assert app.state.centre.telemetry.counters()["rase_fusion_problem_bad_batch_total"] == 6


def test_no_more_of_a_body_is_read_than_its_manifest_allows(centre: Centre) -> None:
    """What follows is not read, though it is below the largest batch."""
    sent = parcel(reports([1] * 4))
    pieces = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            pieces.append(1)
            yield bytes(1024)

    answer = ask(app_of(centre), "PUT", sent.path, content=endless(), headers=sent.headers)
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:rase:problem:bad-batch")
    assert len(pieces) < 8


def test_batches_on_their_way_are_few_and_quick(centre: Centre) -> None:
    """One more is told to come later; one that never ends gives its place back."""
    centre.policy = FusionPolicy(limits=FusionLimits(batches_at_once=1))
    app = app_of(centre)
    sent = parcel(reports([1] * 4))

    async def main() -> tuple[httpx.Response, httpx.Response, httpx.Response]:
        begun = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            begun.set()
            yield sent.body[:10]
            await asyncio.Event().wait()

        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://fusion") as client:

            async def put(content: Any) -> httpx.Response:
                return await client.put(sent.path, content=content, headers=sent.headers)

            first = asyncio.create_task(put(slow()))
            await begun.wait()
            second = await put(sent.body)
            turn_on(_BODY_S)
            return second, await first, await put(sent.body)

    refused, timed_out, taken = asyncio.run(main())
    assert (refused.status_code, refused.json()["type"]) == (429, "urn:rase:problem:too-many")
    assert int(refused.headers["retry-after"]) >= 1
    assert timed_out.status_code == 408
    assert taken.status_code == 201


def test_questions_are_limited_by_token(asked: Asked) -> None:
    """429 with Retry-After for the one, nothing for others; it passes, and is not written down."""
    asked.centre.policy = FusionPolicy(limits=FusionLimits(questions_per_minute=3))
    asked.app = app_of(asked.centre)
    other = add_subscriber(asked.centre.database, "other")
    for _ in range(3):
        assert asked.get("/v1/estimates/latest").status_code == 200
    for path in ("/v1/estimates", "/v1/windows?w=2", "/v1/stream", "/v1/access-log"):
        answer = asked.get(path)
        assert (answer.status_code, answer.json()["type"]) == (429, "urn:rase:problem:too-many")
        assert 1 <= int(answer.headers["retry-after"]) <= 61
    assert asked.get("/v1/estimates", other).status_code == 200
    assert len(asked.log()) == 4
    counters = asked.app.state.centre.telemetry.counters()
    assert counters["rase_fusion_problem_too_many_total"] == 4
    # The campaign is public, and costs no question.
    assert asked.get("/v1/campaigns/street-power").status_code == 200
    asked.centre.clock.advance(61)
    assert asked.get("/v1/estimates/latest").status_code == 200


def test_health(centre: Centre) -> None:
    """A centre whose database answers is ready; one whose database is gone is not."""
    app = app_of(centre)
    assert ask(app, "GET", "/readyz").status_code == 200
    with centre.database.transaction() as transaction:
        transaction.execute("ALTER TABLE rounds RENAME TO gone")
    assert ask(app, "GET", "/readyz").status_code == 503
    assert ask(app, "GET", "/healthz").status_code == 200


def test_metrics_tell_the_newest_round(centre: Centre) -> None:
    """/metrics has the newest final round of each campaign, once there is one."""
    app = app_of(centre)
    assert "rase_fusion_last_round" not in ask(app, "GET", "/metrics").text
    sent = parcel(reports([1, 2, 3, 4, 5]))
    assert ask(app, "PUT", sent.path, content=sent.body, headers=sent.headers).status_code == 201
    centre.clock.advance(120)
    centre.rounds.tick()
    lines = ask(app, "GET", "/metrics").text.split("\n")
    start_s = ROUND * CAMPAIGN.round_s
    assert 'rase_fusion_last_round_reports{campaign="street-power"} 5' in lines
    assert f'rase_fusion_last_round_timestamp_seconds{{campaign="street-power"}} {start_s}' in lines


@pytest.mark.any_store
def test_the_description_is_current(centre: Centre) -> None:
    """The copy in docs is what is served; docs/reference/http-api.md says how to renew it."""
    app = app_of(centre)
    served = ask(app, "GET", "/openapi.json").json()
    assert served["openapi"].startswith("3.1")
    assert openapi_document(app.state.centre) == served
    assert OPENAPI.read_text("utf-8") == description()
    assert json.loads(description()) == served


def test_the_description_tells_tokens_and_problems(centre: Centre) -> None:
    """Every route names its problems, and those of subscribers the token."""
    paths = app_of(centre).openapi()["paths"]
    for path, methods in paths.items():
        for operation in methods.values():
            assert "application/problem+json" in operation["responses"]["4XX"]["content"]
            is_open = path in {"/v1/batches/{batch_id}", "/v1/campaigns/{campaign_id}"}
            assert ("security" in operation) != is_open


class Full:
    """A database on a disk that is full."""

    def __init__(self, database: Any) -> None:
        self.snapshot = database.snapshot

    def transaction(self) -> Any:
        """Fail."""
        raise StorageBusy("the database /var/secret cannot be used now: disk full.")

    share = transaction


def test_a_full_disk_is_a_problem_that_passes(centre: Centre) -> None:
    """503 with Retry-After; nothing is kept, and the same bytes are taken later."""
    sent = parcel(reports([1, 2, 3, 4]))
    database = centre.database
    centre.database = Full(database)  # type: ignore[assignment]
    centre.__post_init__()
    answer = ask(app_of(centre), "PUT", sent.path, content=sent.body, headers=sent.headers)
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:rase:problem:unavailable")
    assert answer.headers["retry-after"]
    assert "secret" not in answer.text
    centre.database = database
    centre.__post_init__()
    answer = ask(app_of(centre), "PUT", sent.path, content=sent.body, headers=sent.headers)
    assert answer.status_code == 201


def test_the_log_holds_no_value_and_no_token(asked: Asked) -> None:
    """What a server says of a round is that it is final, and of a question that it was asked."""
    log = io.StringIO()
    app = app_of(asked.centre)
    centre = replace(app.state.centre, telemetry=Telemetry("fusion", stream=log))
    asked.centre.clock.advance(3600)
    sent = parcel(reports([1234] * 5, round=ROUND + 3), round=ROUND + 3)
    sent.deliver(centre)
    sent.deliver(centre)
    centre.tick()
    mean = asked.get("/v1/estimates/latest").json()["value"]
    assert log.getvalue().splitlines() == [
        f"fusion batch_received campaign=street-power round={ROUND + 3}",
        f"fusion round_done campaign=street-power round={ROUND + 3} state=final",
    ]
    assert str(mean) not in log.getvalue()
    assert centre.telemetry.counters()["rase_fusion_batches_known_total"] == 1


def test_every_route_and_problem_is_documented(centre: Centre) -> None:
    """The page names them all."""
    page = (OPENAPI.parent / "http-api.md").read_text("utf-8")
    for path in app_of(centre).openapi()["paths"]:
        assert f"`{path}`" in page or f" {path}" in page, path
    for name in FusionSettings.model_fields:
        assert f"`{name}`" in page.split("## Settings")[1], name
    for kind in REFUSALS:
        assert f"| `{kind.name}` | {kind.status} |" in page


def test_no_table_has_a_place_for_an_identity(centre: Centre) -> None:
    """From the fusion centre's database no sender can be read: there is no column for one."""
    assert columns_of(centre.database) == {
        *("campaign", "version", "hash", "body", "not_before"),
        *("fusion_signature", "shuffler_signature"),
        *("round", "state", "batches", "settles_s", "sequence", "shuffle", "kept_until_s"),
        *("batch", "manifest", "opened", "replayed", "refused"),
        # By what a copy of an envelope is known while its block goes on.
        *("block", "places", "classes"),
        # Which key of the fusion centre a batch is for, and in how many parts its round comes.
        *("fusion_key", "parts"),
        *("method", "target", "mean", "standard_error", "degrees_of_freedom", "n"),
        *("quantity", "unit", "time", "until", "value", "low", "high"),
        *("local_epsilon", "shuffled_epsilon", "delta"),
        # How often later rounds revised an estimate, the fleet's size, and windows over rounds.
        *("revision", "final", "members", "w", "rounds"),
        *("subscriber", "handle", "token_hash", "scopes", "expires_s", "revoked_s", "made_s"),
        *("number", "time_s", "question", "answer", "role", "spread"),
        *("epsilon", "counts"),
        # Keys of token windows, and what is kept of tokens that were counted.
        *("first_round", "last_round", "over_s", "signed", "tag"),
        # Logins of subscribers; whose, is sealed with what only their browsers hold.
        *("session", "sealed", "begun_s", "seen_s"),
        # Public kinds of devices and states, that a campaign declares.
        *("label", "labels", "category"),
        # Alarms on answers, and whether they were delivered.
        *("alarm", "delivered"),
        # Processes of the fusion centre itself, and the public halves of its keys.
        *("process", "part", "keys"),
        # What operators did: their own names or sessions, never those of who reports.
        *("act", "done_by", "subject"),
    }
