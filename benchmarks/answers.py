"""Can answers of `tracked` be relied on: intervals, events, errors, windows, looking back, cost?

On made-up fleets in a range of 0 to 1 whose true mean is known (`benchmarks.worlds`): twenty
drawings of the noise, four in each of five worlds, at five epsilons; then on the slices of measured
data of `rase.lab.accuracy`, where the folder of RASE_DATA is there, twenty drawings each. Errors
are compared to those of the unbiased mean, of the mean of all earlier rounds, of a linear filter
that knows the true autocovariance, and of the estimator at commit dc99681, which is read from the
history of the repository and also says what a round may cost. Worlds from 501 on served the choice
of numbers; those reported here did not.

A row tells the worst epsilon of a fleet, its note all five; figures in brackets are of epsilons to
which the goal does not apply. Takes about a quarter of an hour of a core. Cells that were measured
are kept in benchmarks/.cells while the code stays as it is, so it can be stopped and continued. The
paper's estimators are compared on measured data by `accuracy`, forecasts by `halves`.
"""

import functools
import importlib.util
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.cells import Figures, KeptCells
from benchmarks.harness import PeerMissing, Row, Target, Timed, taken_in_turn
from benchmarks.measured_cells import MOST_MISSING, WINDOW, Cell
from benchmarks.worlds import (
    CASES,
    DRAWINGS,
    UNIT,
    Case,
    World,
    change_point,
    draw_panel,
    draw_worlds,
)
from rase.counts.estimate import Estimate, student_quantile
from rase.domain import Range
from rase.errors import DataError
from rase.lab.accuracy import SETS
from rase.series.bank import FilterBank
from rase.series.tracker import Tracker

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
WORLDS = range(1, 6)
SEEDS = range(401, 421)
EARLIER = "dc99681"
_QUICK = ("flat", "spikes", "homes that rest at night")
# A round is timed in blocks of so many, and again after so many rounds.
_BLOCK, _LONG, _LONG_QUICK = 64, 100_000, 1_000
# Longer records are drawn in two worlds, and only followed: the same fleets are there as shorter
# ones.
_MOST_ROUNDS = 2000
# Sizes of jumps in errors of a single round, scored so many rounds after.
_JUMPS, _BEFORE, _AFTER, _RATE = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0), 350, 24, 1 / 300
_FILES = ("measured_cells.py", "worlds.py", "together.py", "appliances.py")
_CODE = ("series/bank.py", "series/runs.py", "laws/registry.py")
_COVERED, _RATIO = "share of rounds covered", "its RMSE / the other RMSE"

