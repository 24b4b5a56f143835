"""Pairs: what composes, against enumeration, sums of counts and figures known beforehand."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.cases import each_case

from rase import Duchi, Optimal, Piecewise, Range, SquareWave
from rase.accounting.accountant.pair import Pair, Sums
from rase.accounting.accountant.profile import Losses, Profile
from rase.accounting.accountant.rounds import shuffled_pair
from rase.accounting.amplification import amplify
from rase.accounting.blanket import channel_of

Floats = NDArray[np.float64]
PUBLIC = Range(0, 1)


def multinomial_pair(law: Optimal, n: int) -> Losses:
    """Return the blanket's pair from the counts of its three atoms: no curve, no hull, no FFT.

    Given m blanket reports the likelihood ratio is (E a + b + c) / (a + E b + c) for a and b
    reports of the two favoured kinds and c others, where all m + 1 are drawn from the blanket.
    """
    channel = channel_of(law)
    low, high, least = channel.low, channel.high, channel.blanket
    ratio = (low / least).max()
    favoured = float(least[low > 1.0001 * least].sum())
    assert not ((low > 1.0001 * least) & (high > 1.0001 * least)).any()
    gamma = float(least.sum())
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))
    first, second = favoured / gamma, 1 - 2 * favoured / gamma
    losses, masses = [], []
    for m in range(n):
        chance = math.exp(
            logs[n - 1]
            - logs[m]
            - logs[n - 1 - m]
            + m * math.log(gamma)
            + (n - 1 - m) * math.log1p(-gamma)
        )
        total = m + 1
        a, b = (x.ravel() for x in np.mgrid[0 : total + 1, 0 : total + 1])
        keep = a + b <= total
        a, b = a[keep], b[keep]
        c = total - a - b
        weight = np.exp(
            logs[total]
            - logs[a]
            - logs[b]
            - logs[c]
            + (a + b) * math.log(first)
            + c * math.log(second)
        )
        up, down = ratio * a + b + c, a + ratio * b + c
        losses.append(np.log(up / down))
        masses.append(chance * weight * up * gamma / total)
    return Losses(np.concatenate(losses), np.concatenate(masses))


@each_case(("n", "epsilon", "rounds", "known"), [(40, 1.0, 24, 4.7293), (60, 2.0, 24, 10.850)])
def test_many_rounds_are_a_little_above_the_sum_over_counts(
    n: int, epsilon: float, rounds: int, known: float
) -> None:
    """A route that shares neither curve nor hull gives 0.2 % less at most, and never more."""
    law = Optimal(epsilon, PUBLIC)
    exact = multinomial_pair(law, n)
    assert float(exact.masses.sum()) == pytest.approx(1, abs=1e-9)
    sums = Sums([(exact, rounds)], delta=1e-6, widest=epsilon)
    lowest, highest = 0.0, rounds * epsilon
    for _ in range(50):
        middle = (lowest + highest) / 2
        lowest, highest = (middle, highest) if sums.delta(middle) > 1e-6 else (lowest, middle)
    found = shuffled_pair(law, n).compose(rounds).epsilon(1e-6)
    assert highest == pytest.approx(known, rel=2e-4)
    assert highest < found < 1.002 * highest


@each_case(
    ("n", "epsilon", "rounds", "most"),
    [
        (20_000, 1.5, 1, 0.0500),
        (20_000, 1.5, 24, 0.276),
        (20_000, 1.5, 720, 1.710),
        (1000, 1.0, 24, 0.806),
        (1000, 2.0, 720, 15.1),
    ],
)
def test_days_and_months_are_as_small_as_computed_beforehand(
    n: int, epsilon: float, rounds: int, most: float
) -> None:
    """The law's own pair is a quarter below the clones, and never below what an observer does."""
    law = Optimal(epsilon, PUBLIC)
    found = shuffled_pair(law, n).compose(rounds)
    assert 0.97 * most < found.epsilon(1e-6) <= most
    assert amplify(law, n, delta=1e-6).lower_bound <= found.epsilon(1e-6)
    assert found.delta(found.epsilon(1e-6)) == pytest.approx(1e-6, rel=1e-3)


def test_one_round_is_plain_amplification() -> None:
    """A pair of one round is asked by its own curve, which loses nothing to a hull."""
    law = Optimal(3.3, PUBLIC)
    pair = shuffled_pair(law, 1000)
    assert pair.epsilon(1e-6) == pytest.approx(amplify(law, 1000, delta=1e-6).epsilon, rel=2e-4)
    assert pair.theorem == amplify(law, 1000, delta=1e-6).theorem
    assert "composed" in pair.compose(2).theorem


def random_channel(rng: np.random.Generator, *, inputs: int, outputs: int) -> Floats:
    """Return the rows of a channel with two levels a column, or with any."""
    if rng.random() < 0.5:
        rows = rng.uniform(0.1, 1.0, (inputs, outputs))
    else:
        rows = np.where(rng.random((inputs, outputs)) < 0.5, 1.0, math.e)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True), dtype=np.float64)


