"""Every page without scripts: what it shows, to whom, and that nothing in it is unescaped."""

import csv
import io
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.conftest import Desk, add_rounds
from tests.fusion.conftest import CAMPAIGN, ROUND

import rase.dashboard
from rase.clock import time_in_words
from rase.dashboard.guard import HEADERS
from rase.dashboard.health import health_concerns
from rase.dashboard.tables import csv_response
from rase.fusion.subscribers import (
    ADMIN_CAMPAIGN,
    add_subscriber,
    list_access,
    list_subscribers,
)

PAGES = (
    *("/live", "/overview", "/parts", "/alarms", "/rounds", "/campaign"),
    *("/subscribers", "/health"),
)
STATIC = Path(rase.dashboard.__file__).parent / "static"


@pytest.mark.parametrize("path", [*PAGES, "/login", "/nowhere", "/static/rase.css"])
def test_headers_bind_the_browser(desk: Desk, path: str) -> None:
    """Every answer forbids inline scripts, other hosts and frames."""
    for answer in (desk.get(path), desk.ask("POST", path)):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    assert "script-src 'self';" in HEADERS["Content-Security-Policy"]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


@pytest.mark.uncovered
@pytest.mark.parametrize("path", PAGES)
def test_pages_have_no_inline_code_and_no_other_host(desk: Desk, path: str) -> None:
    """What the policy forbids is not there, and pages are not kept by caches."""
    desk.log_in(desk.operator)
    answer = desk.get(path)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]*\ssrc=)|\sstyle=|\son[a-z]+=", answer.text)
    assert not re.search(r"""(?:src|href|action)=["'](?:https?:)?//""", answer.text)


@pytest.mark.parametrize("path", PAGES)
def test_scopes_decide(desk: Desk, path: str) -> None:
    """A reader sees neither subscribers nor health, nor links to them."""
    desk.log_in(desk.reader)
    answer = desk.get(path)
    is_operators = path in ("/subscribers", "/health")
    assert answer.status_code == (403 if is_operators else 200)
    assert 'href="/health"' not in answer.text
    if is_operators:
        assert "admin:campaign" in answer.text


def test_an_operator_without_estimates_sees_no_estimate(desk: Desk) -> None:
    """The scope admin:campaign alone opens the campaign, subscribers and health."""
    token = add_subscriber(desk.centre.database, "admin only", scopes=(ADMIN_CAMPAIGN,))
    desk.log_in(token)
    assert desk.get("/").headers["location"] == "/campaign"
    assert [desk.get(path).status_code for path in PAGES] == [*(403,) * 5, *(200,) * 3]


def test_live_shows_the_newest_round(desk: Desk) -> None:
    """Estimate, interval, reports, budgets, the shuffler's word and the table of the chart."""
    desk.log_in(desk.reader)
    text = desk.get("/live?range=1d").text
    assert '<span class="value">9</span><span class="note">about 7 are usual</span>' in text
    assert "at most 24 a day" in text
    assert "Uniform shuffle by shuffler-1" in text
    assert re.search("<dt>Verdict</dt><dd>.*unknown yet: 3 of 8 rounds needed", text)
    assert text.count('data-status="ok"') == 3
    assert text.count('data-status="too_few"') == 1
    assert "Noise" not in text
    part = desk.get("/live?range=1d&part=1").text
    assert part.lstrip().startswith('<div id="part"')
    assert part.strip() in text


def test_the_charts_table_is_what_the_interface_tells(desk: Desk) -> None:
    """Each point of the trace is a row, to the last digit; so is the CSV."""
    desk.log_in(desk.reader)
    headers = {"Authorization": f"Bearer {desk.reader}"}
    told = desk.get("/v1/trace?points=300", headers=headers).json()["points"]
    text = desk.get("/live?range=1d").text
    cells = re.findall(r'data-v="([^"]*)"', text)
    rows = [cells[place : place + 5] for place in range(0, len(cells), 5)]
    names = ("time", "value", "low", "high", "n_low")
    assert rows == [["" if one[k] is None else str(one[k]) for k in names] for one in told]
    saved = list(csv.DictReader(io.StringIO(desk.get("/live.csv?range=1d").text)))
    assert [row["value"] for row in saved] == [row[1] for row in rows]