# The note of a row that tells all epsilons.
_CELL = re.compile(r"[\d.]+ \(?\d[\d.]*\)?(;|$)")
# What each goal is called in a row.
_LATE, _EARLY = "95 % intervals after the first week", "95 % intervals in the first week"
_SEEN, _EVENT = "95 % intervals where movement exceeds the error", "95 % intervals after changes"
_BETTER, _IDEAL = "the better of unbiased mean and constant", "a filter that knows the covariance"
_BACK, _BACK_HELD = "smoothed", "95 % intervals of smoothed"
_WINDOWS, _WINDOWS_HELD = f"windows of {WINDOW}", f"95 % intervals of windows of {WINDOW}"
_JUMPED, _CHANGE_POINT = "95 % intervals after one jump", "an ideal change-point filter"


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield for each fleet what intervals and errors are like, and what rounds cost."""
    earlier = bank_of_commit(EARLIER)
    budgets = EPSILONS[1:2] if quick else EPSILONS
    for name, case, draw in _fleets(quick=quick):
        cells = {
            epsilon: _measured(name, case, epsilon, draw, earlier, is_kept=not quick)
            for epsilon in budgets
        }
        yield from rows_of(name, case, cells)
    yield from _jumps(runs=2 if quick else 75)
    yield _exact_windows(series=2 if quick else 20)
    yield from _costs(earlier, rounds=_LONG_QUICK if quick else _LONG, is_kept=not quick)


def _fleets(*, quick: bool) -> Iterator[tuple[str, Case, Callable[[float], World]]]:
    """Yield name, rules and what draws the noise at an epsilon, of made-up fleets and measured."""
    for name in _QUICK if quick else CASES:
        yield (
            name,
            CASES[name],
            functools.partial(
                draw_worlds,
                CASES[name],
                worlds=WORLDS[: 1 if quick else 2 if CASES[name].rounds > _MOST_ROUNDS else None],
                drawings=DRAWINGS[:1] if quick else DRAWINGS,
            ),
        )
    for name, measured in {} if quick else SETS.items():
        try:
            panel = measured.panel()
        except DataError:
            continue
        yield (
            name,
            # Those by minutes are not asked for.
            Case(None, len(panel.values), is_ordinary=name != "REFIT, 1 minute"),
            functools.partial(
                draw_panel,
                panel.values,
                panel.times_ms / 1000,
                value_range=measured.value_range,
                seeds=SEEDS,
            ),
        )


def _measured(
    name: str,
    case: Case,
    epsilon: float,
    draw: Callable[..., World],
    earlier: ModuleType,
    *,
    is_kept: bool,
) -> Figures:
    """Return the figures of one fleet at one epsilon, kept or measured."""
    cell = Cell(case, lambda: draw(epsilon=epsilon), earlier=earlier)
    parts = {
        "followed": (cell.followed, _CODE),
        "back": (cell.looked_back, (*_CODE, "series/smoother.py")),
        "windows": (cell.windows, (*_CODE, "series/tracker.py")),
    }
    asked = ["followed"]
    if case.rounds <= _MOST_ROUNDS:
        # Nothing is asked of windows on measured data.
        asked += ["back", "windows"] if case.fleet is not None else ["back"]
    found: Figures = {}
    for part in asked:
        work, code = parts[part]
        kept = KeptCells(code, _FILES, is_kept=is_kept)
        figures = kept.measured(f"{name}, epsilon {epsilon:g}, {part}", work)
        found |= {f"{part} {key}": value for key, value in figures.items()}
    return found


def rows_of(name: str, case: Case, cells: Mapping[float, Figures]) -> Iterator[Row]:
    """Yield the figures of one fleet, each row its worst epsilon."""

    def row(
        what: str,
        against: str,
        figure: Callable[[Figures], float],
        target: Target,
        *,
        of: Callable[[float], bool] = lambda _: True,
        means: str = _COVERED,
    ) -> Row:
        values = {epsilon: figure(found) for epsilon, found in cells.items()}
        counted = [value for epsilon, value in values.items() if of(epsilon)]
        worst = min if target.sense == "at least" else max
        shown = [
            f"{epsilon:g} {value:.3f}" if of(epsilon) else f"{epsilon:g} ({value:.3f})"
            for epsilon, value in values.items()
        ]
        return Row(
            what,
            against,
            name,
            worst(counted or values.values()),
            means,
            target=target if counted else None,
            note="; ".join(shown),
        )

    def is_seen(epsilon: float) -> bool:
        return bool(cells[epsilon]["followed seen"])

    def ratio(other: str) -> Callable[[Figures], float]:
        return lambda found: found["followed error"] / found[f"followed {other}"]

    truth = "the truth"
    yield row(_EARLY, truth, lambda found: found["followed early"], Target("at least", 0.85))
    yield row(_LATE, truth, lambda found: found["followed late"], Target("at least", 0.92))
    yield row(
        _SEEN, truth, lambda found: found["followed late"], Target("at most", 0.98), of=is_seen
    )
    if case.after:
        yield row(
            _EVENT,
            truth,
            lambda found: found["followed event"],
            Target("at least", 0.85),
            of=lambda epsilon: cells[epsilon]["followed change"] >= case.least_change,
        )
    limit = (1.2 if case.rounds <= 600 else 1.05) if case.is_resting else 1.05
    yield row(
        "error of tracked",
        _BETTER,
        lambda found: (
            found["followed error"] / min(found["followed alone"], found["followed constant"])
        ),
        Target("at most", limit),
        of=lambda epsilon: case.is_resting or is_seen(epsilon),
        means=_RATIO,
    )
    yield row(
        "error of tracked",
        _IDEAL,
        lambda found: found["followed late error"] / found["followed ideal"],
        Target("at most", 1.15),
        of=is_seen,
        means=_RATIO,
    )
    yield row(
        "error of tracked",
        EARLIER,
        ratio("earlier"),
        Target("at most", 1.02),
        of=lambda _: case.is_ordinary,
        means=_RATIO,
    )
    parts = {figure.partition(" ")[0] for found in cells.values() for figure in found}
    if "back" in parts:
        yield from _looking_back(case, row)
    if "windows" not in parts:
        return
    yield row(
        _WINDOWS,
        "the mean of the rounds that are there",
        lambda found: found["windows ratio"],
        Target("at most", 1.0),
        means=_RATIO,
    )
    yield row(_WINDOWS_HELD, truth, lambda found: found["windows held"], Target("at least", 0.92))


def _looking_back(case: Case, row: Callable[..., Row]) -> Iterator[Row]:
    """Yield how many times nearer the truth is when all rounds of the record are known."""
    means = "its RMSE / our RMSE"

    def gain(found: Figures) -> float:
        return found["back gain"]

    yield row(_BACK, "filtered", gain, Target("at least", 1 / 1.03), means=means)
    if case.is_smooth:
        yield row(
            f"{_BACK} where the mean repeats",
            "filtered",
            gain,
            Target("at least", 1.25),
            of=lambda epsilon: epsilon <= 1,
            means=means,
        )
    yield row(_BACK_HELD, "the truth", lambda found: found["back held"], Target("at least", 0.9))


def _jumps(*, runs: int) -> Iterator[Row]:
    """Yield how often intervals hold after jumps of all sizes, ours and those of an ideal filter.

    Normal noise around a mean that rests and jumps once; half of the runs of each size jump down.
    """
    noise, level, rng = 0.05, 0.4, np.random.default_rng(11)
    sizes = np.repeat(_JUMPS, runs)
    ways = np.where(np.arange(len(sizes)) % 2, noise, -noise)
    truth = np.zeros((len(sizes), _BEFORE + _AFTER))
    truth[:, _BEFORE:] = (sizes * ways)[:, None]
    values = truth + noise * rng.normal(size=truth.shape)
    bank = FilterBank(UNIT.low, UNIT.width, runs=len(sizes))
    held = np.empty(truth.shape, dtype=np.bool_)
    for place, round_values in enumerate(values.T):
        belief = bank.step(3600.0 * place, level + round_values, variance=noise**2, n=50)
        quantiles = [student_quantile(0.95, one) for one in belief.degrees.tolist()]
        reach = quantiles * np.sqrt(belief.variances)
        held[:, place] = np.abs(belief.means - level - truth[:, place]) <= reach
    spread = noise**2 * float(np.mean(np.square(_JUMPS)))
    known = change_point(values, truth, noise=noise**2, rate=_RATE, size=spread)
    for size in _JUMPS:
        ours, theirs = (float(one[sizes == size, _BEFORE:].mean()) for one in (held, known))
        yield Row(
            _JUMPED,
            _CHANGE_POINT,
            f"{size:g} errors of a single round, {runs} runs, {_AFTER} rounds after it",
            1 + ours - theirs,
            "1 + our share - its share",
            target=Target("at least", 0.95),
            note=f"ours {ours:.3f}, its {theirs:.3f}",
        )


def _exact_windows(*, series: int) -> Row:
    """Return the error of windows against the exact law, on series that one model draws.

    The model wanders by a twentieth of the range a day. Knowing it, the mean of a window of which
    three rounds are missing follows from one solve over all rounds so far.
    """
    rounds, noise, rng = 240, 0.05, np.random.default_rng(7)
    hours = np.arange(rounds)
    covariance = 0.04 + 0.05**2 / 24 * np.minimum.outer(hours, hours)
    is_there = ~np.isin(hours % 40, (20, 31, 38))
    ends = [place for place in range(WINDOW, rounds) if place % 40 == 39]
    gains = {}
    for end in ends:
        weights = np.where((hours > end - WINDOW) & (hours <= end), 1 / WINDOW, 0.0)
        known = is_there & (hours <= end)
        seen = covariance[np.ix_(known, known)] + noise**2 * np.eye(int(known.sum()))
        gains[end] = (known, weights, np.linalg.solve(seen, covariance[known] @ weights))
    root = np.linalg.cholesky(covariance + 1e-12 * np.eye(rounds))
    ours, exact = [], []
    for _ in range(series):
        truth = 0.5 + root @ rng.normal(size=rounds)
        values = truth + noise * rng.normal(size=rounds)
        tracker = Tracker(Range(-1, 2), window=WINDOW, every_s=3600.0)
        for place in np.flatnonzero(is_there).tolist():
            alone = Estimate(values[place], noise, n=50, method="unbiased_mean", target="mean")
            tracker.update(3600.0 * place, alone)
            found = tracker.mean_of_last() if place in gains else None
            if found is not None:
                known, weights, gain = gains[place]
                ours.append(found.value - weights @ truth)
                exact.append(0.5 + gain @ (values[known] - 0.5) - weights @ truth)
    return Row(
        f"windows of {WINDOW}, {MOST_MISSING} rounds missing",
        "the exact law of the model",
        f"{len(ours)} windows of {series} simulated series",
        math.sqrt(np.square(ours).mean() / np.square(exact).mean()),
        _RATIO,
        target=Target("at most", 1.05),
    )


def _costs(earlier: ModuleType, *, rounds: int, is_kept: bool) -> Iterator[Row]:
    """Yield what a round costs against the earlier estimator, and after many rounds."""
    kept = KeptCells(_CODE, (), is_kept=is_kept)
    for what, against, size, key, work in (
        (
            "a round of tracked",
            EARLIER,
            f"{_BLOCK} rounds after {10 * _BLOCK}",
            "against the earlier",
            lambda: _cost_beside(earlier),
        ),
        (
            f"a round of tracked after {rounds:,}",
            "one of the first thousand",
            f"{_BLOCK} rounds",
            f"after {rounds}",
            lambda: _cost_after(rounds),
        ),
    ):
        found = kept.measured(f"cost {key}", work)
        yield Row(
            what,
            against,
            size,
            found["ours"] / found["theirs"],
            target=Target("at most", 1.1),
            ours_s=found["ours"],
            theirs_s=found["theirs"],
            repeats=int(found["repeats"]),
        )


def _cost_beside(earlier: ModuleType) -> Figures:
    ours, theirs = _Clocked(FilterBank), _Clocked(earlier.FilterBank)
    for block in (ours, theirs):
        block.go_on(10)
    return _figures(taken_in_turn(ours.go_on, theirs.go_on))


def _cost_after(rounds: int) -> Figures:
    later, first = _Clocked(FilterBank), _Clocked(FilterBank)
    later.go_on(rounds // _BLOCK)
    return _figures(taken_in_turn(later.go_on, first.go_on))


def _figures(timed: Timed) -> Figures:
    return {"ours": timed.ours_s, "theirs": timed.theirs_s, "repeats": float(timed.repeats)}


class _Clocked:
    """Take noise around a constant into a bank, block by block.

    Args:
        kind: What makes the bank.
    """

    def __init__(self, kind: Callable[..., Any]) -> None:
        self._bank = kind(UNIT.low, UNIT.width)
        self._rng = np.random.default_rng(1)
        self._round = 0

    def go_on(self, blocks: int = 1) -> None:
        """Take so many blocks in."""
        for _ in range(blocks):
            # Values that repeat would be learnt as a cycle.
            for value in 0.3 + 0.1 * self._rng.normal(size=(_BLOCK, 1)):
                self._bank.step(3600.0 * self._round, value, variance=0.01, n=50)
                self._round += 1


def bank_of_commit(commit: str) -> ModuleType:
    """Return the module of filters as it was at a commit of this repository.

    Raises:
        PeerMissing: If the history is not here.
    """
    folder = Path(__file__).parent.parent
    shown = subprocess.run(
        ["git", "show", f"{commit}:src/rase/estimate/bank.py"],  # noqa: S607 - found on the path
        cwd=folder,
        capture_output=True,
        check=False,
    )
    if shown.returncode:
        raise PeerMissing(f"commit {commit} is not here: clone the repository with its history")
    with tempfile.TemporaryDirectory() as kept:
        file = Path(kept) / "bank_of_commit.py"
        file.write_bytes(shown.stdout)
        spec = importlib.util.spec_from_file_location(f"bank_{commit}", file)
        if spec is None or spec.loader is None:
            raise PeerMissing(f"the filters of commit {commit} cannot be read")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return module


def tables(kept: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return kept rows as the lines of tables, as docs/explain/accuracy.md shows them."""
    by_fleet: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for row in kept:
        if _CELL.match(row["note"]):
            pairs = (pair.split(" ") for pair in row["note"].split("; "))
            found = by_fleet.setdefault((row["what"], row["against"]), {})
            found[row["size"]] = {epsilon: value.strip("()") for epsilon, value in pairs}
    truth = "the truth"
    return [
        _goals(kept),
        _by_epsilon(
            "intervals that hold",
            by_fleet,
            [(_LATE, truth), (_EARLY, truth), (_EVENT, truth)],
            _percent,
        ),
        _by_epsilon(
            "error over that of others",
            by_fleet,
            [("error of tracked", other) for other in (_BETTER, _IDEAL, EARLIER)],
            _ratio,
        ),
        _by_epsilon(
            "gain by looking back", by_fleet, [(_BACK, "filtered"), (_BACK_HELD, truth)], _mixed
        ),
        _by_epsilon(
            "error of windows",
            by_fleet,
            [(_WINDOWS, "the mean of the rounds that are there"), (_WINDOWS_HELD, truth)],
            _mixed,
        ),
        _of_jumps(kept),
    ]


