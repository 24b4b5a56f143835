"""`make evidence`: what it runs, keeps, marks and refuses, with parts that take no time."""

import io
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripts.evidence import main
from scripts.records.pages import Place, State, page, records, state
from scripts.records.parts import Part
from scripts.records.running import Display, measure

from rase.lab.provenance import Measurement

Shown = pytest.CaptureFixture[str]
ROOMS = ("domain.py",)
COUNTS = {"tests": 3, "passed": 3, "failed": 0, "skipped": 0, "failures": []}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Folders and pages of their own."""
    (tmp_path / "records").mkdir()
    return Place(
        tmp_path / "records", tmp_path / "page.md", tmp_path / "audit.md", tmp_path / "logs"
    )


def record(**changes: Any) -> dict[str, Any]:
    """Return a record of slow tests that was measured right now."""
    return {**Measurement(ROOMS).header("pytest", seed=None), **COUNTS, **changes}


def part(name: str, source: str, quick: str = "raise SystemExit(9)") -> Part:
    """Return a part that runs a piece of Python, which finds its file in `argv[1]`."""
    lead = "import sys, json, pathlib; file = pathlib.Path(sys.argv[1]); "
    full, short = (f"python -c {json.dumps(lead + one)} {{file}}" for one in (source, quick))
    return Part(name, f"the {name}", "Slow tests", full, short)


def writing(document: dict[str, Any], code: int = 0) -> str:
    """Return Python that writes a record and ends with a code."""
    return f"file.write_text(json.dumps({document!r})); raise SystemExit({code})"


def keep(place: Place, name: str, document: dict[str, Any]) -> None:
    """Put a record where it is kept."""
    (place.folder / f"{name}.json").write_text(json.dumps(document))


PARTS = (part("statistics", "pass"), part("simulations", "pass"))


def test_a_record_of_earlier_code_needs_the_words(place: Place, capsys: Shown) -> None:
    """The check fails after a change of the code, until the page is written again."""
    now = record(commit="0123456789abcdef+changes", date="2026-01-02")
    keep(place, "statistics", now)
    assert main(["--pages"], place=place, parts=PARTS) == 0
    assert main(["--check"], place=place, parts=PARTS) == 0
    assert "of earlier code (" not in place.page.read_text("utf-8")
    keep(place, "statistics", {**now, "code": "0123456789abcdef"})
    capsys.readouterr()
    assert main(["--check"], place=place, parts=PARTS) == 1
    assert "statistics: the code has changed since it was measured" in capsys.readouterr().out
    assert main(["--pages"], place=place, parts=PARTS) == 0
    row = "| of earlier code (`0123456789ab+changes`, 2026-01-02) |"
    assert row in place.page.read_text("utf-8")
    assert main(["--check"], place=place, parts=PARTS) == 0


def test_a_record_of_this_code_must_not_be_marked_as_earlier(place: Place, capsys: Shown) -> None:
    """Measuring again has to take the mark away."""
    keep(place, "statistics", record(code="0123456789abcdef"))
    main(["--pages"], place=place, parts=PARTS)
    keep(place, "statistics", record())
    assert main(["--check"], place=place, parts=PARTS) == 1
    assert 'its row says "of earlier code", but' in capsys.readouterr().out


def test_words_in_the_row_of_another_part_do_not_count(place: Place, capsys: Shown) -> None:
    """Each row speaks for its own record."""
    old = record(code="0123456789abcdef")
    keep(place, "statistics", old)
    main(["--pages"], place=place, parts=PARTS)
    keep(place, "simulations", old)
    assert main(["--check"], place=place, parts=PARTS) == 1
    shown = capsys.readouterr().out
    assert "simulations: the code has changed" in shown
    assert "statistics: " not in shown


@pytest.mark.parametrize(
    ("before", "after"),
    [("| 3 | 3 | 0 | 0 |", "| 3 | 3 | 0 | 1 |"), ("| 0 | of this", "| 1 | of this")],
)
def test_a_figure_that_was_typed_fails(
    place: Place, capsys: Shown, before: str, after: str
) -> None:
    """The page differs from its records, in the table or in a section."""
    keep(place, "statistics", record())
    main(["--pages"], place=place, parts=PARTS)
    text = place.page.read_text("utf-8")
    assert before in text
    place.page.write_text(text.replace(before, after), "utf-8")
    assert main(["--check"], place=place, parts=PARTS) == 1
    assert (
        capsys.readouterr().out == "page.md differs from the records: make evidence ARGS=--pages.\n"
    )


def test_a_page_that_is_gone_and_a_record_of_no_part_fail(place: Place, capsys: Shown) -> None:
    """Nothing is shown that nobody can measure, and something is shown."""
    assert main(["--check"], place=place, parts=PARTS) == 1
    main(["--pages"], place=place, parts=PARTS)
    assert main(["--check"], place=place, parts=PARTS) == 0
    keep(place, "stray", record())
    capsys.readouterr()
    assert main(["--check"], place=place, parts=PARTS) == 1
    assert capsys.readouterr().out == "stray.json in records belongs to no part.\n"


def test_parts_run_in_order_and_pages_follow(place: Place, capsys: Shown) -> None:
    """Without names everything is measured; records, pages and check agree afterwards."""
    parts = (part("statistics", writing(record())), part("simulations", writing(record())))
    assert main([], place=place, parts=parts) == 0
    shown = capsys.readouterr()
    assert shown.out == "no violation.\n"
    assert shown.err.index("[1 of 2] statistics: ") < shown.err.index("[2 of 2] simulations: ")
    assert records(place.folder).keys() == {"statistics", "simulations"}
    assert main(["--check"], place=place, parts=parts) == 0


def test_only_named_parts_run_and_the_short_form_is_asked_for(place: Place) -> None:
    """`--quick` takes another command; the record says which."""
    parts = (
        part("statistics", writing(record()), writing(record(command="short", seconds=1.5))),
        part("simulations", writing(record())),
    )
    assert main(["--quick", "statistics"], place=place, parts=parts) == 0
    assert records(place.folder).keys() == {"statistics"}
    assert "| 2 | `short` |" in place.page.read_text("utf-8")


def test_a_violation_is_recorded_shown_and_ends_with_one(place: Place, capsys: Shown) -> None:
    """What was found stays on the page, and later parts still run."""
    broken = record(failed=1, passed=2, failures=["tests/x.py::y"])
    parts = (part("statistics", writing(broken, 1)), part("simulations", writing(record())))
    assert main([], place=place, parts=parts) == 1
    assert capsys.readouterr().out == "statistics: violations: 1\n"
    text = place.page.read_text("utf-8")
    assert "| [the statistics](#slow-tests) | **1** | of this code" in text
    assert "- failed: `tests/x.py::y`" in text
    assert records(place.folder).keys() == {"statistics", "simulations"}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise SystemExit('the disk is full')", "it ended with 1: the disk is full (all of it: "),
        ("import os; os.kill(os.getpid(), 9)", "it ended with -9: it printed nothing"),
        ("file.write_text('{')", "what it wrote is not JSON; it ended with 0."),
        ("file.write_text('{}')", "its record lacks command, seed, commit"),
        (writing(record(), 3), "it ended with 3, and its record names no violation"),
    ],
)
def test_a_part_that_dies_leaves_all_other_records(
    place: Place, capsys: Shown, source: str, reason: str
) -> None:
    """Its own earlier record stays, those after it are still measured, and the exit code is 1."""
    earlier = record(command="earlier")
    keep(place, "statistics", earlier)
    parts = (part("statistics", source), part("simulations", writing(record())))
    assert main([], place=place, parts=parts) == 1
    shown = capsys.readouterr()
    assert f"statistics: no record: {reason}" in shown.out
    kept = records(place.folder)
    assert kept["statistics"] == earlier
    assert kept["simulations"]["command"] == "pytest"


def test_setup_comes_first_and_programs_that_are_absent_are_named(place: Place) -> None:
    """A part whose environment cannot be made is not run."""
    ready = part("statistics", writing(record()))
    failing = replace(ready, setup="python -c 'raise SystemExit(4)'")
    absent = replace(ready, python=Path("absent/python"))
    for one, reason in (
        (failing, "statistics: no record: its setup ended with 4"),
        (absent, "statistics: no record: absent/python cannot be run: No such file"),
    ):
        (wrong,) = measure([one], place, is_quick=False, stream=io.StringIO())
        assert wrong.startswith(reason)
    assert records(place.folder) == {}
    made = place.logs / "made"
    ready = replace(ready, setup=f'python -c \'open("{made}", "w")\'')
    assert measure([ready], place, is_quick=False, stream=io.StringIO()) == []
    assert made.exists()


def test_an_interrupt_keeps_what_was_done(
    place: Place, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part that ran is ended; the records and pages before it stay."""
    waiting = "import os, threading; print(os.getpid()); threading.Event().wait(600)"
    parts = (part("statistics", writing(record())), part("simulations", waiting))
    started: list[int] = []

    def refresh(display: Display, last: str) -> None:
        if last and not started:
            started.append(int(last))
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Display, "refresh", refresh)
    assert main([], place=place, parts=parts) == 130
    assert "interrupted: the parts that were done are recorded." in capsys.readouterr().err
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
    assert records(place.folder).keys() == {"statistics"}
    assert main(["--check"], place=place, parts=parts) == 0


