"""The report: one file that needs nothing else, and its tables and pictures beside it."""

import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rase.errors import DataError
from rase.lab.experiments.study import Check, Study
from rase.lab.pictures import Chart, Line, Picture
from rase.lab.report import keep_study, kept_studies, report_html, write_report

STUDY = Study(
    name="fig5",
    figure="Fig. 5",
    title="Recall <per> device",
    rows=({"scheme": "raw", "recall": 0.5}, {"scheme": "br", "recall": float("nan")}),
    paper_says='It says "78.5 %" & more.',
    measured="We found 50 %.",
    why="Other data.",
    choices={"split": "4:1"},
    checks=(Check("This holds.", True), Check("This does not.", False, is_departure=True)),
    chance=1 / 64,
    command="rase lab run fig5",
    seed=1,
    trials=10,
    data="fleet",
    checksum="ab" * 32,
    code="cd",
    picture=Picture((Chart("t", "x", "y", (Line("raw", [1, 2], [1, 2]),)),)),
)
VOID = {"meta", "br", "path", "use", "image", "rect", "circle", "line", "polygon"}


class Page(HTMLParser):
    """Read a page and note what it opens, closes and points to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag and its attributes."""
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "src", "xlink:href", "action", "srcset"}:
                self.targets.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that closes itself."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Check that tags close in their sequence."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Gather the text."""
        self.text += data


def page_of(text: str) -> Page:
    """Return the page read."""
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    return page


def test_studies_are_kept_and_found(tmp_path: Path) -> None:
    """A study is read back as it was, but for what JSON cannot say."""
    keep_study(STUDY, tmp_path)
    assert sorted(file.suffix for file in tmp_path.iterdir()) == [".csv", ".json", ".png", ".svg"]
    ((study, svg),) = kept_studies(tmp_path)
    rows = ({"scheme": "raw", "recall": 0.5}, {"scheme": "br", "recall": None})
    assert study == replace(STUDY, rows=rows)
    assert svg.startswith("<?xml")
    with (tmp_path / "fig5.csv").open(newline="") as file:
        assert [row["scheme"] for row in csv.DictReader(file)] == ["raw", "br"]
    assert (tmp_path / "fig5.png").read_bytes().startswith(b"\x89PNG")


def test_report_needs_nothing_else(tmp_path: Path) -> None:
    """The page is sound HTML, asks no server for anything, and points only to what is there."""
    keep_study(STUDY, tmp_path)
    keep_study(replace(STUDY, name="fig7", checks=(), chance=None), tmp_path)
    text = write_report(tmp_path).read_text()
    page = page_of(text)
    assert len(page.ids) == len(set(page.ids))
    for target in page.targets:
        if target.startswith("#"):
            assert target[1:] in page.ids
        else:
            assert (tmp_path / target).is_file()
    for reference in re.findall(r"url\((.*?)\)", text):
        assert reference.strip("#") in page.ids
    assert "default-src 'none'" in text
    assert "<script" not in text


def test_report_says_everything(tmp_path: Path) -> None:
    """Each figure comes with both sides, the reason, choices, claims, chance and how to repeat."""
    keep_study(STUDY, tmp_path)
    page = page_of(write_report(tmp_path).read_text())
    for said in (
        STUDY.title,
        STUDY.paper_says,
        STUDY.measured,
        STUDY.why,
        STUDY.command,
        STUDY.checksum,
        "4:1",
        "✓ holds: This holds.",
        "✗ fails: This does not. (departure)",
        "Chance is 1.56 %",
        "1 of 2 checked claims hold",
        "seed 1",
    ):
        assert said in page.text


def test_long_tables_are_cut(tmp_path: Path) -> None:
    """Of a long table the first rows are shown; an empty one is no mistake."""
    long = replace(STUDY, rows=tuple({"day": day} for day in range(100)))
    assert "The first 40 of 100 rows" in report_html([(long, "<svg></svg>")])
    page_of(report_html([(replace(STUDY, rows=()), "<svg></svg>")]))
    keep_study(replace(STUDY, rows=()), tmp_path)
    assert (tmp_path / "fig5.csv").read_text() == ""


def test_no_picture_no_study(tmp_path: Path) -> None:
    """A study without a picture cannot be kept, and leaves nothing."""
    with pytest.raises(ValueError, match="must have a picture"):
        keep_study(replace(STUDY, picture=None), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_report(tmp_path: Path) -> None:
    """A folder without studies is refused."""
    with pytest.raises(DataError, match="there are no studies in"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.uncovered
@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "other/1"}', "{}"])
def test_damaged_studies(tmp_path: Path, content: str) -> None:
    """A file that is no study is refused, with the way out."""
    keep_study(STUDY, tmp_path)
    (tmp_path / "fig5.json").write_text(content)
    with pytest.raises(DataError, match="run rase lab run fig5 again"):
        kept_studies(tmp_path)


def test_missing_pictures(tmp_path: Path) -> None:
    """A study whose picture is gone is refused too."""
    keep_study(STUDY, tmp_path)
    (tmp_path / "fig5.svg").unlink()
    with pytest.raises(DataError, match="fig5"):
        kept_studies(tmp_path)


def test_documents_are_plain(tmp_path: Path) -> None:
    """The JSON of a study is strict: no NaN, and a schema."""
    keep_study(STUDY, tmp_path)
    text = (tmp_path / "fig5.json").read_text()
    assert json.loads(text)["schema"] == "rase.lab.study/1"
    assert "NaN" not in text
