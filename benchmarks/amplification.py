"""Are our amplification numbers at least as tight as the published ones, and never too small?

Peers: the formulas of Feldman, McMillan and Talwar (2021) and of Balle, Bell, Gascón and Nissim
(2019), derived again in benchmarks/published.py, and the privacy loss distributions of
dp_accounting for many rounds: of the clone pair, which holds for any mechanism, and of our own
pairs, which claims are computed from. A ratio of epsilons above 1.001 would be a looser bound than
theirs; a ratio to the proven lower bound below 1 would be a false promise.
"""

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import PeerMissing, Row, Target, Timed, peer, taken_in_turn, versions
from benchmarks.published import (
    LAPLACE,
    bennett,
    clone_losses,
    clone_program,
    clone_sum,
    clone_theorem,
    hoeffding,
)
from rase import Duchi, Hybrid, Laplace, Optimal, Piecewise, Range
from rase.accounting import amplification
from rase.accounting.accountant import bit
from rase.accounting.accountant import pair as pairs
from rase.accounting.accountant import rounds as round_pairs
from rase.accounting.accountant.rounds import shuffled_pair
from rase.accounting.amplification import Amplification, amplify
from rase.accounting.composition import compose_shuffled

Floats = NDArray[np.float64]
DELTA = 1e-6
BUDGETS = (0.1, 0.5, 1.0, 2.0, 4.0)
REPORTS = (64, 1000, 10**5, 10**6)
ROUNDS = (1, 24, 168, 720)
PUBLIC = Range(0, 1)
# Laws with pairs of their own, and the reports of a round.
OWN = (
    (Duchi(1.0, PUBLIC), 1000),
    (Optimal(2.0, PUBLIC), 1000),
    (Optimal(1.5, PUBLIC), 20_000),
)
EPSILONS = "our epsilon / its epsilon"
# Where less than a thousandth is gained we keep the local epsilon, which needs no delta.
AS_TIGHT = Target("at most", 1.001)
FMT, BBGN = "Feldman, McMillan, Talwar 2021", "Balle, Bell, Gascón, Nissim 2019"
SCIPY = versions("numpy", "scipy")


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield tightness against each formula, times, composition, and the distance from below."""
    for n in REPORTS[:1] if quick else REPORTS:
        yield from _against_formulas(n)
    yield from _times(10**5 if quick else 10**6, repeats=1 if quick else 5)
    yield _above_lower_bounds(8 if quick else 400)
    try:
        yield from _composed(ROUNDS[:2] if quick else ROUNDS, repeats=1 if quick else 3)
        yield from _own_pairs(OWN[:1] if quick else OWN)
    except PeerMissing as missing:
        print(f"  {missing}", flush=True)


def _against_formulas(n: int) -> Iterator[Row]:
    generic = [amplify(budget, n, delta=DELTA).epsilon for budget in BUDGETS]
    noise = [amplify(Laplace(budget, PUBLIC), n, delta=DELTA).epsilon for budget in BUDGETS]
    step = 1 if n < 10**4 else 100
    program = partial(clone_program, step=step)
    any_of, laplace = "any mechanism: clone pair summed exactly", "Laplace: blanket by FFT"
    for ours, what, theirs, against in (
        (generic, any_of, clone_sum, f"{FMT}, Theorem 3.2 by brute force"),
        (generic, any_of, program, f"{FMT}, Appendix E, blocks of {step}"),
        (generic, any_of, clone_theorem, f"{FMT}, Theorem 3.1"),
        (generic, any_of, hoeffding, f"{BBGN}, Hoeffding, any mechanism"),
        (generic, any_of, bennett, f"{BBGN}, Bennett, any mechanism"),
        (noise, laplace, partial(hoeffding, moments=LAPLACE), f"{BBGN}, Hoeffding, Laplace"),
        (noise, laplace, partial(bennett, moments=LAPLACE), f"{BBGN}, Bennett, Laplace"),
    ):
        ratios = [
            epsilon / theirs(budget, n, delta=DELTA)
            for epsilon, budget in zip(ours, BUDGETS, strict=True)
        ]
        each = ", ".join(f"{ratio:.4g}" for ratio in ratios)
        yield Row(
            what,
            against,
            f"n = {n}, largest of epsilon {BUDGETS[0]:g} to {BUDGETS[-1]:g}",
            max(ratios),
            means=EPSILONS,
            target=AS_TIGHT,
            packages=SCIPY,
            note=f"{against}: {each} at epsilon {', '.join(f'{one:g}' for one in BUDGETS)}",
        )
        if theirs is program:
            yield _above_their_lower(ours, n, step)


def _above_their_lower(ours: list[float], n: int, step: int) -> Row:
    least = min(
        epsilon / clone_program(budget, n, delta=DELTA, step=step, is_upper=False)
        for epsilon, budget in zip(ours, BUDGETS, strict=True)
    )
    return Row(
        "any mechanism: clone pair summed exactly",
        f"{FMT}, Appendix E rounded down, blocks of {step}",
        f"n = {n}, least of epsilon {BUDGETS[0]:g} to {BUDGETS[-1]:g}",
        least,
        means=EPSILONS,
        target=Target("at least", 1.0),
        packages=SCIPY,
    )


def _times(n: int, *, repeats: int) -> Iterator[Row]:
    found = taken_in_turn(
        lambda: _forgetful(lambda: amplify(1.0, n, delta=DELTA)),
        lambda: clone_program(1.0, n, delta=DELTA, step=100),
        repeats=repeats,
    )
    yield _timed(
        found,
        "any mechanism, upper and lower bound",
        f"{FMT}, Appendix E, blocks of 100",
        f"n = {n}",
        note="Its blocks are evaluated at once here, which the published program does one by one.",
    )
    begin = time.process_time()
    _forgetful(lambda: amplify(1.0, n, delta=DELTA))
    spent = time.process_time() - begin
    yield Row(
        "any mechanism, upper and lower bound",
        "one second",
        f"n = {n}",
        spent,
        means="our time / 1 s",
        target=Target("at most", 1.0),
        ours_s=spent,
    )


def _composed(rounds: tuple[int, ...], *, repeats: int) -> Iterator[Row]:
    losses = peer("dp_accounting.pld.privacy_loss_distribution")
    packages = versions("dp-accounting", "numpy")
    n, against = 1000, "dp_accounting, privacy loss distribution of the clone pair"
    for budget, count in product((0.5, 1.0), rounds):
        ours = compose_shuffled(budget, n, rounds=count, delta=DELTA)
        yield Row(
            f"any mechanism, rounds composed: {count}",
            against,
            f"n = {n}, epsilon {budget:g}",
            ours.epsilon / _composed_by_peer(losses, budget, n, rounds=count),
            means=EPSILONS,
            target=Target("at most", 1.002),
            packages=packages,
            note=f"{ours.epsilon:.4g}, of which {ours.lower_bound:.3g} is proven to be lost.",
        )
    found = taken_in_turn(
        lambda: _forgetful(lambda: compose_shuffled(1.0, n, rounds=rounds[-1], delta=DELTA)),
        lambda: _composed_by_peer(losses, 1.0, n, rounds=rounds[-1]),
        repeats=repeats,
    )
    yield _timed(
        found,
        f"upper and lower bound, rounds composed: {rounds[-1]}",
        against,
        f"n = {n}, epsilon 1",
        packages=packages,
        note="Its time includes laying out the clone pair, which it does not do itself.",
    )


def _own_pairs(cases: tuple[tuple[Duchi | Optimal, int], ...]) -> Iterator[Row]:
    """Yield what a law's own pair gains on composed clones, and whether it is composed tightly."""
    losses = peer("dp_accounting.pld.privacy_loss_distribution")
    packages = versions("dp-accounting", "numpy")
    clones = "dp_accounting, privacy loss distribution of the clone pair"
    for (law, n), count in product(cases, ROUNDS[:2]):
        pair = shuffled_pair(law, n, delta=DELTA)
        ours = pair.compose(count).epsilon(DELTA)
        by_clones = _composed_by_peer(losses, law.epsilon, n, rounds=count)
        # Our pair is symmetric; what little it leaves unbounded is of one law alone.
        found = pair.profile.losses
        masses = np.append(found.masses, [found.lost, 0.0])
        other = np.append(found.masses * np.exp(-found.values), [0.0, found.lost])
        same = _composed_laws(losses, masses, other, rounds=count)
        what, size = f"{law.name}, own pair, rounds composed: {count}", f"n = {n}"
        size += f", epsilon {law.epsilon:g}"
        for against, theirs, limit in (
            (clones, by_clones, 1.0),
            ("dp_accounting, privacy loss distribution of the same pair", same, 1.002),
        ):
            yield Row(
                what,
                against,
                size,
                ours / theirs,
                means=EPSILONS,
                target=Target("at most", limit),
                packages=packages,
                note=f"{ours:.4g} against {theirs:.4g}.",
            )


