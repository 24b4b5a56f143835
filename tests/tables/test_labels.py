"""Answers by label: each has k_min reports behind it, however answers are added and subtracted."""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import each_case

from rase import Categories, Counts, Range, RunPlan, SeededRandom, auto, run_table
from rase.cli import main
from rase.counts.labels import merge_small
from rase.domain import OTHER
from rase.errors import DataError
from rase.tables import labels as room
from rase.tables.labels import CELLS, Labels, cells_by_label, read_labels
from rase.tables.layouts import Columns
from rase.tables.plan import ShuffledPromise
from rase.tables.run import run
from rase.tables.source import open_source

REGIONS = {"north": 150, "south": 120, "west": 12, "isle": 10}
ROUNDS = 4


def table(rounds: int = ROUNDS) -> dict[str, list[Any]]:
    """Return a reading a round of each device; those of the north are high."""
    places = [(region, number) for region, count in REGIONS.items() for number in range(count)]
    rows = [(time, *place) for time in range(rounds) for place in places]
    return {
        "time": [1_700_006_400 + 3600 * time for time, _, _ in rows],
        "device": [f"{region} {number}" for _, region, number in rows],
        "value": [80.0 if region == "north" else 20.0 for _, region, _ in rows],
        "region": [region for _, region, _ in rows],
    }


def labels_of(rows: Any, *, k_min: int = 20) -> Labels:
    """Return the labels of a table."""
    return read_labels(open_source(rows, columns=Columns(value="region")), k_min=k_min)


def plan_of(rows: Any, *, k_min: int = 20, **more: Any) -> RunPlan:
    """Return a plan by the hour with labels."""
    randomizer = auto(8.0, Range(0, 100))
    return RunPlan(
        randomizer=randomizer,
        every="1h",
        estimator="unbiased_mean",
        labels=labels_of(rows, k_min=k_min),
        **more,
    )


def test_small_labels_are_merged_and_all_have_their_own_answer() -> None:
    """West and isle are called other; the total is that of all, and of the labels together."""
    rows = table()
    found = run_table(rows, plan_of(rows), rng=SeededRandom(1))
    by_label = {one.label: one for one in found[:4]}
    assert {label: one.n for label, one in by_label.items()} == {
        None: 292,
        "north": 150,
        "other": 22,
        "south": 120,
    }
    assert abs(by_label["north"].estimate.value - 80) < 3
    assert abs(by_label["other"].estimate.value - 20) < 6
    total = sum(one.n * one.estimate.value for label, one in by_label.items() if label)
    whole = by_label[None]
    assert total == pytest.approx(whole.n * whole.estimate.value)
    assert list(found.to_frame()["label"][:4]) == [None, "north", "other", "south"]


def test_answers_by_label_do_not_depend_on_how_a_table_is_cut(tmp_path: Path) -> None:
    """In memory, from row groups, through the store: the same reports with one seed."""
    rows = table()
    order = np.random.default_rng(1).permutation(len(rows["time"]))
    mixed = {name: [column[place] for place in order] for name, column in rows.items()}
    plan = plan_of(rows)
    expected = {
        (one.round, one.label): one.estimates for one in run(rows, plan, rng=SeededRandom(2))
    }
    for number, shape in enumerate((rows, mixed)):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table(shape), path, row_group_size=100)
        some = run(open_source(str(path)), plan, rng=SeededRandom(2), workers=2)
        some._most_rows = 300
        assert {(one.round, one.label): one.estimates for one in some} == expected


def test_a_run_that_was_killed_goes_on_with_its_labels(tmp_path: Path) -> None:
    """What a log holds of labels is read back as it was."""
    path, work = tmp_path / "rows.parquet", tmp_path / "work"
    rows = table()
    pq.write_table(pa.table(rows), path, row_group_size=292)
    plan = plan_of(rows)
    first = [
        (one.label, one.n, one.estimate.value)
        for one in run(open_source(str(path)), plan, work=work)
    ]
    again = run(open_source(str(path)), plan, work=work)
    assert [(one.label, one.n, one.estimate.value) for one in again] == first
    assert again.resumed > 0


def test_each_label_is_followed_through_time_by_itself() -> None:
    """Tracked means of the north do not lean to those of the south."""
    rows = table(40)
    public, labels = Range(0, 100), labels_of(rows)
    plan = RunPlan(randomizer=auto(2.0, public), every="1h", labels=labels, as_known_then=True)
    last = {one.label: one.estimate for one in run_table(rows, plan, rng=SeededRandom(1))[-4:]}
    assert abs(last["north"].value - 80) < 5
    assert abs(last["south"].value - 20) < 5
    assert last["north"].method == "tracked"