_Cells = Mapping[tuple[str, str], Mapping[str, Mapping[str, str]]]


def _by_epsilon(
    head: str,
    by_fleet: _Cells,
    figures: Sequence[tuple[str, str]],
    words: Callable[[Sequence[str]], str],
) -> list[str]:
    """Return a table of fleets and epsilons."""
    lines = [
        f"| {head} | {' | '.join(f'ε = {epsilon:g}' for epsilon in EPSILONS)} |",
        f"|---{len(EPSILONS) * '|---'}|",
    ]
    for fleet in by_fleet[figures[0]]:
        own = [by_fleet[figure][fleet] for figure in figures if fleet in by_fleet.get(figure, {})]
        cells = [words([one[f"{epsilon:g}"] for one in own]) for epsilon in EPSILONS]
        lines.append(f"| {fleet} | {' | '.join(cells)} |")
    return lines


def _percent(shares: Sequence[str]) -> str:
    return ", ".join(f"{100 * float(share):.0f}" for share in shares)


def _ratio(ratios: Sequence[str]) -> str:
    return ", ".join(f"{float(ratio):.2f}" for ratio in ratios)


def _mixed(pair: Sequence[str]) -> str:
    ratio, share = pair
    return f"{float(ratio):.2f} ({100 * float(share):.0f} %)"


