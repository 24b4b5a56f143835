"""Experts: never much worse than the best of them, whatever the series does."""

import math

import numpy as np

from rase.series.posterior import Experts

RUNS = 200


def total_risks(
    truth: np.ndarray, *, follows: float, noise: float = 1.0
) -> tuple[float, float, float, float]:
    """Return the mean total squared error of the mixture, a filter, the constant, the round."""
    rng = np.random.default_rng(2026)
    experts = Experts(-50.0, 100.0, runs=RUNS)
    state = np.zeros(RUNS)
    sums = np.zeros(4)
    for mean in truth:
        values = mean + noise * rng.normal(size=RUNS)
        state = state + follows * (values - state)
        constant, _ = experts.constant
        shares = experts.weigh(
            values,
            variance=noise**2,
            bank=state,
            bank_variance=np.full(RUNS, follows * noise**2),
        )
        said = np.stack([state, constant, values], axis=1)
        mixed = (shares * said).sum(axis=1)
        errors = np.concatenate([mixed[:, None], said], axis=1) - mean
        sums += np.square(errors).mean(axis=0)
    mixed_total, bank_total, constant_total, alone_total = (float(one) for one in sums)
    return mixed_total, bank_total, constant_total, alone_total


def bound(rounds: int, prior: float) -> float:
    """Return how far the theorem lets the total exceed that of an expert, in noise variances."""
    shares = math.log((rounds + 49) / 49)
    return 8 * (math.log(1 / prior) + shares)


def test_the_total_error_exceeds_no_expert_by_more_than_the_theorem_says() -> None:
    """Resting, wild and drifting series; a remainder of 1/128 of (y - p)^2 a round is allowed.

    Means over 200 runs of 400 rounds; the bound is far above their standard errors of about 2.
    """
    rounds = 400
    series = {
        "rests": np.zeros(rounds),
        "wild": 30 * np.random.default_rng(1).uniform(-1, 1, size=rounds),
        "drifts": np.linspace(-20, 20, rounds),
    }
    for name, truth in series.items():
        mixture, bank, constant, alone = total_risks(truth, follows=0.3)
        steps = np.diff(truth, prepend=0.0)
        # What the filter is surprised by: noise, and the motion it has not followed yet.
        remainder = rounds * (1.5 + float(np.square(steps).mean()) / 0.3) / 128
        for prior, total in ((0.8, bank), (0.17, constant), (0.03, alone)):
            assert mixture <= total + bound(rounds, prior) + remainder, name


def test_the_best_expert_is_found() -> None:
    """A wild series is left to the round alone, a resting one is not; the total error shows it."""
    wild = 30 * np.random.default_rng(1).uniform(-1, 1, size=400)
    mixture, bank, _, alone = total_risks(wild, follows=0.3)
    assert mixture < 1.1 * alone
    assert mixture < 0.05 * bank
    mixture, bank, constant, alone = total_risks(np.zeros(400), follows=0.3)
    assert constant < mixture < bank < alone


def test_what_is_known_is_written_and_read() -> None:
    """Weights after that are the same."""
    one, other = Experts(0.0, 1.0), Experts(0.0, 1.0)

    def weigh(experts: Experts) -> list[float]:
        arguments = {"bank": np.array([0.4]), "bank_variance": np.array([0.01])}
        return list(experts.weigh(np.array([0.5]), variance=0.1, **arguments)[0])

    weigh(one)
    assert tuple(len(part) for part in one.numbers()) == one.lengths
    other.restore(*one.numbers())
    assert weigh(one) == weigh(other)
