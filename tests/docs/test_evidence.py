"""The page of evidence is what its script writes from the records that are kept."""

import ast
from pathlib import Path

import pytest
from chaos.evidence import INSTALLATION, INTAKE
from fuzz.__main__ import ROOMS as FUZZED
from fuzz.targets import TARGETS
from scripts.evidence import main
from scripts.records.pages import Place, page, records
from scripts.records.parts import PARTS, ROOT
from scripts.records.slow_tests import GROUPS

import rase
from rase.lab import cache
from rase.lab.provenance import HEADER

KEPT = records(Place().folder)


def test_the_page_is_written_from_the_records(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody typed a figure, and what is of earlier code says so."""
    assert main(["--check"]) == 0, capsys.readouterr().out
    assert capsys.readouterr().out == "the evidence is as measured.\n"


def test_every_record_has_the_same_header() -> None:
    """What a record does not know of itself is null, not absent."""
    assert len(KEPT) >= 7
    for name, record in KEPT.items():
        assert [one for one in HEADER if one not in record] == [], name
        assert record["command"], name


def test_kept_runs_lost_nothing() -> None:
    """A run with a violation is a finding to be fixed, not a result to be kept."""
    for name in ("chaos", "chaos-postgresql"):
        run = KEPT[name]
        assert (run["lost"], run["doubled"], run["wrong"], run["repaid"]) == (0, 0, 0, 0), name
        assert (run["unexplained"], run["violations"]) == (0, []), name
        assert sum(run["faults"].values()) > 10


def test_kept_loads_were_held() -> None:
    """Nothing is lost or grows under a load that lasts; refusals say when to try again."""
    soak = KEPT["soak"]
    assert (soak["lost"], soak["doubled"], soak["failures"]) == (0, 0, [])
    load = KEPT["load"]
    assert load["failures"] == []
    assert load["steady"]["p99_ms"] < 250
    assert load["accepted"] == load["stored"]
    assert load["stalled"]["statuses"]["429"] > 0
    assert load["overload"]["refusals_without_retry_after"] == 0


def test_every_parser_was_tried() -> None:
    """No parser is left out of the search, and none had a mere handful of inputs."""
    counts: dict[str, int] = KEPT["fuzz"]["executions"]
    # A record of earlier code may name parsers that are gone.
    assert TARGETS.keys() <= counts.keys()
    assert min(counts.values()) >= 100_000


def test_what_was_not_measured_has_a_row_that_says_so_and_no_section() -> None:
    """Without records there is only the table; each record adds its section."""
    empty = page({}, PARTS)
    assert empty.count("| never measured |") == len(PARTS)
    assert "##" not in empty
    header = dict.fromkeys(HEADER)
    fuzz = {**header, "command": "make fuzz", "executions": {"cbor": 1234567}}
    text = page({"fuzz": fuzz}, PARTS)
    assert "| `cbor` | 1,234,567 |" in text
    assert text.count("| never measured |") == len(PARTS) - 1


@pytest.mark.parametrize(
    "rooms", [INSTALLATION, INTAKE, FUZZED, *(group.rooms for group in GROUPS.values())]
)
def test_rooms_are_in_the_package(rooms: tuple[str, ...]) -> None:
    """A room that was renamed has to be renamed here, before an hour is spent on measuring it."""
    root = Path(rase.__file__).parent
    assert [room for room in rooms if not (root / room).exists()] == []


def test_all_that_is_fuzzed_is_in_the_rooms_of_its_record() -> None:
    """A change of a parser makes the record of its search old."""
    root = Path(rase.__file__).parent
    sources = set(cache._sources(root, FUZZED))
    imported = set()
    for path in (ROOT / "fuzz").glob("*_targets.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rase."):
                file = root.joinpath(*str(node.module).split(".")[1:])
                imported.add(file / "__init__.py" if file.is_dir() else file.with_suffix(".py"))
    assert len(imported) > 20
    assert imported <= sources


def test_every_folder_with_slow_tests_is_in_a_group() -> None:
    """No slow test is forgotten but pictures, chaos (a part of its own), and tests of tests."""
    grouped = {test for group in GROUPS.values() for test in group.tests}
    assert [test for test in grouped if not (ROOT / test).is_dir()] == []
    slow = {
        path.relative_to(ROOT).parts[1]
        for path in (ROOT / "tests").glob("*/**/test_*.py")
        if "mark.slow" in path.read_text("utf-8") and path.parent != Path(__file__).parent
    }
    assert len(slow) > 8
    assert {f"tests/{name}" for name in slow - {"browser", "chaos", "faults"}} <= grouped