def test_live_says_what_is_wrong(desk: Desk) -> None:
    """No round for long, and an end of the campaign."""
    desk.log_in(desk.reader)
    assert "Warning.</strong> 1 of the last 4 rounds were withheld" in desk.get("/live").text
    desk.centre.clock.advance(5 * 3600)
    desk.log_in(desk.reader)
    assert "No round became final for" in desk.get("/live").text
    text = desk.get("/live?range=5m").text
    assert "No round in the last 5 min" in text
    desk.centre.clock.jump(10_000 * 3600)
    assert "The campaign has ended" in desk.get("/live").text


def test_live_tells_a_withheld_newest_round_and_few_reports(desk: Desk) -> None:
    """Both are alerts."""
    add_rounds(desk.centre, {ROUND + 4: [2000] * 60})
    add_rounds(desk.centre, {ROUND + 5: [2000] * 5})
    desk.log_in(desk.reader)
    assert "Few reports: 5 in the newest round, about" in desk.get("/live").text
    add_rounds(desk.centre, {ROUND + 6: []})
    assert "The newest round was withheld" in desk.get("/live").text


def test_a_fusion_centre_before_its_first_round(empty_desk: Desk) -> None:
    """Pages say what will be there, and none fails."""
    empty_desk.log_in(empty_desk.operator)
    expected = {
        "/live": "No round is final yet",
        "/rounds": "No round yet",
        "/campaign": "street-power",
        "/parts": "This campaign has neither labels nor states",
        "/alarms": "No alarm",
        "/subscribers": "operator",
        "/health": "none yet",
    }
    for path, words in expected.items():
        answer = empty_desk.get(path)
        assert answer.status_code == 200
        assert words[1:] in answer.text


def test_a_fusion_centre_before_its_first_campaign(bare_desk: Desk) -> None:
    """Pages say how to publish one."""
    bare_desk.log_in(bare_desk.operator)
    for path in ("/live", "/overview", "/rounds", "/round?number=1", "/campaign", "/parts"):
        assert "rase campaign publish" in bare_desk.get(path).text
    for path in ("/live.csv", "/rounds.csv", "/live/events"):
        assert bare_desk.get(path).status_code == 404
    assert bare_desk.get("/health").status_code == 200


def test_rounds_are_paged(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first; each page leads to the older one, and the CSV has all."""
    monkeypatch.setattr("rase.dashboard.rounds._SHOWN", 3)
    desk.log_in(desk.reader)
    first = desk.get("/rounds").text
    assert "3 estimated, 1 withheld, 0 open" in first
    assert "under 4" in first
    older = re.search(r'href="(/rounds\?[^"]*before=\d+[^"]*)">Older', first)
    assert older is not None
    second = desk.get(older.group(1).replace("&amp;", "&")).text
    assert f"{ROUND:,}" in second
    assert "Older" not in second
    assert "No earlier round" in desk.get("/rounds?before=1").text
    saved = desk.get("/rounds.csv")
    assert saved.headers["content-disposition"] == 'attachment; filename="street-power-rounds.csv"'
    rows = list(csv.DictReader(io.StringIO(saved.text)))
    assert [row["state"] for row in rows] == ["final", "withheld", "final", "final"]


def test_the_saved_rounds_are_all_of_them(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is put together of as many pages as there are, however many that is."""
    monkeypatch.setattr("rase.dashboard.rounds._SAVED", 1)
    desk.log_in(desk.reader)
    rows = list(csv.DictReader(io.StringIO(desk.get("/rounds.csv").text)))
    assert [int(row["round"]) for row in rows] == [ROUND + 3, ROUND + 2, ROUND + 1, ROUND]
    later = list(csv.DictReader(io.StringIO(desk.get(f"/rounds.csv?before={ROUND + 2}").text)))
    assert later == rows[2:]


@pytest.mark.uncovered
def test_a_column_has_one_number_of_decimals(desk: Desk) -> None:
    """Estimates of unlike errors line up, on the page and in the table of the chart."""
    desk.log_in(desk.reader)
    sizes = {ROUND + 4 + more: [2000 + more] * size for more, size in enumerate((4, 40, 400, 4000))}
    add_rounds(desk.centre, sizes)
    errors = [row["high"] - row["low"] for row in estimates(desk)]
    assert max(errors) > 10 * min(errors)
    for path, column in (("/rounds", 2), ("/live?range=30d", 2)):
        text = desk.get(path).text
        table = text[text.index("<tbody>") : text.index("</tbody>")]
        cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in table.split("<tr")]
        shown = [row[column].strip() for row in cells if row and row[column].strip() != "–"]
        assert len(shown) >= 7
        assert len({len(value.partition(".")[2]) for value in shown}) == 1, shown


