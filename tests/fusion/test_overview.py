"""The routes that pages ask: traces, pages of rounds, tokens, subscribers, health."""

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.fusion.conftest import CAMPAIGN, ROUND, After, Centre, app_of, ask, parcel, reports

from rase.fusion.health import space_of
from rase.fusion.overview import MAX_POINTS, trace
from rase.fusion.refusals import Refused
from rase.fusion.subscribers import (
    ADMIN_CAMPAIGN,
    READ_ESTIMATES,
    add_subscriber,
    list_access,
    list_subscribers,
)
from rase.series.window import missing_error


class Asked:
    """An app with some rounds, a reader and an operator."""

    def __init__(self, centre: Centre, **more: Any) -> None:
        self.centre = centre
        self.app = app_of(centre, **more)
        self.reader = add_subscriber(centre.database, "reader")
        scopes = (READ_ESTIMATES, ADMIN_CAMPAIGN)
        self.operator = add_subscriber(centre.database, "operator", scopes=scopes)

    def __call__(
        self, path: str, token: str | None = None, method: str = "GET", **more: Any
    ) -> httpx.Response:
        """Ask as the reader unless told otherwise."""
        headers = {"Authorization": f"Bearer {token or self.reader}"}
        return ask(self.app, method, path, headers=headers, **more)


def add_rounds(centre: Centre, places: dict[int, list[int]]) -> None:
    """Let rounds become final."""
    for round, found in places.items():
        centre.clock.jump(CAMPAIGN.closes_s(round) + 60 - centre.clock.now_s())
        one = parcel(reports(found, round=round), round=round)
        one.deliver(centre.intake)
        centre.rounds.tick()


def four_rounds(centre: Centre) -> None:
    """Let rounds become final with a withheld one among them, and a gap before the last."""
    add_rounds(
        centre,
        {ROUND: [0] * 5, ROUND + 1: [4096] * 6, ROUND + 2: [], ROUND + 6: [2000] * 9},
    )


@pytest.fixture
def asked(after: After) -> Asked:
    """Three estimates, a withheld round, and a gap of three rounds before the last estimate."""
    centre = after(four_rounds)
    return Asked(centre, publisher=centre.publisher)


def test_a_trace_of_few_rounds_is_exact(asked: Asked) -> None:
    """One point a round, equal to the estimates; a gap is told once."""
    told = asked("/v1/trace").json()
    assert told["rounds_per_point"] == 1
    points = told["points"]
    assert [one["status"] for one in points] == ["ok", "ok", "too_few", "gap", "ok"]
    assert points[3]["rounds"] == 3
    exact = {row["round"]: row for row in asked("/v1/estimates").json()}
    for one in points:
        if one["status"] == "ok":
            row = exact[one["round"]]
            assert one["value"] == one["value_low"] == one["value_high"] == row["value"]
            assert one["low"] == pytest.approx(row["low"], rel=1e-12)
            assert one["high"] == pytest.approx(row["high"], rel=1e-12)
            assert one["n_low"] == one["n_high"] == row["n"]


def write_means(centre: Centre, method: str, means: list[float]) -> None:
    """Write final rounds with estimates of error 1; every tenth is withheld."""
    rounds = [
        (CAMPAIGN.id, ROUND + place, "withheld" if place % 10 == 3 else "final", place + 1)
        for place in range(len(means))
    ]
    estimates = [
        (CAMPAIGN.id, ROUND + place, method, mean, place + 1)
        for place, mean in enumerate(means)
        if place % 10 != 3
    ]
    with centre.database.transaction() as transaction:
        transaction.execute_many(
            "INSERT INTO rounds (campaign, round, version, state, batches, settles_s, "
            "sequence, shuffle) VALUES (?, ?, 1, ?, 1, 0, ?, 'x')",
            rounds,
        )
        transaction.execute_many(
            "INSERT INTO answers (campaign, round, method, target, value, "
            "standard_error, degrees_of_freedom, n) VALUES (?, ?, ?, 'reporters', ?, 1, NULL, ?)",
            estimates,
        )


