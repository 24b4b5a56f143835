"""Documents keep up with the code: examples run, numbers are computed, links lead somewhere."""

import doctest
import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripts.evidence import audit_tables, with_audit

import rase
from rase import (
    BudgetAware,
    Duchi,
    Hybrid,
    Laplace,
    LocalDP,
    Optimal,
    Piecewise,
    Precision,
    Range,
)
from rase.cli.demo import _DAYS, _EPSILON, _HIGH_W, _HOMES
from rase.cli.demo.live import Setting

ROOT = Path(__file__).parents[2]
PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for page in sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
}


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if ">>> " in text])
def test_examples_run(page: str) -> None:
    """Every Python example on the page gives what it shows."""
    # A fence is no output: without the blank line doctest would take it for one.
    test = doctest.DocTestParser().get_doctest(
        PAGES[page].replace("\n```", "\n\n```"), {}, page, page, 0
    )
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.failures == 0


def test_links_lead_somewhere() -> None:
    """Every relative link and picture on every page exists."""
    links = [
        (page, target)
        for page, text in PAGES.items()
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    ]
    assert len(links) > len(PAGES)
    loose = [link for link in links if not (ROOT / link[0]).parent.joinpath(link[1]).exists()]
    assert loose == []


def test_pages_can_be_reached() -> None:
    """Every page is linked from another page, or lies in a folder that is."""
    lost = []
    for page in map(Path, PAGES):
        others = [text for other, text in PAGES.items() if other != str(page)]
        ways = (page.name, f"docs/{page.parent.name})")
        if page.name != "README.md" and not any(way in text for text in others for way in ways):
            lost.append(str(page))
    assert lost == []


def test_every_public_name_is_in_the_reference() -> None:
    """A public name without a line in the reference fails the build."""
    reference = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    assert [name for name in rase.__all__ if f"`{name}" not in reference] == []


def test_every_departure_has_a_test_and_every_such_test_a_row() -> None:
    """Rows of the paper page and marked tests belong together."""
    page = (ROOT / "docs/explain/paper.md").read_text(encoding="utf-8")
    rows = {int(row) for row in re.findall(r"\*\*Row (\d+)\.", page)}
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    marked = {int(row) for row in re.findall(r"departure\(row=(\d+)\)", tests)}
    assert rows == set(range(1, 14))
    assert marked == rows


def test_the_noise_page_states_the_variances_the_code_computes() -> None:
    """The tables of mechanisms and of the optimum show what the code computes."""
    text = (ROOT / "docs/explain/noise.md").read_text(encoding="utf-8")
    for row in [*variance_rows(), *optimum_rows()]:
        assert row in text


def variance_rows() -> list[str]:
    """Return the noise page's table of variances."""
    readings, public = np.linspace(0, 1, 1001), Range(0, 1)
    rows = []
    for epsilon in (0.1, 0.5, 1, 2, 4, 8):
        mechanisms = [
            Laplace(epsilon, public),
            BudgetAware(epsilon, public, Precision(beta=0, rho=0.9)),
            Duchi(epsilon, public),
            Piecewise(epsilon, public),
            Hybrid(epsilon, public),
            optimal(epsilon),
        ]
        shown = [f"{mechanism.variance(readings).max():.3g}" for mechanism in mechanisms]
        rows.append(f"| {epsilon:g} | {' | '.join(shown)} |")
    return rows


@cache
def optimal(epsilon: float) -> Optimal:
    """Return the optimal noise for an epsilon, which both tables show."""
    return Optimal(epsilon, Range(0, 1))


def optimum_rows() -> list[str]:
    """Return the noise page's table of optimal channels and their lower bounds."""
    rows = []
    for epsilon in (0.25, 0.5, 1, 2, 4, 6, 8):
        noise = optimal(epsilon)
        worst = float(noise.variance(np.linspace(0, 1, 1001)).max())
        bound = noise.lower_bound()
        gap = 100 * (worst / bound - 1)
        rows.append(f"| {epsilon:g} | {bound:.5g} | {worst:.5g} | {gap:.2g} % |")
    return rows


def test_every_promise_of_the_threat_model_names_tests_that_exist() -> None:
    """A row of promises without a test, or with one that is gone, fails the build."""
    page = (ROOT / "docs/explain/threat-model.md").read_text(encoding="utf-8")
    sections = re.split(r"^\| promised \| test \|$", page, flags=re.MULTILINE)[1:]
    assert len(sections) >= 7
    promises = [
        row.strip("|").split("|")
        for section in sections
        for row in section.split("\n\n", 1)[0].splitlines()
        if row.startswith("| ")
    ]
    assert len(promises) > 30
    for promise, tests in promises:
        named = re.findall(r"`(tests/[^`]+)`", tests)
        assert named, promise
        for test in named:
            file, _, function = test.partition("::")
            source = (ROOT / file).read_text(encoding="utf-8")
            assert f"\ndef {function}(" in source, test


def test_every_test_that_a_page_names_is_there() -> None:
    """A page that points to a test which has moved away proves nothing."""
    named = [
        (page, file)
        for page, text in PAGES.items()
        for file in re.findall(r"\b(tests/[\w/]+\.py)\b", text)
    ]
    assert len(named) > 50
    assert [one for one in named if not (ROOT / one[1]).is_file()] == []


def test_the_audit_page_states_the_bounds_that_were_measured() -> None:
    """Its tables are the kept results of the audit, which broke no claim."""
    document = evidence("audit")
    assert document["broken"] == 0
    assert all(row["lower_bound"] <= row["claim"] for row in document["results"])
    text = (ROOT / "docs/explain/audit.md").read_text(encoding="utf-8")
    for row in (row for table in audit_tables(document) for row in table[2:]):
        assert row in text
    assert with_audit(text, document) == text


