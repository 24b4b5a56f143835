"""Draw the rooms as import-linter's contract has them: docs/images/rooms.svg.

Usage: python -m scripts.house.picture

A test compares the picture with the contract in pyproject.toml.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

__all__ = ["PICTURE", "draw_rooms", "layers_of", "main"]

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/images/rooms.svg"
_WIDTH, _ROW, _GAP, _MARGIN = 920, 44, 10, 24
_SVG = "http://www.w3.org/2000/svg"
_RULE = "a room imports from the rows below its own, and from no sibling in its row"
# What a layer is for, by one of its rooms.
_DUTIES = {
    "cli": "one file a command",
    "studio": "a local program",
    "dashboard": "pages of the servers",
    "lab": "study and contract checks",
    "device": "the programs",
    "service": "what programs share",
    "wire": "bytes, state, budgets",
    "campaign": "what a fleet agrees to",
    "series": "answers over time",
    "counts": "every estimator",
    "laws": "noise and order",
    "kernels": "words, time, promises",
    "answer": "values",
    "errors": "refusals",
}


def main() -> int:
    """Write the picture."""
    PICTURE.write_text(draw_rooms(layers_of(ROOT / "pyproject.toml")), encoding="utf-8")
    return 0


def layers_of(project: Path) -> list[list[str]]:
    """Return the rooms of each layer, the highest first, as the contract lists them."""
    contracts = tomllib.loads(project.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    [layers] = [one["layers"] for one in contracts if one["type"] == "layers"]
    found = [re.findall(r"\w+", layer) for layer in layers]
    return [rooms for rooms in found if rooms != ["__main__"]]


def draw_rooms(layers: Sequence[Sequence[str]]) -> str:
    """Return the picture: a row for each layer, a box for each room, and what the layer is for."""
    height = 2 * _MARGIN + len(layers) * (_ROW + _GAP) + 8
    font = 'font-family="sans-serif" font-size="13"'
    lines = [
        f'<svg xmlns="{_SVG}" viewBox="0 0 {_WIDTH} {height}" role="img" {font}>',
        "<title>The rooms of the package, in layers</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for row, rooms in enumerate(layers):
        lines += _row(rooms, _MARGIN + row * (_ROW + _GAP))
    end = height - _MARGIN
    lines += [
        f'<path d="M12 {_MARGIN} V{end} m-5 -8 l5 8 l5 -8" fill="none" stroke="#334155"/>',
        f'<text x="24" y="{end + 14}" fill="#334155" font-size="12">{_RULE}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _row(rooms: Sequence[str], top: int) -> list[str]:
    duty = next((_DUTIES[room] for room in rooms if room in _DUTIES), "")
    right, text = 190, top + 27
    width = (_WIDTH - 2 * _MARGIN - right - _GAP * (len(rooms) - 1)) / len(rooms)
    style = f'text-anchor="middle" fill="#111827" font-size="{9 if width < 80 else 13}"'
    look = f'width="{width:g}" height="{_ROW}" rx="6" fill="#eef2ff" stroke="#4f46e5"'
    lines = []
    for number, room in enumerate(rooms):
        left = _MARGIN + number * (width + _GAP)
        lines += [
            f'<rect x="{left:g}" y="{top}" {look}/>',
            f'<text class="room" x="{left + width / 2:g}" y="{text}" {style}>{room}</text>',
        ]
    duty_at = _WIDTH - right + 6
    return [*lines, f'<text x="{duty_at}" y="{text}" fill="#475569">{duty}</text>']


if __name__ == "__main__":
    raise SystemExit(main())
