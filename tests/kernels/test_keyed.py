"""Words by place: the same place gives the same words, other places other ones."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from tests.cases import each_case

from rase import BudgetAware, Duchi, Hybrid, Laplace, Optimal, Piecewise, Precision, Range
from rase.kernels.keyed import (
    ROWS_AT_ONCE,
    RoundRandom,
    RowRandom,
    RunKey,
    public_numbers,
    text_buffers,
)
from rase.kernels.words import SecureRandom, SeededRandom, source_of
from rase.laws.randomizer import RangeRandomizer

PUBLIC = Range(0, 100)
KEY = RunKey(bytes(range(32)))
NAMES = ["", "a", "b", "kettle", "x" * 15, "x" * 16, "x" * 17, "x" * 100, "ä", "kettle"]
MECHANISMS: list[RangeRandomizer] = [
    BudgetAware(1.0, PUBLIC, Precision(0.5, 0.9)),
    Laplace(1.0, PUBLIC),
    Duchi(1.0, PUBLIC),
    Piecewise(2.0, PUBLIC),
    Hybrid(2.0, PUBLIC),
    Optimal(2.0, PUBLIC),
]


def tags_of(names: list[str], key: RunKey = KEY) -> np.ndarray:
    """Return the tags of devices."""
    return key.tags(*text_buffers(names))[0]


def rows(count: int, *, key: RunKey = KEY, number: int = 7) -> RowRandom:
    """Return the source of some devices' readings in a round."""
    tags = tags_of([str(device) for device in range(count)], key)
    rounds = np.full(count, number)
    return key.rows(rounds, tags, readings=np.linspace(0, 100, count))


def test_tags_tell_names_apart() -> None:
    """Equal names have equal tags, all others differ, and another key gives other tags."""
    tags = [tuple(tag) for tag in tags_of(NAMES).tolist()]
    assert tags[3] == tags[9]
    assert len(set(tags)) == len(set(NAMES))
    assert not set(tags) & {tuple(tag) for tag in tags_of(NAMES, RunKey(bytes(32))).tolist()}


def test_a_tag_depends_on_the_name_alone() -> None:
    """Whatever stands beside it, a name has its tag; so it is with the public number."""
    together = tags_of(NAMES)
    assert all((tags_of([name])[0] == together[place]).all() for place, name in enumerate(NAMES))
    numbers = public_numbers(NAMES)
    assert all(public_numbers([name])[0] == numbers[place] for place, name in enumerate(NAMES))
    assert (KEY.tags(*text_buffers(NAMES))[1] == numbers).all()
    assert len(tags_of([])) == 0


def test_keys() -> None:
    """A key has 32 bytes, never shows them, survives pickling, and follows from a seed.

    False alarms: two secure keys give the same tag with probability 2^-128.
    """
    with pytest.raises(ValueError, match="key must have 32 bytes, got 3"):
        RunKey(b"abc")
    assert repr(KEY) == "RunKey(...)"
    again = pickle.loads(pickle.dumps(KEY))  # noqa: S301 - our own bytes
    assert (tags_of(NAMES, again) == tags_of(NAMES)).all()
    one, two = (tags_of(["a"], RunKey.draw_key(SeededRandom(5))) for _ in range(2))
    assert (one == two).all()
    assert (tags_of(["a"], RunKey.draw_key(None)) != tags_of(["a"], RunKey.draw_key(None))).any()
    source = SeededRandom(5)
    first = tags_of(["a"], RunKey.draw_key(source))
    assert (first == one).all()
    assert (tags_of(["a"], RunKey.draw_key(source)) != one).any()


def test_words_depend_on_round_device_and_reading() -> None:
    """Each of the three changes the words; the rows beside a row do not."""
    whole = rows(100).words(100)
    assert len(set(whole.tolist())) == 100
    other = rows(100, number=8).words(100)
    assert not set(whole.tolist()) & set(other.tolist())
    tags = tags_of([str(device) for device in range(100)])
    some = slice(40, 60)
    part = KEY.rows(np.full(20, 7), tags[some], readings=np.linspace(0, 100, 100)[some])
    assert (part.words(20) == whole[some]).all()
    moved = KEY.rows(np.full(20, 7), tags[some], readings=np.full(20, 1.5)).words(20)
    assert (moved != whole[some]).all()
    zeros = [KEY.rows(np.array([7]), tags[:1], readings=np.array([z])) for z in (0.0, -0.0)]
    assert zeros[0].words(1) == zeros[1].words(1)


