"""Laws for categories: a report votes for the true category often, for any other one seldom.

Warner, "Randomized response", JASA 1965, for two answers; Kairouz, Bonawitz, Ramage, "Discrete
distribution estimation under local privacy", ICML 2016, for k. The window law of rase.laws.parts
with a window of one place is exactly this, in whole numbers. At small epsilon a report that names
a public set of categories says more (rase.laws.designs).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from rase.domain import Categories, Range
from rase.kernels.fixed import WORD
from rase.laws.certificate import Drawn
from rase.laws.designs import Design, design_for
from rase.laws.law import BoundedLaw, Law
from rase.laws.parts import near_and_far, one_of_many
from rase.laws.randomizer import Randomizer
from rase.laws.windows import PartsLaw
from rase.lazy import numpy as np

if TYPE_CHECKING:
    from rase.arrays import Flags, Floats, Places, Words
    from rase.domain import Grid
    from rase.kernels.backend import Compiled
    from rase.kernels.entropy import Entropy
    from rase.kernels.words import Random

__all__ = [
    "BlockDesign",
    "CategoryLaw",
    "CategoryRandomizer",
    "RandomizedResponse",
    "share_deviation",
]


class CategoryLaw(Law):
    """A law over categories: a report votes for one of them, or for several."""

    @property
    @abstractmethod
    def chances(self) -> tuple[float, float]:
        """How often a report votes for the true category, and for any other one."""

    @abstractmethod
    def votes(self, place: Places) -> Flags:
        """Return for each place (row) for which categories it votes."""


@dataclass(frozen=True)
class CategoryRandomizer(Randomizer):
    """Randomize categories; subclasses choose the law.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public categories.
    """

    domain: Categories

    domain_kind: ClassVar[type[Range | Categories]] = Categories

    @abstractmethod
    def law(self, epsilon: float) -> CategoryLaw:
        """Return the law for one budget and this number of categories."""

    def decode_shares(self, places: Places, *, epsilon: float | None = None) -> Floats:
        """Return for each place (row) and category a number whose expectation is the share.

        That is 1 for the category of the reading and 0 for the others.

        Args:
            places: Places of reports.
            epsilon: Their one budget, where contributors differ.
        """
        law = self.law(self._one_budget if epsilon is None else epsilon)
        often, seldom = law.chances
        votes = law.votes(np.asarray(places)).astype(np.float64)
        return (votes - seldom) / (often - seldom)

    def draw_names(self, readings: Iterable[str], *, rng: Random | None = None) -> Places:
        """Draw the place of a report for each reading, given as the name of its category.

        Call it once for a reading: a second report of the same reading spends the budget again.

        Args:
            readings: Names of categories.
            rng: None for secure noise; a `SeededRandom` for study.

        Raises:
            ValueError: If a reading is not one of the categories.
        """
        return self.draw_many([self.domain.spot(one)[0] for one in readings], rng=rng)


@dataclass(frozen=True)
class RandomizedResponse(CategoryRandomizer):
    """Report the true category e^epsilon times as often as any other one.

    Guarantee: epsilon-LDP for any two categories; the ratio of the two integer weights is checked
    in tests/laws/test_response.py. Assumes secure noise, drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public categories.

    Example:
        >>> from rase import Categories, SeededRandom
        >>> response = RandomizedResponse(2.0, Categories(("on", "off", "standby")))
        >>> response.randomize(["on", "on", "off", "on"], rng=SeededRandom(1))
        ['on', 'on', 'standby', 'on']
    """

    name: ClassVar[str] = "randomized-response"
    summary: ClassVar[str] = "the true category often, any other seldom (Warner 1965)"

    def law(self, epsilon: float) -> CategoryLaw:
        """Return the law for this number of categories."""
        return _response(epsilon, self.domain.steps)

    def randomize(self, readings: Iterable[str], *, rng: Random | None = None) -> list[str]:
        """Return one report for each reading, as the names of categories.

        Call it once for a reading: a second report of the same reading spends the budget again.

        Args:
            readings: Names of categories.
            rng: None for secure noise; a `SeededRandom` for study.

        Raises:
            ValueError: If a reading is not one of the categories.
        """
        return [self.domain.names[place] for place in self.draw_names(readings, rng=rng).tolist()]


@dataclass(frozen=True)
class BlockDesign(CategoryRandomizer):
    """Report the number of a public set of categories, one with the true category rather often.

    The sets are a symmetric block design, so that all categories get the same error. Best at small
    epsilon; from about ln(k) on for k categories `RandomizedResponse` is better.

    Guarantee: epsilon-LDP for any two categories; the ratio of the two integer weights is checked
    in tests/laws/test_designs.py. Assumes secure noise, drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        domain: The public categories.

    Example:
        >>> from rase import BlockDesign, Categories, SeededRandom
        >>> design = BlockDesign(1.0, Categories(tuple("abcdefgh")))
        >>> design.draw_names(["a", "a", "b"], rng=SeededRandom(1)).tolist()
        [3, 12, 10]
    """

    name: ClassVar[str] = "block-design"
    summary: ClassVar[str] = "a set of categories with the true one; best at small epsilon"

    def law(self, epsilon: float) -> CategoryLaw:
        """Return the law of the best design for this number of categories."""
        return _blocks(epsilon, self.domain.steps)


def share_deviation(randomizer: CategoryRandomizer) -> float:
    """Return the standard deviation of a share by one report, as the root of the mean over all.

    It is the same for all readings.

    Example:
        >>> sixteen = Categories(tuple("abcdefghijklmnop"))
        >>> round(share_deviation(RandomizedResponse(4.1, sixteen)) / 100, 5)
        0.00189
    """
    often, seldom = randomizer.law(randomizer.budgets[-1]).chances
    others = randomizer.domain.steps * seldom * (1 - seldom)
    total = (often * (1 - often) + others) / (often - seldom) ** 2
    return math.sqrt(total / (randomizer.domain.steps + 1))


class _ResponseLaw(PartsLaw, CategoryLaw):
    """Draw one category; it votes for itself."""

    @property
    def chances(self) -> tuple[float, float]:
        """The two weights as shares."""
        return self._parts.near / WORD, self._parts.far / WORD

    def votes(self, place: Places) -> Flags:
        """Vote for the category of the place."""
        return np.asarray(place[..., None] == np.arange(self.steps + 1))


class BlockLaw(BoundedLaw, CategoryLaw):
    """Draw the number of a set; it votes for all categories of the set.

    Args:
        epsilon: The budget the weights are made for.
        design: The sets.
        steps: The place of the last category; further points of the design stand for none.
    """

    name = BlockDesign.name

    def __init__(self, epsilon: float, design: Design, steps: int) -> None:
        self.steps = steps
        self._epsilon, self._design = epsilon, design
        self._near, self._far = near_and_far(epsilon, design.width, design.v - design.width)

    @property
    def largest_ratio(self) -> Drawn:
        """The ratio of the two weights, which the first two categories have for some set."""
        design = self._design
        place = next(one for one in design.near if (one - 1) % design.v not in design.near)
        return Drawn(self.name, self._epsilon, WORD, (0, 1), place, (self._near, self._far))

    @property
    def chances(self) -> tuple[float, float]:
        """How often the drawn set holds the true category, and any other one."""
        design = self._design
        often = design.width * self._near
        seldom = design.both * self._near + (design.width - design.both) * self._far
        return often / WORD, seldom / WORD

    def weights(self, index: int) -> dict[int, int]:
        """Return the weight of each set."""
        v, near = self._design.v, set(self._design.near)
        return {
            place: self._near if (place - index) % v in near else self._far for place in range(v)
        }

    def as_fields(self) -> dict[str, Any]:
        """Return the sets that hold category 0, and the two weights."""
        near = list(self._design.near)
        weights = {"near": str(self._near), "far": str(self._far)}
        return {"kind": "sets", "v": self._design.v, "near_sets": near, **weights}

    def draw(self, index: int, share: int, entropy: Entropy) -> int:
        """Draw one set from one word; there is nothing between two categories."""
        design, word = self._design, entropy.word()
        inside = self._near * design.width
        if word < inside:
            return (design.near[word // self._near] + index) % design.v
        return (design.away[(word - inside) // self._far] + index) % design.v

    def _fill_compiled(
        self, native: Compiled, grid: Grid, readings: Floats, words: Words, out: Places
    ) -> bool:
        # Two look-ups in small tables: NumPy is fast enough.
        return self.fill_numpy(grid, readings, words, out)

    def _places_from(self, index: Places, share: Words, words: Words) -> Places:
        design = self._design
        inside = self._near * design.width
        # Where a word is of the other part, the look-up is any, and not taken.
        near = np.minimum(words // np.uint64(self._near), np.uint64(design.width - 1))
        far = (words - np.uint64(inside)) // np.uint64(self._far)
        far = np.minimum(far, np.uint64(design.v - design.width - 1))
        moved = np.where(
            words < np.uint64(inside),
            np.array(design.near)[near.astype(np.int64)],
            np.array(design.away)[far.astype(np.int64)],
        )
        places: Places = (moved + index) % design.v
        return places

    def votes(self, place: Places) -> Flags:
        """Vote for the categories of the set."""
        design = self._design
        is_near = np.isin(np.arange(design.v), design.near)
        found: Flags = is_near[(place[..., None] - np.arange(self.steps + 1)) % design.v]
        return found

    def is_place(self, place: Places) -> Flags:
        """Accept the numbers of the sets."""
        return np.asarray((place >= 0) & (place < self._design.v))


@lru_cache(maxsize=256)
def _response(epsilon: float, steps: int) -> CategoryLaw:
    return _ResponseLaw(epsilon, one_of_many(epsilon, steps), RandomizedResponse.name)


@lru_cache(maxsize=256)
def _blocks(epsilon: float, steps: int) -> CategoryLaw:
    return BlockLaw(epsilon, design_for(steps + 1, epsilon), steps)
