"""K-ary randomized response: the true category often, any other one seldom.

Warner, "Randomized response", JASA 1965, for two answers; Kairouz, Bonawitz, Ramage, "Discrete
distribution estimation under local privacy", ICML 2016, for k. The window law of rase.laws.parts
with a window of one place is exactly this, in whole numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from rase.domain import Categories, Range
from rase.laws.parts import one_of_many
from rase.laws.randomizer import Randomizer
from rase.laws.windows import PartsLaw
from rase.lazy import numpy as np

if TYPE_CHECKING:
    from rase.arrays import Floats, Places
    from rase.kernels.words import Random
    from rase.laws.law import Law

__all__ = ["CategoryRandomizer", "RandomizedResponse"]


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
    def decode_shares(self, places: Places, *, epsilon: float | None = None) -> Floats:
        """Return for each place (row) and category a number whose expectation is the share.

        That is 1 for the category of the reading and 0 for the others.

        Args:
            places: Places of reports.
            epsilon: Their one budget, where contributors differ.
        """

    def randomize(self, readings: Iterable[str], *, rng: Random | None = None) -> list[str]:
        """Return one report for each reading, as the names of categories.

        Call it once for a reading: a second report of the same reading spends the budget again.

        Args:
            readings: Names of categories.
            rng: None for secure noise; a `SeededRandom` for study.

        Raises:
            ValueError: If a reading is not one of the categories.
        """
        places = [self.domain.spot(reading)[0] for reading in readings]
        return [self.domain.names[place] for place in self.draw_many(places, rng=rng).tolist()]


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

    def law(self, epsilon: float) -> Law:
        """Return the law for this number of categories."""
        return _response(epsilon, self.domain.steps)

    def decode_shares(self, places: Places, *, epsilon: float | None = None) -> Floats:
        """Undo on average what the noise does to the shares."""
        weights = self.law(self._one_budget if epsilon is None else epsilon).weights(0)
        total = sum(weights.values())
        often, seldom = weights[0] / total, weights[1] / total
        is_reported = np.asarray(places)[..., None] == np.arange(self.domain.steps + 1)
        shares: Floats = (is_reported - seldom) / (often - seldom)
        return shares


@lru_cache(maxsize=256)
def _response(epsilon: float, steps: int) -> PartsLaw:
    return PartsLaw(epsilon, one_of_many(epsilon, steps), RandomizedResponse.name)
