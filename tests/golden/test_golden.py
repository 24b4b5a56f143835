"""Golden outputs: every number of real runs on seeded inputs stays what it was recorded as.

They show that a change of names, texts or rooms changes no number. Cases are in ``cases.py``, what
they gave in ``numbers/``, and how fields of today map to neutral names in ``names.json``:

- A field was renamed: change the left side of ``names.json``.
- A function or an option was renamed: change the case that calls it.
- A number was meant to change: ``python -m tests.golden.record --overwrite CASE``, and say why.

The numbers are the same on the compiled kernels and with RASE_KERNELS=numpy.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.golden import record
from tests.golden.cases import CASES, numbers_of
from tests.golden.compare import (
    FOLDER,
    differences,
    load,
    read,
    recorded_form,
    report,
    save,
)
from tests.golden.flatten import Unmapped, flattened, name_maps

from rase.kernels import backend

# Quick cases that draw reports and orders through all kernels there are.
DRAWN = (
    *(name for name, case in CASES.items() if case.kind == "mechanism"),
    *("run-windows", "run-parquet", "run-budgets", "run-graph", "shuffles", "order-laws"),
    *("aggregates", "runs"),
)
NAMES: dict[str, str | None] = {
    "rows[].mean": "rows[].value",
    "rows[].at": "rows[].time",
    "total": "total",
    "share": "share",
    "weights[]": "weights[]",
    "by.*.mean": "by.*.value",
    "seconds": None,
}
WORDS: dict[str, str | None] = {"average": "mean"}
DOCUMENT: dict[str, Any] = {
    "rows": [{"mean": 10.5, "at": "1970-01-01T00:01:00Z"}, {"mean": None, "at": "1970-01-02"}],
    "total": "18446744073709551616",
    "share": float("inf"),
    "weights": [1, 2, 3],
    "by": {"average": {"mean": True}},
    "note": "a text",
    "seconds": 1.25,
}
RECORDED: dict[str, Any] = {
    "by.mean.value": True,
    "rows[].time": [60.0, 86400.0],
    "rows[].value": [10.5, None],
    "share": "inf",
    "total": 2**64,
    "weights[]": [1, 2, 3],
}


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_the_recorded_ones(name: str, quick_folder: Path) -> None:
    """A case gives the recorded numbers, whatever its fields and texts are called."""
    found = differences(load(name), numbers_of(name, quick_folder))
    assert not found, report(found)


@pytest.mark.parametrize("name", DRAWN)
def test_the_numbers_need_no_compiled_kernels(
    name: str, quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernels are not compiled, what is drawn and shuffled has the same numbers."""
    monkeypatch.setattr(backend, "native", None)
    found = differences(load(name), numbers_of(name, quick_folder))
    assert not found, report(found)


def test_every_record_has_its_case() -> None:
    """Each file of numbers belongs to a case, and all of them together stay small."""
    files = list(FOLDER.iterdir())
    assert {path.stem for path in files} == set(CASES)
    assert sum(path.stat().st_size for path in files) < 250_000


def test_every_name_is_in_use() -> None:
    """A neutral name of a map that no record holds is one that was forgotten."""
    for kind in {case.kind for case in CASES.values()}:
        recorded = {
            path for name, case in CASES.items() if case.kind == kind for path in load(name)
        }
        for neutral in name_maps()[kind].values():
            if neutral is not None:
                before, star, after = neutral.partition("*")
                assert any(
                    path.startswith(before) and path.endswith(after) if star else path == neutral
                    for path in recorded
                ), f"{kind}: {neutral}"


def changed(**changes: Any) -> list[str]:
    """Return how a document with changes differs from the record of the one without."""
    return differences(RECORDED, flattened({**DOCUMENT, **changes}, NAMES, WORDS))


def test_numbers_are_recorded_under_neutral_names() -> None:
    """Times become seconds, digits numbers, texts and unwanted numbers nothing."""
    assert recorded_form(flattened(DOCUMENT, NAMES, WORDS)) == RECORDED
    assert changed(note="another text", seconds=99.0) == []


