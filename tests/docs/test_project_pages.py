"""CONTRIBUTING, SECURITY and the pages on data and the Pi say what the files of the project say."""

import json
import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

from rase.lab.refit_recipe import APPLIANCES, CONTENT_SHA256
from rase.lab.sources import SOURCES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
DATA = (ROOT / "docs/guides/data.md").read_text("utf-8")


def page(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / name).read_text("utf-8")


def test_the_picture_of_rooms_is_the_contract() -> None:
    """Each row has the rooms of a layer, in the same order, and no room is left out."""
    (contract,) = (
        one for one in PROJECT["tool"]["importlinter"]["contracts"] if one["type"] == "layers"
    )
    layers = [set(re.findall(r"\((\w+)\)", layer)) for layer in contract["layers"]]
    (picture,) = re.findall(r"^```\n(cli .*?)^```", page("CONTRIBUTING.md"), re.M | re.S)
    drawn = [set(re.split(r"\s{3,}", row)[0].split(" | ")) for row in picture.splitlines()]
    assert drawn == [layer for layer in layers if layer != {"__main__"}]
    found = {
        path.stem
        for path in (ROOT / "src/rase").iterdir()
        if (path.is_dir() or path.suffix == ".py") and not path.name.startswith("_")
    }
    assert set.union(*drawn) == found


def test_no_page_for_reports_is_named_that_has_no_address() -> None:
    """Without an address of the project, the page on security says so and what one can do."""
    text = page("SECURITY.md")
    assert "urls" not in PROJECT["project"]
    assert "There is no published address for reports yet" in text
    assert "on the repository's page" not in text
    # Links lead to files of the repository: whoever reads this may have nothing else.
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert not urlsplit(target).scheme
        assert (ROOT / target).exists()


def test_what_pip_puts_on_a_pi_is_said() -> None:
    """The page names all that pip installs, and the sizes are those of the table."""
    text = page("docs/guides/raspberry-pi.md")
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["mqtt"]]
    names = [re.split(r"[^a-z0-9-]", name.lower())[0] for name in wanted]
    sizes = json.loads(page("requirements/sizes.json"))
    bytes_of = {name.split("==")[0]: size for name, size in sizes.items()}
    for name in (*names, "cffi", "pycparser"):
        assert name in text.lower()
    whole, numpy = re.findall(r"about (\d+) MB that.*?(\d+) MB are NumPy", text, re.S)[0]
    total = sum(bytes_of[name] for name in {*names, "cffi", "pycparser"})
    assert abs(int(whole) - total / 1e6) < 1
    assert abs(int(numpy) - bytes_of["numpy"] / 1e6) < 1
    assert "no NumPy." not in text


def test_the_page_on_data_has_every_appliance_of_the_reproduction() -> None:
    """Which 64, by house and name, and the checksum by which anybody can compare."""
    rows = dict(re.findall(r"^\| (\d+) \| (A\d .*) \|$", DATA, re.MULTILINE))
    named = {
        f"H{int(house):02d}-{one.split()[0]}": one.split(maxsplit=1)[1]
        for house, text in rows.items()
        for one in text.split(", ")
    }
    assert named == {one.device: one.name for one in APPLIANCES}
    assert CONTENT_SHA256 in DATA
    first, last = SOURCES["refit-64x25d"].span
    assert f"the 25 days from {first} to {last}" in DATA


def test_every_measured_data_set_has_its_source_and_licence() -> None:
    """Publications are named with an identifier, and licences are those of the catalogue."""
    for doi in (
        "10.15129/9ab14b0e-19ac-4279-938f-27f643078cec",
        "10.1038/sdata.2016.122",
        "10.24432/C5RK5G",
    ):
        assert f"https://doi.org/{doi}" in DATA
    for name, source in SOURCES.items():
        assert re.search(rf"^\| .*`{name}`.* \| {source.licence} \|$", DATA, re.MULTILINE), name
