"""The computing attacks against exact posteriors by enumeration, at n up to 6."""

import itertools
import math

import numpy as np
import pytest

from rase.domain import Precision, Range
from rase.kernels.words import SeededRandom
from rase.lab.attacks.bayes import BayesAttack
from rase.lab.attacks.linkage import LinkageAttack
from rase.lab.attacks.mallows_aware import MallowsAwareAttack
from rase.lab.attacks.matching import MatchingAttack
from rase.lab.attacks.protocol import Attack, Case, Floats, Guesses
from rase.lab.attacks.runner import case_for
from rase.lab.order_law import OrderLaw
from rase.lab.panel import Panel
from rase.lab.schemes import Scheme
from rase.laws.geometric import BudgetAware, Laplace
from rase.laws.randomizer import RangeRandomizer
from rase.laws.windows import Duchi, Hybrid
from rase.shuffle.paper import Line9

GRID = Range(0, 6, steps=6)
NOISES: dict[str, RangeRandomizer | None] = {
    "raw": None,
    "clamped": BudgetAware(1.5, GRID, Precision(beta=0.5, rho=0.9)),
    "laplace": Laplace(1.5, GRID),
    "bit": Duchi(1.0, GRID),
    "hybrid": Hybrid(2.0, GRID),
}


def small_panel(n: int, rounds: int = 200) -> Panel:
    """Return readings 0 .. 6 that each device favours differently."""
    generator = np.random.default_rng(2026)
    habits = generator.dirichlet(np.full(7, 0.6), size=n)
    values = np.stack([generator.choice(7, size=rounds, p=habit) for habit in habits], axis=1)
    return Panel(np.arange(rounds), [f"d{i}" for i in range(n)], values.astype(np.float64))


def attacked(
    attack: Attack, noise: RangeRandomizer | None, law: OrderLaw, *, n: int
) -> tuple[Case, Guesses]:
    """Release the small panel and let the attack guess."""
    panel = small_panel(n)
    scheme = Scheme("s", noise, lambda arrival: law, "", is_arrival_bound=True)
    release, secret = scheme.release(panel, arrival="random", rng=SeededRandom(1))
    case = case_for(attack, release, secret=secret, panel=panel, split="time")
    return case, attack.guess(case)


def exact_likelihood(case: Case, noise: RangeRandomizer | None, report: float) -> Floats:
    """Return Pr[report | device] from counted readings and the noise, one point at a time."""
    history = case.history
    assert history is not None
    known = history[~np.isnan(history[:, 0])]
    chances = np.zeros(case.n)
    for reading in range(7):
        # One more reading for everybody, distributed like those of all.
        of_all = (known == reading).mean()
        weight = ((known == reading).sum(axis=0) + of_all) / (len(known) + 1)
        if noise is None:
            through = float(report == reading)
        else:
            through = float(
                noise.report_probabilities([reading], [report - 0.5, report + 0.5])[0, 0]
            )
        chances += weight * through
    return chances


@pytest.mark.parametrize("noise", NOISES)
def test_bayes_is_the_exact_posterior_of_each_report(noise: str) -> None:
    """First guess, ranking and confidence equal Bayes' rule written out."""
    case, guesses = attacked(BayesAttack(), NOISES[noise], OrderLaw("uniform"), n=6)
    for number in range(0, len(guesses.rounds), 7):
        report = case.values[guesses.rounds[number], guesses.slots[number]]
        chances = exact_likelihood(case, NOISES[noise], report)
        posterior = chances / chances.sum()
        assert guesses.confidence[number] == pytest.approx(posterior.max(), abs=1e-9)
        ranked = posterior[guesses.ranked[number]]
        assert ranked == pytest.approx(np.sort(posterior)[::-1], abs=1e-9)


@pytest.mark.parametrize("noise", NOISES)
def test_matching_is_the_most_probable_permutation(noise: str) -> None:
    """No permutation of a round has a larger joint likelihood than the one guessed."""
    case, guesses = attacked(MatchingAttack(), NOISES[noise], OrderLaw("uniform"), n=5)
    for number in range(160, 200, 4):
        mine = guesses.rounds == number
        log_table = np.log(
            [exact_likelihood(case, NOISES[noise], report) for report in case.values[number]]
        )
        best = max(
            sum(log_table[slot, device] for slot, device in enumerate(order))
            for order in itertools.permutations(range(5))
        )
        guess = guesses.ranked[mine, 0]
        assert sorted(guess) == list(range(5))
        assert log_table[np.arange(5), guess].sum() == pytest.approx(best, abs=1e-9)


