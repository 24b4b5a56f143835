"""The API reference is made of the docstrings there are, and leaves no public name out."""

import inspect
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from scripts.api_pages import FOLDER, PARTS, navigation, write_pages

import rase

ROOT = Path(__file__).parents[2]
# Not of `from rase import`, but named on the page of Python names.
OTHERS = ("answer.Answer", "subscriber.client.Subscriber", "testing.check_randomizer")


def test_every_public_name_has_its_signature_and_words(tmp_path: Path) -> None:
    """A heading, how it is called, its first sentence, its arguments; methods and examples, too."""
    pages = write_pages(ROOT, tmp_path)
    assert len(pages) == len(PARTS)
    text = "\n".join(page.read_text("utf-8") for page in pages)
    for name in [*rase.__all__, *OTHERS]:
        heading = re.search(rf"^## (class|function) `rase\.{re.escape(name)}` ", text, re.M)
        assert heading, name
        described = text[heading.end() :].partition("\n## ")[0]
        short = name.rpartition(".")[2]
        parameters = [] if "." in name else _parameters(getattr(rase, name))
        assert not parameters or f"```python\n{short}(" in described, name
        for parameter in parameters:
            assert re.search(rf"\b{parameter}\b", described), (name, parameter)
        assert re.search(r"^[A-Z][\w ,;:'`-]+", described, re.M), name
    mean = text.partition("## function `rase.unbiased_mean` ")[2].partition("\n## ")[0]
    assert "randomizer: RangeRandomizer," in mean
    assert "- `randomizer`: The mechanism they come from." in mean
    assert "**Raises**\n\n- `" in mean
    assert "### `Range.width` {#rase.Range.width}" in text
    assert re.search(r"\*\*Example\*\*\s+```pycon\n>>> ", text)
    assert "From `RangeRandomizer`: " in text
    # Nothing is described that is not public.
    assert not re.search(r"^#+ .*`\w+\._", text, re.M)


def _parameters(called: Any) -> list[str]:
    """Return what a function or class takes; nothing for what is only raised or returned."""
    is_class = inspect.isclass(called)
    if is_class and (issubclass(called, Exception | list) or inspect.isabstract(called)):
        return []
    found = inspect.signature(called).parameters
    return [name for name in found if name not in ("args", "kwargs", "iterable")]


def test_the_navigation_leads_to_every_page() -> None:
    """Pages stand behind that of the names; without that the site is refused."""
    settings = navigation((ROOT / "mkdocs.yml").read_text("utf-8"))
    listed = re.findall(r": reference/api/(\S+\.md)$", settings, re.MULTILINE)
    assert len(listed) == len(set(listed)) == len(PARTS)
    with pytest.raises(ValueError, match="must list the page of Python names"):
        navigation("nav: []")


def test_an_older_version_lacks_what_is_newer(tmp_path: Path) -> None:
    """The site of an older version is built although names are missing in it."""
    (tmp_path / "src/rase").mkdir(parents=True)
    shutil.copy(ROOT / "src/rase/errors.py", tmp_path / "src/rase")
    (tmp_path / "src/rase/__init__.py").write_text(
        '_HOMES = {"rase.errors": "DataError", "rase.domain": "Range"}\n', encoding="utf-8"
    )
    write_pages(tmp_path, tmp_path)
    assert "`rase.DataError`" in (tmp_path / FOLDER / "errors.md").read_text("utf-8")
    assert "`rase.Range`" not in (tmp_path / FOLDER / "ranges-and-randomness.md").read_text("utf-8")