@pytest.mark.uncovered
@pytest.mark.parametrize("method", ["unbiased_mean", "tracked"])
def test_the_interval_of_a_point_is_that_of_its_mean(centre: Centre, method: str) -> None:
    """It covers the mean of all rounds behind the point, withheld ones too, and is not a hull.

    Errors of `tracked` are drawn as if they went together, which is the worst. Of 500 points a true
    share of 95 % is below 0.90 with probability below 1e-6. The hull of the single intervals would
    be as wide as that of one round for the first kind; that of the mean of 8 is less than half.
    """
    rng = np.random.default_rng(20261117)
    truth = 100 + 10 * np.sin(np.arange(4000) / 50)
    noise = rng.normal(size=4000)
    if method == "tracked":
        start = np.arange(4000) - (ROUND + np.arange(4000)) % 8
        noise = rng.normal(size=4000 + 8)[start + 8]
    write_means(centre, method, (truth + noise).tolist())
    found = trace(centre.database, CAMPAIGN, first=0, last=2**32 - 1, points=500, method=method)
    width, points = found.width, found.points
    assert width == 8
    held = []
    widths = []
    for one in points:
        first = one.round - ROUND
        inside = truth[max(first, 0) : min(first + 8, 4000)]
        assert one.low is not None
        assert one.high is not None
        held.append(one.low <= np.mean(inside) <= one.high)
        widths.append(one.high - one.low)
    assert np.mean(held) > 0.90
    if method == "unbiased_mean":
        assert np.median(widths) < 2 * 1.96 / 2


def test_a_point_without_three_quarters_of_its_rounds_has_no_mean(centre: Centre) -> None:
    """By the rule of windows: it is withheld, as the rounds are that it lacks."""
    write_means(centre, "unbiased_mean", [100.0] * 40)
    found = trace(
        centre.database, CAMPAIGN, first=0, last=2**32 - 1, points=20, method="unbiased_mean"
    )
    width, points = found.width, found.points
    assert width == 2
    lacking = [one for one in points if one.withheld]
    assert len(lacking) == 4
    assert {(one.status, one.value) for one in lacking} == {("too_few", None)}
    assert all(one.status == "ok" for one in points if not one.withheld)


def test_the_whole_of_a_trace_is_the_window_over_it(centre: Centre) -> None:
    """Its interval covers the mean of all rounds, what is missing at either end is counted.

    Of 200 drawings a true share of 95 % is below 0.85 with probability below 1e-7.
    """
    held = 0
    for seed in range(200):
        rng = np.random.default_rng([20261118, seed])
        truth = 100 + 10 * np.sin(np.arange(40) / 5)
        with centre.database.transaction() as transaction:
            transaction.execute("DELETE FROM answers")
            transaction.execute("DELETE FROM rounds")
        write_means(centre, "unbiased_mean", (truth + rng.normal(size=40)).tolist())
        whole = trace(
            centre.database,
            CAMPAIGN,
            first=0,
            last=2**32 - 1,
            points=5,
            method="unbiased_mean",
        ).whole
        assert whole is not None
        assert (whole.rounds, whole.estimated, whole.withheld) == (40, 36, 4)
        assert whole.low is not None
        assert whole.high is not None
        held += whole.low <= truth.mean() <= whole.high
    assert held > 170
    with centre.database.transaction() as transaction:
        transaction.execute("DELETE FROM rounds WHERE round = ?", (ROUND + 10,))
    some = trace(
        centre.database,
        CAMPAIGN,
        first=ROUND + 10,
        last=ROUND + 19,
        points=5,
        method="unbiased_mean",
    ).whole
    assert some is not None
    assert (some.round, some.rounds, some.estimated) == (ROUND + 10, 10, 8)


def test_a_trace_keeps_what_stands_out(centre: Centre) -> None:
    """Of many rounds each point has the smallest and largest, and counts those withheld."""
    rng = np.random.default_rng(2026)
    means = rng.normal(100, 10, 1000)
    means[500] = -5000.0
    write_means(centre, "unbiased_mean", means.tolist())
    found = trace(
        centre.database, CAMPAIGN, first=0, last=2**32 - 1, points=50, method="unbiased_mean"
    )
    width, points = found.width, found.points
    assert width == 20
    assert len(points) <= 51
    assert sum(one.withheld for one in points) == 100
    assert min(one.value_low or 0 for one in points) == -5000.0
    for one in points:
        first = one.round - ROUND
        inside = [
            means[place]
            for place in range(max(first, 0), min(first + width, 1000))
            if place % 10 != 3
        ]
        assert one.value == pytest.approx(np.mean(inside))
        assert one.value_high == pytest.approx(max(inside))
        of = min(first + width, 1000) - max(first, 0)
        missing = 0.0
        if len(inside) < of:
            missing = missing_error(inside, [1.0] * len(inside), w=of, is_tracked=False)
        error = float(np.hypot(len(inside) ** -0.5, missing))
        assert one.standard_error == pytest.approx(error)
        assert one.low is not None
        assert one.low < np.mean(inside) - 1.95 * error
    with pytest.raises(Refused, match="points must be from 1"):
        trace(centre.database, CAMPAIGN, first=0, last=1, points=0, method="median")


