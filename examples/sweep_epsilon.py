"""Error of a round's mean against epsilon, for every mechanism, as a picture.

python examples/sweep_epsilon.py [picture.png]
"""

import sys

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt  # the backend is chosen first

from rase import BudgetAware, Duchi, Hybrid, Optimal, Piecewise, Precision, Range

HOMES = 1000
POWER = Range(0, 3000)


def main(path: str) -> None:
    """Draw the worst standard error of 1,000 homes' mean."""
    epsilons = (0.25, 0.5, 1, 2, 4, 8)
    readings = np.linspace(POWER.low, POWER.high, 65)
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for mechanism in (Duchi, Piecewise, Hybrid, Optimal):
        errors = [
            np.sqrt(mechanism(epsilon, POWER).variance(readings).max() / HOMES)
            for epsilon in epsilons
        ]
        axes.loglog(epsilons, errors, label=mechanism.__name__)
    paper = [
        np.sqrt(BudgetAware(e, POWER, Precision(0.5, 0.9)).variance(readings).max() / HOMES)
        for e in epsilons
    ]
    axes.loglog(epsilons, paper, "k--", label="BudgetAware (the paper's)")
    axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    marks = (5, 10, 20, 50, 100, 200, 400)
    axes.set_yticks(marks, [str(mark) for mark in marks])
    axes.minorticks_off()
    axes.set(xlabel="epsilon of a report", ylabel="worst standard error (W)")
    axes.set_title(f"Mean of {HOMES:,} homes between 0 and 3,000 W", loc="left")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)
    print(f"At epsilon 1: Optimal {errors[epsilons.index(1)]:.0f} W. Picture: {path}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "sweep.png")
