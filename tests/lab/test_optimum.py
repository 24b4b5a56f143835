"""Solving for the optimal channel, and keeping what was solved."""

import json
from pathlib import Path

import numpy as np
import pytest

from rase import Optimal, Range
from rase.lab import optimum
from rase.lab.optimum import cache_folder, parts_for, programme_for, solve
from rase.laws.ladder import programme_at
from rase.laws.optimum_bound import lower_bound
from rase.laws.programme import Programme
from rase.testing import check_randomizer


@pytest.fixture(scope="module")
def solved() -> Programme:
    """A channel for a budget that is on no rung."""
    return solve(1.03, parts=16)


def test_a_solved_channel_is_near_its_bound(solved: Programme) -> None:
    """With 16 parts the gap is what rounding to inputs costs, and little more."""
    bound = lower_bound(1.03, solved.prices)
    assert bound < solved.worst_variance < bound + 0.25 / 16**2 + 1e-4 * bound


def test_a_solved_channel_is_a_randomizer(solved: Programme) -> None:
    """It keeps the contract, for exactly its epsilon.

    False alarms: below 1 / 2^64, that 64 reports without a seed are drawn twice; no place has half
    of the weight.
    """
    own = Optimal(1.03, Range(0, 10), solved)
    check_randomizer(own)
    assert own.certificate().drawn_epsilon == 1.03


@pytest.mark.uncovered
def test_finer_parts_are_solved_from_coarser_ones() -> None:
    """Twice the parts give a bound that is at least as high, and a channel that is better."""
    coarse, fine = (solve(1.0, parts=parts) for parts in (16, 32))
    assert fine.worst_variance < coarse.worst_variance
    assert lower_bound(1.0, fine.prices) >= lower_bound(1.0, coarse.prices) * (1 - 1e-5)
    shipped = programme_at(1.0)
    assert fine.worst_variance == pytest.approx(shipped.worst_variance, rel=1e-4)


def test_channels_are_kept(
    solved: Programme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second call reads the file; a damaged one or one of another budget is solved anew."""
    calls: list[float] = []

    def noted(epsilon: float) -> Programme:
        calls.append(epsilon)
        return solved

    monkeypatch.setattr(optimum, "solve", noted)
    folder = tmp_path / "cache"
    assert programme_for(1.03, folder=folder) == programme_for(1.03, folder=folder) == solved
    assert calls == [1.03]
    (file,) = folder.iterdir()
    whole = file.read_text(encoding="utf-8")
    for damaged in (whole[:-20], whole.replace('"parts": 16', '"parts": 18'), "[]", ""):
        file.write_text(damaged, encoding="utf-8")
        assert programme_for(1.03, folder=folder) == solved
        assert json.loads(file.read_text(encoding="utf-8")) == json.loads(whole)
    assert len(calls) == 5
    file.rename(folder / file.name.replace("1.03", "1.04"))
    programme_for(1.04, folder=folder)
    assert calls[-1] == 1.04


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder is where the platform keeps caches."""
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "rase"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "rase"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "rase"


def test_impossible_programmes_are_refused() -> None:
    """Budgets and parts have bounds."""
    for epsilon in (0.01, 11.0):
        with pytest.raises(ValueError, match="epsilon must be between"):
            solve(epsilon)
    for parts in (8, 17):
        with pytest.raises(ValueError, match="power of two"):
            solve(1.0, parts=parts)
    assert (parts_for(1.0), parts_for(6.0)) == (32, 64)


def test_a_programme_that_does_not_settle_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few turns, or a solver that fails, end in a sentence."""
    monkeypatch.setattr(optimum, "_MOST_TURNS", 1)
    with pytest.raises(RuntimeError, match="did not settle within 1 turns"):
        solve(1.0, parts=16)


def test_a_failing_solver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a single column there is no channel."""
    empty = optimum._stack_columns([(1.0, np.zeros(17, dtype=bool))], 16)
    monkeypatch.setattr(optimum, "_first_columns", lambda _epsilon, _parts: empty)
    with pytest.raises(RuntimeError, match="linear programme was not solved"):
        solve(1.0, parts=16)
