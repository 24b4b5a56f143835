"""``rase fusion`` and ``rase campaign``: settings, publishing, subscribers, a server that runs."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.responses import Response
from tests.fusion.conftest import (
    FUSION_SIGNER,
    KEYS,
    SHUFFLER_KEY,
    SHUFFLER_SIGNER,
    served,
)
from tests.patience import PATIENCE_S
from tests.registering import REGISTRAR_KEY

from rase.campaign import Campaign
from rase.cli import main
from rase.clock import SystemClock, time_in_words
from rase.counts.estimate import Estimate
from rase.counts.ranges import RangeAdvice, RangeOutlook
from rase.fusion.probes import RangeStatus
from rase.fusion.program import open_centre
from rase.fusion.settings import FusionSettings
from rase.fusion.subscribers import record_access
from rase.storage.sqlite import open_sqlite
from rase.wire import cbor
from rase.wire.keys import Keyset
from rase.wire.private_files import write_private
from rase.wire.problems import PROBLEM_TYPES, Problem
from rase.wire.signed import campaign_from_bytes, signature_of

CAMPAIGN = """
id = "street-power"
version = 1
quantity = "power"
unit = "W"
low = 0.0
high = 3000.0
mechanism = "budget-aware"
epsilon = [1.0]
window = 24
window_budget = 24.0
round_s = 3600
upload_s = 300
grace_s = 600
k_min = 4
not_before = 400000
not_after = 900000
"""


@pytest.fixture(scope="module")
def shuffler() -> Iterator[str]:
    """A shuffler that countersigns whatever has an epsilon of at most 5."""
    app = FastAPI()

    @app.put("/{path:path}")
    async def put(path: str, request: Request) -> Response:
        body, _ = cbor.decode(await request.body(), max_size=1 << 20)
        if path == "v1/keyset":
            return Response(signature_of(Keyset.from_bytes(body), SHUFFLER_SIGNER), status_code=201)
        campaign = campaign_from_bytes(body)
        if campaign.epsilon[-1] > 5:
            problem = Problem(PROBLEM_TYPES["bad-report"], "epsilon must be at most 5.")
            return Response(problem.to_json(), status_code=403)
        return Response(signature_of(campaign, SHUFFLER_SIGNER), status_code=201)

    with served(app) as url:
        yield url


@pytest.fixture
def config(tmp_path: Path, shuffler: str) -> Path:
    """The folder of a fusion centre with its keys and settings."""
    write_private(tmp_path / "signing.key", FUSION_SIGNER.to_text())
    write_private(tmp_path / "opening-7.key", KEYS[7].to_text())
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    keys = [SHUFFLER_KEY, KEYS[7]]
    configs = []
    for key in keys:
        public = key.config(not_before_s=0, not_after_s=2**35)
        values = {"role": public.role, "id": public.id, "public_key": public.public_key.hex()}
        configs.append({**values, "not_before_s": 0, "not_after_s": 2**35})
    document = {"version": 1, "cache_s": 600, "configs": configs}
    (tmp_path / "keyset.json").write_text(json.dumps(document))
    path = tmp_path / "rase.toml"
    path.write_text(
        "[fusion]\n"
        'database = "fusion.sqlite"\n'
        'signing_key_file = "signing.key"\n'
        'opening_key_files = ["opening-7.key"]\n'
        f'shuffler_key = "{SHUFFLER_SIGNER.public_bytes().hex()}"\n'
        f'registrar_key = "{REGISTRAR_KEY.hex()}"\n'
        f'shuffler_url = "{shuffler}"\n'
        "workers = 0\n"
    )
    return path


def ran(*arguments: object, capsys: pytest.CaptureFixture[str], exit_code: int = 0) -> str:
    """Run a command; return what it printed, and on failure what it said."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == exit_code
    shown = capsys.readouterr()
    return shown.out if exit_code == 0 else shown.err


