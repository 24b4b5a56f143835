"""What the fusion centre's spans tell: how long batches, rounds and questions took, of nobody."""

import io
from typing import TYPE_CHECKING

from tests.fusion.conftest import CAMPAIGN, ROUND, app_of, ask, parcel, reports
from tests.service.spans import collected

from rase.fusion.subscribers import add_subscriber

if TYPE_CHECKING:
    from tests.fusion.conftest import Centre

PLACES = [1111, 2222, 3333, 3999, 4001]


def test_batches_rounds_and_questions_are_timed_without_values(centre: "Centre") -> None:
    """Each has a span; none holds a place, an estimate, a subscriber, a token or a time asked for.

    A question that is refused has one, too; streams, health and metrics have none.
    """
    token = add_subscriber(centre.database, "alice")
    header = {"Authorization": f"Bearer {token}"}
    app = app_of(centre)
    telemetry = app.state.centre.telemetry
    sent = parcel(reports(PLACES))
    with collected(telemetry, "fusion") as spans:
        for _ in range(2):
            ask(app, "PUT", sent.path, content=sent.body, headers=sent.headers)
        ask(app, "PUT", sent.path, content=b"nonsense", headers=sent.headers)
        assert app.state.centre.tick()
        assert not app.state.centre.tick()
        time_ms = ROUND * CAMPAIGN.round_s * 1000
        (row,) = ask(
            app, "GET", f"/v1/estimates?from={time_ms}&to={time_ms}", headers=header
        ).json()
        ask(app, "GET", "/v1/campaigns/street-power/effect", headers=header)
        ask(app, "GET", "/v1/estimates")
        ask(app, "GET", "/v1/nothing/alice")
        for path in ("/healthz", "/metrics", "/readyz"):
            ask(app, "GET", path)
    assert [span.name for span in spans] == ["put"] * 3 + ["finalise"] + ["question"] * 4
    assert [span.fields.get("rase.state") for span in spans[:3]] == ["received", "known", None]
    assert "error.type" in spans[2].fields
    assert spans[3].fields == {"rase.count": 1}
    told = [(span.fields["rase.route"], span.fields["rase.status"]) for span in spans[4:]]
    assert told == [
        ("/v1/estimates", 200),
        ("/v1/campaigns/{campaign_id}/effect", 403),
        ("/v1/estimates", 401),
        ("unknown", 404),
    ]
    text = "".join(span.text for span in spans)
    secrets = ["alice", token, token.partition(".")[0], str(time_ms), str(row["value"])]
    for secret in [*secrets, *map(str, PLACES), sent.id.hex()]:
        assert secret not in text


def test_spans_without_a_collector_change_nothing(centre: "Centre") -> None:
    """The log and the answers are the same, and no span is made."""
    app = app_of(centre)
    stream = app.state.centre.telemetry._stream
    assert isinstance(stream, io.StringIO)
    sent = parcel(reports(PLACES))
    answer = ask(app, "PUT", sent.path, content=sent.body, headers=sent.headers)
    assert answer.status_code == 201
    assert stream.getvalue() == f"fusion batch_received campaign=street-power round={ROUND}\n"
