"""Published bounds on amplification by shuffling, derived again and computed with SciPy alone.

The arguments are written out below. The rounding of `clone_program` and the constants for any
mechanism follow what the authors' public programs do, which were read for that and not copied.
Nothing here is used by the package, and nothing of the package is used here: tests and the
benchmark compare the two. Each function takes the budget of one report, the number of reports and
delta, and returns the central epsilon, or the local one where the formula promises nothing.

- Feldman, McMillan, Talwar, "Hiding among the clones", FOCS 2021: `clone_theorem` (Theorem 3.1),
  `clone_sum` (Theorem 3.2 by brute force) and `clone_program`, what their Appendix E and the
  program they published make of it, with its rounding.
- Balle, Bell, Gascón, Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019: `hoeffding`
  and `bennett`, for any mechanism and for Laplace noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

__all__ = [
    "GENERIC",
    "LAPLACE",
    "Moments",
    "bennett",
    "clone_losses",
    "clone_program",
    "clone_program_formula",
    "clone_sum",
    "clone_theorem",
    "hoeffding",
]

Floats = NDArray[np.float64]
Delta = Callable[[float], float]


def clone_theorem(epsilon_local: float, n: int, *, delta: float) -> float:
    """Return the closed form of Theorem 3.1, for epsilon_local <= ln(n / (16 ln(2 / delta)))."""
    if epsilon_local > math.log(n / (16 * math.log(2 / delta))):
        return epsilon_local
    grown = math.exp(epsilon_local)
    clones = 8 * math.sqrt(grown * math.log(4 / delta) / n) + 8 * grown / n
    return math.log1p((grown - 1) / (grown + 1) * clones)


def clone_program_formula(epsilon_local: float, n: int, *, delta: float) -> float:
    """Return the closed form as the published program has it: an earlier, slightly larger one."""
    if epsilon_local > math.log(n / (16 * math.log(4 / delta))):
        return epsilon_local
    grown = math.exp(epsilon_local)
    clones = 8 * math.sqrt(grown * math.log(4 / delta) / n) + 8 * grown / n
    contrast = (1 - 1 / grown) / (1 + 1 / (grown * (1 + clones)))
    return math.log1p(contrast * clones)


def clone_sum(epsilon_local: float, n: int, *, delta: float) -> float:
    """Return the epsilon of the clone pair, every number of clones summed, to 1e-7 of itself."""
    clones = _likely_clones(epsilon_local, n)
    chances = binom.pmf(clones, n - 1, math.exp(-epsilon_local))

    def delta_at(epsilon: float) -> float:
        return float(chances @ _divergence(clones, epsilon, epsilon_local))

    return _least_epsilon(delta_at, delta, highest=epsilon_local, halvings=40)


def clone_program(
    epsilon_local: float,
    n: int,
    *,
    delta: float,
    step: int = 1,
    halvings: int = 20,
    is_upper: bool = True,
) -> float:
    """Return the epsilon of the published program (Appendix E), with its rounding.

    Numbers of clones are taken in blocks of ``step``, from the mean outwards, upwards first; the
    first block has one more. A block counts with the larger divergence of its two ends (the smaller
    for a lower bound). Once what is left has less mass than the delta found so far, all of it is
    added; that alone can double delta. Epsilon is halved in from the closed form.

    Args:
        epsilon_local: The budget of one report.
        n: How many reports.
        delta: The delta allowed.
        step: The length of a block; the program's example has 100.
        halvings: How often epsilon is halved in; the program's example has 10.
        is_upper: Whether to round up; otherwise down.
    """
    low, high = _blocks(epsilon_local, n, step)
    chance = math.exp(-epsilon_local)
    masses = binom.cdf(high, n - 1, chance) - binom.cdf(low - 1, n - 1, chance)
    left = 1 - np.concatenate(([0.0], np.cumsum(masses)))

    def delta_at(epsilon: float) -> float:
        at_low, at_high = (_divergence(end, epsilon, epsilon_local) for end in (low, high))
        rounded = np.maximum(at_low, at_high) if is_upper else np.minimum(at_low, at_high)
        # The program's second sum takes the upper end twice; it only delays the stop.
        second = at_high if is_upper else rounded
        first_sum, second_sum = (
            np.concatenate(([0.0], np.cumsum(masses * part))) for part in (rounded, second)
        )
        is_done = (left < first_sum) & (left < second_sum)
        is_done[-1] = True
        stop = int(np.argmax(is_done))
        found = max(float(first_sum[stop]), float(second_sum[stop]))
        is_early = stop < masses.size
        return found + float(left[stop]) if is_upper and is_early else found

    start = clone_program_formula(epsilon_local, n, delta=delta)
    return _least_epsilon(delta_at, delta, highest=start, halvings=halvings)


def clone_losses(epsilon_local: float, n: int, *, negligible: float) -> tuple[Floats, Floats]:
    """Return the clone pair as two laws over the same outcomes, (clones, likes): P and Q.

    At most ``negligible`` of the mass of either is left out.
    """
    chance = math.exp(-epsilon_local)
    kept = 1 / (1 + chance)
    ends = binom.ppf([negligible / 8, 1 - negligible / 8], n - 1, chance)
    first, second = [], []
    for clones in range(int(ends[0]), int(ends[1]) + 1):
        reach = binom.ppf([negligible / 8, 1 - negligible / 8], clones, 0.5)
        likes = np.arange(int(reach[0]), int(reach[1]) + 2)
        with_one, without = binom.pmf(likes - 1, clones, 0.5), binom.pmf(likes, clones, 0.5)
        weight = binom.pmf(clones, n - 1, chance)
        first.append(weight * (kept * with_one + (1 - kept) * without))
        second.append(weight * ((1 - kept) * with_one + kept * without))
    return np.concatenate(first), np.concatenate(second)


@dataclass(frozen=True, slots=True)
class Moments:
    """Hold what the blanket bounds ask of the amplification variable L of a mechanism.

    L = (p(y) - e^epsilon p'(y)) / w(y), y drawn from the blanket w, has mean 1 - e^epsilon. Each
    member takes (epsilon_local, epsilon), ``blanket`` the first alone.

    Args:
        blanket: The least mass of the blanket, gamma.
        highest: The largest value of L.
        width: Its largest less its least.
        square: The most its mean square can be.
    """

    blanket: Callable[[float], float]
    highest: Callable[[float, float], float]
    width: Callable[[float, float], float]
    square: Callable[[float, float], float]


# Any mechanism: p and p' lie within e^epsilon_local of the blanket.
GENERIC = Moments(
    blanket=lambda local: math.exp(-local),
    highest=lambda local, epsilon: math.exp(local) - math.exp(epsilon - local),
    width=lambda local, epsilon: (math.exp(epsilon) + 1) * 2 * math.sinh(local),
    square=lambda local, epsilon: (
        math.exp(local) * (math.exp(2 * epsilon) + 1) - 2 * math.exp(epsilon - 3 * local)
    ),
)

# Laplace noise of scale 1 / epsilon_local on [0, 1]: the integrals over the real line.
LAPLACE = Moments(
    blanket=lambda local: math.exp(-local / 2),
    highest=lambda local, epsilon: math.exp(local / 2) - math.exp(epsilon - local / 2),
    width=lambda local, epsilon: (math.exp(epsilon) + 1) * 2 * math.sinh(local / 2),
    square=lambda local, epsilon: (
        (math.exp(2 * epsilon) + 1) * (2 * math.exp(local / 2) + math.exp(-local)) / 3
        - 2 * math.exp(epsilon) * (2 * math.exp(-local / 2) - math.exp(-local))
    ),
)


def hoeffding(epsilon_local: float, n: int, *, delta: float, moments: Moments = GENERIC) -> float:
    """Return the blanket bound by Hoeffding's inequality.

    Of m blanket reports the sum of L exceeds t with probability at most
    exp(-2 (m a + t)^2 / (m b^2)), a = e^epsilon - 1 and b the width. The integral over t is at most
    b^2 / (4 a) exp(-2 m a^2 / b^2); its mean over m, a binomial number, is a power.
    """
    gamma = moments.blanket(epsilon_local)

    def delta_at(epsilon: float) -> float:
        lean, width = math.expm1(epsilon), moments.width(epsilon_local, epsilon)
        fall = gamma * math.expm1(-2 * (lean / width) ** 2)
        return width**2 / (4 * lean * gamma * n) * math.exp(n * math.log1p(fall))

    return _least_epsilon(delta_at, delta, highest=epsilon_local, halvings=50)


def bennett(epsilon_local: float, n: int, *, delta: float, moments: Moments = GENERIC) -> float:
    """Return the blanket bound by Bennett's inequality.

    The sum exceeds t with probability at most exp(-m c / b^2 phi(b (a + t / m) / c)), with
    phi(u) = (1 + u) ln(1 + u) - u, b the highest value and c the mean square. phi is convex: its
    tangent at t = 0 makes the integral over t at most b / ln(1 + a b / c) times the value there.
    No blanket report at all, m = 0, adds nothing.
    """
    gamma = moments.blanket(epsilon_local)

    def delta_at(epsilon: float) -> float:
        lean, highest = math.expm1(epsilon), moments.highest(epsilon_local, epsilon)
        square = moments.square(epsilon_local, epsilon)
        turn = lean * highest / square
        bend = (1 + turn) * math.log1p(turn) - turn
        fall = gamma * math.expm1(-square / highest**2 * bend)
        some = math.exp(n * math.log1p(fall)) - math.exp(n * math.log1p(-gamma))
        return highest / (gamma * n * math.log1p(turn)) * some

    return _least_epsilon(delta_at, delta, highest=epsilon_local, halvings=50)


def _least_epsilon(delta_at: Delta, delta: float, *, highest: float, halvings: int) -> float:
    """Return an epsilon with less than delta, at most highest / 2^halvings above the least."""
    low, high = 0.0, highest
    for _ in range(halvings):
        middle = (low + high) / 2
        if delta_at(middle) < delta:
            high = middle
        else:
            low = middle
    return high


def _divergence(clones: Floats, epsilon: float, epsilon_local: float) -> Floats:
    """Return how far P exceeds e^epsilon Q in all, given the number of clones.

    Of c clones and the report itself, k look like the first candidate. With x = k / (c + 1) and
    z = 1 / (1 + e^-epsilon_local), P / Q = (x z + (1-x) (1-z)) / (x (1-z) + (1-x) z) exceeds
    e^epsilon where x > (v + z - 1) / (2 z - 1), v = 1 / (1 + e^-epsilon).
    """
    kept = 1 / (1 + math.exp(-epsilon_local))
    share = (1 / (1 + math.exp(-epsilon)) + kept - 1) / (2 * kept - 1)
    last = np.floor(share * (clones + 1))
    at_least, more = binom.sf(last - 1, clones, 0.5), binom.sf(last, clones, 0.5)
    first = kept * at_least + (1 - kept) * more
    second = (1 - kept) * at_least + kept * more
    excess: Floats = np.maximum(first - math.exp(epsilon) * second, 0.0)
    return excess


def _likely_clones(epsilon_local: float, n: int) -> Floats:
    """Return all numbers of clones but for those beyond twelve deviations."""
    chance = math.exp(-epsilon_local)
    mean, reach = (n - 1) * chance, 12 * math.sqrt(n * chance * (1 - chance)) + 60
    return np.arange(max(0, math.floor(mean - reach)), min(n - 1, math.ceil(mean + reach)) + 1.0)


def _blocks(epsilon_local: float, n: int, step: int) -> tuple[Floats, Floats]:
    """Return the first and the last number of clones of each block, as they are looked at."""
    mean = (n - 1) * math.exp(-epsilon_local)
    most = math.ceil((12 * math.sqrt(mean) + 60) / step) + 1
    count = np.arange(1, max(2, min(math.ceil(n / step), most)))
    up_high = np.ceil(mean + count * step)
    up_low = up_high - step + (count > 1)
    down_low = np.ceil(mean - count * step)
    # Upwards, downwards, upwards, ...
    low = np.stack([up_low, down_low], axis=1).ravel()
    high = np.stack([up_high, down_low + step - 1], axis=1).ravel()
    is_inside = (low <= n - 1) & (high >= 0)
    return np.maximum(low, 0.0)[is_inside], np.minimum(high, n - 1.0)[is_inside]
