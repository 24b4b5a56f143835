"""Upper bounds of the accountant against whole numbers rounded outwards: no FFT, no float sums.

Every quantity is held as a lower and an upper whole number of 2^-3000. The interval of the true
divergence is narrower than a share of 1e-9, so a bound below it would be a proven mistake.
"""

import math
from collections import defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from tests.cases import each_case

from rase import Duchi, Optimal, Range
from rase.accounting.accountant.rounds import shuffled_pair
from rase.accounting.blanket import channel_of

PUBLIC = Range(0, 1)
# A thousand bits have chances down to 2^-1900.
BITS = 3000
ONE = 1 << BITS

Interval = tuple[int, int]


def exponential(epsilon: float) -> tuple[Fraction, Fraction]:
    """Return two fractions around e^epsilon, from decimals correctly rounded to 80 digits."""
    with localcontext(prec=80):
        found = Fraction(Decimal(epsilon).exp())
    width = Fraction(1, 10**70)
    return found - width, found + width


def outwards(low: Fraction, high: Fraction) -> Interval:
    """Return whole numbers of 2^-3000 that enclose two fractions."""
    return math.floor(low * ONE), math.ceil(high * ONE)


def times(one: Interval, other: Interval) -> Interval:
    """Return the product of two intervals from 0 on."""
    return one[0] * other[0] >> BITS, -(-one[1] * other[1] >> BITS)


def powers(base: Interval, most: int) -> list[Interval]:
    """Return the powers 0 to ``most``."""
    found = [(ONE, ONE)]
    for _ in range(most):
        found.append(times(found[-1], base))
    return found


def blanket_interval(law: Optimal, n: int, epsilon: float) -> tuple[Fraction, Fraction]:
    """Enclose the blanket bound E[(X_1 + ... + X_n)+] / n, by all counts of its three atoms."""
    channel = channel_of(law)
    least_alpha, most_alpha = exponential(epsilon)
    masses: dict[tuple[bool, bool], Fraction] = defaultdict(Fraction)
    values: dict[tuple[bool, bool], list[Fraction]] = defaultdict(list)
    rows = zip(channel.low.tolist(), channel.high.tolist(), channel.blanket.tolist(), strict=True)
    for low, high, least in rows:
        kind = (low > 1.0001 * least, high > 1.0001 * least)
        first, second, mass = (Fraction(number) for number in (low, high, least))
        masses[kind] += mass
        values[kind] += [(first - alpha * second) / mass for alpha in (least_alpha, most_alpha)]
    kinds = [(True, False), (False, True), (False, False)]
    assert set(masses) == set(kinds)
    atoms = [outwards(min(values[kind]), max(values[kind])) for kind in kinds]
    chances = [masses[kind] for kind in kinds]
    raised = [
        powers(outwards(one, one), n) for one in (*chances, Fraction(1) - sum(chances, Fraction(0)))
    ]
    low_sum = high_sum = 0
    for a in range(1, n + 1):
        for b in range(n - a + 1):
            of_two = times(raised[0][a], raised[1][b])
            for c in range(n - a - b + 1):
                places = zip((a, b, c), atoms, strict=True)
                lowest, highest = (
                    sum(sides)
                    for sides in zip(*((k * x, k * y) for k, (x, y) in places), strict=True)
                )
                if highest <= 0:
                    break
                ways = math.comb(n, a) * math.comb(n - a, b) * math.comb(n - a - b, c)
                chance = times(times(of_two, raised[2][c]), raised[3][n - a - b - c])
                low_sum += ways * chance[0] * max(lowest, 0)
                high_sum += ways * chance[1] * highest
    return Fraction(low_sum, n * ONE**2), Fraction(high_sum, n * ONE**2)