def test_a_small_change_is_reported() -> None:
    """A millionth is a difference, with its path and both numbers; rounding is not."""
    rows = DOCUMENT["rows"]
    (line,) = changed(rows=[{**rows[0], "mean": 10.50001}, rows[1]])
    assert line.startswith("rows[].value at rows[0].mean: recorded 10.5, now 10.50001")
    assert changed(rows=[{**rows[0], "mean": 10.5 * (1 + 1e-15)}, rows[1]]) == []


def test_a_small_change_of_any_recorded_number_is_reported() -> None:
    """A millionth more in each float of the records is seen, but for a few rounded zeros."""
    counted = reported = 0
    for name in CASES:
        for path, written in load(name).items():
            before = written if isinstance(written, list) else [written]
            after = [one * (1 + 1e-6) if isinstance(one, float) else one for one in before]
            counted += sum(isinstance(one, float) and one != 0 for one in before)
            numbers = {path: [(path, read(one)) for one in after]}
            reported += len(differences({path: written}, numbers))
    assert counted > 5000
    assert 0.99 * counted < reported <= counted


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"total": str(2**64 + 1)}, f"total at total: recorded {2**64}, now {2**64 + 1}"),
        ({"total": None}, f"total at total: recorded {2**64}, now None"),
        ({"share": 4.0}, "share at share: recorded inf, now 4.0"),
        ({"share": float("nan")}, "share at share: recorded inf, now nan"),
        ({"weights": [1, 3, 2]}, "weights[] at weights[1]: recorded 2, now 3"),
        ({"weights": [1, 2]}, "weights[]: recorded 3 numbers, now 2"),
        ({"weights": [1, 2, 3, 4]}, "weights[]: recorded 3 numbers, now 4"),
        ({"weights": []}, "weights[]: recorded 3 numbers, now missing"),
        ({"by": {"average": {"mean": False}}}, "by.mean.value at by.average.mean: recorded True"),
    ],
)
def test_other_numbers_are_reported(changes: dict[str, Any], line: str) -> None:
    """Whole numbers, infinities, lists and answers of yes or no are compared exactly."""
    assert changed(**changes)[0].startswith(line)


def test_missing_and_new_fields_are_reported() -> None:
    """A field that is gone is a difference, and so is one that the record does not hold."""
    short = {name: value for name, value in DOCUMENT.items() if name != "total"}
    assert differences(RECORDED, flattened(short, NAMES, WORDS)) == [
        f"total: recorded {2**64}, now missing"
    ]
    recorded = {name: value for name, value in RECORDED.items() if name != "total"}
    assert differences(recorded, flattened(DOCUMENT, NAMES, WORDS)) == [
        f"total: not recorded, now {2**64}"
    ]


def test_numbers_without_a_name_are_refused() -> None:
    """A field that no map knows is an error, not a number that nobody compares."""
    with pytest.raises(Unmapped, match=r"1 paths are not in names\.json: extra\[0\]\.mean = 3"):
        flattened({**DOCUMENT, "extra": [{"mean": 3}]}, NAMES, WORDS)
    with pytest.raises(Unmapped, match=r"by\.mode\.mean = 1"):
        flattened({**DOCUMENT, "by": {"mode": {"mean": 1}}}, NAMES, WORDS)


def test_values_of_the_library_are_documents() -> None:
    """Fields of dataclasses are read like those of JSON."""

    @dataclass
    class Row:
        mean: float
        at: str

    rows = [Row(10.5, "1970-01-01T00:01:00Z"), {"mean": None, "at": "1970-01-02"}]
    assert changed(rows=rows) == []


def test_the_report_is_short() -> None:
    """Of many differences the first few are shown, and how many there are."""
    lines = report([f"path {place}" for place in range(30)]).splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("30 differences:", "path 0", "... and 22 more")


def test_recording_does_not_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers that exist are replaced only where that is asked for."""
    for module in ("compare", "record"):
        monkeypatch.setattr(f"tests.golden.{module}.FOLDER", tmp_path)
    assert record.main(["device-laws"]) == 0
    first = load("device-laws")
    save("device-laws", {"places[]": [0]})
    assert record.main(["device-laws"]) == 1
    assert "Give --overwrite to replace them." in capsys.readouterr().err
    assert load("device-laws") == {"places[]": [0]}
    assert record.main(["--overwrite", "device-laws"]) == 0
    assert load("device-laws") == first
    with pytest.raises(SystemExit):
        record.main(["no-such-case"])