def test_the_list_shows_states_and_times(place: Place, capsys: Shown) -> None:
    """Of this code, of earlier code, never measured; and how long each took last."""
    parts = (*PARTS, part("processes", "pass"))
    keep(place, "statistics", record(seconds=1234.4))
    keep(place, "simulations", record(code="0123456789abcdef", seconds=None))
    assert main(["--list"], place=place, parts=parts) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:6] == ["statistics", "of", "this", "code", "1,234", "s"]
    assert lines[2].split()[:6] == ["simulations", "of", "earlier", "code", "not", "known"]
    assert lines[3].split()[:5] == ["processes", "never", "measured", "not", "known"]


def test_unknown_parts_are_refused(place: Place, capsys: Shown) -> None:
    """The message names all parts there are, and nothing runs."""
    with pytest.raises(SystemExit) as ended:
        main(["statistic"], place=place, parts=PARTS)
    assert ended.value.code == 2
    expected = "part must be one of statistics, simulations; got statistic."
    assert expected in capsys.readouterr().err
    assert not place.page.exists()


def test_a_terminal_sees_part_time_and_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line is rewritten; it is not longer than the terminal is wide."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    display = Display(stream, 7)
    display.begin(2, "chaos", "python -m chaos")
    display.refresh("kill of the intake " + 40 * "x")
    last = stream.getvalue().rpartition("\x1b[K")[2]
    assert last.startswith("[2 of 7] chaos 0:00 kill of the intake")
    assert len(last) == 39


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on a terminal the last line is printed once a minute."""
    stream = io.StringIO()
    now_s = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    display = Display(stream, 1)
    display.begin(1, "soak", "python -m chaos.soak")
    for now_s[0] in (1.0, 59.0, 61.0, 70.0):
        display.refresh(f"at {now_s[0]:g}")
    display.end("recorded")
    assert stream.getvalue().splitlines() == [
        "[1 of 1] soak: python -m chaos.soak",
        "[1 of 1] soak 1:01 at 61",
        "[1 of 1] soak: recorded (1:10)",
    ]


def test_what_an_older_record_does_not_say_is_not_guessed(place: Place) -> None:
    """Commit, date and time that are unknown are called so on the page."""
    old = record(commit=None, date=None, seconds=None, rooms=None, code=None)
    assert state(old) is State.EARLIER
    text = page({"statistics": old}, PARTS)
    assert "| of earlier code (commit and date not recorded) | not recorded |" in text
    dated = page({"statistics": {**old, "code_date": "2026-01-02"}}, PARTS)
    assert "| of earlier code (commit not recorded, code of 2026-01-02) |" in dated