def test_intervals_of_a_trace_end_where_the_range_does(asked: Asked) -> None:
    """As those of single rounds do; sample means speak of reports, which have no such bounds."""
    points = [one for one in asked("/v1/trace").json()["points"] if one["low"] is not None]
    rows = [one for one in asked("/v1/estimates").json() if one["low"] is not None]
    assert points
    for point, row in zip(points, rows, strict=True):
        assert CAMPAIGN.low <= point["low"] < point["high"] <= CAMPAIGN.high
        assert point["low"] == pytest.approx(row["low"], abs=1e-6)
        assert point["high"] == pytest.approx(row["high"], abs=1e-6)
    some = asked("/v1/trace?method=sample_mean").json()["points"]
    rows = asked("/v1/estimates?method=sample_mean").json()
    lows = [one["low"] for one in some if one["low"] is not None]
    assert lows == pytest.approx([one["low"] for one in rows if one["low"] is not None])


def test_a_trace_has_bounds(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times choose rounds, and too many rounds or points are refused."""
    time_ms = (ROUND + 1) * 3600 * 1000
    assert len(asked(f"/v1/trace?from={time_ms}&to={time_ms}").json()["points"]) == 1
    assert asked("/v1/trace?from=0&to=36000000").json()["points"] == []
    assert asked(f"/v1/trace?points={MAX_POINTS + 1}").status_code == 422
    assert asked("/v1/trace?method=nonsense").status_code == 400
    assert asked("/v1/trace?method=median").json()["method"] == "median"
    monkeypatch.setattr("rase.fusion.overview.MAX_TRACED", 2)
    assert asked("/v1/trace").json()["detail"] == "Ask for at most 2 rounds at once."


def test_an_estimator_that_no_version_had_has_no_trace(centre: Centre) -> None:
    """Rounds without the estimator are not called withheld."""
    add_rounds(centre, {ROUND: [0] * 5})
    with centre.database.transaction() as transaction:
        transaction.execute("DELETE FROM answers WHERE method = 'median'")
    asked = Asked(centre)
    assert asked("/v1/trace?method=median").json()["points"] == []


def test_rounds_come_in_pages(asked: Asked) -> None:
    """Newest first, open ones too; the next page begins where one ends."""
    one = parcel(reports([7] * 5, round=ROUND + 7), round=ROUND + 7)
    asked.centre.clock.jump(CAMPAIGN.closes_s(ROUND + 7) - asked.centre.clock.now_s())
    one.deliver(asked.centre.intake)
    with asked.centre.database.transaction() as transaction:
        transaction.execute(
            "UPDATE rounds SET settles_s = settles_s + 9999 WHERE round = ?", (ROUND + 7,)
        )
    first = asked("/v1/rounds?limit=3").json()
    assert [row["state"] for row in first["rounds"]] == ["open", "final", "withheld"]
    assert first["rounds"][0]["value"] is None
    assert first["rounds"][2]["n"] == 0
    assert first["counts"] == {"final": 3, "open": 1, "withheld": 1}
    rest = asked(f"/v1/rounds?limit=3&before={first['next']}").json()
    assert [row["round"] for row in rest["rounds"]] == [ROUND + 1, ROUND]
    assert rest["next"] is None
    assert asked("/v1/rounds?before=5").json()["rounds"] == []
    assert asked("/v1/rounds?method=nonsense").status_code == 400
    # Of a final round that has no such estimate nobody says that it is still open.
    other = asked("/v1/rounds?limit=2&method=winsorized_mean").json()["rounds"]
    assert [row["status"] for row in other] == ["open", "gap"]


def test_whose_token_and_which_campaigns(asked: Asked) -> None:
    """Any valid token may ask; the campaigns come with the usual number of reports."""
    assert asked("/v1/token").json() == {
        "name": "reader",
        "scopes": ["read:estimates"],
        "expires_s": None,
    }
    assert asked("/v1/token", "nonsense").status_code == 401
    (one,) = asked("/v1/campaigns").json()["campaigns"]
    assert one["id"] == CAMPAIGN.id
    assert one["expected_n"] == 7
    assert one["noisy_values_kept_s"] == 0


def test_questions_of_pages_are_logged(asked: Asked) -> None:
    """What tells estimates leaves a line, refusals too; what tells none does not."""
    for path in ("/v1/token", "/v1/campaigns", "/v1/trace", "/v1/rounds", "/v1/health"):
        asked(path)
    lines = [(one.question, one.answer) for one in list_access(asked.centre.database)]
    assert lines == [
        ("GET /v1/trace", "200 5 points"),
        ("GET /v1/rounds", "200 4 rows"),
        ("GET /v1/health", "403 not-allowed"),
    ]


@pytest.mark.sqlite
def test_space_is_told_where_it_is_known(centre: Centre, path: Path) -> None:
    """Of a file its size and what is left on its disk."""
    told = Asked(centre, space=lambda: space_of(path))
    storage = told("/v1/health", told.operator).json()["storage"]
    assert storage["database_bytes"] > 0
    assert storage["disk_free_bytes"] > 0


def test_health(centre: Centre) -> None:
    """Rounds behind count from the newest final one."""
    add_rounds(centre, {ROUND: [0] * 5, ROUND + 1: []})
    asked = Asked(centre)
    centre.clock.jump(CAMPAIGN.closes_s(ROUND + 4) + 60 - centre.clock.now_s())
    told = asked("/v1/health", asked.operator).json()
    assert told["is_ready"]
    assert not told["may_publish"]
    (one,) = told["campaigns"]
    assert (one["rounds_behind"], one["rounds_final"], one["rounds_withheld"]) == (3, 1, 1)
    assert one["newest_round"] == one["newest_batch_round"] == ROUND + 1
    assert (one["batches"], one["envelopes_opened"], one["envelopes_refused"]) == (2, 5, 0)
    assert asked("/v1/health").status_code == 403


def test_health_before_the_first_round(centre: Centre) -> None:
    """Nothing is there yet, and nothing fails."""
    asked = Asked(centre)
    told = asked("/v1/health", asked.operator).json()
    assert told["storage"] is None
    assert told["campaigns"][0]["newest_time"] is None
    assert told["campaigns"][0]["rounds_behind"] == 2


@pytest.mark.uncovered
def test_subscribers_are_made_and_revoked(asked: Asked) -> None:
    """The token is told once and only its hash kept; no more scopes than the maker's are given."""
    body = {"name": "new", "scopes": ["read:estimates"], "valid_s": 3600}
    made = asked("/v1/subscribers", asked.operator, "POST", json=body)
    assert made.status_code == 201
    token = made.json()["token"]
    assert asked("/v1/token", token).json()["name"] == "new"
    told = asked("/v1/subscribers", asked.operator)
    assert token not in told.text
    row = next(one for one in told.json()["subscribers"] if one["name"] == "new")
    assert row["made_s"] == int(asked.centre.clock.now_s())
    assert row["expires_s"] == row["made_s"] + 3600
    assert asked("/v1/subscribers/new", asked.operator, "DELETE").status_code == 204
    assert asked("/v1/token", token).status_code == 401
    admin = add_subscriber(asked.centre.database, "admin", scopes=(ADMIN_CAMPAIGN,))
    refused = asked("/v1/subscribers", admin, "POST", json={**body, "name": "more"})
    assert refused.status_code == 403
    assert "more" not in [one.name for one in list_subscribers(asked.centre.database)]


@pytest.mark.uncovered
@pytest.mark.any_store
@pytest.mark.parametrize(
    ("method", "route", "body", "status"),
    [
        ("POST", "/v1/subscribers", {"name": "reader", "scopes": ["read:estimates"]}, 400),
        ("POST", "/v1/subscribers", {"name": "x", "scopes": []}, 400),
        ("POST", "/v1/subscribers", {"name": "x", "scopes": ["all"]}, 403),
        ("POST", "/v1/subscribers", {"name": "x"}, 422),
        ("DELETE", "/v1/subscribers/nobody", None, 400),
    ],
)
def test_wrong_subscribers_are_refused(
    asked: Asked, method: str, route: str, body: Any, status: int
) -> None:
    """With the reason, and nothing happens."""
    before = list_subscribers(asked.centre.database)
    assert asked(route, asked.operator, method, json=body).status_code == status
    assert asked(route, asked.reader, method, json=body).status_code in (403, 422)
    assert list_subscribers(asked.centre.database) == before


def test_nothing_changes_over_http_unless_the_operator_allows_it(centre: Centre) -> None:
    """Without admin_over_http tokens are made and revoked by the command line alone."""
    asked = Asked(centre)
    body = {"name": "x", "scopes": ["read:estimates"]}
    answers = [
        asked("/v1/subscribers", asked.operator, "POST", json=body),
        asked("/v1/subscribers/reader", asked.operator, "DELETE"),
    ]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert "command line" in answers[0].json()["detail"]