def count_interval(law: Duchi, n: int, epsilon: float, *, high: int) -> tuple[Fraction, Fraction]:
    """Enclose the divergence of shuffled bits with so many others at the high end, exactly."""
    weights = law.law(law.guarantee.epsilon).weights(0)
    flip = Fraction(min(weights.values()), sum(weights.values()))
    base = outwards(flip, flip), outwards(1 - flip, 1 - flip)
    raised = [powers(one, n) for one in base]

    def binomial(trials: int, of: int) -> list[Interval]:
        found = []
        for k in range(trials + 1):
            low, up = times(raised[of][k], raised[1 - of][trials - k])
            ways = math.comb(trials, k)
            found.append((ways * low, ways * up))
        return found

    few, many = binomial(high, 1), binomial(n - 1 - high, 0)
    others = [[0, 0] for _ in range(n)]
    for i, one in enumerate(few):
        for j, other in enumerate(many):
            low, up = times(one, other)
            others[i + j][0] += low
            others[i + j][1] += up
    low_alpha, high_alpha = (outwards(one, one) for one in exponential(epsilon))
    totals = [0, 0]
    for ones in range(n + 1):
        before = others[ones - 1] if ones else [0, 0]
        same = others[ones] if ones < n else [0, 0]
        # One more bit: set with 1 - flip for the high reading, with flip for the low one.
        laws = [
            [
                sum(p)
                for p in zip(
                    times((before[0], before[1]), own), times((same[0], same[1]), rest), strict=True
                )
            ]
            for own, rest in (base[::-1], base)
        ]
        least = laws[0][0] - times((0, laws[1][1]), (0, high_alpha[1]))[1]
        most = laws[0][1] - times((laws[1][0], 0), (low_alpha[0], 0))[0]
        totals[0] += max(least, 0)
        totals[1] += max(most, 0)
    return Fraction(totals[0], ONE), Fraction(totals[1], ONE)


def check_above(bound: float, interval: tuple[Fraction, Fraction], *, slack: float) -> None:
    """Hold a bound to an interval: above all of it, and not by more than a share."""
    low, high = interval
    assert 0 < low <= high < low * (1 + Fraction(1, 10**9))
    assert Fraction(bound) >= high
    assert float(Fraction(bound) / high) < 1 + slack


@each_case(
    ("local", "n", "share"), [(1.0, 8, 0.3), (2.35, 12, 0.6), (3.3, 24, 0.5), (3.3, 70, 0.3)]
)
def test_the_blanket_bound_is_above_its_interval(local: float, n: int, share: float) -> None:
    """The FFT gives no less than the sum over all counts, and hardly more."""
    law = Optimal(local, PUBLIC)
    epsilon = share * local
    interval = blanket_interval(law, n, epsilon)
    check_above(shuffled_pair(law, n).delta(epsilon), interval, slack=2e-3)


@each_case(("local", "n", "epsilon"), [(1.0, 6, 0.5), (2.0, 20, 0.9)])
def test_the_bound_of_bits_is_above_the_interval_of_every_crowd(
    local: float, n: int, epsilon: float
) -> None:
    """No number of others at the high end passes the bound; the worst one meets it."""
    law = Duchi(local, PUBLIC)
    worst = max((count_interval(law, n, epsilon, high=k) for k in range(n)), key=lambda one: one[1])
    check_above(shuffled_pair(law, n).delta(epsilon), worst, slack=1e-5)


def test_a_thousand_bits_are_above_their_interval() -> None:
    """A round as large as those of the page, at the epsilon of a delta of 1e-6."""
    law, n = Duchi(1.0, PUBLIC), 1000
    pair = shuffled_pair(law, n)
    epsilon = pair.epsilon(1e-6)
    bound = pair.delta(epsilon)
    found = [count_interval(law, n, epsilon, high=k) for k in (0, 30, 990, 998, 999)]
    check_above(bound, max(found, key=lambda one: one[1]), slack=1e-5)


def test_a_bound_one_percent_too_small_is_noticed() -> None:
    """The comparison refuses what is below the interval."""
    law = Optimal(2.35, PUBLIC)
    interval = blanket_interval(law, 12, 1.0)
    with pytest.raises(AssertionError):
        check_above(0.99 * shuffled_pair(law, 12).delta(1.0), interval, slack=2e-3)