def _composed_by_peer(losses: ModuleType, budget: float, n: int, *, rounds: int) -> float:
    # What is left out of the pair, 1e-12 a round, is far below delta.
    return _composed_laws(losses, *clone_losses(budget, n, negligible=1e-12), rounds=rounds)


def _composed_laws(losses: ModuleType, *laws: Floats, rounds: int) -> float:
    first, second = (
        {place: math.log(mass) for place, mass in enumerate(law.tolist()) if mass > 0}
        for law in laws
    )
    one = losses.from_two_probability_mass_functions(
        first, second, value_discretization_interval=1e-4, log_mass_truncation_bound=-math.inf
    )
    return float(one.self_compose(rounds).get_epsilon_for_delta(DELTA))


def _above_lower_bounds(settings: int) -> Row:
    """Return the least ratio to the proven lower bound over a dense grid and random settings."""
    found = [_drawn(np.random.default_rng([2026, place])) for place in range(settings)]
    found += [
        amplify(budget, n, delta=delta)
        for budget in np.geomspace(0.05, 8, 3 if settings < 100 else 24)
        for n in (2, 3, 10, 64, 1000, 10**4, 10**5)
        for delta in (1e-2, 1e-6, 1e-10)
    ]
    ratios = [one.epsilon / one.lower_bound for one in found if one.lower_bound > 0]
    return Row(
        "every bound, one and many rounds",
        "proven lower bound (best observer)",
        f"{len(ratios)} settings, the least",
        min(ratios),
        means="our epsilon / lower bound",
        target=Target("at least", 1.0),
        packages=SCIPY,
        note=f"half of them lie within {float(np.median(ratios)):.3g} of the lower bound.",
    )


