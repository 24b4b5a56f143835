"""The page of evidence is what its script writes from the results that are kept."""

import json
from pathlib import Path
from typing import Any

import pytest
from chaos.kinds import KINDS
from fuzz.targets import TARGETS
from scripts.evidence import FOLDER, PAGE, WORDS, main, page


def test_the_page_is_written_from_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody typed a figure: the page equals what the script writes."""
    assert PAGE.read_text(encoding="utf-8") == page(FOLDER)
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == "as measured.\n"


def test_kept_runs_lost_nothing() -> None:
    """A run with a violation is a finding to be fixed, not a result to be kept."""
    for name in ("chaos", "chaos-postgresql"):
        run = kept(name)
        assert (run["lost"], run["doubled"], run["wrong"], run["repaid"]) == (0, 0, 0, 0), name
        assert (run["unexplained"], run["violations"]) == (0, []), name
        assert sum(run["faults"].values()) > 10


def test_kept_loads_were_held() -> None:
    """Nothing is lost or grows under a load that lasts; refusals say when to try again."""
    soak = kept("soak")
    assert (soak["lost"], soak["doubled"], soak["failures"]) == (0, 0, [])
    load = kept("load")
    assert load["failures"] == []
    assert load["steady"]["p99_ms"] < 250
    assert load["accepted"] == load["stored"]
    assert load["stalled"]["statuses"]["429"] > 0
    assert load["overload"]["refusals_without_retry_after"] == 0


def test_every_parser_was_tried() -> None:
    """No parser is left out of the search, and none had a mere handful of inputs."""
    counts: dict[str, int] = kept("fuzz")["executions"]
    assert counts.keys() == TARGETS.keys()
    assert min(counts.values()) >= 100_000


def kept(name: str) -> dict[str, Any]:
    """Return a result that is kept with the documents."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def test_faults_have_the_words_of_the_harness() -> None:
    """Page and harness say the same of every kind."""
    assert WORDS == KINDS


def test_what_was_not_measured_is_not_told(tmp_path: Path) -> None:
    """Without results there is only the head; each file adds its part."""
    assert page(tmp_path).count("##") == 0
    fuzz = {"command": "make fuzz", "seed": 1, "code": "ab", "code_date": "2026-01-01"}
    (tmp_path / "fuzz.json").write_text(json.dumps({**fuzz, "executions": {"cbor": 1234567}}))
    assert "| `cbor` | 1,234,567 |" in page(tmp_path)
