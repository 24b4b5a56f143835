"""The two figures of the Mallows law: exact, with the numbers they hide beside them."""

import math

from rase.lab.experiments.study import Check, Experiment, Findings, Setup, Steps
from rase.lab.pictures import Chart, Line, Picture
from rase.shuffle.attacker import order_attack
from rase.shuffle.mallows import Mallows

__all__ = ["MALLOWS_CENTRE", "MALLOWS_DISTANCE"]

_THETAS = (0.0, 0.1, 0.5, 1.0, 2.0)
_SIZES = (2, 5, 10, 20, 64)


def distance_figure(setup: Setup) -> Steps:
    """Draw the probability of one permutation, and of all, at each distance from the centre."""
    yield []
    rows, single, whole = [], [], []
    for theta in _THETAS:
        law = Mallows(5, theta)
        pmf = law.distance_pmf()
        distances = tuple(float(d) for d in range(pmf.size))
        one = tuple(math.exp(-theta * d - law.log_normaliser) for d in distances)
        label = f"θ = {theta:g}"
        single.append(Line(label, distances, one))
        whole.append(Line(label, distances, tuple(pmf.tolist())))
        rows += [
            {"theta": theta, "distance": int(d), "one_order": p, "all_orders": q}
            for d, p, q in zip(distances, one, pmf.tolist(), strict=True)
        ]
    centre = {theta: math.exp(-Mallows(5, theta).log_normaliser) for theta in _THETAS}
    away = 1 - float(Mallows(5, 0.5).distance_pmf()[0])
    picture = Picture(
        (
            Chart(
                "One given permutation",
                "Kendall tau distance from the centre",
                "probability",
                tuple(single),
                y_scale="log",
            ),
            Chart(
                "All permutations at that distance",
                "Kendall tau distance from the centre",
                "probability",
                tuple(whole),
            ),
        ),
        columns=2,
        chart_size=(4.6, 3.5),
    )
    return Findings(
        tuple(rows),
        picture,
        f"At m = 5 the centre has probability {centre[0.1]:.4f} for θ = 0.1, {centre[1.0]:.3f} for "
        f"θ = 1 and {centre[2.0]:.3f} for θ = 2. It is the single likeliest permutation for every "
        f"θ > 0, yet at θ = 0.5 the order differs from it with probability {away:.2f}.",
        (
            Check(
                "The centre is the mode for every θ above 0.",
                all(max(line.y) == line.y[0] for line in single[1:]),
            ),
            Check(
                "The probability of one permutation decays exponentially with its distance.",
                all(
                    math.isclose(line.y[1] / line.y[0], math.exp(-theta))
                    for theta, line in zip(_THETAS, single, strict=True)
                ),
            ),
            Check(
                "The likeliest distance is not 0 at θ = 0.1 and 0.5.",
                all(max(whole[place].y) > whole[place].y[0] for place in (1, 2)),
                is_departure=True,
            ),
        ),
    )


def centre_figure(setup: Setup) -> Steps:
    """Draw the probability of the centre by theta and n."""
    yield []
    thetas = tuple(round(0.05 * step, 2) for step in range(101))
    lines, rows = [], []
    for n in _SIZES:
        centre = tuple(math.exp(-Mallows(n, theta).log_normaliser) for theta in thetas)
        lines.append(Line(f"n = {n}", thetas, centre))
        rows += [
            {"n": n, "theta": theta, "centre": value}
            for theta, value in zip(thetas, centre, strict=True)
            if theta in {0.1, 0.5, 1.0, 2.0, 3.0, 5.0}
        ]
    at_five = {line.label: line.y[-1] for line in lines}
    stay = order_attack(64, 5.0).stay_share
    chart = Chart("", "spread parameter θ", "probability of the centre", tuple(lines))
    return Findings(
        tuple(rows),
        Picture((chart,)),
        f"Pr[centre] grows with θ and falls with n: at θ = 5 it is {at_five['n = 5']:.3f} for "
        f"n = 5 and {at_five['n = 64']:.2f} for n = 64. A small Pr[centre] does not mean that "
        f"records move far: at n = 64 and θ = 5, {100 * stay:.1f} % of them keep their place.",
        (
            Check(
                "Pr[centre] grows with θ for every n.",
                all(list(line.y) == sorted(line.y) for line in lines),
            ),
            Check(
                "Pr[centre] falls with n for every θ.",
                all(
                    lines[place].y[at] > lines[place + 1].y[at]
                    for place in range(len(lines) - 1)
                    for at in range(1, len(thetas))
                ),
            ),
        ),
    )


MALLOWS_DISTANCE = Experiment(
    name="mallows-distance",
    figure="Fig. 2 (m = 5)",
    title="Probability of the Mallows law by Kendall tau distance",
    paper_says="The centre is the mode, and the other 5! - 1 permutations decay exponentially with "
    "their distance to it.",
    why="They agree for one given permutation. There are 1, 4, 9, 15, 20, 22, 20, ... permutations "
    "at distance 0, 1, 2, ..., so the distance itself is rarely 0 for small θ.",
    choices={"theta": "0, 0.1, 0.5, 1 and 2; the paper's values are not printed"},
    steps=distance_figure,
)
MALLOWS_CENTRE = Experiment(
    name="mallows-centre",
    figure="Fig. 4 (centre)",
    title="Probability of the central permutation by θ and n",
    paper_says="Pr[centre] tends to 1 for large θ: with k = n groups the shuffler does nothing.",
    why="They agree. The figure shows the whole order, while a record's own place is what an "
    "attacker wants: see switch-off.",
    choices={"n": "2, 5, 10, 20 and 64; the paper's values are not printed", "theta": "0 to 5"},
    steps=centre_figure,
)
