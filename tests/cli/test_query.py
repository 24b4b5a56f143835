"""``rase query`` and ``rase watch``: what they print, and how they end."""

import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fusion.conftest import (
    CAMPAIGN,
    ROUND,
    Centre,
    app_of,
    made_centre,
    parcel,
    reports,
    served,
)
from tests.fusion.test_parts import live

from rase.answer import FIELDS, Answer
from rase.cli import main
from rase.cli.watch import picture, watch
from rase.fusion.subscribers import add_subscriber


@pytest.fixture
def centre(tmp_path: Path) -> Iterator[Centre]:
    """A fusion centre with a published campaign."""
    with made_centre(tmp_path / "fusion.sqlite") as made:
        yield made


@pytest.fixture
def url(centre: Centre, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A live fusion centre with an estimate and a withheld round, and a token for it."""
    for round, places in ((ROUND, [0] * 5), (ROUND + 1, [4096] * 6), (ROUND + 2, [])):
        centre.clock.jump(CAMPAIGN.closes_s(round) - centre.clock.now_s())
        one = parcel(reports(places, round=round), round=round)
        one.deliver(centre.intake)
        centre.rounds.tick()
    monkeypatch.setenv("RASE_SUBSCRIBER__TOKEN", add_subscriber(centre.database, "a"))
    with served(app_of(centre)) as address:
        monkeypatch.setenv("RASE_SUBSCRIBER__URL", address)
        yield address


def ran(*arguments: str, capsys: pytest.CaptureFixture[str], exit_code: int = 0) -> tuple[str, str]:
    """Run a command; return what it printed and said."""
    capsys.readouterr()
    assert main(list(arguments)) == exit_code
    shown = capsys.readouterr()
    return shown.out, shown.err


AT = "2026-06-21T01:00:00Z"


def test_avg_prints_a_mean_with_its_error(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Data on stdout, the promise on stderr."""
    out, err = ran("query", "avg", "--at", AT, capsys=capsys)
    assert out.startswith(f"{AT}  -")
    assert "±" in out
    assert "n = 5" in out
    assert err.startswith("1-LDP per report")
    out, _ = ran("query", "avg", "--at", AT, "--json", "--method", "median", capsys=capsys)
    document = json.loads(out)
    assert tuple(document) == ("schema", *FIELDS)
    assert (document["schema"], document["n"]) == ("rase/answer/2", 5)
    assert document["method"] == "median"


def test_win_prints_a_window(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Over rounds or a duration."""
    for w in ("2", "2h"):
        out, _ = ran("query", "win", w, "--at", "2026-06-21T02:00:00Z", "--json", capsys=capsys)
        assert json.loads(out)["of_rounds"] == 2
    out, _ = ran("query", "win", "2", "--at", "2026-06-21T02:00:00Z", capsys=capsys)
    assert out.startswith(f"{AT} to 2026-06-21T03:00:00Z  ")


def test_win_asks_for_days_of_a_zone(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """From midnight to midnight there; one that is not over has no mean."""
    asked = ("query", "win", "1d", "--timezone", "Europe/Zurich", "--at", AT, "--json")
    out, _ = ran(*asked, capsys=capsys, exit_code=5)
    found = json.loads(out)
    assert (found["time"], found["of_rounds"]) == ("2026-06-20T22:00:00Z", 24)
    _, err = ran("query", "win", "2h", "--timezone", "Europe/Zurich", capsys=capsys, exit_code=4)
    assert "w must be 1d or 1w where timezone is given" in err


def test_a_window_that_lacks_a_round_answers_unless_strict(
    centre: Centre, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how many rounds it rests on, and beside it whether rounds differ; strict refuses."""
    one = parcel(reports([2000] * 9, round=ROUND + 3), round=ROUND + 3)
    centre.clock.jump(CAMPAIGN.closes_s(ROUND + 3) - centre.clock.now_s())
    one.deliver(centre.intake)
    centre.rounds.tick()
    out, err = ran("query", "win", "4h", capsys=capsys)
    assert "n = 20, 3 of 4 rounds)" in out
    assert "verdict: " in err
    assert "unknown yet: 3 of 8 rounds needed." in err
    out, _ = ran("query", "win", "4", "--json", capsys=capsys)
    document = json.loads(out)
    assert (document["rounds"], document["of_rounds"], document["status"]) == (3, 4, "ok")
    out, err = ran("query", "win", "4", "--strict", "--json", capsys=capsys, exit_code=5)
    assert json.loads(out)["status"] == "too_few"
    assert "only 3 of them have an estimate" in err


def test_too_few_is_exit_code_5(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Withheld and missing rounds refuse; the document is printed all the same."""
    _, err = ran("query", "avg", capsys=capsys, exit_code=5)
    assert "too few devices reported" in err
    out, _ = ran("query", "win", "2", "--json", capsys=capsys, exit_code=5)
    assert json.loads(out)["status"] == "too_few"
    _, err = ran("query", "avg", "--at", "1", capsys=capsys, exit_code=5)
    assert "a round is missing" in err


def test_refusals_and_networks_are_exit_code_4(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is told."""
    _, err = ran("query", "avg", "--at", "yesterday", capsys=capsys, exit_code=4)
    assert "a time must be milliseconds" in err
    _, err = ran("query", "avg", "--url", "http://127.0.0.1:1", capsys=capsys, exit_code=4)
    assert "does not answer" in err
    _, err = ran("query", "avg", "--campaign", "elsewhere", capsys=capsys, exit_code=4)
    assert "no such campaign" in err


def test_tokens_come_from_files_or_the_environment(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never from the command line; without one the way out is told."""
    import os

    file = tmp_path / "token"
    file.write_text(os.environ["RASE_SUBSCRIBER__TOKEN"] + "\n")
    monkeypatch.delenv("RASE_SUBSCRIBER__TOKEN")
    _, err = ran("query", "avg", "--at", AT, capsys=capsys, exit_code=3)
    assert "give a token" in err
    file.chmod(0o644)
    _, err = ran("query", "avg", "--at", AT, "--token-file", str(file), capsys=capsys)
    assert f"chmod 600 {file}" in err
    file.chmod(0o600)
    _, err = ran("query", "avg", "--at", AT, "--token-file", str(file), capsys=capsys)
    assert "warning" not in err
    monkeypatch.setenv("RASE_SUBSCRIBER__TOKEN_FILE", str(file))
    ran("query", "avg", "--at", AT, capsys=capsys)
    _, err = ran("query", "avg", "--token-file", str(tmp_path / "no"), capsys=capsys, exit_code=3)
    assert "No such file" in err


def test_watch_prints_lines_where_nobody_looks(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line a round, resumed where one likes."""
    out, _ = ran("watch", "--rounds", "3", "--last-id", "0", capsys=capsys)
    lines = out.splitlines()
    assert [line.split("  ")[1] for line in lines] == [f"round {ROUND + n}" for n in range(3)]
    assert lines[2].endswith("too few reports")


def test_watch_gives_up_when_told_to(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A network that is gone is exit code 4."""
    _, err = ran(
        "watch", "--attempts", "1", "--url", "http://127.0.0.1:1", capsys=capsys, exit_code=4
    )
    assert "does not answer" in err


def test_watch_says_when_nobody_answers(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Once for each time the stream is interrupted, not for each attempt."""
    _, err = ran(
        "watch", "--attempts", "3", "--url", "http://127.0.0.1:1", capsys=capsys, exit_code=4
    )
    assert err.count("does not answer (ConnectError). Trying again; Ctrl-C ends it.") == 1


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def mean(number: int, **changes: Any) -> Answer:
    """Return the mean of a round."""
    values: dict[str, Any] = {
        "campaign": "c",
        "time": f"2026-06-21T0{number}:00:00Z",
        "round": number,
        "status": "ok",
        "value": 10.0 * number,
        "standard_error": 5.0,
        "low": 10.0 * number - 10,
        "high": 10.0 * number + 10,
        "n": 9,
        "local_epsilon": 1.0,
        "method": "m",
        "promise": "1-LDP",
    }
    return Answer(**{**values, **changes})


class Screen:
    """A terminal of some width, as far as it breaks lines, moves up and erases."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows = [""]

    def feed(self, text: str) -> None:
        """Take what a program writes."""
        for piece in re.split(r"(\x1b\[\d*[FJ]|\n)", text):
            if piece.endswith("F"):
                del self.rows[len(self.rows) - 1 - int(piece[2:-1] or 1) :]
                self.rows.append("")
            elif piece == "\n":
                self.rows.append("")
            elif not piece.startswith("\x1b"):
                whole = self.rows.pop() + piece
                self.rows += [
                    whole[at : at + self.columns] for at in range(0, len(whole), self.columns)
                ] or [""]


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100, 107, 120, 200])
def test_the_picture_fits_every_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any number of rounds the screen holds the last ones once each, and nothing else."""
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = Terminal()
    long = (
        "1-LDP per report: an observer who was 50 % sure of a reading becomes at most 73.2 % sure."
    )
    rounds = [mean(number, value=1000.0 * number, promise=long) for number in range(1, 10)]
    watch(iter(rounds), shown)
    screen = Screen(columns)
    screen.feed(shown.getvalue())
    lines = [line for line in screen.rows if line.startswith("06-21")]
    assert [line[6:8] for line in lines] == [f"0{number}" for number in range(1, 10)]
    assert screen.rows == [*picture(rounds, columns), ""]
    assert all(len(line) < columns for line in screen.rows)
    if columns >= 60:
        assert all("o" in line and "±" in line for line in lines)


def test_a_terminal_that_was_narrowed_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that it has broken meanwhile are erased as the rows that they now are."""
    sizes = iter([(120, 24), (60, 24)])
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size(next(sizes, (60, 24))))
    shown = Terminal()
    watch(iter([mean(1), mean(2)]), shown)
    first = picture([mean(1)], 120)
    rows = sum(-(-len(line) // 60) for line in first)
    assert rows > len(first)
    assert f"\x1b[{rows}F\x1b[J" in shown.getvalue()


def test_a_terminal_is_drawn_on() -> None:
    """Each round redraws the picture over the last one."""
    screen = Terminal()
    watch(iter([mean(1), mean(2), mean(3, status="too_few", value=None)]), screen)
    text = screen.getvalue()
    assert text.count("\x1b[2F\x1b[J") == 1
    assert text.count("\x1b[3F\x1b[J") == 1
    assert text.rstrip().endswith("c: 1-LDP")
    lines = picture([mean(1), mean(3), mean(4, value=None, low=None, high=None)])
    assert lines[0].split("|")[1].startswith("-----o-----")
    assert lines[1].split("|")[1].endswith("----o-----")
    assert not lines[2].split("|")[1].strip()


@pytest.fixture
def states_url(centre: Centre, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A live fusion centre with campaigns of states, of intervals and of numbers by label."""
    live(centre, by_label=1000)
    monkeypatch.setenv("RASE_SUBSCRIBER__TOKEN", add_subscriber(centre.database, "a"))
    with served(app_of(centre)) as address:
        monkeypatch.setenv("RASE_SUBSCRIBER__URL", address)
        yield address


def test_shares_and_differences_are_printed(
    states_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each state, the commonest, quantiles; a difference with its chance; by name."""
    heat = ("--campaign", "heat-pump")
    out, err = ran("query", "shares", *heat, "--at", AT, "--label", "north", capsys=capsys)
    assert re.search(r"^on +0\.\d+ +0\.\d+ to [01]\.\d+ +all at once: ", out, re.M)
    assert "commonest: on, off" in out
    assert "3-LDP" in err
    out, _ = ran("query", "shares", "--campaign", "power-bins", "--quantile", "0.5", capsys=capsys)
    assert "quantile 0.5             1000 to 2000" in out
    assert re.search(r"^from 3000 +0\.\d+", out, re.M)
    power = ("--campaign", "power")
    sides = ("label=south", "label=north")
    out, err = ran("query", "difference", *sides, *power, capsys=capsys)
    assert "above zero with 100.0 %" in out
    assert "1-LDP for a device" in err
    out, _ = ran("query", "difference", *sides, *power, "--json", capsys=capsys)
    assert json.loads(out)["schema"] == "rase/difference/1"
    out, _ = ran("query", "shares", *heat, "--at", AT, "--json", capsys=capsys)
    assert json.loads(out)["schema"] == "rase/shares/1"
    out, _ = ran(
        "query", "avg", *heat, "--at", AT, "--label", "south", "--category", "off", capsys=capsys
    )
    assert out.startswith(f"{AT}  0.")
    _, err = ran("query", "shares", *heat, capsys=capsys, exit_code=5)
    assert "too few devices reported" in err
    _, err = ran("query", "difference", "label", "x=1", capsys=capsys, exit_code=2)
    assert "FIRST must be a list such as label=north" in err
    _, err = ran("query", "avg", *heat, capsys=capsys, exit_code=4)
    assert "category must be one of on, off, other" in err
