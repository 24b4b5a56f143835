"""Files that the pages save, opened with pandas and compared with what the interface answers."""

import json
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from playwright.sync_api import Page
from tests.browser.conftest import ROUNDS, Opens, Site, Studio
from tests.browser.serving import CAMPAIGN, LATER_S
from tests.browser.test_owner import Place
from tests.device.owning import QUARTERS, owned

from rase.cli import main

NUMBERS = ["value", "standard_error", "low", "high"]
# Without it pandas may miss the last bit of a number.
read_csv = partial(pd.read_csv, float_precision="round_trip")
LAST = CAMPAIGN.not_before + ROUNDS - 1


def saved(page: Page, path: str, link: str) -> Path:
    """Open a page and save a file by its link."""
    page.goto(path)
    with page.expect_download() as download:
        page.get_by_role("link", name=link, exact=True).click()
    return download.value.path()


def asked(site: Site, page: Page, path: str, **params: str | float | bool) -> Any:
    """Return what the interface answers."""
    answer = page.request.get(
        path, params=params, headers={"Authorization": f"Bearer {site.reader}"}
    )
    assert answer.ok
    return json.loads(answer.text())


def same(found: pd.DataFrame, told: list[dict[str, Any]], names: list[str]) -> None:
    """Compare columns with what was told, to the last bit; what is missing is missing in both."""
    expected = pd.DataFrame(told)[names].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        found[names].reset_index(drop=True), expected, check_dtype=False, rtol=1e-15, atol=0
    )


def test_the_rounds_of_the_timeline(site: Site, opened: Opens) -> None:
    """CSV: times are times, gaps are missing numbers, everything equals /v1/estimates."""
    page = opened(site, site.operator)
    found = read_csv(saved(page, "/live?range=1d", "CSV"))
    begin_ms = 1000 * (CAMPAIGN.closes_s(LAST) + LATER_S - 86400)
    told = asked(site, page, "/v1/estimates", **{"from": str(begin_ms)})
    same(found, told, ["time", "status", *NUMBERS, "n", "local_epsilon"])
    times = pd.to_datetime(found["time"])
    assert str(times.dt.tz) == "UTC"
    assert times.is_monotonic_increasing
    assert found["value"].isna().any()
    assert len(found) == 95


def test_all_rounds(site: Site, opened: Opens) -> None:
    """CSV: ten thousand rows with one round each, the withheld ones without numbers."""
    page = opened(site, site.operator)
    found = read_csv(saved(page, "/rounds", "Save as CSV"))
    assert len(found) == ROUNDS
    assert list(found["round"]) == list(range(LAST, LAST - ROUNDS, -1))
    told = asked(site, page, "/v1/rounds", limit="50")["rounds"]
    same(found[:50], told, ["round", "time", "state", *NUMBERS, "n"])
    assert found[found["state"] == "withheld"][NUMBERS].isna().all(axis=None)


def test_the_explorers_curves(studio: Studio, opened: Opens) -> None:
    """CSV: bias and noise make up the error in every row."""
    page = opened(studio)
    found = read_csv(saved(page, "explorer", "All curves as CSV"))
    total = (found["bias"] ** 2 + found["noise"] ** 2) ** 0.5
    pd.testing.assert_series_equal(total, found["error"], check_names=False, rtol=1e-9)
    assert set(found["estimator"]) >= {"unbiased_mean", "median"}


def test_the_access_log(site: Site, opened: Opens) -> None:
    """CSV: who asked what, as the page shows it."""
    page = opened(site, site.operator)
    page.goto("/rounds")
    found = read_csv(saved(page, "/subscribers", "Save as CSV"))
    assert {"time", "subscriber", "question", "answer"} <= set(found.columns)
    assert pd.to_datetime(found["time"]).is_monotonic_increasing
    assert "operator" in set(found["subscriber"])


def test_the_owners_ledger(quick_folder: Path, opened: Opens) -> None:
    """CSV: every report that was paid for."""
    with owned(quick_folder / "device", QUARTERS) as device:
        device.folder.switch(is_on=True)
        device.run(5)
        page = opened(Place(f"http://127.0.0.1:{device.page.port}"))
        found = read_csv(saved(page, device.page.address, "Save all as CSV"))
        entries = device.ledger.history(-1)
    assert list(found["round"]) == [one.round for one in entries]
    assert list(found["epsilon"]) == [one.epsilon for one in entries]


def test_what_the_command_line_writes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """CSV, JSON and Parquet of one run hold the same estimates."""
    rows = [(t, f"d{d}", (7 * t + 13 * d) % 100) for t in range(6) for d in range(40)]
    table = pd.DataFrame(rows, columns=["time", "device", "value"])
    table["time"] = pd.to_datetime(3600 * table["time"], unit="s", utc=True)
    table.to_csv(tmp_path / "in.csv", index=False)
    found: dict[str, Any] = {}
    for ending in ("csv", "json", "parquet"):
        out = tmp_path / f"out.{ending}"
        range_ = ("--range", "0", "100")
        arguments = ("run", str(tmp_path / "in.csv"), *range_, "--epsilon", "1", "--seed", "7")
        assert main([*arguments, "--out", str(out)]) == 0
        data = out.read_bytes()
        if ending == "json":
            found[ending] = pd.DataFrame(json.loads(data)["results"])
        else:
            read = read_csv if ending == "csv" else pd.read_parquet
            found[ending] = read(BytesIO(data))
    capfd.readouterr()
    assert len(found["csv"]) == 6
    for ending in ("json", "parquet"):
        for name in ("time", "method", "value", "standard_error", "low", "high", "n"):
            assert list(found[ending][name]) == list(found["csv"][name])