def test_shares_by_label_and_rounds_that_are_too_small() -> None:
    """Categories by label, with a promise; a round below k_min gives nothing, and is counted."""
    rows = table()
    rows["value"] = ["high" if one > 50 else "low" for one in rows["value"]]
    kept = len(rows["time"]) - 280
    rows = {name: column[:kept] for name, column in rows.items()}
    plan = RunPlan(
        randomizer=auto(4.0, Categories(("low", "high"))),
        every="1h",
        labels=labels_of(rows),
        promise=ShuffledPromise(k_min=20),
    )
    made = run(rows, plan, rng=SeededRandom(1))
    found = list(made)
    assert {one.label for one in found} == {None, "north", "other", "south"}
    assert len({one.round for one in found}) == ROUNDS - 1
    assert (made.summary.rounds, made.summary.withheld) == (ROUNDS - 1, 1)
    assert all(one.n >= 20 for one in found)
    assert found[1].estimates["high"].value > 0.9


@given(
    st.dictionaries(st.integers(0, 6), st.integers(1, 30), min_size=1, max_size=7),
    st.integers(2, 25),
)
def test_no_label_that_is_released_is_small(counts: dict[int, int], k_min: int) -> None:
    """Nor is other; and no label that is large is merged without need."""
    merged = merge_small(counts, k_min=k_min, other=6)
    if merged is None:
        assert sum(counts.values()) < k_min
        return
    sizes: dict[int, int] = {}
    for label, count in counts.items():
        sizes[merged[label]] = sizes.get(merged[label], 0) + count
    assert min(sizes.values()) >= k_min
    taken = [
        label for label in counts if label != 6 and merged[label] == 6 and counts[label] >= k_min
    ]
    small = sum(count for label, count in counts.items() if count < k_min or label == 6)
    assert len(taken) <= 1
    assert not taken or 0 < small < k_min


def isolated(released: Iterable[frozenset[int]], devices: int, k_min: int) -> bool:
    """Return whether sums over released sets give a sum over fewer than k_min devices.

    Answers of a round are sums over sets of its reports. Two devices that lie in the same sets
    cannot be told apart by any linear combination; so what can be isolated are unions of such
    classes, and the smallest of them decides.
    """
    sets = list(released)
    classes: dict[tuple[bool, ...], int] = {}
    for device in range(devices):
        key = tuple(device in one for one in sets)
        if any(key):
            classes[key] = classes.get(key, 0) + 1
    return any(count < k_min for count in classes.values())


def released_sets(label_of: list[int], labels: Labels) -> list[frozenset[int]]:
    """Return which devices' reports are behind each answer of a round in which all report.

    Every device reports a place of its own, so that counts say whose reports were added.
    """
    cells, group = np.unique(CELLS * 7 + 1 + np.array(label_of), return_inverse=True)
    rows = np.lexsort((np.arange(len(label_of)), group))
    counts = Counts(rows.astype(np.int64), np.ones(len(rows), dtype=np.int64))
    found, row_cell, joined = cells_by_label(labels, cells, group=group[rows], counts=counts)
    sets = [frozenset(joined.places[row_cell == number].tolist()) for number in range(len(found))]
    return [one for one in sets if len(one) >= labels.k_min]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=40),
    st.integers(2, 8),
)
def test_no_sum_or_difference_of_answers_is_about_a_few(label_of: list[int], k_min: int) -> None:
    """A model of who is behind each answer of a round tries every combination of them."""
    labels = Labels(("a", "b", "c", "d", OTHER), {}, k_min)
    assert not isolated(released_sets(label_of, labels), len(label_of), k_min)