def estimates(desk: Desk) -> list[dict[str, Any]]:
    """Return what the interface says of all rounds that were estimated."""
    rows = desk.get("/rounds.csv").text
    return [
        {name: float(row[name]) for name in ("low", "high")}
        for row in csv.DictReader(io.StringIO(rows))
        if row["state"] == "final"
    ]


def test_an_estimator_can_be_chosen(desk: Desk) -> None:
    """Those that the campaign does not have are refused."""
    desk.log_in(desk.reader)
    assert "by median.</p>" in desk.get("/rounds?method=median").text
    assert "by unbiased_mean.</p>" in desk.get("/rounds").text
    assert desk.get("/rounds?method=nonsense").status_code == 400


def test_the_timeline_has_the_same_question_elsewhere(desk: Desk) -> None:
    """Each names the time and the part that is shown, and the place of a token, never a token."""
    desk.log_in(desk.reader)
    text = desk.get("/live?from=2026-06-21T00:00&to=2026-06-21T03:00&method=median").text
    assert desk.reader not in text
    assert "$RASE_TOKEN" in text
    for name in ("pandas", "polars", "python", "curl", "grafana", "ha"):
        found = re.search(f'<pre id="copy-{name}".*?</pre>', text, re.DOTALL)
        assert found is not None
        assert "median" in found.group()
        assert "street-power" in found.group()


def test_the_timeline_says_what_a_time_gives_away(desk: Desk) -> None:
    """Of all its rounds together; a promise that was not made is said not to be."""
    desk.log_in(desk.reader)
    text = desk.get("/live?from=2026-06-21T01:00&to=2026-06-21T03:00").text
    assert "What this gives away of a device" in text
    assert "noisy reports of this time, also both servers together: epsilon 2;" in text
    assert "makes no promise towards the fusion centre beyond that" in text


@pytest.mark.parametrize("query", ["method=mean", "label=north", "category=on"])
def test_a_part_that_is_not_there_is_refused(desk: Desk, query: str) -> None:
    """Another one's numbers would be read as its own."""
    desk.log_in(desk.reader)
    for path in ("/live", "/live.csv", "/rounds", "/parts"):
        answer = desk.get(f"{path}?{query}")
        assert answer.status_code == 400
        assert f"{query.partition('=')[0]} must be" in answer.text


def test_a_new_version_is_shown_before_it_is_published(desk: Desk) -> None:
    """Preview, confirmation, publication; the access log names who did it."""
    desk.log_in(desk.operator)
    page = desk.get("/campaign?beta=0.3&rho=0.5&n=100")
    assert "Effect with 100 reports in a round" in page.text
    first = re.search(r'name="not_before"[^>]*value="(\d+)"', page.text)
    assert first is not None
    fields = {"beta": "0.3", "rho": "0.5", "not_before": first.group(1), "version": "1"}
    answer = desk.send("/campaign", "/campaign", **fields)
    assert answer.status_code == 400
    assert "tick the box" in answer.text
    stale = desk.send("/campaign", "/campaign", confirmed="yes", **{**fields, "version": "7"})
    assert "published meanwhile" in stale.text
    answer = desk.send("/campaign", "/campaign", confirmed="yes", **fields)
    assert "Version 2 is published" in desk.follow(answer).text
    assert "beta 0.3, rho 0.5" in desk.get("/campaign").text
    lines = [(one.subscriber, one.answer) for one in list_access(desk.centre.database)]
    assert ("operator", "201 version 2") in lines


