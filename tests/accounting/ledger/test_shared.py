"""One ledger for several quantities: agents that are killed at random keep the owner's total."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.patience import PATIENCE_S, until
from tests.spending import spend

from rase.accounting.ledger import CampaignLimits, Entry, Ledger, OwnerLimits, create_ledger
from rase.errors import BudgetSpent

ROOT = Path(__file__).parents[3]
OWNER = OwnerLimits(report_epsilon=1.0, span_epsilon=12.0, total_epsilon=150.0, span_s=36_000)
# Rounds of an hour and of two: their limits on a window alone would allow far more than the owner.
LIMITS = {
    "power": CampaignLimits("power", 3600, window=4, window_epsilon=4.0),
    "heat": CampaignLimits("heat", 7200, window=4, window_epsilon=4.0),
}
EPSILON = {"power": 0.7, "heat": 0.9}
ROUNDS = {"power": 400, "heat": 200}
KILLS = 6


def spend_for_ever(path: str, campaign: str, seed: int) -> None:
    """Report in rounds at random, each once, for ever."""
    rng = np.random.default_rng(seed)
    with Ledger(Path(path), OWNER) as ledger:
        ledger.join(LIMITS[campaign])
        spend(ledger, campaign, ROUNDS[campaign], epsilon=EPSILON[campaign])
        # From here on they race for what is left; one alone could take it all before.
        until(lambda: {one.campaign for one in ledger.history(-1)} == set(LIMITS))
        while True:
            try:
                round = int(rng.integers(ROUNDS[campaign]))
                spend(ledger, campaign, round, epsilon=EPSILON[campaign])
            except BudgetSpent:
                continue


def fullest_span(entries: Sequence[Entry]) -> float:
    """Return the most that any span of the owner holds, by hand."""
    starts = np.array([one.round * LIMITS[one.campaign].round_s for one in entries])
    spent = np.array([one.epsilon for one in entries])
    # The fullest span may begin where one of its rounds does.
    return max(
        (
            float(spent[(starts >= begin) & (starts < begin + OWNER.span_s)].sum())
            for begin in starts.tolist()
        ),
        default=0.0,
    )


def test_kills_at_random_never_pass_the_totals(tmp_path: Path) -> None:
    """Two processes on one file, killed again and again: span and total hold for both together."""
    path = tmp_path / "ledger.db"
    create_ledger(path)
    rng, pause = np.random.default_rng(26), threading.Event()
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    running: dict[str, subprocess.Popen[bytes]] = {}
    entries: list[Entry] = []

    def start(campaign: str, seed: int) -> None:
        command = [sys.executable, "-m", "tests.accounting.ledger.test_shared"]
        running[campaign] = subprocess.Popen(
            [*command, str(path), campaign, str(seed)], cwd=ROOT, env=quiet
        )

    def spent() -> float:
        with Ledger(path, OWNER) as ledger:
            return ledger.status(0).total_spent

    try:
        for seed, campaign in enumerate(LIMITS):
            start(campaign, seed)
        for kill in range(KILLS):
            campaign = list(LIMITS)[kill % 2]
            before = spent()
            until(lambda: spent() > min(before, OWNER.total_epsilon - 1.0))  # noqa: B023
            pause.wait(float(rng.random()) / 10)
            running[campaign].send_signal(signal.SIGKILL)
            running[campaign].wait(PATIENCE_S)
            with Ledger(path, OWNER) as ledger:
                total, entries = ledger.status(0).total_spent, ledger.history(-1)
            assert before <= total <= OWNER.total_epsilon + 1e-9
            start(campaign, kill + 2)
        until(lambda: spent() > OWNER.total_epsilon - 1.0)
    finally:
        for process in running.values():
            process.kill()
            process.wait(PATIENCE_S)
    with Ledger(path, OWNER) as ledger:
        total, entries = ledger.status(0).total_spent, ledger.history(-1)
    assert sum(one.epsilon for one in entries) <= OWNER.total_epsilon + 1e-9
    assert fullest_span(entries) <= OWNER.span_epsilon + 1e-9
    assert {one.campaign for one in entries} == set(LIMITS)


if __name__ == "__main__":
    spend_for_ever(sys.argv[1], sys.argv[2], int(sys.argv[3]))
