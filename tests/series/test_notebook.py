"""How results show themselves in a notebook, and what happens without pandas and matplotlib."""

import subprocess
import sys
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from rase import Estimate, Range, RoundResult, Rounds, Uniform, plan
from rase.answer import FIELDS
from rase.errors import DataError
from rase.series.notebook import axes_for, frame_of, table_html

HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def unseen() -> Any:
    """Draw without a screen, and leave no figure open."""
    mpl.use("Agg")
    yield
    from matplotlib import pyplot as plt

    plt.close("all")


def told(
    estimate: Estimate, start_ms: int | None = None, truth: float | None = None
) -> RoundResult:
    """Return a round that was estimated."""
    return RoundResult(
        estimate.n,
        {estimate.method: estimate},
        Uniform().manifest_for(estimate.n),
        start_ms=start_ms,
        truth=truth,
    )


def rounds(count: int, *, has_time: bool = True, truth: float | None = None) -> Rounds:
    """Make rounds of an hour."""
    return Rounds(
        told(
            Estimate(100.0 + place, 10.0, n=64, method="tracked", target="the <mean>"),
            start_ms=place * HOUR_MS if has_time else None,
            truth=truth,
        )
        for place in range(count)
    )


def test_an_estimate_shows_its_sentence_and_what_it_is_about() -> None:
    """The number is bold, and what somebody named is escaped."""
    estimate = Estimate(187.2, 26.0, n=64, method="own<b>", target="mean")
    shown = estimate._repr_html_()
    assert "<b>187 ± 26</b> (95 %: 136 to 238, n = 64)" in shown
    assert "own&lt;b&gt;, mean" in shown
    unknown = Estimate(3.0, float("inf"), n=1, method="sample_mean", target="mean")
    assert unknown._repr_html_().startswith("<b>3, error unknown</b> (n = 1)")


def test_rounds_are_a_sequence() -> None:
    """They are counted, compared, sliced and gone through like a list."""
    three = rounds(3)
    assert len(three) == 3
    assert three[1].estimate.value == 101
    assert isinstance(three[1:], Rounds)
    assert three[1:] == list(three)[1:]
    assert three == list(three)
    assert repr(three) == "Rounds(3 rounds, 1970-01-01 00:00 to 1970-01-01 02:00 UTC)"
    assert repr(rounds(1, has_time=False)) == "Rounds(1 round)"
    assert repr(Rounds([])) == "Rounds(0 rounds)"


def test_a_long_table_shows_its_ends() -> None:
    """Ten rows and a gap stand for many; a short one is shown whole."""
    assert rounds(10)._repr_html_().count("<tr>") == 11
    shown = rounds(100)._repr_html_()
    assert shown.count("<tr>") == 12
    assert "<td>1970-01-01 04:00</td>" in shown
    assert "<td>1970-01-01 05:00</td>" not in shown
    assert "<td>199</td><td>10</td><td>179 to 219</td><td>64</td>" in shown
    assert "100 rounds, tracked" in shown
    assert "1 round, tracked" in rounds(1)._repr_html_()
    assert "0 rounds, no estimate" in Rounds([])._repr_html_()


def test_an_unknown_error_is_called_unknown() -> None:
    """A sample mean of one report has no error to tell."""
    lone = told(Estimate(3.0, float("inf"), n=1, method="sample_mean", target="mean"))
    assert "<td>3</td><td>unknown</td><td>unknown</td>" in Rounds([lone])._repr_html_()


def test_rounds_become_a_frame() -> None:
    """One round a row, times with their zone, the truth only where it is known."""
    frame = rounds(3).to_frame()
    assert list(frame["value"]) == [100, 101, 102]
    assert str(frame["time"].dt.tz) == "UTC"
    assert "truth" not in frame
    assert list(frame.columns) == [
        *("time", "value", "standard_error", "low", "high", "n", "method")
    ]
    # Names are those of an answer.
    assert set(frame.columns) <= set(FIELDS)
    ends = [result.estimate.interval() for result in rounds(3)]
    assert list(zip(frame["low"], frame["high"], strict=True)) == ends
    known = rounds(2, has_time=False, truth=99.0).to_frame()
    assert list(known["truth"]) == [99, 99]
    assert list(known["time"]) == [0, 1]