@pytest.fixture
def published(config: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A fusion centre with a campaign and keys."""
    printed = ran(
        "campaign", "publish", config.parent / "campaign.toml", "--config", config, capsys=capsys
    )
    assert len(printed.strip()) == 64
    ran("fusion", "publish-keys", config.parent / "keyset.json", "--config", config, capsys=capsys)
    return config


def test_a_campaign_is_published_and_shown(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As lines for people or one document."""
    text = ran("campaign", "show", "--config", published, capsys=capsys)
    assert "k_min          4" in text
    assert "guarantee      1-LDP per report" in text
    document = json.loads(
        ran("campaign", "show", "street-power", "--json", "--config", published, capsys=capsys)
    )
    assert (document["schema"], document["version"]) == ("rase/campaign/1", 1)


def test_whose_mean_is_answered_is_shown_and_may_change(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of the reporters unless the campaign says otherwise; a next version may."""
    assert "target         reporters" in ran(
        "campaign", "show", "--config", published, capsys=capsys
    )
    update = ("campaign", "update", "--config", published, "--reports", "100", "--yes")
    ran(*update, "--target", "fleet", capsys=capsys)
    shown = json.loads(ran("campaign", "show", "--json", "--config", published, capsys=capsys))
    assert (shown["version"], shown["target"]) == (2, "fleet")


def test_a_promise_is_fitted_shown_and_updated(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file may name the wish alone; a next version has claims of its own and promises no less."""
    file = config.parent / "campaign.toml"
    lines = [line for line in CAMPAIGN.splitlines() if "epsilon" not in line]
    lines = [line for line in lines if not line.startswith(("mechanism", "window_budget"))]
    file.write_text("\n".join([*lines, "shuffled_epsilon = 0.5", "colluding = 1"]))
    ran("campaign", "publish", file, "--config", config, capsys=capsys)
    shown = ("campaign", "show", "--config", config)
    text = ran(*shown, capsys=capsys)
    assert "shuffled_epsilon 0.5\n" in text
    assert "promise        Towards the fusion centre: (0.5, 1e-06)-DP; if both servers" in text
    assert "claims" not in text
    first = json.loads(ran(*shown, "--json", capsys=capsys))
    assert (first["colluding"], "cover" in first, first["claims"][0][0]) == (1, False, 1)
    assert len(first["promises"]) >= 2
    update = ("campaign", "update", "--config", config, "--reports", "100", "--yes")
    ran(*update, "--k-min", "8", "--colluding", "2", "--epsilon", "0.4", capsys=capsys)
    second = json.loads(ran(*shown, "--json", capsys=capsys))
    assert (second["version"], second["epsilon"], second["k_min"]) == (2, [0.4], 8)
    assert second["claims"][0][1] < first["claims"][0][1]
    told = ran(*update, "--shuffled-epsilon", "0.9", capsys=capsys, exit_code=3)
    assert "shuffled_epsilon must be at most 0.5, or owners would be promised less" in told


def test_an_update_shows_its_effect_first(
    published: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run publishes nothing; a real one asks unless told not to."""
    update = ("campaign", "update", "--config", published, "--reports", "100")
    text = ran(*update, "--epsilon", "4", "--rho", "0.5", "--dry-run", capsys=capsys)
    assert "now   beta 0.5, rho 0.9, epsilon 1, clamped: standard error " in text
    assert "then  beta 0.5, rho 0.5, epsilon 4, not clamped: standard error " in text
    assert "with 100 reports" in text
    assert "owners agreed to less: their devices take no part in this version until" in text
    shown = ran("campaign", "show", "--json", "--config", published, capsys=capsys)
    assert json.loads(shown)["version"] == 1
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    ran(*update, "--beta", "0.2", capsys=capsys, exit_code=130)
    document = json.loads(ran(*update, "--beta", "0.2", "--json", "--yes", capsys=capsys))
    assert document["schema"] == "rase/campaign-effect/1"
    assert document["then"][0]["n"] == 100
    assert document["needs_consent"] is False
    shown = json.loads(ran("campaign", "show", "--json", "--config", published, capsys=capsys))
    assert (shown["version"], shown["beta"]) == (2, 0.2)


def test_an_update_shows_range_clipping_and_start(
    published: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ranges and what clipping does; a start that is a time and not a number of seconds."""
    update = ("campaign", "update", "--config", published, "--reports", "100", "--dry-run")
    text = ran(*update, "--high", "1000", "--from-round", "800000", capsys=capsys)
    begin = time_in_words(800000 * 3600)
    assert f"version 2 from {begin} (round 800000)" in text
    assert "second " not in text
    assert "range 0 to 3000 W now, 0 to 1000 then" in text
    assert "clip  readings outside 0 to 1000 are reported as its ends; how far" in text
    assert "Probe first: rase campaign update --probe-every 4" in text
    assert "as before" in ran(*update, "--rho", "0.5", capsys=capsys)
    assert "clip " not in ran(*update, "--high", "9000", capsys=capsys)
    document = json.loads(ran(*update, "--high", "1000", "--json", capsys=capsys))
    assert document["range"] == {"now": [0.0, 3000.0], "then": [0.0, 1000.0]}
    assert document["clipping"] is None
    bias = Estimate(-12.0, 2.0, n=900, method="clip_bias", target="bias")
    outlook = RangeOutlook(0.0, 1000.0, bias, clip_error=12.6, noise=3.0, error=14.0)
    advice = RangeAdvice(outlook, outlook, (0.0, 5000.0), (), n=100, averaged=1, rounds=9)

    def status(_database: object, campaign: Campaign, **_: Any) -> RangeStatus:
        # Asked of the new range: that is the one that clips.
        assert campaign.high == 1000
        return RangeStatus(campaign.id, 2, campaign.low, campaign.high, 9, advice, False)

    monkeypatch.setattr("rase.fusion.probes.range_status", status)
    text = ran(*update, "--high", "1000", capsys=capsys)
    assert "this adds -12.0 ± 2.0 W to the mean, counting readings of 0 to 5000" in text
    document = json.loads(ran(*update, "--high", "1000", "--json", capsys=capsys))
    assert document["clipping"]["clip_bias"]["value"] == -12.0


def test_a_range_is_recommended_and_published(
    published: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without probes it is said how to get them; advice is shown, and published if asked."""
    asked = ("campaign", "range", "--config", published)
    text = ran(*asked, capsys=capsys)
    assert "0 of 8 probing rounds; no range yet. Probe with" in text
    assert "there is none yet" in ran(*asked, "--publish", capsys=capsys, exit_code=2)
    assert "low must be below high" in ran(*asked, "--low", 9000, capsys=capsys, exit_code=2)
    update = ("campaign", "update", "--config", published, "--reports", "100", "--yes")
    ran(*update, "--probe-every", "4", "--from-round", "800000", capsys=capsys)
    assert "Probe with" not in ran(*asked, capsys=capsys)
    bias = Estimate(-1.0, 2.0, n=900, method="clip_bias", target="bias")
    advice = RangeAdvice(
        recommended=RangeOutlook(0.0, 300.0, bias, clip_error=2.6, noise=3.0, error=4.0),
        present=RangeOutlook(
            0.0, 5000.0, replace(bias, value=0.0), clip_error=0.0, noise=30.0, error=30.0
        ),
        limits=(0.0, 5000.0),
        quantiles=tuple(
            Estimate(place, 1.0, n=900, method="quantile", target="reading")
            for place in (10.0, 90.0, 280.0)
        ),
        n=100,
        averaged=24,
        rounds=9,
    )
    seen: list[Any] = []

    def status(_database: object, campaign: Campaign, **asked: Any) -> RangeStatus:
        seen.append(asked["limits"])
        better = campaign.high > 300
        return RangeStatus(
            campaign.id, campaign.version, campaign.low, campaign.high, 9, advice, better
        )

    monkeypatch.setattr("rase.fusion.probes.range_status", status)
    text = ran(*asked, "--reports", 50, capsys=capsys)
    assert "Range 0 to 300: expected error 4 instead of 30" in text
    assert "clipping adds -1.0 ± 2.0 instead of 0.0 ± 2.0, counting readings of 0 to 5000." in text
    document = json.loads(ran(*asked, "--json", "--high", 500, capsys=capsys))
    assert (document["schema"], document["advice"]["high"]) == ("rase/range/1", 300.0)
    assert document["advice"]["present"]["high"] == 5000.0
    assert seen[0] is None
    assert seen[1].high == 500
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    ran(*asked, "--publish", capsys=capsys, exit_code=130)
    words = ran(*asked, "--publish", "--yes", "--from-round", "3", capsys=capsys, exit_code=3)
    assert "not_before must be at least" in words
    ran(*asked, "--publish", "--yes", capsys=capsys)
    shown = ran("campaign", "show", "--config", published, capsys=capsys)
    assert "high           300.0" in shown
    assert "The present range is as good." in ran(*asked, capsys=capsys)


def test_updates_that_cannot_be_are_refused(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing changed, too early, less promised, or not countersigned."""
    update = ("campaign", "update", "--config", published)
    for more, exit_code, words in (
        ((), 2, "nothing changes"),
        (("--beta", "0.2", "--from-round", "400001"), 3, "not_before must be at least"),
        (("--k-min", "2", "--last-round", "950000"), 3, "k_min must be at least 4"),
        (("--window-budget", "99"), 3, "window_budget must be at most 24"),
        (("--rho", "7"), 3, "rho must be a number from 0 to 1"),
        (("--epsilon", "9", "--yes"), 4, "epsilon must be at most 5."),
    ):
        assert words in ran(*update, *more, capsys=capsys, exit_code=exit_code)
    unknown = ("campaign", "update", "elsewhere", "--beta", "0.1", "--config", published)
    assert "no such campaign" in ran(*unknown, capsys=capsys, exit_code=2)


def test_a_version_that_came_too_late_while_somebody_thought_is_refused(
    published: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first round may have begun by the time of the answer; that is no unexpected failure."""
    later_s = SystemClock().now_s() + 10 * 3600

    def think(*_: object, **__: object) -> bool:
        monkeypatch.setattr(SystemClock, "now_s", lambda self: later_s)
        return True

    monkeypatch.setattr("click.confirm", think)
    update = ("campaign", "update", "--config", published, "--beta", "0.2")
    assert "not_before must be at least" in ran(*update, capsys=capsys, exit_code=3)


def test_campaign_files_are_checked(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All mistakes of a file are told at once."""
    file = config.parent / "campaign.toml"
    file.write_text(CAMPAIGN.replace("k_min = 4", "k_min = 0").replace("high", "hihg"))
    said = ran("campaign", "publish", file, "--config", config, capsys=capsys, exit_code=3)
    assert "hihg is not a field" in said
    assert "k_min must be" in said
    file.write_text("= nothing")
    said = ran("campaign", "publish", file, "--config", config, capsys=capsys, exit_code=3)
    assert "campaign.toml is not TOML" in said
    file.write_text(CAMPAIGN.replace("version = 1", "version = 2"))
    said = ran("campaign", "publish", file, "--config", config, capsys=capsys, exit_code=3)
    assert "version must be 1 in a first campaign" in said


def test_keyset_files_are_checked(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no keyset, or an older one, is refused by name."""
    file = published.parent / "keyset.json"
    good = json.loads(file.read_text())
    for document, words in (
        ({**good, "cache_s": 700}, "version must be above 1"),
        ({"version": 2, "cache_s": 600}, "configs is missing"),
        ({**good, "colour": "red"}, "holds no keyset: colour is not a field of one"),
        ([], "keyset.json must be a JSON object"),
    ):
        file.write_text(json.dumps(document))
        said = ran(
            "fusion", "publish-keys", file, "--config", published, capsys=capsys, exit_code=2
        )
        assert words in said


def test_subscribers_come_and_go(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The token is shown once; the list tells who may ask."""
    group = ("fusion", "subscribers")
    where = ("--config", published)
    token = ran(*group, "add", "grid", *where, capsys=capsys).strip()
    assert token.startswith("rase_")
    ran(*group, "add", "boss", "--scope", "admin:campaign", "--valid", "90d", *where, capsys=capsys)
    ran(*group, "add", "old", *where, capsys=capsys)
    ran(*group, "revoke", "old", *where, capsys=capsys)
    lines = ran(*group, "list", *where, capsys=capsys).splitlines()
    assert lines[0].startswith("boss  admin:campaign  until 2")
    assert lines[1] == "grid  read:estimates  valid"
    assert lines[2].startswith("old  read:estimates  revoked 2")
    document = json.loads(ran(*group, "list", "--json", *where, capsys=capsys))
    assert [one["name"] for one in document["subscribers"]] == ["boss", "grid", "old"]
    assert token.split("_", 2)[2] not in json.dumps(document)
    for more, words in (
        (("add", "grid"), "must be a new one"),
        (("add", "x", "--valid", "soon"), "a duration must"),
        (("revoke", "nobody"), "that of a subscriber"),
    ):
        assert words in ran(*group, *more, *where, capsys=capsys, exit_code=2)


def test_the_operator_reads_the_access_log(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As lines or as one document, of all or of one."""
    database = open_sqlite(published.parent / "fusion.sqlite", migrations="fusion")
    for name in ("grid", "boss"):
        record_access(
            database, SystemClock(), subscriber=name, question="GET /v1/estimates", answer="200"
        )
    database.close()
    log = ("fusion", "access-log", "--config", published)
    lines = ran(*log, capsys=capsys).splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == [
        "grid  GET /v1/estimates  200",
        "boss  GET /v1/estimates  200",
    ]
    document = json.loads(ran(*log, "--subscriber", "boss", "--json", capsys=capsys))
    assert [line["subscriber"] for line in document["accesses"]] == ["boss"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('shuffler_key = "', 'shuffler_key = "zz', "fusion.shuffler_key: must be the 32 bytes"),
        ('shuffler_key = "', 'shuffler_key = "!', "fusion.shuffler_key: must be the 32 bytes"),
        ('shuffler_url = "http', 'shuffler_url = "ftp', "fusion.shuffler_url: must be an address"),
        ('shuffler_url = "http://127.0.0.1', 'shuffler_url = "http://x', "must begin with https"),
        ("opening-7.key", "nowhere.key", "fusion.opening_key_files: "),
        ("opening-7.key", "signing.key", "a key has missing fields"),
        ('"signing.key"', '"opening-7.key"', "a key has unknown fields"),
        ("[fusion]", "[fusion]\ncolour = 1", "fusion.colour is not a setting"),
    ],
)
def test_mistakes_in_settings_are_named(
    config: Path, old: str, new: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 and the name of what is wrong."""
    config.write_text(config.read_text().replace(old, new))
    said = ran("fusion", "run", "--config", config, capsys=capsys, exit_code=3)
    assert words in said


def settings(folder: Path, **changes: Any) -> FusionSettings:
    """Return settings made by hand."""
    values: dict[str, Any] = {
        "database": folder / "other.sqlite",
        "signing_key_file": folder / "signing.key",
        "opening_key_files": [folder / "opening-7.key"],
        "shuffler_key": SHUFFLER_SIGNER.public_bytes().hex(),
        "registrar_key": REGISTRAR_KEY.hex(),
        "shuffler_url": "http://localhost:1",
    }
    return FusionSettings(**{**values, **changes})


def test_keys_of_the_wrong_role_are_named(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key of the shuffler does not serve the fusion centre, nor one key twice."""
    folder = config.parent
    write_private(folder / "other-signing.key", SHUFFLER_SIGNER.to_text())
    write_private(folder / "other-opening.key", SHUFFLER_KEY.to_text())
    own = FUSION_SIGNER.public_bytes().hex()
    twice = [folder / "opening-7.key"] * 2
    cases: list[tuple[dict[str, Any], str]] = [
        ({"signing_key_file": folder / "other-signing.key"}, "is of the shuffler"),
        ({"opening_key_files": [folder / "other-opening.key"]}, "is of the shuffler"),
        ({"opening_key_files": twice}, "keys of different numbers"),
        ({"shuffler_key": own}, "must have different keys"),
    ]
    from rase.errors import ConfigurationError

    for changes, words in cases:
        with (
            pytest.raises(ConfigurationError, match=words),
            open_centre(settings(folder, **changes), SystemClock()),
        ):
            pass
    with open_centre(settings(folder, admin_over_http=True), SystemClock()) as centre:
        assert centre.publisher is not None
    config.write_text(config.read_text().replace('"signing.key"', '"nowhere.key"'))
    said = ran(
        "campaign",
        "publish",
        folder / "campaign.toml",
        "--config",
        config,
        capsys=capsys,
        exit_code=3,
    )
    assert "signing_key_file" in said


def test_pages_are_served_unless_switched_off_or_missing(
    published: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default pages are beside the interface; if packages are missing, a line says so."""
    served: list[Any] = []
    monkeypatch.setattr("rase.service.http.serve", lambda app, **_: served.append(app))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    ran("fusion", "run", "--config", published, capsys=capsys)
    monkeypatch.setenv("RASE_FUSION__DASHBOARD", "false")
    ran("fusion", "run", "--config", published, capsys=capsys)
    monkeypatch.delenv("RASE_FUSION__DASHBOARD")
    monkeypatch.setitem(sys.modules, "rase.dashboard.app", None)
    assert main(["fusion", "run", "--config", str(published)]) == 0
    assert "dashboard_left_out part=rase.dashboard.app" in capsys.readouterr().err
    assert [type(app).__name__ for app in served] == ["MountedDashboard", "_App", "_App"]


@pytest.mark.uncovered
def test_the_server_runs_and_ends_in_good_order(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says where it listens, answers, and ends with exit code 0 when told to."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rase", "fusion", "run", "--config", str(published), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    watchdog = threading.Timer(PATIENCE_S, process.kill)
    watchdog.start()
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("fusion listening host=127.0.0.1 port=")
        url = f"http://127.0.0.1:{line.strip().rpartition('=')[2]}"
        with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
            assert client.get("/readyz").status_code == 200
            assert client.get("/v1/campaigns/street-power").json()["k_min"] == 4
            assert "Log in" in client.get("/login").text
        token = ran("fusion", "subscribers", "add", "a", "--config", published, capsys=capsys)
        header = {"Authorization": f"Bearer {token.strip()}"}
        with httpx.stream("GET", f"{url}/v1/stream", headers=header, timeout=PATIENCE_S) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "retry: 2000"
            process.send_signal(signal.SIGTERM)
            # The stream ends by itself; one that held the end up would be cut off, as an error.
            assert not any(lines)
            rest = process.stderr.read()
            assert process.wait() == 0
        assert rest == "fusion stopped\n"
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
