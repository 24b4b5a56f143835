"""Spreadsheets are read like the text table of the same cells, or refused with the way out."""

import io
import sys
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables.test_dialects import rows_of

from rase.errors import DataError
from rase.tables.columns import Hints
from rase.tables.files import find_files
from rase.tables.source import TableSource, open_source

Cell = str | float | None
# A day, as spreadsheets count them from the end of 1899 on, and what a cell wears that shows one.
MARCH_31, MARCH_31_MS = 45_382.0, 1_711_843_200_000
HOUR_MS = 3_600_000
DAY_STYLE = 1
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_ODS = "urn:oasis:names:tc:opendocument:xmlns"


def xlsx(sheets: dict[str, list[list[Cell]]], *, times: bool = True) -> bytes:
    """Return a workbook as a spreadsheet program packs it; the first column wears dates."""
    names = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{number}" r:id="rId{number}"/>'
        for number, name in enumerate(sheets, 1)
    )
    links = "".join(
        f'<Relationship Id="rId{number}" Type="{_OFFICE}/worksheet" '
        f'Target="worksheets/sheet{number}.xml"/>'
        for number in range(1, len(sheets) + 1)
    )
    files = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/'
        'content-types"><Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{names}'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}">{links}<Relationship '
        f'Id="rId99" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><cellXfs><xf numFmtId="0"/>'
        '<xf numFmtId="22"/></cellXfs></styleSheet>',
    }
    for number, rows in enumerate(sheets.values(), 1):
        written = "".join(
            "<row>" + "".join(_cell(cell, column, times=times) for column, cell in enumerate(row))
            + "</row>"
            for row in rows
        )  # fmt: skip
        files[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{_MAIN}"><sheetData>{written}</sheetData></worksheet>'
        )
    return packed(files)


def _cell(cell: Cell, column: int, *, times: bool) -> str:
    if cell is None:
        return "<c/>"
    if isinstance(cell, str):
        return f'<c t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
    return f'<c s="{DAY_STYLE if column == 0 and times else 0}"><v>{cell!r}</v></c>'


