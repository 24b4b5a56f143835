"""Pictures and pages of ``rase run``, and the three lines that close it."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from rase.cli import main

HOURS = 24


def table(path: Path, *, without: int | None = None, seed: int = 1) -> Path:
    """Write a day of 60 devices whose mean swings from 30 to 70, maybe without an hour."""
    rng = np.random.default_rng(seed)
    lines = ["time,device,value"]
    for hour in range(HOURS):
        if hour != without:
            mean = 50 + 20 * np.sin(2 * np.pi * hour / 24)
            readings = mean + rng.uniform(-10, 10, size=60)
            stamp = f"2024-05-01T{hour:02}:00:00Z"
            lines += [f"{stamp},<b>{number}</b>,{one:.3f}" for number, one in enumerate(readings)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


ASKED = ("--range", "0", "100", "--epsilon", "2", "--every", "1h")


def ran(*arguments: object, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run a command that must succeed and return what it said."""
    assert main(["run", *map(str, arguments)]) == 0
    return capsys.readouterr().err.splitlines()


class Parsed(HTMLParser):
    """Collect the addresses a page would fetch, and check that its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close it."""
        assert self.open.pop() == tag


def test_a_page_needs_no_other_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Picture, rounds, promises and verdict stand in one file that fetches nothing."""
    page, plot = tmp_path / "o.html", tmp_path / "o.png"
    place = table(tmp_path / "t.csv", without=7)
    said = ran(
        *(place, *ASKED, "--seed", 1, "--truth", "--window", 4, "--html", page, "--plot", plot),
        capsys=capsys,
    )
    assert f"drawn     {plot}" in said
    text = page.read_text(encoding="utf-8")
    parsed = Parsed()
    parsed.feed(text)
    assert not parsed.open
    assert all(address.startswith("#") for address in parsed.fetched)
    assert "http" not in re.sub(r"http://www\.w3\.org/[^\"]*", "", text)
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert text.count("<tr>") == 1 + 23 + 20
    for words in (
        "What it says",
        "differ by more than their noise",
        "2-LDP per report",
        "Seeded noise: for study only",
        ">truth</text>",
        "2024-05-01T23:00:00Z",
    ):
        assert words in text
    for one in said[-3:]:
        assert one.split(None, 1)[1].replace("'", "&#x27;") in text


def test_long_runs_leave_rows_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page shows so many rows and says how many it leaves out; SVG is drawn as text."""
    monkeypatch.setattr("rase.cli.run_page._ROWS_SHOWN", 5)
    page, plot = tmp_path / "o.html", tmp_path / "o.svg"
    ran(table(tmp_path / "t.csv"), *ASKED, "--html", page, "--plot", plot, capsys=capsys)
    text = page.read_text(encoding="utf-8")
    assert "19 more rows are left out" in text
    assert "Seeded" not in text
    assert b"</svg>" in plot.read_bytes()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--plot", "o.gif"), "--plot must end in .png or .svg"),
        (("--html", "o.txt"), "--html must end in .html or .htm"),
        (("--html", "none/o.html"), "must be a file in a folder that exists"),
        (("--plot", "o.png", "--trials", "2", "--seed", "1"), "show one run, not --trials"),
    ],
)
def test_refused_before_anything_is_drawn(
    asked: tuple[str, ...],
    message: str,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Places that cannot be written are refused before the table is read."""
    monkeypatch.chdir(tmp_path)
    assert main(["run", "none.csv", *ASKED, *asked]) == 2
    assert message in capsys.readouterr().err


def test_the_end_is_three_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it says, how sure, what was promised; the rest is asked for with --details."""
    place = table(tmp_path / "t.csv")
    said = ran(place, *ASKED, capsys=capsys)
    assert [line.split()[0] for line in said] == ["says", "sure", "promised"]
    assert "The mean over the 24 rounds is " in said[0]
    assert "A device sent up to 24 reports: together epsilon 48." in said[2]
    longer = ran(place, *ASKED, "--details", capsys=capsys)
    assert {"read", "noise", "privacy", "budget", "publish", "shuffle"} <= {
        line.split()[0] for line in longer
    }
    (tmp_path / "one.csv").write_text("value\n5\n7\n120\n")
    said = ran(tmp_path / "one.csv", "--range", 0, 100, "--epsilon", 2, capsys=capsys)
    assert re.search(r"The mean is -?[\d.]+ \(95 %: ", said[-3])
    assert "is for readings clipped to the range: 33 % were." in said[-2]
    (tmp_path / "one.csv").write_text("value\n5\n")
    asked = (tmp_path / "one.csv", *ASKED[:5], "--estimator", "sample_mean")
    assert "is not known: it has too few reports." in ran(*asked, capsys=capsys)[-2]
    said = ran(place, *ASKED, "--estimator", "median", capsys=capsys)
    assert "A round's lies between " in said[-3]
    withheld = ("--shuffled-epsilon", 1, "--k-min", 99)
    plot = ("--plot", tmp_path / "o.png")
    said = ran(place, *ASKED[:3], *withheld, *ASKED[5:], *plot, capsys=capsys)
    assert "Nothing: every round was withheld." in said[-3]
    both = (
        "towards the fusion centre: (5.44, 1e-06)-DP; if both servers work together: epsilon 38.3."
    )
    assert f"A device sent up to 24 reports: {both}" in said[-1]
    assert not any(line.startswith("drawn") for line in said)


def test_the_mean_of_the_table_is_covered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The interval of the mean over all rounds holds the truth as often as it says."""
    rows = [f"2024-05-01T0{hour}:00:00Z,{n},{n}" for hour in range(4) for n in range(0, 100, 4)]
    (tmp_path / "t.csv").write_text("time,device,value\n" + "\n".join(rows) + "\n")
    held = 0
    for seed in range(120):
        said = ran(tmp_path / "t.csv", *ASKED, "--seed", seed, capsys=capsys)[-3]
        found = re.search(r"95 %: (-?[\d.]+) to (-?[\d.]+)", said)
        assert found is not None
        held += float(found[1]) <= 48 <= float(found[2])
    # Of 120 fixed seeds: 95 % on average; at 80 % this many would be one in 4000.
    assert held >= 107
