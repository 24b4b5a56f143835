"""The files of the repository's host say what the project does: targets, pins and versions."""

import re
import tomllib
from pathlib import Path

import rase

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TEXTS = {path.name: path.read_text("utf-8") for path in WORKFLOWS}


def test_workflows_run_targets_that_exist() -> None:
    """What a workflow runs can be run by hand: every make in them is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    steps = [line for text in TEXTS.values() for line in text.splitlines() if "run: " in line]
    run = {name for line in steps for name in re.findall(r"\bmake ([a-z-]+)", line)}
    run -= {"make"}
    assert (
        {"actionlint", "unit", "floors", "packaging", "release", "docs", "images"} <= run <= targets
    )
    assert "- run: .ci/run" in TEXTS["tests.yml"]
    assert "make test" in (ROOT / ".ci/run").read_text("utf-8")  # with CI set it lints, too


def test_what_others_wrote_is_pinned() -> None:
    """Actions are named by commit, with their version, and images by digest."""
    for name, text in TEXTS.items():
        for used in re.findall(r"uses: (.+)", text):
            is_own = used.startswith("./")
            assert is_own or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", used), (name, used)
        for image in re.findall(r"container: (.+)", text):
            assert re.fullmatch(r"[\w.:/-]+@sha256:[0-9a-f]{64}", image), (name, image)


def test_only_the_release_may_write() -> None:
    """Every workflow begins without rights; only publishing asks for more than to read."""
    for name, text in TEXTS.items():
        assert re.search(r"^permissions: \{\}$", text, re.MULTILINE), name
        assert ("write" in re.findall(r": (write)\b", text)) is (name == "release.yml"), name
    release = TEXTS["release.yml"]
    assert "environment: pypi" in release
    assert "secrets." not in "".join(TEXTS.values())


def test_one_version() -> None:
    """Package, program and citation have the same version, and the changelog a chapter for it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == rase.__version__
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {rase.__version__}\n" in citation
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert headings[:2] == ["Unreleased", rase.__version__]


def test_every_python_that_is_promised_is_tested() -> None:
    """The classifiers name no version that the workflow leaves out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)'", str(project["classifiers"]))
    tested = re.findall(r'"(3\.\d+)"', TEXTS["tests.yml"].split("python: [")[1].split("]")[0])
    assert named
    assert set(named) <= set(tested)