def test_the_model_finds_a_way_when_the_rule_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without merging, or with only labels below k_min withheld beside a total, it isolates."""
    labels = Labels(("a", "b", "c", "d", OTHER), {}, 5)
    label_of = [0] * 20 + [1] * 3
    assert not isolated(released_sets(label_of, labels), len(label_of), 5)

    def unmerged(counts: dict[int, int], **_: int) -> dict[int, int]:
        return {label: label for label in counts}

    monkeypatch.setattr(room, "merge_small", unmerged)
    # The label of three is withheld, but the total less the other label is theirs.
    assert isolated(released_sets(label_of, labels), len(label_of), 5)


def test_windows_of_labels_are_about_rounds_that_are_large_each() -> None:
    """Differences of overlapping windows are differences of rounds: of reports drawn afresh.

    So every released set of reports, over all rounds together, still has k_min or more, and no
    combination of windows isolates fewer: rounds share no report.
    """
    labels = Labels(("a", "b", OTHER), {}, 5)
    rng = np.random.default_rng(3)
    for _ in range(50):
        rounds = [
            released_sets(
                rng.choice(3, size=rng.integers(1, 30), p=[0.7, 0.2, 0.1]).tolist(), labels
            )
            for _ in range(4)
        ]
        shifted = [
            [frozenset(100 * number + device for device in one) for one in sets]
            for number, sets in enumerate(rounds)
        ]
        windows = [
            frozenset().union(*(sets[0] for sets in pair if sets))
            for pair in itertools.pairwise(shifted)
        ]
        every = [one for sets in shifted for one in sets] + [one for one in windows if one]
        assert not isolated(every, 400, 5)


def test_labels_of_a_table_are_read_once_for_each_device() -> None:
    """Devices without one are of other; blanks do not count, and other may be a label itself."""
    rows = {
        "time": [0, 0, 0, 1, 1, 1],
        "device": ["a", "b", "c"] * 2,
        "value": [1.0] * 6,
        "region": ["x", None, "other", None, None, " other"],
    }
    found = labels_of(rows, k_min=2)
    assert found.names == ("x", "other")
    assert found.of(["a", "b", "c", "d"]).tolist() == [0, 1, 1, 1]
    assert repr(found) == "Labels(x, other; k_min=2)"


@each_case(
    ("region", "message"),
    [
        (["x", "x", "y", "x"], "gives one device two labels"),
        ([0.5] * 4, "must hold labels, got double"),
        ([None] * 4, "is empty in all 4 rows"),
        (["l" * 65] * 4, "labels must be 64 characters at most"),
    ],
)
def test_columns_that_are_no_labels_are_refused(region: list[Any], message: str) -> None:
    """By name; a device's name is not shown."""
    rows = {"time": [0, 0, 1, 1], "device": ["a", "b"] * 2, "value": [1.0] * 4, "region": region}
    with pytest.raises(DataError, match=message):
        labels_of(rows)


def test_more_than_16_labels_are_refused() -> None:
    """Sixteen and other are the most."""

    def rows(count: int) -> dict[str, list[Any]]:
        names = [f"r{number}" for number in range(count)]
        return {"time": [0] * count, "device": names, "value": [1.0] * count, "region": names}

    assert len(labels_of(rows(16)).names) == 17
    with pytest.raises(DataError, match="holds 17 labels, and 16 at most"):
        labels_of(rows(17))
    with pytest.raises(ValueError, match="labels must be 16 at most and end with other"):
        Labels(("a", "b"), {}, 2)
    with pytest.raises(ValueError, match="k_min must be at least 2, got 1"):
        Labels((OTHER,), {}, 1)


def test_what_labels_cannot_be_combined_with() -> None:
    """Truth, and a promise for larger crowds."""
    rows = table()
    with pytest.raises(ValueError, match="labels must not be combined with feedback"):
        plan_of(rows, truth=True)
    with pytest.raises(ValueError, match="k_min of labels must be at least the promise's 50"):
        plan_of(rows, promise=ShuffledPromise(k_min=50))


def test_the_command_answers_by_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for all and for each label, for people and as JSON, windows of each label apart."""
    path = tmp_path / "rows.csv"
    rows = table()
    lines = zip(*rows.values(), strict=True)
    path.write_text(
        "time,device,value,region\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in lines)
    )
    asked = ("--range", "0", "100", "--epsilon", "8", "--every", "1h", "--seed", "1")
    by_label = ("--label", "region", "--k-min", "20", "--window", "2")
    assert main(["run", str(path), *asked, *by_label]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[1] for line in out.splitlines()[1:5]] == ["all", "north", "other", "south"]
    assert "The mean over the 4 rounds is" in err
    assert main(["run", str(path), *asked, *by_label, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    windows = [
        row for row in document["results"] if row["of_rounds"] == 2 and row["label"] == "north"
    ]
    assert len(windows) == ROUNDS - 1
    assert all(abs(row["value"] - 80) < 3 and row["n"] == 300 for row in windows)
    assert main(["run", str(path), *asked, "--label", "region"]) == 2
    assert "--label needs --k-min" in capsys.readouterr().err
    assert main(["run", str(path), *asked, *by_label, "--truth"]) == 2
    assert "--label and --truth cannot be used together" in capsys.readouterr().err
    assert main(["run", str(path), *asked, "--label", "area", "--k-min", "20"]) != 0
    assert "has no column 'area'" in capsys.readouterr().err