def shuffled_law(rows: Sequence[Floats]) -> dict[tuple[int, ...], float]:
    """Return the law of the sorted reports of contributors with these laws."""
    found: dict[tuple[int, ...], float] = {}
    for reports in itertools.product(*(range(row.size) for row in rows)):
        chance = math.prod(float(row[y]) for row, y in zip(rows, reports, strict=True))
        key = tuple(sorted(reports))
        found[key] = found.get(key, 0.0) + chance
    return found


def divergence(first: dict[object, float], second: dict[object, float], epsilon: float) -> float:
    """Return the hockey-stick divergence of two laws."""
    return sum(max(p - math.exp(epsilon) * second[key], 0.0) for key, p in first.items())


def test_two_rounds_of_small_fleets_are_never_above_the_bound() -> None:
    """All pairs of a contributor, all readings of the others in each round, 24 channels at random.

    The blanket of each channel, for its worst pair, taken by the largest profile over all pairs.
    """
    rng = np.random.default_rng(7)
    compared, largest = 0, 0.0
    for trial in range(24):
        rows = random_channel(rng, inputs=3, outputs=3 + trial % 2)
        n = 2 + trial % 2
        local = float(np.log(rows.max(axis=0) / rows.min(axis=0)).max())
        if local < 0.05:
            continue
        pair = Pair(_AllPairs(rows, n, local))
        twice = pair.compose(2)
        others = list(itertools.combinations_with_replacement(range(3), n - 1))
        for share in (0.1, 0.3, 0.6):
            epsilon = share * 2 * local
            bound = twice.delta(epsilon)
            for (x, z), crowd in itertools.product(itertools.permutations(range(3), 2), others):
                laws = [shuffled_law([rows[t], *(rows[o] for o in crowd)]) for t in (x, z)]
                both = [
                    {(a, b): p * q for (a, p) in law.items() for (b, q) in law.items()}
                    for law in laws
                ]
                true = divergence(both[0], both[1], epsilon)  # type: ignore[arg-type]
                assert true <= bound * (1 + 1e-9) + 1e-15
                compared += 1
                largest = max(largest, true / bound if bound else 0.0)
    assert compared > 500
    assert largest > 0.9


class _AllPairs(Profile):
    """The largest blanket profile over all ordered pairs of inputs, summed without an FFT."""

    theorem = "enumerated"

    def __init__(self, rows: Floats, n: int, local: float) -> None:
        super().__init__(local, delta=1e-3)
        self._rows, self._n = rows, n

    def delta(self, epsilon: float) -> float:
        """Return the largest over pairs of E[(X_1 + ... + X_n)_+] / n."""
        least = self._rows.min(axis=0)
        masses = [*least, 1 - float(least.sum())]
        best = 0.0
        for x, z in itertools.permutations(range(len(self._rows)), 2):
            values = [*((self._rows[x] - math.exp(epsilon) * self._rows[z]) / least), 0.0]
            total = 0.0
            for drawn in itertools.product(range(len(values)), repeat=self._n):
                excess = sum(values[y] for y in drawn)
                if excess > 0:
                    total += excess * math.prod(masses[y] for y in drawn)
            best = max(best, total / self._n)
        return best


def test_sentences_are_those_of_the_curve() -> None:
    """Guess and certainties agree with figures computed beforehand to a tenth of a percent."""
    pair = shuffled_pair(Optimal(3.3, PUBLIC), 1000)
    assert pair.best_guess() == pytest.approx(0.543, abs=5e-4)
    assert pair.surer(1e-2) == pytest.approx(0.656, abs=1e-3)
    assert pair.surer(1e-3) == pytest.approx(0.692, abs=1e-3)
    day = shuffled_pair(Optimal(1.5, PUBLIC), 20_000).compose(24)
    assert day.best_guess() == pytest.approx(0.514, abs=5e-4)
    assert day.surer(1e-3) == pytest.approx(0.563, abs=1e-3)


def test_a_loss_is_exceeded_no_more_often_than_stated() -> None:
    """The bound on the chance holds for the pair itself, and for the whole of its curve."""
    pair = shuffled_pair(Duchi(1.0, PUBLIC), 100).compose(4)
    losses = pair.profile.losses
    masses = losses.masses
    values = losses.values
    for _ in range(3):
        values = (values[:, None] + losses.values[None, :]).ravel()
        masses = (masses[:, None] * losses.masses[None, :]).ravel()
        order = np.round(values, 3)
        values, inverse = np.unique(order, return_inverse=True)
        masses = np.bincount(inverse, weights=masses).astype(np.float64)
    for chance in (1e-2, 1e-3):
        loss = pair.loss(chance)
        exceeded = float(masses[values > loss].sum()) + float(
            (masses * np.exp(-values))[values < -loss].sum()
        )
        assert exceeded <= chance
        assert loss < pair.local_epsilon