def test_rounds_are_drawn_with_their_intervals() -> None:
    """On axes that are given, or on new ones; the truth is a line of its own."""
    axes = Figure().subplots()
    assert rounds(3, truth=99.0).plot(axes) is axes
    assert [line.get_label() for line in axes.get_lines()] == ["estimate", "truth"]
    assert len(axes.collections) == 1
    drawn = rounds(3, has_time=False).plot()
    assert drawn.get_xlabel() == "round"
    assert [line.get_label() for line in drawn.get_lines()] == ["estimate"]


def test_a_plan_shows_errors_costs_and_warnings() -> None:
    """A notebook shows the table of errors and the sentences that matter."""
    small = plan(Range(0, 3000), 0.1, devices=64, window=24, detail="quick")
    shown = small._repr_html_()
    assert "error of the mean of 24 rounds: 64 devices, epsilon 0.1" in shown
    assert "<td>unbiased_mean</td><td>worst</td>" in shown
    assert "one report: epsilon 0.1" in shown
    one = plan(Range(0, 3000), 1.0, devices=64, detail="quick")
    assert "error of the mean of one round" in one._repr_html_()


def test_a_plan_becomes_a_frame() -> None:
    """Its curve if it has one, else its errors by round and window."""
    bare = plan(Range(0, 3000), 1.0, devices=64, detail="quick")
    frame = bare.to_frame()
    row = frame[(frame.estimator == "unbiased_mean") & (frame.over == "round")]
    assert row[row.readings == "worst"]["total"].item() == bare.error("unbiased_mean").round.total
    curve = plan(Range(0, 3000), 1.0, devices=64, detail="quick", curve=[0.5, 1, 2]).to_frame()
    assert sorted(set(curve["epsilon"])) == [0.5, 1, 2]
    assert {"mechanism", "estimator", "bias", "noise", "total"} < set(curve.columns)


def test_a_plan_draws_its_curve() -> None:
    """Each estimator is a line; the epsilon chosen and the wish are marked."""
    wished = plan(Range(0, 3000), 1.0, devices=64, detail="quick", curve=[0.5, 1, 2], error=100)
    axes = wished.plot()
    labels = [line.get_label() for line in axes.get_lines()]
    assert labels[-2:] == ["epsilon chosen", "error wished for"]
    assert "unbiased_mean" in labels
    assert axes.get_xscale() == axes.get_yscale() == "log"
    unwished = plan(Range(0, 3000), 1.0, devices=64, detail="quick", curve=[0.5, 1, 2])
    assert len(unwished.plot().get_lines()) == len(labels) - 1
    with pytest.raises(ValueError, match="must have a curve"):
        plan(Range(0, 3000), 1.0, devices=64, detail="quick").plot()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pandas or matplotlib one line says what to install."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(DataError, match="needs pandas; install it with: pip install pandas"):
        frame_of({"n": [1]})
    with pytest.raises(DataError, match=r'needs matplotlib; .*"rase-iot\[plot\]"'):
        axes_for()
    assert axes_for("given") == "given"
    assert "<td>1</td>" in table_html(["n"], [["1"]], caption="")


@pytest.mark.uncovered
def test_results_load_neither_pandas_nor_matplotlib() -> None:
    """Until somebody asks for a frame or a picture, both stay on the disk."""
    code = """
import sys
from rase import Estimate, Rounds, Range, plan
plan(Range(0, 1), 1.0, devices=10, detail="quick")._repr_html_()
Rounds([])._repr_html_()
print([name for name in ("pandas", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