def packed(files: dict[str, str]) -> bytes:
    """Return files as an archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def opened(folder: Path, content: bytes, hints: Hints | None = None) -> TableSource:
    """Write a workbook and open it; its name does not matter."""
    path = folder / "book"
    path.write_bytes(content)
    return open_source(find_files(str(path), hints=hints))


LONG: list[list[Cell]] = [
    ["Time", "Device", "Value", None],
    [MARCH_31 + 1 / 24, "a", 12.5, None],
    [None, None, None, None],
    [MARCH_31 + 2 / 24, "b", "NA", None],
]
LONG_ROWS = [(MARCH_31_MS + HOUR_MS, "a", 12.5), (MARCH_31_MS + 2 * HOUR_MS, "b", None)]


def test_a_workbook_of_excel(tmp_path: Path) -> None:
    """Cells that show a date are times, an empty row and column are none, NA is nothing."""
    source = opened(tmp_path, xlsx({"Readings": LONG, "Empty": []}))
    assert rows_of(source) == rows_of(source) == LONG_ROWS
    assert f"sheet 'Readings' of {tmp_path}/book is read." in source.notes
    zoned = opened(tmp_path, xlsx({"Readings": LONG}), Hints(timezone="+02:00"))
    assert rows_of(zoned)[0][0] == MARCH_31_MS - HOUR_MS


def test_a_sheet_of_libreoffice(tmp_path: Path) -> None:
    """OpenDocument is read as well, numbers as names of devices and decimal commas too."""
    cells = [["id", "kWh"], ["1001", "12,5"], ["1002", "1.200,5"]]
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    rows = "".join(
        f"<table:table-row>{''.join(map(cell.format, row))}</table:table-row>" for row in cells
    )
    kinds = " ".join(f'xmlns:{kind}="{_ODS}:{kind}:1.0"' for kind in ("office", "table", "text"))
    content = packed(
        {
            "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
            "META-INF/manifest.xml": f'<m:manifest xmlns:m="{_ODS}:manifest:1.0"/>',
            "content.xml": f"<office:document-content {kinds}><office:body><office:spreadsheet>"
            f'<table:table table:name="People">{rows}</table:table></office:spreadsheet>'
            "</office:body></office:document-content>",
        }
    )
    assert rows_of(opened(tmp_path, content)) == [(0, "1001", 12.5), (0, "1002", 1200.5)]


def test_layouts_of_sheets(tmp_path: Path) -> None:
    """A sheet may be wide, call devices by whole numbers, or lack times."""
    wide = xlsx({"x": [["time", "h1", "h2"], [MARCH_31, 1.0, 2.0]]})
    assert rows_of(opened(tmp_path, wide)) == [(MARCH_31_MS, "h1", 1.0), (MARCH_31_MS, "h2", 2.0)]
    people = xlsx({"x": [["id", "kWh"], [7.0, 12.5], [8.0, None]]}, times=False)
    assert rows_of(opened(tmp_path, people)) == [(0, "7", 12.5), (0, "8", None)]
    named = xlsx({"x": [["time", "device", 2.0]], "y": LONG})
    assert rows_of(opened(tmp_path, named, Hints(sheet="y"))) == LONG_ROWS


def test_several_workbooks(tmp_path: Path) -> None:
    """Workbooks of one folder are one table; what is none is left out only if that was asked."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.xlsx").write_bytes(xlsx({"x": [["kWh"], [5.5]]}, times=False))
    rows = [(0, "row 1", 5.5), (0, "row 2", 5.5)]
    assert rows_of(open_source(tmp_path)) == rows
    (tmp_path / "c.xlsx").write_bytes(packed({"readings.csv": "kWh\n5\n"}))
    with pytest.raises(DataError, match="an archive that cannot be read as a spreadsheet"):
        open_source(tmp_path)
    source = open_source(tmp_path, skips_bad=True)
    assert (rows_of(source), source.bad) == (rows, 1)
    (tmp_path / "c.xlsx").write_text("kWh\n5\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"mixes spreadsheets \(.*b.xlsx\) and CSV \(.*c.xlsx\)"):
        open_source(tmp_path)


SERIAL: list[list[Cell]] = [["time", "h1", "h2"], [MARCH_31, 1.0, 2.0]]
REFUSED = {
    "sheets 'x', 'y'": (xlsx({"x": LONG, "y": LONG}), "several sheets.*: 'x', 'y'; .* --sheet"),
    "days": (xlsx({"x": SERIAL}, times=False), "spreadsheet's days since 1900 or seconds since"),
    "no rows": (xlsx({"x": [["time", "device", "value"]]}), "holds no rows"),
    "empty": (xlsx({"x": []}), "is empty"),
    "two": (xlsx({"x": [["time", "value", "value"], [1.0, 2.0, 3.0]]}), "2 columns named 'value'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: Path, case: str) -> None:
    """Where two sheets, or days and seconds, could be meant, both are named."""
    content, why = REFUSED[case]
    with pytest.raises(DataError, match=why):
        rows_of(opened(tmp_path, content))


def test_a_sheet_that_is_not_there(tmp_path: Path) -> None:
    """An unknown sheet is refused with those there are, and a missing package by its name."""
    with pytest.raises(DataError, match="no sheet 'z'; it has 'x'"):
        opened(tmp_path, xlsx({"x": LONG}), Hints(sheet="z"))


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the reader of sheets the refusal names the extra and another way."""
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(DataError, match=r"rase-iot\[sheets\].*or save the sheet as CSV"):
        opened(tmp_path, xlsx({"x": LONG}))


@settings(max_examples=60, deadline=None)
@given(
    hours=st.lists(st.integers(1, 400_000), min_size=1, max_size=8),
    readings=st.lists(st.one_of(st.none(), st.integers(-(10**6), 10**6)), min_size=8, max_size=8),
    missing=st.sampled_from([None, "", "NA", "-", "#N/A"]),
)
def test_any_sheet_gives_the_table_back(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    hours: list[int],
    readings: list[int | None],
    missing: str | None,
) -> None:
    """Times to the hour and readings survive being kept as days and cells."""
    table = list(zip(hours, readings, strict=False))
    cells: list[list[Cell]] = [["time", "device", "value"], [MARCH_31, "x", 0.5]]
    cells += [[h / 24 + 20_000, "d", missing if r is None else r / 100] for h, r in table]
    found = rows_of(opened(tmp_path_factory.mktemp("sheet"), xlsx({"x": cells})))
    start = MARCH_31_MS - round((MARCH_31 - 20_000) * 24) * HOUR_MS
    expected = [(start + h * HOUR_MS, "d", None if r is None else r / 100) for h, r in table]
    assert found[1:] == expected