def test_what_has_no_blanket_is_bounded_by_its_epsilon() -> None:
    """The square wave and a bare epsilon have the clones' bound."""
    wave, bare = shuffled_pair(SquareWave(1.0, PUBLIC), 500), shuffled_pair(1.0, 500)
    assert wave.epsilon(1e-6) == bare.epsilon(1e-6)
    assert bare.epsilon(1e-6) == pytest.approx(amplify(1.0, 500, delta=1e-6).epsilon, rel=1e-5)
    assert shuffled_pair(Piecewise(1.0, PUBLIC), 500).epsilon(1e-6) < bare.epsilon(1e-6)


def test_a_round_that_hides_nobody_has_its_local_epsilon() -> None:
    """Two reports of a large epsilon keep a delta of nearly one up to it, and none at it."""
    pair = shuffled_pair(Optimal(6.0, PUBLIC), 2)
    assert pair.epsilon(1e-6) == pytest.approx(6.0, rel=1e-3)
    assert pair.compose(3).epsilon(1e-6) == pytest.approx(18.0, rel=1e-3)
    assert pair.delta(6.0) == pair.profile.delta(6.0) == 0.0
    assert pair.compose(2).delta(12.0) == 0.0
    assert pair.compose(2).compose(2).rounds == 4


def test_arguments_out_of_bounds_are_refused() -> None:
    """A negative epsilon, several budgets and a fleet of one are no questions."""
    with pytest.raises(ValueError, match="epsilon must be 0 or greater"):
        shuffled_pair(1.0, 100).delta(-0.1)
    with pytest.raises(ValueError, match="source must have one budget"):
        shuffled_pair(Duchi((1.0, 2.0), PUBLIC), 100)
    with pytest.raises(ValueError, match="n must be between 2"):
        shuffled_pair(1.0, 1)


def test_probes_are_rounds_of_their_own() -> None:
    """A product of two laws lies between its parts and both together counted as the worse one."""
    law, probe = Optimal(1.0, PUBLIC), SquareWave(1.0, PUBLIC)
    hours, probes = shuffled_pair(law, 500).compose(22), shuffled_pair(probe, 500).compose(2)
    day = hours.then(probes)
    assert (day.reports, day.local_epsilon) == (24, 24.0)
    assert hours.epsilon(1e-6) < day.epsilon(1e-6)
    assert day.epsilon(1e-6) == pytest.approx(probes.then(hours).epsilon(1e-6), rel=1e-3)
    assert day.epsilon(1e-6) < shuffled_pair(probe, 500).compose(24).epsilon(1e-6)
    assert "clone" in day.theorem
    assert "blanket" in day.theorem
    assert day.compose(30).reports == 720
    same = shuffled_pair(law, 500).compose(10).then(shuffled_pair(law, 500).compose(14))
    whole = shuffled_pair(law, 500).compose(24)
    assert same.epsilon(1e-6) == pytest.approx(whole.epsilon(1e-6), rel=1e-4)
    assert same.delta(0.5) == pytest.approx(whole.delta(0.5), rel=1e-3)
    assert same.best_guess() == pytest.approx(whole.best_guess(), rel=1e-6)


def test_long_tails_are_looked_at_over_twice_the_width() -> None:
    """Losses that are rare and large decide a small delta, and are added up as they are."""
    rare = 1e-4
    losses = Losses(np.array([-8.0, 0.0, 8.0]), np.array([rare * math.exp(-8.0), 1.0, rare]))
    losses = Losses(losses.values, losses.masses / losses.masses.sum())
    sums = Sums([(losses, 4)], delta=1e-9, widest=8.0)
    for epsilon in (4.0, 12.0, 20.0, 28.0):
        exact = sum(
            math.comb(4, ups)
            * math.comb(4 - ups, downs)
            * losses.masses[2] ** ups
            * losses.masses[0] ** downs
            * losses.masses[1] ** (4 - ups - downs)
            * max(0.0, -math.expm1(epsilon - 8.0 * (ups - downs)))
            for ups in range(5)
            for downs in range(5 - ups)
        )
        assert sums.delta(epsilon) >= exact * (1 - 1e-9)
    assert sums.delta(28.0) < 1e-9


def test_many_deltas_at_once_are_those_of_one_after_the_other() -> None:
    """Up to the highest loss, and where epsilons are too large for one sum."""
    for epsilon, n, rounds in ((3.3, 1_000, 24), (1.0, 20_000, 2), (2.0, 60, 720)):
        profile = shuffled_pair(Optimal(epsilon, PUBLIC), n, delta=1e-6).profile
        sums = Sums([(profile.losses, rounds)], delta=1e-6, widest=epsilon)
        for highest in (rounds * epsilon, 800.0):
            grid = np.linspace(0.0, highest, 40)
            each = np.array([sums.delta(float(one)) for one in grid])
            np.testing.assert_allclose(sums.deltas(grid), each, rtol=1e-9, atol=0)