def test_a_narrower_range_is_shown_with_what_it_does(desk: Desk) -> None:
    """What changes, both errors, clipping that nobody has measured, and the command to type."""
    desk.log_in(desk.operator)
    page = desk.get(f"/campaign?low=0&high={CAMPAIGN.high / 4:g}&k_min={CAMPAIGN.k_min}").text
    assert "Range to</th>" in page
    assert "Reports needed</th>" not in page
    errors = [
        float(text.replace(",", ""))
        for text in re.findall(r'<td class="number">([\d.,]+)</td></tr>', page)
    ]
    assert errors[-1] == pytest.approx(errors[-2] / 4, rel=0.05)
    assert "How far that moves the mean is not known" in page
    same = desk.get(f"/campaign?high={CAMPAIGN.high:g}").text
    assert "Nothing changes: all parameters are those of version 1." in same
    raised = desk.get("/campaign?epsilon=2").text
    assert "Owners agreed to less" in raised
    assert "What owners are promised then" in raised
    published = desk.send(
        "/campaign",
        "/campaign",
        confirmed="yes",
        high=f"{CAMPAIGN.high / 4:g}",
        not_before=str(ROUND + 50),
        version="1",
    )
    assert "Version 2 is published" in desk.follow(published).text
    assert desk.centre.questions.campaign(None).high == CAMPAIGN.high / 4


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"beta": "2"}, "beta must"),
        ({"rho": "x"}, "rho must be a number, got 'x'".replace("'", "&#39;")),
        ({"high": "inf"}, "Range to must be a number"),
        ({"high": "-1"}, "low must"),
        ({"epsilon": "1, x"}, "Epsilon of a report must be a number"),
        ({"k_min": "2.5"}, "Reports needed must be a whole number"),
        ({"k_min": "2"}, "k_min"),
        ({"n": "0"}, "Reports in a round must be a whole number"),
        ({"not_before": "1"}, "not_before must be at least"),
        ({"not_before": ""}, "The first round must be a whole number"),
    ],
)
def test_mistakes_in_a_new_version_are_told(desk: Desk, fields: dict[str, str], words: str) -> None:
    """Nothing is published, and the form says why."""
    desk.log_in(desk.operator)
    typed = {"beta": "0.3", "rho": "0.5", "not_before": "495100", "version": "1", **fields}
    answer = desk.send("/campaign", "/campaign", confirmed="yes", **typed)
    if "n" not in fields:
        assert words[1:] in answer.text
        assert answer.status_code == 400
    if "not_before" not in fields:
        shown = desk.get("/campaign?" + "&".join(f"{k}={v}" for k, v in typed.items()))
        assert words[1:] in shown.text


def test_a_reader_cannot_publish(desk: Desk) -> None:
    """The fusion centre itself refuses what the page does not offer."""
    desk.log_in(desk.reader)
    assert "Change it" not in desk.get("/campaign").text
    fields = {"beta": "0.3", "rho": "0.5", "not_before": "495100", "version": "1"}
    answer = desk.send("/campaign", "/campaign", confirmed="yes", **fields)
    assert answer.status_code == 400
    assert desk.centre.questions.campaign(None).version == 1


def test_tokens_are_made_shown_once_and_revoked(desk: Desk) -> None:
    """The new token works, is on no other page, and works no more once it is taken back."""
    desk.log_in(desk.operator)
    answer = desk.send(
        "/subscribers", "/subscribers", name="new one", scope="read:estimates", valid="30"
    )
    found = re.search(r"rase_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", answer.text)
    assert found is not None
    token = found.group(0)
    headers = {"Authorization": f"Bearer {token}"}
    assert desk.get("/v1/token", headers=headers).json()["name"] == "new one"
    page = desk.get("/subscribers").text
    assert token not in page
    assert "new one" in page
    assert "tick the box" in desk.send("/subscribers", "/subscribers/revoke", name="new one").text
    done = desk.send("/subscribers", "/subscribers/revoke", name="new one", confirmed="yes")
    assert "opens nothing any more" in desk.follow(done).text
    assert desk.get("/v1/token", headers=headers).status_code == 401


