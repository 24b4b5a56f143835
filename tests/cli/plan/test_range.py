"""``rase plan --range-from``: the recommended range is planned for, and compared."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from rase.cli import main

ASKED = ("plan", "--epsilon", "1", "--devices", "100")


def document(**changes: Any) -> dict[str, Any]:
    """Return what ``rase campaign range --json`` writes."""
    advice = {
        "low": 0.0,
        "high": 300.0,
        "clip_bias": {"value": -4.0, "standard_error": 1.5},
    }
    return {
        "schema": "rase/range/1",
        "campaign": "street",
        "low": 0.0,
        "high": 3000.0,
        "probes": 12,
        "advice": advice,
        **changes,
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The document as a file."""
    path = tmp_path / "range.json"
    path.write_text(json.dumps(document()), encoding="utf-8")
    return path


def test_the_recommended_range_is_planned_for(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan has the recommended range, and says what it changes against the present one."""
    assert main([*ASKED, "--range-from", str(file)]) == 0
    out = capsys.readouterr().out
    assert "plan      readings from 0 to 300, epsilon 1 a report" in out
    assert "range     0 to 300, as 12 probing rounds recommend, instead of 0 to 3000." in out
    assert "clipping adds -4 ± 1.5" in out
    assert main([*ASKED, "--range-from", str(file), "--json"]) == 0
    change = json.loads(capsys.readouterr().out)["range_change"]
    assert (change["present"], change["recommended"]) == ([0, 3000], [0, 300])
    assert (change["clip_bias"], change["clip_bias_error"], change["probes"]) == (-4.0, 1.5, 12)
    # A tenth of the width is a tenth of the noise; the clip bias comes on top.
    noise = change["present_error"] / 10
    assert change["error"] == pytest.approx((noise**2 + 16) ** 0.5, rel=0.01)


def test_advice_may_come_from_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dash reads standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(document())))
    assert main([*ASKED, "--range-from", "-"]) == 0
    assert "range     0 to 300" in capsys.readouterr().out


BAD = {
    "no JSON": ("{", "got no JSON in"),
    "a list": ("[]", "got another document in"),
    "another schema": (json.dumps({"schema": "rase.plan/1"}), "got another document in"),
    "no advice yet": (
        json.dumps(document(advice=None, probes=3)),
        "after 3 probing rounds there is none yet",
    ),
    "no bias": (json.dumps(document(advice={"low": 0, "high": 3})), "got a damaged document"),
    "an endless bias": (
        json.dumps(
            document(
                advice={
                    "low": 0,
                    "high": 3,
                    "clip_bias": {"value": float("inf"), "standard_error": 1},
                }
            )
        ),
        "got a damaged document",
    ),
    "upside down": (json.dumps(document(low=9, high=1)), "got a damaged document"),
}


@pytest.mark.parametrize("case", BAD)
def test_other_documents_are_refused(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no recommended range ends in one line and exit code 2."""
    text, words = BAD[case]
    path = tmp_path / "range.json"
    path.write_text(text, encoding="utf-8")
    assert main([*ASKED, "--range-from", str(path)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err
    assert shown.err.count("\n") == 1


def test_one_range_is_asked_for(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A range and a file with one are too much, and a file must exist."""
    assert main([*ASKED, "--range", "0", "1", "--range-from", str(file)]) == 2
    assert "takes --range or --range-from, got both." in capsys.readouterr().err
    assert main([*ASKED, "--range-from", str(tmp_path / "none")]) == 2
    assert "--range-from cannot be read: No such file" in capsys.readouterr().err
