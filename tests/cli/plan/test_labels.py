"""Pictures and words of ``rase plan`` say what its JSON says, to the last digit shown."""

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import pytest
from matplotlib.figure import Figure

from rase.accounting.plan import plan
from rase.accounting.plan.values import Plan
from rase.cli import main
from rase.domain import Range

CASES = [
    "--epsilon 1 --devices 5000 --every 1h --window 24",
    "--epsilon 1 --devices 20",
    "--epsilon 6 --devices 1000 --error 20",
    "--epsilon 0.2 --devices 1000",
    "--epsilon 0.68 --devices 1000",
    "--epsilon 0.985 --devices 5000 --window 3",
    "--epsilon 1.02 --devices 300 --mechanism optimal",
    "--epsilon 1 --devices 1000 --mechanism budget-aware",
    "--epsilon 20 --devices 64 --mechanism laplace",
    "--window-budget 1 --schedule rotate --window 24 --devices 3000",
]
# These go through the file that is drawn.
DRAWN = [CASES[0], CASES[-1]]


@pytest.fixture(scope="module", params=CASES)
def planned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], list[str]]:
    """The JSON of a plan, and the texts of the picture of the same command, in order."""
    picture = tmp_path_factory.mktemp("plan") / "plan.svg"
    asked = str(request.param).split()
    words = ["plan", "--range", "0", "3000", *asked, "--plot", str(picture), "--json"]
    with redirect_stdout(StringIO()) as printed, pytest.MonkeyPatch.context() as patch:
        if request.param not in DRAWN:
            patch.setattr(Figure, "savefig", written)
        assert main(words) == 0
    document = json.loads(printed.getvalue())
    return document, re.findall(r"<!-- (.*?) -->", picture.read_text("utf-8"))


def written(figure: Figure, file: IO[bytes], **_: object) -> None:
    """Write the texts of a figure as its SVG would hold them: to draw it takes longer."""
    texts = [one.get_text() for axes in figure.axes for one in axes.texts]
    lines = [f"<!-- {text} -->\n" for text in (*texts, figure.get_suptitle())]
    file.write("".join(lines).encode())


@pytest.mark.parametrize("planned", DRAWN[:1], indirect=True)
def test_texts_that_are_not_drawn_are_those_of_the_picture(
    planned: tuple[dict[str, Any], list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What stands for a picture in most cases holds its texts, in the same order."""
    monkeypatch.setattr(Figure, "savefig", written)
    path = tmp_path / "plan.svg"
    asked = ["plan", "--range", "0", "3000", *DRAWN[0].split(), "--plot", str(path), "--json"]
    assert main(asked) == 0
    texts = re.findall(r"<!-- (.*?) -->", path.read_text("utf-8"))
    drawn = iter(planned[1])
    # Ticks, titles of panels and the legend come between them.
    assert all(text in drawn for text in texts)


def shown(number: float) -> str:
    """Return a number with three digits, or whole from a thousand on."""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def test_every_number_in_the_picture_is_that_of_the_json(
    planned: tuple[dict[str, Any], list[str]],
) -> None:
    """The three dots bear the errors of the table, and the curve passes through them."""
    document, texts = planned
    parameters, curve = document["parameters"], document["curve"]
    rows = {
        row["estimator"]: row["window"]
        for row in document["errors"]
        if row["readings"] == document["curve_readings"]
    }
    panels = ("unbiased_mean", "sample_mean", "median")
    expected = [shown(rows[name]["total"]) for name in panels]
    labels = [text for text in texts if re.fullmatch(r"[\d.,]+(e[+-]\d+)?", text)]
    # Ticks are numbers, too: the dots' are those that no axis has.
    assert [text for text in labels if text in expected][: len(expected)] == expected
    for name in panels:
        (point,) = (
            one
            for one in curve
            if (one["estimator"], one["epsilon"]) == (name, parameters["epsilon"])
        )
        assert {part: point[part] for part in rows[name]} == rows[name]
    assert texts.count(f"ε = {parameters['epsilon']:g}") == 3
    title = next(text for text in texts if text.startswith("Error of the mean"))
    assert f" {parameters['devices']} devices, {document['mechanism']}" in title
    if parameters["error"] is not None:
        assert texts.count(f"wished: {parameters['error']:g}") == 3


def test_no_line_joins_two_laws(planned: tuple[dict[str, Any], list[str]]) -> None:
    """One mechanism is drawn all along; within a law errors of the unbiased mean only fall."""
    document, _ = planned
    curve = document["curve"]
    assert {one["mechanism"] for one in curve} == {document["mechanism"]}
    means = [one for one in curve if one["estimator"] == "unbiased_mean"]
    for before, after in pairwise(means):
        if before["law"] == after["law"]:
            # Neighbours are less than 30 % of epsilon apart: no spike fits between them.
            assert after["total"] <= before["total"] * (1 + 1e-9)
            assert after["epsilon"] >= 8 or after["total"] > 0.5 * before["total"]


def test_a_curve_is_cut_where_the_law_changes() -> None:
    """Below the ladder the optimal mechanism is Duchi's bit, whose plain mean is another thing."""
    made = plan(Range(0, 3000), 1.0, devices=1000, curve=[0.1, 0.2, 0.25, 1.0], detail="quick")
    assert isinstance(made, Plan)
    pieces = made.curve_of("sample_mean")
    assert [[point.law for point in piece] for piece in pieces] == [
        ["duchi", "duchi"],
        ["optimal", "optimal"],
    ]
    assert pieces[0][-1].error.total > 3 * pieces[1][0].error.total


def test_the_table_says_what_is_predicted_of_all_estimators(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """winsorized_mean has its error, and tracked an error or the reason why there is none."""
    asked = ["plan", "--range", "0", "3000", "--epsilon", "1", "--devices", "500"]
    asked += ["--every", "1h", "--mechanism", "laplace"]
    assert main(asked) == 0
    told = capsys.readouterr().out
    assert re.search(r"^winsorized_mean +worst case +0 +158 +158$", told, re.M), told
    assert "tracked          a first round as unbiased_mean; what the rounds before add" in told
    assert "winsorized_mean errs by 158 instead of 190, without bias too" in told
    assert main([*asked, "--json"]) == 0
    not_predicted = json.loads(capsys.readouterr().out)["not_predicted"]
    assert "predicted for a report" in not_predicted["tracked"]
    assert main([*asked, "--fleet-sd", "40", "--day-sd", "100", "--window", "2"]) == 0
    told = capsys.readouterr().out
    forecast = re.search(r"tracked RMSE (\S+) per round", told)
    assert forecast is not None
    error = round(float(forecast[1]))
    assert re.search(rf"^tracked +movement as stated +- +- +{error} +-$", told, re.M), told