def _goals(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table of goals: in how many cells each is met, and where it is missed most."""
    goals: dict[tuple[str, str, str], list[tuple[float, str]]] = {}
    for row in kept:
        if row["target"] is None:
            continue
        target = Target(**row["target"])
        goal = f"{target.sense} {target.limit:.3g}"
        # Rows by fleet tell each epsilon to which the goal applies; others are one cell.
        cells = re.findall(r"(?:^|; )([\d.]+) (\d[\d.]*)", row["note"])
        if not _CELL.match(row["note"]):
            cells = [("", f"{row['ratio']:.3f}")]
        for epsilon, value in cells:
            where = f"{row['size']}{f', ε = {epsilon}' if epsilon else ''}"
            found = goals.setdefault((row["what"], row["against"], goal), [])
            found.append((float(value), where))
    lines = ["| what, against what | goal | met in | worst |", "|---|---|---|---|"]
    for (what, against, goal), found in goals.items():
        sense, limit = goal.rsplit(" ", 1)
        target = Target(sense, float(limit))
        met = sum(target.is_met(round(value, 3)) for value, _ in found)
        value, where = (min if sense == "at least" else max)(found)
        lines.append(
            f"| {what}, {against} | {goal} | {met} of {len(found)} | {value:.3g}: {where} |"
        )
    return lines


def _of_jumps(kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table of jumps by their size."""
    rows = [row for row in kept if row["what"] == _JUMPED]
    sizes = [row["size"].split(" ")[0] for row in rows]
    shares = [re.findall(r"0\.\d+|1\.\d+", row["note"]) for row in rows]
    lines = [
        f"| jump, errors of a single round | {' | '.join(sizes)} |",
        f"|---{len(sizes) * '|---'}|",
    ]
    for place, name in enumerate(("`tracked`", "ideal")):
        cells = [f"{100 * float(pair[place]):.0f} %" for pair in shares]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines
