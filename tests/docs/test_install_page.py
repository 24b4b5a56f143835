"""The page on installing: it names every extra, and no other page sends people to an index."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/start/install.md"
OTHERS = [ROOT / "README.md", *sorted(set(ROOT.glob("docs/**/*.md")) - {PAGE})]


def test_every_extra_is_in_the_table() -> None:
    """Whoever looks for what to install finds each extra of the package, and no other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(set(project["optional-dependencies"]) - {"dev"})


def test_no_page_installs_what_no_index_has() -> None:
    """Pages install from a clone, with extras that exist; only the page on installing says more."""
    known = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE))
    assert known
    for page in OTHERS:
        text = page.read_text("utf-8")
        assert re.search(r"pip install [^\n]*rase-iot", text) is None, page.name
        named = re.findall(r'"\.\[([\w,]+)\]"', text)
        assert {name for names in named for name in names.split(",")} <= known, page.name
