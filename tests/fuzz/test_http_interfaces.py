"""schemathesis against all servers in-process: no 5xx, nothing that the description does not say.

`positive_data_acceptance` is left out: which campaigns, estimators and times there are is not for
a schema to say, so requests that keep it may be refused (400, 404), as it documents.
"""

import asyncio
import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.described import check_described
from tests.fusion.conftest import CAMPAIGN, ROUND, app_of, made_centre, parcel, reports
from tests.shuffler.conftest import World

from rase.fusion.subscribers import ADMIN_CAMPAIGN, READ_ESTIMATES, add_subscriber
from rase.shuffler.app import create_shuffler_app
from rase.shuffler.settings import LimitSettings
from rase.wire.frames import authorization_of

# A stream does not end by itself; its own tests are in tests/fusion/test_stream.py.
ENDLESS = "/v1/stream"
USUAL: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}
NAMES = st.one_of(st.none(), st.just(CAMPAIGN.id))
TIMES = st.sampled_from([None, "0", f"{ROUND * 3_600_000}", "2026-06-21T02:00:00Z", "1h", "2"])


@pytest.fixture(scope="module", autouse=True)
def loops_of_the_tester() -> Iterator[None]:
    """Take away the event loops that the tester leaves open, before another test is blamed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def fusion(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, dict[str, str]]]:
    """The description of a fusion centre with three rounds, and the headers of one who may all."""
    with made_centre(tmp_path_factory.mktemp("fusion") / "fusion.sqlite") as centre:
        for round, places in ((ROUND, [0] * 5), (ROUND + 1, [4096] * 6), (ROUND + 2, [])):
            centre.clock.jump(CAMPAIGN.closes_s(round) - centre.clock.now_s())
            one = parcel(reports(places, round=round), round=round)
            one.deliver(centre.intake)
            centre.rounds.tick()
        token = add_subscriber(centre.database, "all", scopes=(READ_ESTIMATES, ADMIN_CAMPAIGN))
        app = app_of(centre, publisher=centre.publisher)
        schema = schemathesis.openapi.from_asgi("/openapi.json", app)
        yield schema.exclude(path=ENDLESS), {"Authorization": f"Bearer {token}"}


def walk(schema: Any, headers: dict[str, str], examples: int) -> set[int]:
    """Send examples to every operation, half of them about what there is; return all statuses."""
    seen: set[int] = set()
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(max_examples=examples, phases=[Phase.generate], **USUAL)
        @given(case=operation.as_strategy(), name=NAMES, time=TIMES)
        def send(case: Any, name: str | None, time: str | None) -> None:
            if name is not None and "campaign_id" in (case.path_parameters or {}):
                case.path_parameters["campaign_id"] = name
            for key in ("from", "to", "at", "w"):
                if time is not None and key in (case.query or {}):
                    case.query[key] = time
            response = case.call(headers=headers)
            seen.add(response.status_code)
            case.validate_response(
                response, headers=headers, excluded_checks=[positive_data_acceptance]
            )

        send()
    return seen


def live(schema: Any, headers: dict[str, str], histories: int) -> None:
    """Send whole histories, in which answers are asked about further."""

    class Machine(schema.as_state_machine()):  # type: ignore[misc]
        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": headers}

        def validate_response(self, response: Any, case: Any, **more: Any) -> None:
            case.validate_response(
                response, headers=headers, excluded_checks=[positive_data_acceptance]
            )

    Machine.run(settings=settings(max_examples=histories, stateful_step_count=10, **USUAL))


def test_the_fusion_centre_keeps_its_description(fusion: tuple[Any, dict[str, str]]) -> None:
    """All checks on all operations: status, content type, schema, headers, methods, no 5xx."""
    seen = walk(*fusion, 15)
    assert {200, 400, 404} <= seen
    assert max(seen) < 500


def test_histories_keep_the_description(fusion: tuple[Any, dict[str, str]]) -> None:
    """So do requests that follow from one another."""
    live(*fusion, 5)


@pytest.mark.slow
def test_the_fusion_centre_keeps_its_description_for_long(
    fusion: tuple[Any, dict[str, str]],
) -> None:
    """The same, a hundred times as many."""
    assert max(walk(*fusion, 1500)) < 500
    live(*fusion, 300)


SHUFFLER_PATHS = (
    ("POST", "/v1/reports"),
    ("POST", "/v1/enrolments"),
    ("GET", "/v1/keyset"),
    ("PUT", "/v1/keyset"),
    ("GET", "/v1/campaigns/{name}"),
    ("GET", "/v1/campaigns/{name}/versions"),
    ("PUT", "/v1/campaigns/{name}/{number}"),
    ("GET", "/v1/public-keys"),
    ("GET", "/v1/token-keys"),
    ("PUT", "/v1/token-keys"),
)


def storm(world: World, examples: int) -> dict[int, int]:
    """Send anything to every route of a shuffler; count the statuses."""
    app = create_shuffler_app(
        world.database,
        world.clock,
        countersigner=world.countersigner,
        pinned=world.pinned,
        telemetry=world.telemetry,
        limits=LimitSettings(enrolments_per_minute=10**6, reports_per_minute=10**6),
    )
    told = {(method, path) for method, path in SHUFFLER_PATHS}
    routes = {
        (method.upper(), path.replace("campaign_id", "name").replace("version}", "number}"))
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    }
    assert routes == told, "a route of the shuffler is not tried"
    seen: dict[int, int] = {}

    async def send(client: httpx.AsyncClient, request: dict[str, Any]) -> None:
        answer = await client.request(**request)
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
        check_described(app.openapi(), answer)
        assert answer.status_code < 500, request
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["status"] == answer.status_code

    names = st.one_of(st.just(world.campaign.id), st.text(min_size=1, max_size=20))
    kinds = ["application/rase-report", "application/cbor", "application/json", "x/y"]
    headers = st.fixed_dictionaries(
        {"content-type": st.sampled_from(kinds)},
        optional={
            "authorization": st.sampled_from(
                [authorization_of(b"x", world.credentials[0]), "RASE x.y", "z"]
            ),
            "if-none-match": st.sampled_from(['"a"', "*", ""]),
        },
    )
    texts = st.one_of(st.text(max_size=60), st.sampled_from(["A" * 43, "0" * 16]))
    asked = dict.fromkeys(("token", "device_key", "proof"), texts)
    bodies = st.one_of(
        st.binary(max_size=1300),
        st.fixed_dictionaries(asked).map(lambda one: httpx.Request("POST", "x:", json=one).content),
        st.sampled_from([world.seal(round) for round in (0, 1)]),
        st.just(world.proposal_of(world.campaign)),
    )

    async def main(requests: list[dict[str, Any]]) -> None:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://shuffler") as client:
            for request in requests:
                await send(client, request)

    @settings(max_examples=examples, **USUAL)
    @given(data=st.data())
    def attack(data: st.DataObject) -> None:
        requests = []
        for method, path in SHUFFLER_PATHS:
            name = data.draw(names)
            number = data.draw(st.sampled_from(["1", "2", "0", "-1", "x", "9" * 30]))
            url = path.format(name=quote(name, safe=""), number=number)
            body = b"" if method == "GET" else data.draw(bodies)
            requests.append(
                {"method": method, "url": url, "headers": data.draw(headers), "content": body}
            )
        asyncio.run(main(requests))

    attack()
    return seen


def test_the_shuffler_answers_anything(tmp_path: Path) -> None:
    """Whatever comes, the answer is one of the description, and a refusal is a problem."""
    world = World(tmp_path / "shuffler.db")
    try:
        seen = storm(world, 40)
    finally:
        world.database.close()
    assert {200, 400, 404, 415} <= set(seen)


@pytest.mark.slow
def test_the_shuffler_answers_anything_for_long(tmp_path: Path) -> None:
    """The same, fifty times as many."""
    world = World(tmp_path / "shuffler.db")
    try:
        storm(world, 2000)
    finally:
        world.database.close()
