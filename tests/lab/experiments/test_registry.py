"""Experiments by name."""

import pytest

from rase.lab.experiments.registry import EXPERIMENTS, experiments_named


def test_all_of_the_paper_is_there() -> None:
    """Every figure and table of the evaluation has an experiment, and so have the departures."""
    assert set(EXPERIMENTS) == {
        "mallows-distance",
        "mallows-centre",
        "table1",
        "fig5",
        *(f"fig6{part}" for part in "abcd"),
        "fig7",
        "fig8",
        "fig9",
        "switch-off",
        "bias-cliff",
        "composition",
        "stronger",
        "equal-epsilon",
        "optimum",
        "low-bits",
        "accuracy",
        "poisoning",
        "audit",
        "ranges",
    }


def test_every_experiment_says_what_is_open() -> None:
    """Each tells what the paper says, why results differ, and what it leaves open."""
    for experiment in EXPERIMENTS.values():
        assert experiment.paper_says.endswith(".")
        assert experiment.why.endswith(".")
        assert experiment.choices


def test_names() -> None:
    """All, one, and a figure with its parts are found, each once and in the paper's order."""
    assert len(experiments_named(["all", "fig5"])) == len(EXPERIMENTS)
    assert [one.name for one in experiments_named(["fig9", "fig5", "fig9"])] == ["fig5", "fig9"]
    assert len(experiments_named(["fig6"])) == 4


@pytest.mark.parametrize(
    ("name", "message"),
    [("fig55", "did you mean fig5"), ("swich-off", "did you mean switch-off"), ("qqq", "lab list")],
)
def test_unknown_names(name: str, message: str) -> None:
    """A name that is not there is refused, with the nearest one."""
    with pytest.raises(ValueError, match=message):
        experiments_named([name])
