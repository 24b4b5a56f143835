"""The report: one self-contained HTML file, with CSV, SVG and PNG files next to it."""

import csv
import html
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rase.answer import without_infinities
from rase.atomic_files import write_atomic
from rase.errors import DataError
from rase.lab.experiments.study import Check, Row, Study

__all__ = [
    "STYLE",
    "as_document",
    "inline_svg",
    "keep_study",
    "kept_studies",
    "report_html",
    "write_report",
]

_SCHEMA = "rase.lab.study/1"
_ROWS_SHOWN = 40
STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--soft:#57606a;--line:#d0d7de;
--card:#f6f8fa;--good:#116329;--bad:#a40e26;--link:#0550ae}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--soft:#9da7b3;--line:#30363d;
--card:#161b22;--good:#56d364;--bad:#ff9492;--link:#79c0ff}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:66rem;padding:1.5rem;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,sans-serif}
a{color:var(--link)}h1{font-size:1.7rem;margin:.2rem 0}h2{font-size:1.25rem;margin:0}
section{border-top:1px solid var(--line);margin-top:2.2rem;padding-top:1.2rem}
.where{color:var(--soft);margin:.1rem 0 .8rem}
figure{margin:0;background:#fff;border:1px solid var(--line);border-radius:8px;padding:.6rem;
overflow-x:auto}
figure svg{max-width:100%;height:auto;display:block;margin:auto}
figcaption{color:#444;font-size:.88rem;padding:.4rem .3rem 0}figcaption a{color:#0550ae}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.35rem 1rem;margin:1rem 0}
dt{font-weight:600}dd{margin:0}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{border-bottom:1px solid var(--line);padding:.25rem .6rem;text-align:right;white-space:nowrap}
th:first-child,td:first-child,.text{text-align:left}
.scroll{overflow-x:auto}
.tall{max-height:30rem}
ul.checks{list-style:none;padding:0;margin:.3rem 0}.holds{color:var(--good)}.fails{color:var(--bad)}
summary{cursor:pointer;margin:.5rem 0}
code{background:var(--card);padding:.1rem .3rem;border-radius:4px;overflow-wrap:anywhere}
@media(max-width:40rem){dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
"""


def keep_study(study: Study, folder: Path) -> None:
    """Write a study as JSON and CSV, and its picture as SVG and PNG, under its name.

    Args:
        study: The study, with its picture.
        folder: Where; it must exist.

    Raises:
        ValueError: If the study has no picture.
        OSError: If a file cannot be written.
    """
    from rase.lab.plots import draw_picture

    if study.picture is None:
        raise ValueError(f"the study {study.name} must have a picture, got none.")
    vectors, pixels = draw_picture(study.picture)
    document = json.dumps({"schema": _SCHEMA, **as_document(study)}, indent=1, ensure_ascii=False)
    # The study itself comes last: whoever finds it finds its pictures too.
    for ending, content in (
        ("csv", _csv(study.rows)),
        ("png", pixels),
        ("svg", vectors),
        ("json", document + "\n"),
    ):
        write_atomic(folder / f"{study.name}.{ending}", content)


def kept_studies(folder: Path) -> list[tuple[Study, str]]:
    """Read back the studies of a folder with their pictures as SVG, in the order of the paper.

    Raises:
        DataError: If there is no study, or a file is damaged.
    """
    from rase.lab.experiments.registry import EXPERIMENTS

    found = []
    for name in EXPERIMENTS:
        path = folder / f"{name}.json"
        if not path.is_file():
            continue
        try:
            study = _study(json.loads(path.read_text(encoding="utf-8")))
            found.append((study, (folder / f"{name}.svg").read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} cannot be read as a study; run rase lab run {name} again."
            ) from error
    if not found:
        raise DataError(f"there are no studies in {folder}; rase lab run all makes them.")
    return found


def write_report(folder: Path) -> Path:
    """Write the report of all studies kept in a folder; return its path.

    Raises:
        DataError: If there is no study.
        OSError: If the report cannot be written.
    """
    path = folder / "report.html"
    write_atomic(path, report_html(kept_studies(folder)))
    return path


def as_document(study: Study) -> dict[str, Any]:
    """Return a study as plain values that JSON can hold, without its picture."""
    document = {
        field.name: getattr(study, field.name)
        for field in fields(study)
        if field.name not in {"picture", "rows", "checks"}
    }
    return {
        **document,
        "choices": dict(study.choices),
        "checks": [asdict(check) for check in study.checks],
        "rows": without_infinities(study.rows),
    }


def report_html(studies: Sequence[tuple[Study, str]]) -> str:
    """Return the report as one self-contained HTML document.

    Args:
        studies: Each study with its picture as SVG.
    """
    claims = [check for study, _ in studies for check in study.checks]
    held = sum(check.holds for check in claims)
    sections = "\n".join(_section(study, svg) for study, svg in studies)
    sources = sorted({f"{study.data} (SHA-256 {study.checksum[:16]}…)" for study, _ in studies})
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>RASE: the evaluation again</title><style>{STYLE}</style></head><body>
<h1>The evaluation of the RASE paper, again</h1>
<p>{len(studies)} figures and tables; {held} of {len(claims)} checked claims hold. Claims marked
<em>departure</em> are ones the paper would deny.</p>
<p>Readings: {_text("; ".join(sources))}.</p>
<nav aria-label="Contents"><div class="scroll"><table>
<thead><tr><th>figure</th><th class="text">what it shows</th><th>claims that hold</th></tr></thead>
<tbody>{"".join(_contents_row(study) for study, _ in studies)}</tbody></table></div></nav>
<main>
{sections}
</main></body></html>
"""


def _contents_row(study: Study) -> str:
    held = sum(check.holds for check in study.checks)
    mark = "holds" if study.is_reproduced else "fails"
    return (
        f'<tr><td>{_text(study.figure)}</td><td class="text"><a href="#{study.name}">'
        f'{_text(study.title)}</a></td><td class="{mark}">{held} of {len(study.checks)}</td></tr>'
    )


def _section(study: Study, svg: str) -> str:
    chance = "" if study.chance is None else f" Chance is {100 * study.chance:.2f} %."
    choices = "".join(
        f"<dt>{_text(name)}</dt><dd>{_text(choice)}</dd>" for name, choice in study.choices.items()
    )
    return f"""<section id="{study.name}" aria-labelledby="{study.name}-title">
<h2 id="{study.name}-title">{_text(study.title)}</h2>
<p class="where">{_text(study.figure)}</p>
<figure>{inline_svg(svg, study.name, study.title)}
<figcaption>{_text(study.title)}.{chance} <a href="{study.name}.csv">CSV</a>
<a href="{study.name}.png">PNG</a> <a href="{study.name}.svg">SVG</a></figcaption></figure>
<dl><dt>The paper says</dt><dd>{_text(study.paper_says)}</dd>
<dt>We measured</dt><dd>{_text(study.measured)}</dd>
<dt>Why they differ</dt><dd>{_text(study.why)}</dd></dl>
<ul class="checks">{"".join(_check(check) for check in study.checks)}</ul>
<details><summary>Table</summary>{_table(study)}</details>
<details><summary>What the paper leaves open, and what was taken</summary>
<dl>{choices}</dl></details>
<p><code>{_text(study.command)}</code><br>seed {study.seed}, trials {study.trials}, data
{_text(study.data)}, SHA-256 <code>{study.checksum}</code>, code <code>{study.code}</code></p>
</section>"""


def _check(check: Check) -> str:
    mark, word = ("holds", "✓ holds:") if check.holds else ("fails", "✗ fails:")
    departure = " <em>(departure)</em>" if check.is_departure else ""
    return f'<li><span class="{mark}">{word}</span> {_text(check.claim)}{departure}</li>'


def _table(study: Study) -> str:
    columns = list(study.rows[0]) if study.rows else []
    head = "".join(f"<th>{_text(name.replace('_', ' '))}</th>" for name in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{_text(_format_value(row[name]))}</td>" for name in columns)
        + "</tr>"
        for row in study.rows[:_ROWS_SHOWN]
    )
    more = (
        f"<p>The first {_ROWS_SHOWN} of {len(study.rows)} rows; all are in {study.name}.csv.</p>"
        if len(study.rows) > _ROWS_SHOWN
        else ""
    )
    return (
        f'<div class="scroll tall"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
        f"</div>{more}"
    )


def inline_svg(svg: str, name: str, title: str) -> str:
    """Make a picture part of a page: no prologue, no fixed size, names that are its own."""
    body = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    body = re.sub(r'\b(id=")', rf"\1{name}-", body)
    body = re.sub(r"(url\(#|href=\"#)", rf"\1{name}-", body)
    head, rest = body.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    width = re.search(r'viewBox="0 0 ([\d.]+)', head)
    size = f' width="{math.ceil(float(width[1]))}"' if width else ""
    return f'{head}{size} role="img" aria-label="{html.escape(title)}">{rest}'


def _format_value(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _text(text: str) -> str:
    return html.escape(text, quote=True)


def _csv(rows: Iterable[Row]) -> str:
    file = io.StringIO(newline="")
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
    return file.getvalue()


def _study(document: Mapping[str, Any]) -> Study:
    if document["schema"] != _SCHEMA:
        raise ValueError(f"schema must be {_SCHEMA}, got {document['schema']!r}.")
    fields = {name: value for name, value in document.items() if name != "schema"}
    return Study(
        **{
            **fields,
            "rows": tuple(fields["rows"]),
            "checks": tuple(Check(**check) for check in fields["checks"]),
        }
    )