@pytest.mark.uncovered
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "reader"}, "name must be a new one"),
        ({"name": "<b>"}, "name must be 1 to 63 letters"),
        ({"scope": ""}, "scope"),
        ({"valid": "7000"}, "Choose how long"),
    ],
)
def test_mistakes_in_a_new_token_are_told(desk: Desk, fields: dict[str, str], words: str) -> None:
    """No token is made, and what was typed is still there, escaped."""
    desk.log_in(desk.operator)
    typed = {"name": "x", "scope": "read:estimates", "valid": "", **fields}
    answer = desk.send("/subscribers", "/subscribers", **typed)
    assert answer.status_code == 400
    assert words in answer.text
    assert "<b>" not in answer.text
    gone = desk.send("/subscribers", "/subscribers/revoke", name="nobody", confirmed="yes")
    assert "must be that of a subscriber" in gone.text


def test_the_access_log_can_be_read_and_saved(desk: Desk) -> None:
    """By all and by one; it names the questions of pages too."""
    desk.log_in(desk.operator)
    desk.get("/rounds")
    text = desk.get("/subscribers?subscriber=operator").text
    assert "GET /v1/rounds?campaign=street-power" in text
    assert "Access log of operator" in text
    rows = list(csv.DictReader(io.StringIO(desk.get("/subscribers/log.csv").text)))
    assert {row["subscriber"] for row in rows} == {"operator"}
    assert desk.get("/subscribers/log.csv?subscriber=nobody").text == ""


def test_what_others_wrote_is_escaped(hostile_desk: Desk) -> None:
    """A unit, a quantity and an access-log line with markup in them stay text."""
    hostile_desk.log_in(hostile_desk.operator)
    hostile_desk.get("/v1/estimates?campaign=%3Cscript%3Ealert(1)%3C/script%3E")
    for path in (*PAGES, "/live?from=<script>alert(1)</script>", "/parts?first=<b>&second=<b>"):
        text = hostile_desk.get(path).text
        assert "<script>alert" not in text
        assert "<img" not in text.replace('<img src="/static/icon.svg"', "")
    assert "&lt;img src=x&gt;" in hostile_desk.get("/live").text


def test_several_campaigns_can_be_chosen(desk: Desk) -> None:
    """Pages lead to each; addresses stay with the one that was chosen."""
    desk.centre.publisher.publish(replace(CAMPAIGN, id="another", not_before=495020))
    desk.log_in(desk.operator)
    text = desk.get("/live").text
    assert 'href="/live?campaign=street-power"' in text
    assert "campaign another, version 1" in text
    text = desk.get("/live?campaign=street-power").text
    assert "/live?range=1d&amp;campaign=street-power" in text
    for path in ("/rounds", "/parts", "/alarms", "/campaign", "/live.csv"):
        join = "&" if "?" in path else "?"
        answer = desk.get(f"{path}{join}campaign=street-power")
        assert answer.status_code == 200


def test_the_navigation_stays_with_the_campaign(desk: Desk) -> None:
    """Every page of a second campaign leads to the other pages of that campaign."""
    desk.centre.publisher.publish(replace(CAMPAIGN, id="another", not_before=495020))
    desk.log_in(desk.operator)
    for path in ("/live", "/rounds", "/parts", "/alarms", "/campaign", "/health", "/subscribers"):
        join = "&" if "?" in path else "?"
        text = desk.get(f"{path}{join}campaign=street-power").text
        menu = text[text.index('<nav aria-label="Pages">') :]
        links = re.findall(r'<a href="(/[^"]*)"', menu[: menu.index("</nav>")])
        assert links
        assert all(link.endswith("?campaign=street-power") for link in links), path


@pytest.mark.parametrize(
    "path", ["/live", "/live.csv", "/live/events", "/rounds", "/rounds.csv", "/parts", "/campaign"]
)
def test_an_unknown_campaign_is_not_found(desk: Desk, path: str) -> None:
    """Nobody reads one fleet's numbers as another's: the page says which campaigns there are."""
    desk.log_in(desk.operator)
    answer = desk.get(f"{path}?campaign=gone")
    assert answer.status_code == 404
    assert "There is no campaign of this name here. There is: street-power." in answer.text
    assert "campaign=gone" not in answer.text.replace("next=", "").split("<main")[0].split("nav")[1]


