"""The benchmark of answers: its ideal filters, its cells, and its tables."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
from benchmarks import answers
from benchmarks.cells import Figures, KeptCells
from benchmarks.harness import Row, Target
from benchmarks.worlds import CASES, change_point, draw_worlds, events, ideal


def test_an_ideal_filter_of_jumps_holds_what_it_says() -> None:
    """On series drawn by its own law 95 % of its intervals hold, and fewer right after a jump.

    2,000 series of 60 rounds, of which a fifth or so jump; the share of the last round is a
    binomial number, so that it is off by more than 5 errors less than once in a million.
    """
    rng = np.random.default_rng(3)
    runs, rounds, rate, size = 2000, 60, 1 / 300, 9.0
    at = rng.geometric(rate, size=runs)
    truth = np.where(
        np.arange(rounds) >= at[:, None], np.sqrt(size) * rng.normal(size=(runs, 1)), 0.0
    )
    held = change_point(
        truth + rng.normal(size=truth.shape), truth, noise=1.0, rate=rate, size=size
    )
    error = np.sqrt(0.95 * 0.05 / runs)
    assert abs(held[:, -1].mean() - 0.95) < 5 * error
    jumped = at < rounds
    first = held[jumped, at[jumped]].mean()
    assert first < 0.8
    # Without the chance of a jump in it, the filter misses them for good.
    blind = change_point(
        truth + rng.normal(size=truth.shape), truth, noise=1.0, rate=1e-300, size=size
    )
    assert blind[jumped, -1].mean() < held[jumped, -1].mean()


def test_drawings_of_all_worlds_are_rows_of_one() -> None:
    """Each world has its own truth; the ideal filter is nearer to it than rounds by themselves."""
    case = CASES["spikes"]
    world = draw_worlds(case, epsilon=1.0, worlds=(901, 902), drawings=range(2))
    assert world.truth.shape == world.means.values.shape == (4, case.rounds)
    assert (world.truth[0] == world.truth[1]).all()
    assert (world.truth[1] != world.truth[2]).any()
    found = events(world.truth, after=4)
    # A spike of four hours: its beginning and its end are changes.
    assert 0.05 < found[:, 168:].mean() < 0.12
    assert not found[:, :168].any()
    off, alone = (np.square(one - world.truth).mean() for one in (ideal(world), world.means.values))
    assert off < alone


def test_cells_count_while_the_code_is_the_same(tmp_path: Path) -> None:
    """What was measured is not measured again, unless nothing is kept or other code measures."""
    asked: list[int] = []

    def work() -> Figures:
        asked.append(1)
        return {"late": 0.95}

    for _ in range(2):
        kept = KeptCells(("clock.py",), ("cells.py",), folder=tmp_path)
        assert kept.measured("flat, epsilon 1", work) == {"late": 0.95}
    assert len(asked) == 1
    KeptCells(("clock.py",), ("cells.py", "worlds.py"), folder=tmp_path).measured(
        "flat, epsilon 1", work
    )
    KeptCells(("clock.py",), ("cells.py",), folder=tmp_path, is_kept=False).measured("a", work)
    assert len(asked) == 3


def test_a_row_tells_its_worst_epsilon_and_the_table_counts_all() -> None:
    """Epsilons to which a goal does not apply are in brackets, and not counted."""
    cells = {
        epsilon: {
            "followed late": 0.9 + epsilon / 100,
            "followed early": 0.9,
            "followed seen": float(epsilon > 1),
            "followed error": 1.0,
            "followed alone": 2.0,
            "followed constant": 3.0,
            "followed earlier": 1.0,
            "followed late error": 1.0,
            "followed ideal": 0.5,
            "back gain": 1.5,
            "back held": 0.95,
            "windows ratio": 0.5,
            "windows held": 0.96,
        }
        for epsilon in answers.EPSILONS
    }
    rows = list(answers.rows_of("drift", CASES["drift"], cells))
    by_goal = {(row.what, row.against): row for row in rows}
    late = by_goal["95 % intervals after the first week", "the truth"]
    assert (round(late.ratio, 3), late.target) == (0.905, Target("at least", 0.92))
    best = by_goal["error of tracked", "a filter that knows the covariance"]
    assert best.note == "0.5 (2.000); 1 (2.000); 2 2.000; 4 2.000; 8 2.000"
    jump = Row(
        "95 % intervals after one jump",
        "an ideal change-point filter",
        "2 errors of a single round, 75 runs",
        0.99,
        target=Target("at least", 0.95),
        note="ours 0.872, its 0.873",
    )
    goals, held, errors, back, windows, jumps = answers.tables(
        [asdict(one) for one in (*rows, jump)]
    )
    table = "\n".join(goals)
    assert "95 % intervals after the first week, the truth | at least 0.92 | 3 of 5 |" in table
    assert "a filter that knows the covariance | at most 1.15 | 0 of 3 |" in table
    assert "| at least 0.95 | 1 of 1 |" in table
    assert held[2] == "| drift | 90, 90 | 91, 90 | 92, 90 | 94, 90 | 98, 90 |"
    assert errors[2].startswith("| drift | 0.50, 2.00, 1.00 |")
    assert back[2].startswith("| drift | 1.50 (95 %) |")
    assert windows[2].startswith("| drift | 0.50 (96 %) |")
    assert jumps[2:] == ["| `tracked` | 87 % |", "| ideal | 87 % |"]
