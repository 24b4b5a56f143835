import numpy as np
import pytest

from rase.lab.metrics import AttackResult, Interval, score_guesses


def score(truth: list[int], ranked: list[list[int]], n: int, **options: object) -> AttackResult:
    """Score guesses with every record a cluster of its own, unless told otherwise."""
    arguments: dict[str, object] = {
        "confidence": np.zeros(len(truth)),
        "clusters": np.arange(len(truth)),
        "attack": "a",
        "scheme": "s",
        "split": "random",
        "seed": 1,
    }
    return score_guesses(np.array(truth), np.array(ranked), n=n, **(arguments | options))  # type: ignore[arg-type]


def test_precision_and_recall_by_hand() -> None:
    """Four records of three devices, counted by hand."""
    result = score([0, 0, 1, 2], [[0, 1], [1, 0], [1, 2], [1, 0]], 3)
    assert result.precision.tolist() == [1.0, 1 / 3, 0.0]
    assert result.recall.tolist() == [0.5, 1.0, 0.0]
    assert result.macro_precision.value == pytest.approx(4 / 9)
    assert result.macro_recall.value == pytest.approx(0.5)
    assert result.top_k == {1: 0.5}
    assert result.accuracy == 0.5
    assert result.chance == 1 / 3
    assert score([0, 0, 1], [[1, 2, 0]] * 3, 3).top_k == {1: 1 / 3, 3: 1.0}


def test_abstaining_costs_recall_and_not_precision() -> None:
    """A record without a guess counts as missed; a device without a record counts nowhere."""
    result = score([0, 0], [[0], [-1]], 3, confidence=np.array([0.95, 0.95]))
    assert result.guessed == 1
    assert result.precision[0] == 1.0
    assert np.isnan(result.precision[1])
    assert result.recall[0] == 0.5
    assert np.isnan(result.recall[1])
    assert result.macro_recall.value == 0.5
    assert (result.confident, result.confident_right) == (1, 1)


def test_confident_guesses_are_counted_and_checked() -> None:
    """Only posteriors of at least 0.9 count, right or wrong."""
    sure = np.array([0.9, 0.99, 0.5])
    result = score([0, 1, 1], [[0], [0], [1]], 2, confidence=sure)
    assert (result.confident, result.confident_right) == (2, 1)


@pytest.mark.uncovered
def test_intervals_are_as_wide_as_chance_makes_them() -> None:
    """For 200 fair coins the 95 % interval is 1.96 binomial deviations to each side.

    One interval's width deviates by about 8 %, the mean of 40 by 1.3 %: the tolerance of 10 % has
    a false-alarm rate below 1e-9, and intervals 30 % too narrow fall outside it.
    """
    generator = np.random.default_rng(2026)
    widths = []
    for seed in range(40):
        truth = np.repeat([0, 1], 100)
        guess = np.where(generator.random(200) < 0.5, truth, 1 - truth)
        found = score(truth.tolist(), guess[:, None].tolist(), 2, seed=seed).macro_recall
        assert found == score(truth.tolist(), guess[:, None].tolist(), 2, seed=seed).macro_recall
        widths.append(found.high - found.low)
    expected = 2 * 1.96 * np.sqrt(0.25 / 200)
    assert abs(np.mean(widths) / expected - 1) < 0.1
    assert abs(0.7 * np.mean(widths) / expected - 1) > 0.1


def test_clusters_that_stand_or_fall_together_widen_the_interval() -> None:
    """A hundred copies of the same ten guesses know no more than ten guesses."""
    truth = np.arange(10).repeat(100)
    guess = np.where(truth < 5, truth, 0)[:, None]
    alone = score(truth.tolist(), guess.tolist(), 10).macro_recall
    together = score(truth.tolist(), guess.tolist(), 10, clusters=truth).macro_recall
    assert together.high - together.low > 5 * (alone.high - alone.low + 1e-9)


def test_no_success_does_not_prove_success_impossible() -> None:
    """At 0 and at 1 the interval ends at the exact binomial limit for the number of clusters."""
    limit = 1 - 0.025 ** (1 / 4)
    never = score([0, 1, 0, 1], [[1], [0], [1], [0]], 2).macro_recall
    always = score([0, 1, 0, 1], [[0], [1], [0], [1]], 2)
    assert [never.low, never.high] == pytest.approx([0.0, limit])
    assert [always.macro_recall.low, always.macro_recall.high] == pytest.approx([1 - limit, 1.0])
    assert always.is_above_chance == (1 - limit > 0.5)


def test_intervals_are_compared_by_their_ends() -> None:
    """One is below the other only if they do not overlap."""
    low, middle, high = Interval(0.1, 0.0, 0.2), Interval(0.2, 0.15, 0.3), Interval(0.5, 0.4, 0.6)
    assert low.is_below(high)
    assert not low.is_below(middle)
    assert not high.is_below(low)


def test_shapes_that_do_not_fit_are_refused() -> None:
    """Columns of different lengths, or none at all, are refused."""
    with pytest.raises(ValueError, match="one length"):
        score([0, 1], [[0]], 2)
    with pytest.raises(ValueError, match="at least one record"):
        score([], np.empty((0, 1), dtype=np.int64).tolist(), 2)
