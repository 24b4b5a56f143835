"""Golden cases of the library: mechanisms, shuffles, estimators, runs and accounting."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.golden import inputs

import rase
from rase import Precision, Range, SeededRandom
from rase.counts.regional import block_mixing
from rase.kernels.entropy import SeededEntropy
from rase.laws.registry import randomizer_named
from rase.shuffle.attacker import order_attack

__all__ = ["LIBRARY"]

RANGE = Range(0, 100)
PRECISION = Precision(beta=0.5, rho=0.9)
READINGS = np.array([(37 * place) % 101 for place in range(60)], dtype=np.float64)
EPSILONS = (0.5, 1.0, 4.0)
MECHANISMS: dict[str, Callable[[float], Any]] = {
    "budget-aware": lambda epsilon: rase.BudgetAware(epsilon, RANGE, PRECISION),
    "laplace": lambda epsilon: rase.Laplace(epsilon, RANGE),
    "duchi": lambda epsilon: rase.Duchi(epsilon, RANGE),
    "piecewise": lambda epsilon: rase.Piecewise(epsilon, RANGE),
    "hybrid": lambda epsilon: rase.Hybrid(epsilon, RANGE),
    "optimal": lambda epsilon: rase.Optimal(epsilon, RANGE),
    "square-wave": lambda epsilon: rase.SquareWave(epsilon, RANGE),
    "auto": lambda epsilon: rase.auto(epsilon, RANGE),
}
# Those that a device can draw from without NumPy.
ON_DEVICES = ("budget-aware", "laplace", "duchi", "piecewise", "hybrid", "optimal")


def mechanisms(name: str) -> list[dict[str, Any]]:
    """Return certificates, reports and moments of a mechanism at several budgets."""
    found = []
    for epsilon in EPSILONS:
        mechanism = MECHANISMS[name](epsilon)
        reports = mechanism.randomize(READINGS[:12], rng=SeededRandom(11))
        found.append(
            {
                "certificate": mechanism.certificate(),
                "epsilon": mechanism.effective_epsilon,
                "scale": mechanism.scale,
                "reach": mechanism.decoded_reach,
                "reports": reports,
                "decoded": mechanism.decode(reports),
                "squares": _squares(mechanism, reports),
                "variances": mechanism.variance(np.linspace(0, 100, 5)),
                "interval": rase.unbiased_mean(reports, randomizer=mechanism).interval(0.9),
            }
        )
    return found


def _squares(mechanism: Any, reports: Any) -> Any:
    """Return the decoded squares; None where single bits say nothing about the spread."""
    try:
        return mechanism.decode_square(reports)
    except rase.NotIdentifiable:
        return None


def device_laws() -> list[dict[str, Any]]:
    """Return what devices draw from seeded words, and their certificates."""
    found = []
    for name in ON_DEVICES:
        law = randomizer_named(name, 1.0, domain=Range(0, 3000), precision=PRECISION)
        entropy = SeededEntropy(f"golden {name}")
        found.append({"places": [law.draw_one(50.0 * step, entropy) for step in range(40)]})
    return found


def amplification() -> dict[str, Any]:
    """Return central guarantees: of one round, by each theorem, and of a day and a month."""
    hybrid = rase.Hybrid(1.0, RANGE)
    classes = rase.Duchi((0.5,) * 300 + (1.0,) * 700, RANGE)
    return {
        "by_devices": [rase.amplify(1.0, n, delta=1e-6) for n in (10, 100, 1000, 10_000)],
        "by_epsilon": [rase.amplify(epsilon, 1000, delta=1e-6) for epsilon in (0.1, 0.5, 2, 4)],
        "by_method": [
            rase.amplify(hybrid, 1000, delta=1e-6, method=method)
            for method in ("auto", "clone", "blanket", "closed_form")
        ],
        "by_mechanism": [
            rase.amplify(MECHANISMS[name](1.0), 500, delta=1e-7) for name in ON_DEVICES
        ],
        "of_classes": rase.amplify(classes, 1000, delta=1e-6),
        "composed": [
            rase.compose_shuffled(0.5, 1000, rounds=rounds, delta=1e-6)
            for rounds in (1, 2, 24, 720)
        ],
        "day_of_hybrid": rase.compose_shuffled(hybrid, 1000, rounds=24, delta=1e-6),
        "local": rase.compose_local(rase.LocalDP(0.5), 24),
        "posteriors": [rase.LocalDP(epsilon).posterior() for epsilon in (0.1, 1, 24)],
        "permutation": rase.compose_permutation(
            rase.PermutationPrivacy(2, 5, 0.1, 0.01, exposed_success=0.2), 10
        ),
        "guesses": [
            (central.guess(), central.certainty(0.001))
            for central in (rase.amplify(1.0, n, delta=1e-6).guarantee for n in (100, 1000))
        ],
    }


def shuffles() -> dict[str, Any]:
    """Return releases of seeded shuffles with their manifests, and what observers achieve."""
    groups = rase.Partition([place // 4 for place in range(24)])
    shufflers: tuple[rase.Shuffler, ...] = (
        rase.Uniform(),
        rase.MallowsShuffle(0.4),
        rase.MallowsShuffle(alpha=8.0, partition=groups),
        rase.Robust(alpha=0.5, group_count=6, partition=groups),
        rase.Robust(alpha=30, group_count=6, attacker_cap=12),
    )
    return {
        "releases": [
            shuffler.shuffle(np.arange(24.0), rng=SeededRandom(5)) for shuffler in shufflers
        ],
        "attacks": [
            order_attack(n, theta) for n in (5, 64, 600) for theta in (0.0, 0.01, 0.5, 5.0)
        ],
    }


def order_laws() -> dict[str, Any]:
    """Return laws of orders, samples of them, and figures of partitions."""
    law = rase.Mallows(6, theta=0.7)
    orders = law.samples(6, rng=SeededRandom(5))
    interleaved = rase.Partition([0, 1, 0, 1, 0, 2])
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (0, 4)]
    return {
        "normaliser": law.log_normaliser,
        "mean_distance": law.mean_distance,
        "variance": law.distance_variance,
        "distances": law.distance_pmf(),
        "marginals": law.marginals(),
        "orders": orders,
        "probabilities": [law.log_probability(order) for order in orders],
        "fitted": rase.Mallows.fit(orders).theta,
        "kendall": [rase.kendall_tau(orders[0], order) for order in orders],
        "sensitivities": [
            rase.sensitivity(interleaved),
            rase.sensitivity(interleaved, method="bound"),
            rase.group_width(interleaved),
        ],
        "refined": [
            rase.refine(8, 3).partition.groups,
            rase.refine(8, 3, method="agglomerative").partition.groups,
            rase.refine(8, 3, method="connected", edges=edges).partition.groups,
            rase.Partition.from_graph(8, edges, 3).groups,
        ],
    }


def estimators() -> dict[str, Any]:
    """Return every estimate that can be made from the reports of one round."""
    hybrid = rase.Hybrid(2.0, RANGE)
    reports = hybrid.randomize(READINGS, rng=SeededRandom(21))
    laplace = rase.Laplace(2.0, RANGE)
    noisy = laplace.randomize(READINGS, rng=SeededRandom(22))
    mixing = block_mixing(rase.Mallows(60, theta=0.5).marginals(), 3)
    rounds = [
        rase.unbiased_mean(
            hybrid.randomize(READINGS, rng=SeededRandom(seed)),
            randomizer=hybrid,
        )
        for seed in range(8)
    ]
    return {
        "means": [
            rase.unbiased_mean(reports, randomizer=hybrid),
            rase.winsorized_mean(noisy, randomizer=laplace),
            rase.sample_mean(noisy),
            rase.median(noisy),
            rase.bootstrap_mean(noisy, rng=SeededRandom(23)),
        ],
        "others": [
            rase.total(reports, randomizer=hybrid),
            rase.total(reports, randomizer=hybrid, fleet=90),
            rase.total(reports, randomizer=hybrid, participation=0.8),
            rase.count(reports, randomizer=hybrid),
            rase.count(reports, randomizer=hybrid, above=30, below=70, rng=SeededRandom(24)),
            rase.variance(reports, randomizer=hybrid),
            rase.quantile(reports, 0.5, randomizer=hybrid, rng=SeededRandom(26)),
            *rase.quantiles(reports, [0.1, 0.9], randomizer=hybrid, rng=SeededRandom(26)),
            *rase.regional_means(reports, randomizer=hybrid, mixing=mixing),
        ],
        "histogram": rase.histogram(reports, randomizer=hybrid, bins=8, rng=SeededRandom(25)),
        "windows": [
            *rase.window(rounds, 3),
            *rase.window([*rounds[:3], None, *rounds[4:]], 4),
        ],
    }


def aggregates() -> dict[str, Any]:
    """Return one-line aggregates of a round, of one with budgets, and of a table."""
    table = _table()
    budgets = [(0.5, 1.0, 2.0)[place % 3] for place in range(len(READINGS))]
    return {
        "estimates": [
            rase.aggregate(READINGS, (0, 100), epsilon=2, rng=SeededRandom(7)),
            rase.aggregate(READINGS, RANGE, epsilon=budgets, rng=SeededRandom(7)),
            rase.aggregate(
                READINGS, RANGE, epsilon=1, estimator="sample_mean", rng=SeededRandom(8)
            ),
        ],
        "rounds": list(rase.aggregate(table, (0, 100), epsilon=1, every="2h", rng=SeededRandom(9))),
    }


def runs() -> dict[str, Any]:
    """Return the rounds of a table and a round by itself, with several estimators."""
    plan = rase.RunPlan(
        randomizer=rase.BudgetAware(2.0, RANGE, PRECISION),
        shuffler=rase.Robust(alpha=0.5, group_count=4),
        estimator=["tracked", "unbiased_mean", "sample_mean", "median", "bootstrap_mean"],
        every="2h",
        as_known_then=True,
    )
    one_round = rase.run_round(
        READINGS,
        randomizer=plan.numbers,
        shuffler=plan.shuffler,
        estimator=list(plan.estimators),
        rng=SeededRandom(3),
    )
    return {
        "rounds": list(rase.run_table(_table(), plan, rng=SeededRandom(2))),
        "one_round": one_round,
    }


def _table() -> dict[str, list[Any]]:
    times, devices, values = zip(*inputs.readings_of(8), strict=True)
    return {
        "time": list(times),
        "device": list(devices),
        "value": [float("nan") if value is None else value for value in values],
    }


def _without_folder(make: Callable[[], Any]) -> Callable[[Path], Any]:
    return lambda folder: make()


LIBRARY: dict[str, dict[str, Callable[[Path], Any]]] = {
    "mechanism": {
        f"mechanism-{name}": _without_folder(lambda name=name: mechanisms(name))  # type: ignore[misc]
        for name in MECHANISMS
    },
    "device-laws": {"device-laws": _without_folder(device_laws)},
    "amplification": {"amplification": _without_folder(amplification)},
    "shuffles": {"shuffles": _without_folder(shuffles)},
    "order-laws": {"order-laws": _without_folder(order_laws)},
    "estimators": {"estimators": _without_folder(estimators)},
    "aggregates": {"aggregates": _without_folder(aggregates)},
    "runs": {"runs": _without_folder(runs)},
}
