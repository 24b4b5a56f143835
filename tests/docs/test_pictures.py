"""Pictures of the product are of real runs, and say by which command."""

import ast
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs/images"
SCRIPT = ROOT / "scripts/screenshots.py"
MOST_BYTES = 150_000
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def pictures() -> dict[str, Any]:
    """Return the list that is kept with the pictures."""
    found: dict[str, Any] = json.loads((IMAGES / "pictures.json").read_text(encoding="utf-8"))
    return found


def test_every_picture_is_one_that_the_script_took() -> None:
    """A picture from elsewhere has no row, another sum, or not the command inside."""
    rows = pictures()
    there = [*IMAGES.glob("*.png"), *(ROOT / "docs/start").glob("*.png")]
    assert {str(path.relative_to(ROOT)) for path in there} == set(rows)
    for name, row in rows.items():
        path = ROOT / name
        assert hashlib.sha256(path.read_bytes()).hexdigest() == row["sha256"], name
        with Image.open(path) as picture:
            assert picture.info["Source"] == row["command"], name
            assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 20, name
        assert path.stat().st_size <= MOST_BYTES


def test_the_script_runs_the_product_and_no_fixture() -> None:
    """It imports nothing of the tests, and nothing of the package that it could feed with data."""
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
        )
    }
    assert not imported & {"tests", "rase", "sqlite3", "benchmarks"}
    for row in pictures().values():
        assert row["command"].startswith("rase ")


def test_nothing_else_writes_pictures_into_the_docs() -> None:
    """No test and no other script names the folder of pictures as a place to write to."""
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        if path in (SCRIPT, Path(__file__)) or "node_modules" in path.parts:
            continue
        # Drawings are read by the tests of the pages that show them.
        named = re.findall(r"docs/images(?!/[\w-]+\.svg)", path.read_text(encoding="utf-8"))
        assert not named, path


def test_captions_name_the_command() -> None:
    """Wherever a page shows a picture, the line below it says what was run."""
    rows = pictures()
    shown = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"!\[([^\]]*)\]\(([^)]+\.png)\)", text):
            words, target = found.groups()
            name = str((page.parent / target).resolve().relative_to(ROOT))
            if name not in rows:
                continue
            shown.add(name)
            assert len(words) > 20, name
            below = text[found.end() : found.end() + 1500]
            assert f"`{rows[name]['command']}`" in below, (page.name, name)
    assert shown == set(rows)


def test_the_pictures_of_pages_have_one_size() -> None:
    """They stand beside each other in the README."""
    sizes = set()
    for name in pictures():
        if name.startswith("docs/images/"):
            with Image.open(ROOT / name) as picture:
                sizes.add(picture.size)
    assert len(sizes) == 1
