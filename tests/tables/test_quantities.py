"""Several quantities of a table: turns, parts, noise of their own, and what all of them cost."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cases import each_case

from rase import Categories, Quantities, Range, RunPlan, SeededRandom, auto, run_table
from rase.errors import StorageUnusable
from rase.kernels.keyed import RunKey
from rase.kernels.words import Random
from rase.tables import run as runs
from rase.tables.layouts import Columns
from rase.tables.quantities import QuantityRuns, Turn, folder_of
from rase.tables.run import LocalRun, run
from rase.tables.source import open_source

DEVICES, HOURS = 40, 12
# So sure are reports at this epsilon that shares are known: one in 10^12 lies.
CERTAIN = 30.0
MODE = Categories(("off", "on"))
TURNS = {"power": 2, "mode": 1}


def plans(epsilon: float = 1.0, **more: Any) -> dict[str, RunPlan]:
    """Return a plan for a mean and one for shares, by the hour."""
    return {
        "power": RunPlan(randomizer=auto(epsilon, Range(0, 100)), every="1h", **more),
        "mode": RunPlan(randomizer=auto(epsilon, MODE), every="1h", **more),
    }


def table(*, hours: int = HOURS, empty: str | None = None) -> dict[str, list[Any]]:
    """Return a row for each device and hour; every fourth device is on."""
    rows = [(hour, device) for hour in range(hours) for device in range(DEVICES)]
    found: dict[str, list[Any]] = {
        "time": [3600 * (480_000 + hour) for hour, _ in rows],
        "device": [f"d{device}" for _, device in rows],
        "power": [float(device % 10 * 10) for _, device in rows],
        "mode": ["off" if device % 4 else "on" for _, device in rows],
    }
    if empty is not None:
        found[empty] = [None] * len(rows)
    return found


def reported(found: QuantityRuns) -> dict[int, int]:
    """Return how many reports each round has, of all quantities."""
    sizes: dict[int, int] = {}
    for rounds in found.values():
        for one in rounds:
            sizes[one.round or 0] = sizes.get(one.round or 0, 0) + one.n
    return sizes


def test_each_cycle_has_exactly_the_stated_turns_of_each_quantity() -> None:
    """Whatever the device, one quantity a round; orders differ between devices and cycles."""
    key = RunKey(bytes(32))
    shares = {"power": 3, "mode": 1, "heat": 2}
    rounds = np.tile(np.arange(-60, 60), 50)
    public = np.repeat(np.arange(50, dtype=np.uint64) * np.uint64(7919), 120)
    owns = np.stack([Turn(name, shares, key).is_own(public, rounds) for name in shares])
    assert (owns.sum(axis=0) == 1).all()
    for own, count in zip(owns, shares.values(), strict=True):
        assert (own.reshape(50, 20, 6).sum(axis=2) == count).all()
    orders = {one.tobytes() for one in owns[0].reshape(50 * 20, 6)}
    # Of 20 orders of three turns in six places; a thousand draws miss one with 1e-21.
    assert len(orders) == 20
    assert len({one.tobytes() for one in owns[0].reshape(50, 120)}) == 50
    assert Turn("mode", shares).is_own(public, rounds).all()


def test_a_device_reports_one_quantity_a_round_and_all_of_it_is_counted() -> None:
    """With turns a device of 12 rounds has sent 12 reports, not 24."""
    found = run_table(table(), Quantities(plans=plans(), turns=TURNS), rng=SeededRandom(1))
    assert set(reported(found).values()) == {DEVICES}
    assert (found.spent.devices, found.spent.reports) == (DEVICES, DEVICES * HOURS)
    assert (found.spent.most_reports, found.spent.most_epsilon) == (HOURS, HOURS)
    powers = [run.summary.most_reports for run in found.runs.values()]
    # Cycles of three rounds: four of them, and so twice and once as many turns.
    assert powers == [8, 4]
    assert list(found) == ["power", "mode"]
    assert "Rounds(12 rounds" in repr(found)


def test_parts_of_a_budget_add_up() -> None:
    """Without turns each device reports all quantities, and its epsilons are added."""
    both = Quantities(plans=plans(CERTAIN))
    found = run_table(table(), both, rng=SeededRandom(1))
    assert set(reported(found).values()) == {2 * DEVICES}
    assert found.spent.most_reports == 2 * HOURS
    assert found.spent.most_epsilon == pytest.approx(HOURS * both.epsilon)
    assert both.epsilon == pytest.approx(
        sum(plan.randomizer.budgets[-1] for plan in both.plans.values())
    )
    for one in found["mode"]:
        assert one.estimates["on"].value == pytest.approx(0.25, abs=1e-6)
    for one in found["power"]:
        low, high = one.estimate.interval(0.999999)
        assert low < 45 < high


def test_no_two_quantities_share_noise() -> None:
    """Two columns with the same readings get different reports, seeded or not."""
    rows = table()
    rows["again"] = rows["power"]
    one = plans()["power"]
    both = Quantities(plans={"power": one, "again": one})
    for rng in (SeededRandom(1), None):
        found = run_table(rows, both, rng=rng)
        pairs = zip(found["power"], found["again"], strict=True)
        # Two noises of a round of 40 give one mean with less than 1 in 100.
        assert sum(a.estimate.value == b.estimate.value for a, b in pairs) <= 3


@each_case("order", ["sorted", "mixed"])
def test_files_read_in_parts_give_what_a_table_in_memory_gives(
    order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one pass, by the footers or through the store: the same turns and the same noise."""
    monkeypatch.setattr(runs, "_ONE_PART_ROWS", 100)
    monkeypatch.setattr("rase.tables.parts._USUAL_ROWS", 100)
    rows = pa.table(table())
    if order == "mixed":
        rows = rows.take(np.random.default_rng(1).permutation(len(rows)))
    path = tmp_path / f"{order}.parquet"
    pq.write_table(rows, path, row_group_size=50)
    both = Quantities(plans=plans(), turns=TURNS)
    found, expected = (run_table(given, both, rng=SeededRandom(3)) for given in (path, table()))
    assert found.spent == expected.spent
    assert {name: list(one) for name, one in found.items()} == {
        name: list(one) for name, one in expected.items()
    }