def exact_posterior(case: Case, noise: RangeRandomizer | None, number: int) -> Floats:
    """Return Pr[slot i holds device d | values, arrival, law] by summing over all orders."""
    assert case.laws is not None
    assert case.arrival is not None
    n, law, arrival = case.n, case.laws[number], case.arrival[number]
    likelihood = np.array([exact_likelihood(case, noise, report) for report in case.values[number]])
    left, right = law._around(arrival)
    posterior = np.zeros((n, n))
    for order in itertools.permutations(range(n)):
        senders = arrival[left[np.array(order)[right]]]
        inversions = sum(order[a] > order[b] for a in range(n) for b in range(a + 1, n))
        weight = math.exp(-(law.theta or 0.0) * inversions)
        posterior[np.arange(n), senders] += weight * likelihood[np.arange(n), senders].prod()
    exact: Floats = posterior / posterior.sum(axis=1, keepdims=True)
    return exact


ORDERS = {
    "uniform": OrderLaw("uniform"),
    "mallows 0.3": OrderLaw("mallows", 0.3),
    "mallows 1": OrderLaw("mallows", 1.0),
    **{line9.name: OrderLaw("mallows", 1.0, line9) for line9 in Line9},
}


@pytest.mark.uncovered
@pytest.mark.parametrize("noise", ["clamped", "hybrid"])
@pytest.mark.parametrize("law", ORDERS)
def test_mallows_aware_is_within_two_points_of_the_exact_posterior(law: str, noise: str) -> None:
    """Its guesses are right nearly as often as those of the sum over all 720 orders.

    Both are weighed with the exact posterior, so the difference has no sampling error.
    """
    case, guesses = attacked(MallowsAwareAttack(), NOISES[noise], ORDERS[law], n=6)
    exact, ours, claimed = [], [], []
    for number in range(160, 200, 4):
        mine = guesses.rounds == number
        posterior = exact_posterior(case, NOISES[noise], number)
        exact.append(posterior.max(axis=1).mean())
        ours.append(posterior[np.arange(6), guesses.ranked[mine, 0]].mean())
        claimed.append(guesses.confidence[mine].mean())
    assert np.mean(exact) - np.mean(ours) <= 0.02
    assert abs(np.mean(claimed) - np.mean(exact)) <= 0.05


def test_mallows_aware_without_values_is_the_order_alone() -> None:
    """Where all devices read the same, the guess is the law's largest marginal."""
    panel = Panel(np.arange(10), ["a", "b", "c", "d"], np.full((10, 4), 3.0))
    law = OrderLaw("mallows", 0.8)
    scheme = Scheme("s", NOISES["clamped"], lambda arrival: law, "")
    release, secret = scheme.release(panel, rng=SeededRandom(1))
    attack = MallowsAwareAttack()
    case = case_for(attack, release, secret=secret, panel=panel, split="time")
    guesses = attack.guess(case)
    marginals = law.place_marginals(np.arange(4))
    assert guesses.ranked[:4, 0].tolist() == marginals.argmax(axis=1).tolist()
    assert guesses.confidence[:4] == pytest.approx(marginals.max(axis=1))


@pytest.mark.uncovered
@pytest.mark.parametrize("noise", NOISES)
def test_linkage_is_the_exact_posterior_of_a_slot(noise: str) -> None:
    """With no more devices than candidates, the product of all likelihoods decides."""
    case, guesses = attacked(LinkageAttack(), NOISES[noise], OrderLaw("kept"), n=5)
    for slot in range(5):
        each = [exact_likelihood(case, NOISES[noise], report) for report in case.values[160:, slot]]
        logs = np.log(np.maximum(each, 1e-17)).sum(axis=0)
        posterior = np.exp(logs - logs.max())
        posterior /= posterior.sum()
        first = int(np.flatnonzero(guesses.slots == slot)[0])
        assert guesses.ranked[first, 0] == posterior.argmax()
        assert guesses.confidence[first] == pytest.approx(posterior.max(), abs=1e-6)