def test_the_page_on_lying_devices_states_what_was_measured() -> None:
    """Its table is the kept study, whose claims all hold."""
    study = evidence("poisoning")
    assert all(check["holds"] for check in study["checks"])
    text = (ROOT / "docs/explain/poisoning.md").read_text(encoding="utf-8")
    for row in poisoning_rows(study):
        assert row in text


def evidence(name: str) -> dict[str, Any]:
    """Return results that are kept with the documents."""
    path = ROOT / "docs/evidence" / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def poisoning_rows(study: dict[str, Any]) -> list[str]:
    """Return the table of shifts, bounds and honest errors."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in study["rows"]:
        found.setdefault((row["mechanism"], row["estimator"]), {})[row["liars"]] = row
    rows = []
    for (mechanism, kept_as), by_liars in found.items():
        # The study may have been made when the estimator had another name.
        estimator = {"auto": "tracked"}.get(kept_as, kept_as)
        cells = [
            f"{plain(by_liars[liars]['shift_percent'])} ({plain(by_liars[liars]['bound_percent'])})"
            for liars in ("one", "1 %", "10 %")
        ]
        honest = by_liars["one"]
        cells += [plain(honest[f"honest_{what}_percent"]) for what in ("error", "bias")]
        rows.append(f"| {mechanism} | `{estimator}` | {' | '.join(cells)} |")
    return rows


def plain(number: float) -> str:
    """Return a number to two digits, without an exponent."""
    return f"{number:.0f}" if abs(number) >= 99.5 else f"{number:.2g}"


def test_every_figure_of_the_paper_has_a_row() -> None:
    """The page of the reproduction has a row for each of the paper's tables and figures."""
    page = (ROOT / "docs/explain/reproduction.md").read_text(encoding="utf-8").splitlines()
    numbers = ("5", "6a", "6b", "6c", "6d", "7", "8", "9")
    for figure in ("Table I ", *(f"Fig. {number}" for number in numbers)):
        assert any(row.startswith(f"| {figure}") for row in page), figure


def test_the_readme_is_short() -> None:
    """Somebody reads it to its end: at most 600 words."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 600


SHELVES = ("docs/start/", "docs/guides/", "docs/explain/")


def test_start_pages_and_guides_are_short() -> None:
    """Somebody who sets something up reads to the end: at most 1,500 words."""
    long = {
        page: len(text.split())
        for page, text in PAGES.items()
        if page.startswith(SHELVES[:2]) and len(text.split()) > 1500
    }
    assert long == {}


def test_every_page_ends_where_the_next_begins() -> None:
    """The last paragraph of a page to be read names the one to read after it."""
    ends = {
        page: text.rstrip().rsplit("\n\n", 1)[-1]
        for page, text in PAGES.items()
        # The page on evidence is written from records, and ends with them.
        if page.startswith(SHELVES) and page != "docs/explain/evidence.md"
    }
    assert len(ends) > 50
    assert [page for page, end in ends.items() if not re.match(r"Next: .*\]\(", end)] == []


def test_the_ten_questions_stand_first() -> None:
    """Nothing but two sentences stands before the questions, so all fit the first screen."""
    before, after = PAGES["docs/index.md"].split("## Ten questions", 1)
    assert len(before.split()) < 50
    answers = after.split("\n\n")[1]
    asked = re.findall(r"^\d+\. \*\*[^*]+\?\*\* (.+(?:\n   .+)?)", answers, re.MULTILINE)
    assert len(asked) == 10
    assert all("](" in answer for answer in asked)
    assert len(re.sub(r"\]\([^)]*\)", "", answers).split()) < 240


def test_the_readme_states_what_the_demonstration_promises() -> None:
    """Both promises in the README are those of the demonstration's own setting."""
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    homes, days, high_w, epsilon = _HOMES, _DAYS, _HIGH_W, _EPSILON
    promise = Setting(homes=homes, days=days, high_w=high_w, shuffled_epsilon=epsilon).claim(1)
    # Bounds are rounded up.
    assert f"at most {math.ceil(100 * promise.guess)} % of the time" in text
    sure = math.ceil(1000 * promise.colluding_certainty) / 10
    assert f"could become {sure:g} % sure" in text


def test_the_guide_states_the_odds_the_code_computes() -> None:
    """How sure an observer can become stands below each epsilon."""
    text = (ROOT / "docs/guides/choose-parameters.md").read_text(encoding="utf-8")
    epsilons = (0.5, 1, 2, 4, 8)
    sure = [100 * LocalDP(epsilon).posterior() for epsilon in epsilons]
    assert f"| ε | {' | '.join(f'{epsilon:g}' for epsilon in epsilons)} |" in text
    # Bounds are rounded up, to a tenth, near certainty to a hundredth.
    shown = [
        f"{math.ceil(value * (parts := 100 if value > 99 else 10)) / parts:g} %" for value in sure
    ]
    assert f"| at most | {' | '.join(shown)} |" in text


def test_the_ten_questions_are_two_clicks_away() -> None:
    """The README leads to the questions, and each answer to a page that exists."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/index.md#ten-questions-people-ask-first)" in readme
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    table = index.split("## Ten questions people ask first")[1].split("\n## ")[0]
    questions = re.split(r"^\d+\. ", table.partition("![")[0], flags=re.MULTILINE)[1:]
    assert len(questions) == 10
    assert all("](" in line for line in questions)
