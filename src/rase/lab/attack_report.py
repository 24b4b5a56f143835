"""The report of an attack study: one self-contained HTML file, and its table as CSV."""

import csv
import html
import io
from collections.abc import Mapping, Sequence
from typing import Any

from rase.lab.pictures import Chart, Level, Line, Picture
from rase.lab.report import STYLE, inline_svg

__all__ = ["attack_csv", "attack_report"]


def attack_report(study: Mapping[str, Any], *, code: str) -> str:
    """Return the report as one self-contained HTML document.

    Args:
        study: What `rase.lab.attack_study.attack_study` returned.
        code: The version of the code.
    """
    plan, chance = study["plan"], study["chance"]
    sections = "\n".join(_section(study, attack) for attack in plan["attacks"])
    settings = {name: value for name, value in plan.items() if name not in ("attacks", "schemes")}
    pairs = "".join(
        f"<dt>{_text(name)}</dt><dd>{_text(one)}</dd>" for name, one in settings.items()
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>RASE: attacks</title><style>{STYLE}</style></head><body>
<h1>Attacks on {_text(study["data"])}</h1>
<p>{len(study["devices"])} devices, {study["rounds"]} rounds. Chance, what blind guessing achieves,
is {100 * chance:.2f} %. Noise was seeded: for study only, it protects nobody.</p>
{_summary(study)}
<main>
{sections}
</main>
<section><h2>Settings</h2><dl>{pairs}<dt>code</dt><dd>{_text(code)}</dd></dl></section>
</body></html>
"""


def attack_csv(study: Mapping[str, Any]) -> str:
    """Return one line for each attack, scheme and device."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["attack", "scheme", "device", "recall", "precision", "chance"])
    for found in study["results"]:
        for device, recall, precision in zip(
            study["devices"], found["device_recall"], found["device_precision"], strict=True
        ):
            writer.writerow(
                [
                    found["attack"],
                    found["scheme"],
                    _harmless(device),
                    "" if recall is None else recall,
                    "" if precision is None else precision,
                    study["chance"],
                ]
            )
    return file.getvalue()


def _summary(study: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><td>{_text(one["attack"])}</td><td class="text">{_text(one["scheme"])}</td>'
        f"<td>{_percent(one['recall'])}</td><td>{_percent(one['precision'])}</td>"
        f"<td>{one['recall']['value'] / study['chance']:.2f}</td><td>{one['records']}</td>"
        f'<td class="text">{"yes" if one["is_above_chance"] else "no"}</td></tr>'
        for one in study["results"]
    )
    return (
        '<div class="scroll"><table><thead><tr><th>attack</th><th class="text">scheme</th>'
        "<th>recall (95 %)</th><th>precision (95 %)</th><th>times chance</th><th>records</th>"
        f'<th class="text">above chance</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _section(study: Mapping[str, Any], attack: str) -> str:
    from rase.lab.plots import draw_picture

    found = [one for one in study["results"] if one["attack"] == attack]
    charts = tuple(_chart(one, study["chance"]) for one in found)
    svg = draw_picture(Picture(charts, columns=1))[0].decode()
    title = f"Precision and recall of {attack}, device by device"
    return (
        f'<section aria-labelledby="{attack}"><h2 id="{attack}">{_text(attack)}</h2>'
        f"<figure>{inline_svg(svg, attack, title)}<figcaption>{title}.</figcaption></figure>"
        f"<details><summary>Table</summary>{_table(study, found)}</details></section>"
    )


def _chart(one: Mapping[str, Any], chance: float) -> Chart:
    def dots(label: str, shares: Sequence[float | None]) -> Line:
        places = [place for place, share in enumerate(shares, start=1) if share is not None]
        return Line(
            label,
            x=tuple(map(float, places)),
            y=tuple(100 * share for share in shares if share is not None),
            style="dots",
        )

    return Chart(
        one["scheme"],
        "device",
        "per cent",
        (dots("precision", one["device_precision"]), dots("recall", one["device_recall"])),
        levels=(Level(100 * chance, "chance"),),
        y_limits=(-4.0, 104.0),
    )


def _table(study: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(
        f"<th>{_text(one['scheme'])} recall</th><th>{_text(one['scheme'])} precision</th>"
        for one in found
    )
    rows = []
    for place, device in enumerate(study["devices"]):
        cells = "".join(
            f"<td>{_share(one['device_recall'][place])}</td>"
            f"<td>{_share(one['device_precision'][place])}</td>"
            for one in found
        )
        rows.append(f"<tr><td>{_text(device)}</td>{cells}</tr>")
    return (
        f'<div class="scroll tall"><table><thead><tr><th>device</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _percent(share: Mapping[str, float]) -> str:
    low, high = 100 * share["low"], 100 * share["high"]
    return f"{100 * share['value']:.1f} % ({low:.1f} to {high:.1f})"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _harmless(name: str) -> str:
    """Return a name that no spreadsheet interprets as a formula."""
    return f"'{name}" if name[:1] in ("=", "+", "-", "@", "\t", "\r") else name


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