def test_columns_and_parts_are_the_same_words() -> None:
    """Every column has words of its own; a part of the rows goes on where the whole was."""
    source = rows(10)
    columns = [source.stream().words(10) for _ in range(4)]
    assert len({word for column in columns for word in column.tolist()}) == 40
    chosen = np.arange(10) % 3 == 0
    for taken in range(3):
        source = rows(10)
        for _ in range(taken):
            source.words(10)
        part = source.part(chosen)
        assert (part.words(4) == columns[taken][chosen]).all()
    with pytest.raises(ValueError, match="rows must be at most 8192 at once, got 8193"):
        rows(ROWS_AT_ONCE + 1)


def test_other_counts_have_words_of_their_own() -> None:
    """Words that replace refused ones are new each time, and depend on the rows."""
    source = rows(10)
    first, second = source.words(3), source.words(3)
    assert len({*first.tolist(), *second.tolist()}) == 6
    assert (rows(10).words(3) == first).all()
    assert (rows(10, number=8).words(3) != first).all()


def test_round_words_are_one_stream() -> None:
    """A round's words do not depend on how they are asked for, and differ by round and key."""
    whole = KEY.round(-3).words(9)
    source = KEY.round(-3)
    assert isinstance(source, RoundRandom)
    assert (np.concatenate([source.words(4), source.stream().words(5)]) == whole).all()
    assert source.part(np.ones(1, np.bool_)) is source
    assert (KEY.round(3).words(9) != whole).all()
    assert source_of(source) is source
    assert SecureRandom().part(np.ones(1, np.bool_)).words(1).size == 1


@each_case("randomizer", MECHANISMS)
def test_reports_do_not_depend_on_the_batch(randomizer: RangeRandomizer) -> None:
    """Drawn together or in parts, in any order, each reading has the same report."""
    count = 3000
    readings = np.linspace(0, 100, count)
    tags = tags_of([str(device) for device in range(count)])
    rounds = np.arange(count) % 7

    def drawn(places: np.ndarray) -> np.ndarray:
        source = KEY.rows(rounds[places], tags[places], readings=readings[places])
        return randomizer.randomize(readings[places], rng=source)

    whole = drawn(np.arange(count))
    order = np.random.default_rng(1).permutation(count)
    for part in np.split(order, [1, 10, 1000]):
        assert (drawn(part) == whole[part]).all()


@each_case("randomizer", MECHANISMS)
def test_keyed_reports_follow_the_law(randomizer: RangeRandomizer) -> None:
    """A chi-square over 20 bins of 40,000 reports of one reading stays below its 1 - 1e-7 point.

    False alarms: 6e-7 for all six together. Noise of another scale by 30 % is rejected.
    """
    count = 40_000
    tags = tags_of([str(device) for device in range(count)])
    readings = np.full(count, 37.3)
    zeros = np.zeros(count, np.int64)
    pieces = [slice(start, start + ROWS_AT_ONCE) for start in range(0, count, ROWS_AT_ONCE)]
    reports = np.concatenate(
        [
            randomizer.randomize(
                readings[some], rng=KEY.rows(zeros[some], tags[some], readings=readings[some])
            )
            for some in pieces
        ]
    )

    def distance(law: RangeRandomizer) -> float:
        low, high = float(reports.min()), float(reports.max())
        # Behind every twentieth of the reports; a bit has two values, which are told apart.
        cuts = np.unique(np.quantile(reports, np.linspace(0, 0.95, 20)))
        edges = np.array([low - 1, *(cuts[cuts < high] + 1e-6), high + 1])
        chances = law.report_probabilities([37.3], edges)[0]
        expected = count * np.maximum(chances / chances.sum(), 1e-9)
        seen = np.histogram(reports, edges)[0]
        return float((np.square(seen - expected) / expected).sum()) / (len(edges) - 1)

    # 20 bins have 19 degrees of freedom: 1e-7 is at 70.2, 3.7 for each degree.
    assert distance(randomizer) < 3.7
    assert distance(replace(randomizer, epsilon=1.3 * float(np.max(randomizer.epsilon)))) > 3.7