def _drawn(rng: np.random.Generator) -> Amplification:
    budget = float(np.exp(rng.uniform(math.log(0.05), math.log(8))))
    n = int(np.exp(rng.uniform(math.log(2), math.log(1e5))))
    delta = float(10 ** rng.uniform(-12, -2))
    kinds = (Laplace, Duchi, Piecewise, Hybrid)
    place = int(rng.integers(len(kinds) + 1))
    source = budget if place == len(kinds) else kinds[place](budget, PUBLIC)
    if rng.random() < 0.25:
        rounds = int(rng.integers(2, 100))
        return compose_shuffled(source, min(n, 3000), rounds=rounds, delta=delta)
    return amplify(source, n, delta=delta)


def _forgetful(compute: Callable[[], Amplification]) -> Amplification:
    """Compute with nothing remembered of earlier calls, which a time must not gain from."""
    for module in (amplification, bit, pairs, round_pairs):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    return compute()


def _timed(
    found: Timed,
    what: str,
    against: str,
    size: str,
    *,
    packages: tuple[str, ...] = SCIPY,
    note: str,
) -> Row:
    return Row(
        what,
        against,
        size,
        found.ratio,
        ours_s=found.ours_s,
        theirs_s=found.theirs_s,
        repeats=found.repeats,
        packages=packages,
        note=note,
    )
