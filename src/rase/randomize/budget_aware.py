"""BR, the paper's budget-aware randomizer (Algorithm 1), and the plain Laplace mechanism."""

from dataclasses import dataclass, replace
from functools import lru_cache

from rase.randomize.geometric import ClampedGeometric, UnboundedGeometric
from rase.randomize.grid import GridRandomizer
from rase.randomize.protocol import Law
from rase.stream import Precision

__all__ = ["BudgetAware", "Laplace"]

# No report is near enough for beta = 0: the bound of Lemma 1 is infinite.
_NEVER_MET = Precision(beta=0.0, rho=0.5)


@dataclass(frozen=True)
class BudgetAware(GridRandomizer):
    """Add Laplace noise, and clamp the report unless epsilon meets the precision (Alg. 1).

    Below ``precision.epsilon_bound(value_range)`` the noisy value is clamped into the range, at or
    above it is returned as it is. The pseudocode returns before it clamps; the text is right, and
    is what this does. Means of clamped reports are biased to the middle of the range unless they
    are decoded: see `decode` and docs/explain/paper.md, row 9.

    Guarantee: epsilon-LDP for any two readings of the range, both branches (Theorem 1; clamping to
    public bounds is post-processing). Assumes secure noise, drawn once per reading. The clamped
    branch is checked from the integers it is drawn with (tests/randomize/test_geometric.py).

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        value_range: The public range.
        precision: The (beta, rho) the fusion centre asks for.

    Example:
        >>> from rase import BudgetAware, Precision, SeededRandom, ValueRange
        >>> br = BudgetAware(1.0, ValueRange(0, 3000), Precision(beta=0.5, rho=0.9))
        >>> br.is_clamping
        True
        >>> reports = br.randomize([0, 120, 2400], rng=SeededRandom(1))
        >>> bool(((0 <= reports) & (reports <= 3000)).all())
        True
    """

    precision: Precision

    def __post_init__(self) -> None:
        """Check the precision too."""
        super().__post_init__()
        if not isinstance(self.precision, Precision):
            raise TypeError(f"precision must be a Precision, got {self.precision!r}.")

    @property
    def is_clamping(self) -> bool | tuple[bool, ...]:
        """Whether reports are clamped, in the form of ``epsilon`` (Alg. 1 l. 4)."""
        if isinstance(self.epsilon, tuple):
            return tuple(self._clamps(budget) for budget in self.epsilon)
        return self._clamps(self.epsilon)

    def clamped(self) -> "BudgetAware":
        """Return the same mechanism, clamping at every epsilon."""
        is_clamped = all(self._clamps(budget) for budget in self.budgets)
        return self if is_clamped else replace(self, precision=_NEVER_MET)

    def _clamps(self, epsilon: float) -> bool:
        return epsilon < self.precision.epsilon_bound(self.value_range)

    def _law(self, epsilon: float) -> Law:
        if self._clamps(epsilon):
            return _clamped(epsilon, self.value_range.steps)
        return _unbounded(epsilon, self.value_range.steps)


@dataclass(frozen=True)
class Laplace(GridRandomizer):
    """Add Laplace noise and never clamp: the baseline of the paper's Laplace-fisher scheme.

    For means it is dominated: clamped reports, decoded, have the same guarantee and a smaller
    variance at every epsilon.

    Guarantee: epsilon-LDP for any two readings of the range, by formula
    (tests/randomize/test_certificate.py). Assumes secure noise, drawn once per reading.

    Args:
        epsilon: The budget of one report, or one budget for each contributor.
        value_range: The public range.

    Example:
        >>> from rase import Laplace, ValueRange
        >>> Laplace(0.5, ValueRange(0, 10)).scale
        20.0
    """

    def clamped(self) -> BudgetAware:
        """Return the clamping mechanism of the same scale: BR below every bound."""
        return BudgetAware(self.epsilon, self.value_range, _NEVER_MET)

    def _law(self, epsilon: float) -> Law:
        return _unbounded(epsilon, self.value_range.steps)


@lru_cache(maxsize=256)
def _clamped(epsilon: float, steps: int) -> ClampedGeometric:
    return ClampedGeometric(epsilon, steps)


@lru_cache(maxsize=256)
def _unbounded(epsilon: float, steps: int) -> UnboundedGeometric:
    return UnboundedGeometric(epsilon, steps)