class Stopped(Exception):
    """The process ends here."""


def begun(rows: dict[str, list[Any]], folder: Path, both: Quantities, *, ends_at: str = "") -> Any:
    """Run quantities with secure noise, which they keep in a folder; maybe stop before one."""

    def begin(name: str, plan: RunPlan, rng: Random | None) -> LocalRun:
        if name == ends_at:
            raise Stopped
        source = open_source(rows, columns=Columns(value=name))
        return run(source, plan, rng=rng, work=folder_of(folder, name))

    return QuantityRuns(both, begin, folder=folder)


def test_turns_stay_when_a_run_goes_on(tmp_path: Path) -> None:
    """What was reported of the first quantity is not reported again as the second."""
    both, folder = Quantities(plans=plans(), turns=TURNS), tmp_path / "work"
    with pytest.raises(Stopped):
        begun(table(), folder, both, ends_at="mode")
    assert (folder / "turns.key").stat().st_mode & 0o077 == 0
    found = begun(table(), folder, both)
    # Fresh turns would leave it to chance: all twelve rounds fit with less than 1e-12.
    assert found.runs["power"].resumed == 1
    assert set(reported(found).values()) == {DEVICES}
    found.finish()
    assert not folder.exists()
    with pytest.raises(Stopped):
        begun(table(), folder, both, ends_at="mode")
    (folder / "turns.key").unlink()
    with pytest.raises(StorageUnusable, match=r"turns\.key is missing or damaged"):
        begun(table(), folder, both)


def test_what_cannot_share_a_budget_is_refused() -> None:
    """Other rounds, unknown or too many turns, and rounds that are only times."""
    power = plans()["power"]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"plans": {}}, "at least one quantity"),
        (
            {"plans": {"power": power, "heat": RunPlan(randomizer=power.randomizer, every="2h")}},
            "every must be the same in all plans",
        ),
        ({"plans": plans(), "turns": {"power": 1}}, "turns must be given for power, mode, got po"),
        ({"plans": plans(), "turns": {"power": 0, "mode": 1}}, "whole numbers from 1 on"),
        ({"plans": plans(), "turns": {"power": 64, "mode": 1}}, "64 together at most, got 64, 1"),
        (
            {"plans": {"power": RunPlan(randomizer=power.randomizer)}, "turns": {"power": 1}},
            "every must be given where quantities take turns",
        ),
        (
            {"plans": {"power": RunPlan(randomizer=power.randomizer, feedback=lambda: None)}},  # type: ignore[arg-type, return-value]
            "turn must not be combined with feedback, graph or budgets",
        ),
    ]
    for given, message in cases:
        with pytest.raises(ValueError, match=message):
            Quantities(**given)