def test_problems_are_pages(desk: Desk) -> None:
    """Unknown addresses, wrong methods and too large forms say so in words."""
    desk.log_in(desk.operator)
    assert "There is no page at this address" in desk.get("/nowhere").text
    assert desk.ask("POST", "/live").status_code == 405
    answer = desk.ask("POST", "/subscribers", content=b"x" * 70_000)
    assert answer.status_code == 413


def test_a_form_longer_than_it_says_is_cut_off(desk: Desk) -> None:
    """Whoever lies about the length, or tells none, gets no further than the limit."""
    desk.log_in(desk.operator)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"proof=" + b"x" * 8000

    answer = desk.ask("POST", "/subscribers", content=pieces())
    assert answer.status_code >= 400
    assert len(list_subscribers(desk.centre.database)) == 2


def test_saved_texts_are_no_formulas() -> None:
    """A spreadsheet shows what begins like a formula, and does not run it."""
    rows: list[dict[str, Any]] = [{"who": "=1+1", "n": -3}, {"who": "@x", "n": None}]
    assert csv_response(rows, "x.csv").body == b"who,n\n'=1+1,-3\n'@x,\n"


def test_concerns_are_told_in_words() -> None:
    """A full disk, failed estimates and rounds that wait."""
    campaign = {"campaign": "c", "rounds_behind": 0, "rounds_due": 4, "rounds_final": 1}
    found = {
        "campaigns": [campaign],
        "storage": {"disk_free_bytes": 1000},
        "counters": {"rase_fusion_ticks_failed_total": 2},
    }
    words = " ".join(health_concerns(found))
    assert "4 rounds of c wait" in words
    assert "nearly full" in words
    assert "failed 2 times" in words


def test_a_broken_fusion_centre_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says that it does not answer, not what went wrong inside."""
    desk.log_in(desk.operator)

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(desk.centre.questions, "campaign", fails)
    answer = desk.get("/live")
    assert answer.status_code == 502
    assert "does not answer" in answer.text
    assert "secret" not in answer.text
    monkeypatch.setattr("rase.dashboard.health.health_concerns", fails)
    answer = desk.get("/health")
    assert answer.status_code == 500
    assert "secret" not in answer.text


def test_what_is_vendored_is_what_was_published() -> None:
    """UPlot's files have the sums that stand beside them, and its licence is there."""
    folder = STATIC / "vendor/uplot"
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split() for line in lines)}
    assert set(sums) == {"LICENSE", "uPlot.iife.min.js", "uPlot.min.css"}
    for name, digest in sums.items():
        assert sha256((folder / name).read_bytes()).hexdigest() == digest
    assert "MIT License" in (folder / "LICENSE").read_text()


def test_health_tells_what_concerns(desk: Desk) -> None:
    """Rounds behind and failures are told in words."""
    desk.log_in(desk.operator)
    assert "All well" in desk.get("/health").text
    desk.centre.clock.advance(6 * 3600)
    desk.log_in(desk.operator)
    assert "street-power is 6 rounds behind" in desk.get("/health").text


def test_a_fleet_that_never_reported_is_not_well(empty_desk: Desk) -> None:
    """Health has concerns while no round was estimated."""
    empty_desk.log_in(empty_desk.operator)
    text = empty_desk.get("/health").text
    assert "All well" not in text
    assert "No round of street-power was ever estimated: no batch came" in text
    add_rounds(empty_desk.centre, {ROUND: []})
    assert "every round so far was withheld" in empty_desk.get("/health").text


def test_a_fusion_centre_without_a_campaign_is_not_well(bare_desk: Desk) -> None:
    """No device can report to it."""
    bare_desk.log_in(bare_desk.operator)
    text = bare_desk.get("/health").text
    assert "All well" not in text
    assert "No campaign is published" in text


def test_live_is_late_without_any_event(desk: Desk) -> None:
    """The page carries when it must ask again, and says that rounds are late once they are."""
    desk.log_in(desk.reader)
    text = desk.get("/live").text
    again = float(re.findall(r'data-again="([\d.]+)"', text)[0])
    assert 'data-late="0"' in text
    closed_s = CAMPAIGN.closes_s(ROUND + 3)
    assert desk.centre.clock.now_s() + again <= closed_s + 2 * CAMPAIGN.round_s + 10
    desk.centre.clock.advance(again)
    desk.log_in(desk.reader)
    text = desk.get("/live?part=1").text
    assert 'data-late="1"' in text
    assert "No round became final for" in text
    assert float(re.findall(r'data-again="([\d.]+)"', text)[0]) == 10


def test_a_fleet_of_which_nothing_was_heard_is_late(empty_desk: Desk) -> None:
    """From its first rounds on, not only after one that came."""
    empty_desk.centre.clock.jump(6 * CAMPAIGN.round_s)
    empty_desk.log_in(empty_desk.reader)
    assert "No round became final since the campaign began" in empty_desk.get("/live").text


def test_a_fleet_of_one_device_is_told_why_there_is_no_estimate(empty_desk: Desk) -> None:
    """All rounds are withheld: no chart with nothing in it, but the reason, and the table."""
    empty_desk.log_in(empty_desk.reader)
    # The shuffler keeps what is below k_min, and hands over that it did.
    add_rounds(empty_desk.centre, {ROUND: [], ROUND + 1: []})
    text = empty_desk.get("/live?range=30d").text
    assert "No estimate in the last 30 days" in text
    assert f"fewer than {CAMPAIGN.k_min} devices reported" in text
    assert "<figure data-chart" not in text
    assert text.count('data-status="too_few"') == 2


@pytest.mark.parametrize("path", ["/live.csv?range=30d", "/rounds.csv"])
def test_saved_tables_open_in_a_data_frame(desk: Desk, path: str) -> None:
    """Columns have types by themselves: numbers are numbers, as in pandas and others."""
    from pyarrow import csv as arrow

    desk.log_in(desk.reader)
    table = arrow.read_csv(io.BytesIO(desk.get(path).content))
    kinds = {
        name: str(kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)
    }
    assert table.num_rows > 0
    assert "double" in kinds.values()
    numbers = {"value", "n", "epsilon", "local_epsilon"}
    assert "null" not in {kinds[name] for name in kinds if name in numbers}
    if "time" in kinds:
        assert kinds["time"].startswith("timestamp")


def test_a_time_has_one_mean_with_coverage(desk: Desk) -> None:
    """The mean of all rounds of a time, with its interval, and how many of them there are."""
    desk.log_in(desk.reader)
    headers = {"Authorization": f"Bearer {desk.reader}"}
    whole = desk.get("/v1/trace", headers=headers).json()["whole"]
    assert (whole["rounds"], whole["estimated"], whole["withheld"]) == (4, 3, 1)
    window = desk.get("/v1/windows?w=4", headers=headers).json()[0]
    assert whole["value"] == pytest.approx(window["value"])
    assert whole["standard_error"] == pytest.approx(window["standard_error"])
    text = desk.get("/live?range=1d").text
    assert "<dt>Mean of the last day</dt>" in text
    assert '<span class="value">3 of 4</span><span class="note">1 withheld</span>' in text
    nothing = desk.get("/live?from=2020-01-01&to=2020-01-02").text
    assert "No round in 2020-01-01 00:00 to 2020-01-02 00:00" in nothing


def test_the_saved_time_is_every_round_with_its_error(desk: Desk) -> None:
    """Not the points of the chart: one row a round, oldest first, with the fields of an answer."""
    desk.log_in(desk.reader)
    headers = {"Authorization": f"Bearer {desk.reader}"}
    told = desk.get("/v1/estimates", headers=headers).json()
    rows = list(csv.DictReader(io.StringIO(desk.get("/live.csv?range=30d").text)))
    assert [row["round"] for row in rows] == [str(one["round"]) for one in told]
    assert [row["standard_error"] for row in rows] == [
        "" if one["standard_error"] is None else str(one["standard_error"]) for one in told
    ]
    assert set(rows[0]) == set(told[0])
    assert desk.get("/live.csv?from=nonsense").status_code == 400
    text = desk.get("/live?range=30d").text
    assert "pd.read_csv(" in text
    assert desk.reader not in text


