"""Running experiments: cells are shared, kept, resumed, and measured by several processes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rase.errors import DataError
from rase.lab.cache import CellCache
from rase.lab.datasets import open_panel
from rase.lab.experiments import conduct
from rase.lab.experiments.conduct import outcomes_of, run_experiments
from rase.lab.experiments.measure import run_measurement
from rase.lab.experiments.registry import EXPERIMENTS, experiments_named
from rase.lab.experiments.study import Cell, Setup, Steps
from rase.lab.panel import Panel

PANEL = open_panel("fleet:16x5:1")
CELLS = {
    cell.key: cell
    for cell in (Cell("order", {"n": n, "groups": 4, "alpha": 30.0}) for n in (8, 16, 24, 32))
}


@pytest.fixture
def cache(tmp_path: Path) -> CellCache:
    """A cache in an empty folder."""
    return CellCache(tmp_path / "cells", checksum="readings")


@pytest.fixture
def measured_keys(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cells that were really measured, in their sequence."""
    keys: list[str] = []

    def noted(panel: Panel, measure: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        keys.append(Cell(measure, settings).key)
        return {"n": settings["n"]}

    monkeypatch.setattr(conduct, "run_measurement", noted)
    return keys


def test_only_missing_cells_are_measured(cache: CellCache, measured_keys: list[str]) -> None:
    """What is kept is not measured again."""
    first = dict(list(CELLS.items())[:2])
    outcomes_of(first, PANEL, cache=cache)
    outcomes = outcomes_of(CELLS, PANEL, cache=cache)
    assert sorted(measured_keys) == sorted(CELLS)
    assert [outcomes[key]["n"] for key in CELLS] == [8, 16, 24, 32]


def test_interrupted_work_goes_on(
    cache: CellCache, measured_keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt in the middle loses nothing that was measured."""
    noted = conduct.run_measurement  # type: ignore[attr-defined]  # the one that takes notes

    def interrupted(panel: Panel, measure: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        if settings["n"] == 24:
            raise KeyboardInterrupt
        return noted(panel, measure, settings)

    with monkeypatch.context() as patch:
        patch.setattr(conduct, "run_measurement", interrupted)
        with pytest.raises(KeyboardInterrupt):
            outcomes_of(CELLS, PANEL, cache=cache)
    before = list(measured_keys)
    assert len(before) == 2
    outcomes_of(CELLS, PANEL, cache=cache)
    assert sorted(measured_keys) == sorted(CELLS)


def test_progress_is_told(cache: CellCache, measured_keys: list[str]) -> None:
    """Each cell that is done is told, with the time that is left."""
    told: list[tuple[int, int, float | None]] = []

    def tell(done: int, total: int, left_s: float | None) -> None:
        told.append((done, total, left_s))

    outcomes_of(CELLS, PANEL, cache=cache, report_progress=tell)
    assert [(done, total) for done, total, _ in told] == [(n, 4) for n in range(5)]
    assert told[0][2] is None
    assert told[-1][2] == 0


def test_two_processes_measure_the_same(cache: CellCache, tmp_path: Path) -> None:
    """Two processes give what one gives, and keep it."""
    alone = outcomes_of(CELLS, PANEL, cache=cache)
    other = CellCache(tmp_path / "others", checksum="readings")
    assert outcomes_of(CELLS, PANEL, cache=other, jobs=2) == alone
    assert all(other.find(key) == outcome for key, outcome in alone.items())


@pytest.mark.uncovered
def test_a_refusal_in_a_process_arrives(cache: CellCache) -> None:
    """A refusal in another process is raised here, and no process is left waiting."""
    cells = [
        Cell("watched", {"n": 16, "scheme": "br", "epsilon": 1.0, "high": 9.0, "rounds": [1],
                         "seed": seed})
        for seed in (1, 2)
    ]  # fmt: skip
    values = PANEL.values.copy()
    values[0] = float("nan")
    gaps = Panel(PANEL.times_ms, PANEL.devices, values)
    with pytest.raises(DataError, match="a reading in every round"):
        outcomes_of({cell.key: cell for cell in cells}, gaps, cache=cache, jobs=2)


def test_studies_say_how_to_get_them_again(cache: CellCache) -> None:
    """A study carries command, seed, data and checksum."""
    setup = Setup(PANEL, trials=2, seed=7, is_fast=True)
    (study,) = run_experiments(
        experiments_named(["switch-off"]), setup, cache=cache, checksum="ab", data="my file.csv"
    )
    assert study.command == (
        "rase lab run switch-off --data 'my file.csv' --trials 2 --seed 7 --fast"
    )
    assert (study.seed, study.trials, study.checksum) == (7, 2, "ab")
    assert study.is_reproduced


def test_scaled_ranges_are_told(cache: CellCache) -> None:
    """Where ranges are not those named, the study says so."""
    big = Panel(PANEL.times_ms, PANEL.devices, 1000 * PANEL.values, "W")
    for panel, is_scaled in ((PANEL, False), (big, True)):
        (study,) = run_experiments(
            [EXPERIMENTS["table1"]], Setup(panel), cache=cache, checksum="ab", data="x"
        )
        assert ("scale" in study.choices) == is_scaled


def test_shared_cells_are_measured_once(cache: CellCache) -> None:
    """Fig. 6a to 6d share the attack on BR."""
    setup = Setup(PANEL, trials=1, is_fast=True)
    asked = [
        cell.key
        for name in ("fig6a", "fig6b", "fig6c", "fig6d")
        for cell in next(EXPERIMENTS[name].steps(setup))
    ]
    assert len(set(asked)) < len(asked)


def test_experiments_ask_once(cache: CellCache) -> None:
    """An experiment that asks a second time is a mistake of ours, and said so."""

    def asks_twice(setup: Setup) -> Steps:
        yield []
        yield []
        raise AssertionError

    wrong = replace(EXPERIMENTS["table1"], steps=asks_twice)
    with pytest.raises(RuntimeError, match="once"):
        run_experiments([wrong], Setup(PANEL), cache=cache, checksum="", data="")


def test_cells_may_be_measured_elsewhere(tmp_path: Path) -> None:
    """An engine gets the cells that are not kept yet, and its outcomes are kept like others."""
    cache = CellCache(tmp_path / "cache", checksum="panel")
    asked: list[list[str]] = []

    def engine(cells: Sequence[Cell], panel: Panel) -> Iterator[tuple[Cell, dict[str, Any]]]:
        asked.append([cell.key for cell in cells])
        for cell in reversed(cells):
            yield cell, run_measurement(panel, cell.measure, cell.settings)

    found = outcomes_of(CELLS, PANEL, cache=cache, engine=engine)
    assert asked == [list(CELLS)]
    other = CellCache(tmp_path / "other", checksum="panel")
    assert outcomes_of(CELLS, PANEL, cache=other) == found
    assert outcomes_of(CELLS, PANEL, cache=cache, engine=engine) == found
    assert asked[1:] == [[]]
