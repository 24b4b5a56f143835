"""The order of release: uniform unless the plan says Mallows, from public groups, never seeded."""

from collections import Counter
from typing import Any

import pytest

from rase.campaign import ShufflePlan
from rase.kernels.words import SecureRandom, SeededRandom
from rase.shuffler.order import draw_order
from rase.shuffler.release import Releaser


@pytest.mark.parametrize(
    "plan",
    [
        ShufflePlan(),
        ShufflePlan("mallows", 2.0, ("north", "south")),
        ShufflePlan("robust", 2.0, ("north", "south")),
        ShufflePlan("robust", 2.0),
    ],
)
def test_every_report_is_released_once(plan: ShufflePlan) -> None:
    """The order is one of all reports, and the manifest is about as many."""
    groups = ["south", "north", "elsewhere", "south", "north"]
    order, manifest = draw_order(groups, plan)
    assert sorted(order) == list(range(5))
    assert manifest.n == 5
    assert manifest.alpha <= plan.alpha * (1 + 1e-12)
    assert manifest.real_loss <= plan.alpha * (1 + 1e-12)


def test_a_seed_is_refused() -> None:
    """Who knows a seed could undo the order: the live shuffler takes none."""
    with pytest.raises(TypeError, match="SecureRandom"):
        draw_order(["", ""], ShufflePlan(), rng=SeededRandom(1))  # type: ignore[arg-type]


def test_a_mallows_order_starts_from_the_public_groups() -> None:
    """With a large alpha the groups stay in the campaign's order, whoever came first.

    Inside a group both orders are equally frequent. The order is never seeded. False-alarm rate:
    below 1e-15. Of 600 draws each of two orders has 300 expected, and one of them comes at most
    200 times with a chance of 2.4e-16; a pair of groups is exchanged with a chance of exp(-900).
    """
    plan = ShufflePlan("mallows", 900.0, ("north", "south"))
    groups = ["south", "north", "elsewhere", "south", "north", "elsewhere"]
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(600):
        order, manifest = draw_order(groups, plan, rng=SecureRandom())
        assert manifest.method == "mallows"
        assert [groups[place] for place in order] == sorted(
            groups, key=["north", "south", "elsewhere"].index
        )
        seen[tuple(order[:2].tolist())] += 1
    assert set(seen) == {(1, 4), (4, 1)}
    assert min(seen.values()) > 200


def test_groups_of_one_are_shuffled_uniformly() -> None:
    """Where no group has two members a Mallows law would move nothing; uniform is taken."""
    for method in ("mallows", "robust"):
        _, manifest = draw_order(["a", "b"], ShufflePlan(method, 1.0, ("a", "b")))
        assert (manifest.method, manifest.alpha) == ("uniform", 0.0)


def test_one_and_none() -> None:
    """Nothing to shuffle is no error."""
    assert draw_order([], ShufflePlan())[0].tolist() == []
    assert draw_order(["a"], ShufflePlan("robust", 1.0))[0].tolist() == [0]


def test_a_closer_cannot_be_built_with_a_seed() -> None:
    """What opens and shuffles rounds in production refuses seeded randomness from the start."""
    parts: Any = {"opener": None, "key": None, "name": "shuffler"}
    nothing: Any = None
    with pytest.raises(TypeError, match="rng must be a SecureRandom here, got SeededRandom"):
        Releaser(nothing, **parts, rng=SeededRandom(1))  # type: ignore[arg-type]