def test_two_times_and_two_campaigns_are_compared(desk: Desk) -> None:
    """The difference with its interval, or why there is none; the table has both lines."""
    desk.log_in(desk.reader)
    begin_s, hour = ROUND * CAMPAIGN.round_s, CAMPAIGN.round_s
    names = ("from", "to")
    moments = [time_in_words(begin_s + more * hour)[:16] for more in (2, 4)]
    query = "&".join(f"{name}={moment}" for name, moment in zip(names, moments, strict=True))
    text = desk.get(f"/live?{query}&compare=before").text
    assert '<th scope="col" class="number" data-role="line" data-color="2">Compared</th>' in text
    assert "one of the two has no mean" in text
    add_rounds(desk.centre, {ROUND + more: [100 * more] * 40 for more in range(4, 8)})
    moments = [time_in_words(begin_s + more * hour)[:16] for more in (6, 8)]
    query = "&".join(f"{name}={moment}" for name, moment in zip(names, moments, strict=True))
    text = desk.get(f"/live?{query}&compare=before").text
    shown = re.search(r"<dt>Difference</dt><dd><span class=\"value\">([^ <]*)", text)
    assert shown is not None
    headers = {"Authorization": f"Bearer {desk.reader}"}

    def mean(first: int) -> float:
        times = [1000 * (begin_s + (first + more) * hour) for more in (0, 1)]
        found = desk.get(f"/v1/trace?from={times[0]}&to={times[1]}", headers=headers).json()
        return float(found["whole"]["value"])

    difference = mean(6) - mean(4)
    assert float(shown.group(1).replace("+", "").replace("−", "-").replace(",", "")) == (
        pytest.approx(difference, abs=0.05 * abs(difference) + 1)
    )
    assert "cannot be told apart" in text or "the mean is" in text


def test_a_round_says_why_it_was_withheld(desk: Desk) -> None:
    """A page for each round: estimated, withheld, open, missing; with those before and after."""
    desk.log_in(desk.reader)
    answered = desk.get(f"/round?number={ROUND}").text
    assert "standard error" in answered
    assert "Uniform shuffle by shuffler-1" in answered
    assert f"/round?number={ROUND + 1}" in answered
    withheld = desk.get(f"/round?number={ROUND + 2}&range=7d").text
    assert f"Fewer than {CAMPAIGN.k_min} real reports came" in withheld
    assert "How many came is not shown" in withheld
    assert "range=7d" in withheld
    missing = desk.get(f"/round?number={ROUND + 50}").text
    assert "No batch of this round came" in missing
    for wrong in ("", "x", "-1", "9" * 30):
        assert desk.get(f"/round?number={wrong}").status_code == 404
    # A round is reached from the timeline by one click.
    assert f"/round?number={ROUND + 2}&amp;range=1d" in desk.get("/live?range=1d").text


def test_the_overview_shows_all_campaigns(desk: Desk) -> None:
    """Each with its newest estimate, a line of recent ones, and what deserves a look."""
    desk.log_in(desk.reader)
    text = desk.get("/overview").text
    assert '<a href="/live">street-power</a>' in text
    assert "<polyline points=" in text
    assert "1 of the last 4 rounds withheld" in text
    assert 'class="badge warn">look' in text
    part = desk.get("/overview?part=1").text
    assert part.lstrip().startswith('<div id="part"')
    desk.centre.clock.advance(5 * 3600)
    desk.log_in(desk.reader)
    assert 'class="badge bad">problem' in desk.get("/overview").text


def test_navigation_keeps_the_time(desk: Desk) -> None:
    """Range, moments, zone and comparison go along to every page; a mistake does not."""
    desk.log_in(desk.operator)
    asked = "from=2026-06-20T10%3A00&to=2026-06-21T10%3A00&zone=Europe%2FZurich&compare=week"
    for path in ("/live", "/rounds", "/campaign", "/overview"):
        text = desk.get(f"{path}?{asked}").text
        assert f'href="/rounds?{asked.replace("&", "&amp;")}"' in text
    assert 'href="/rounds"' in desk.get("/live?from=nonsense").text


def test_health_is_asked_for_again(desk: Desk) -> None:
    """The changing part comes alone, for a page that stays open."""
    desk.log_in(desk.operator)
    part = desk.get("/health?part=1").text
    assert part.lstrip().startswith('<div id="part"')
    assert "Rounds behind" in part
