"""What must hold whatever happened: acknowledged reports count once, and estimates are right."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from chaos.installation import Installation
from chaos.probes import Probes, Report
from rase.campaign import Campaign
from rase.counts.registry import TRACKED, estimator_named
from rase.fusion.mechanism import counts_of, randomizer_of
from rase.kernels.words import Resampling
from rase.series.rounds import estimate_round
from rase.wire.keys import Role

__all__ = ["Growth", "Rows", "Verdict", "check", "check_logs", "is_settled", "unsettled"]

Rows: TypeAlias = list[tuple[bytes, bytes, bytes]]
"""The batches of a round as the fusion centre opened them: id, places, classes."""

_MEMORY_BYTES: Final = 64 << 20
_HANDLES: Final = 64


@dataclass(slots=True)
class Verdict:
    """Count what was found.

    Args:
        rounds: Rounds with an estimate.
        withheld: Rounds without one, by rule.
        accepted: Reports that their devices know to be accepted.
        lost: Of those, how many are in no estimate although their round must have one.
        doubled: How many more reports are in estimates than were ever sent.
        wrong: Estimates that are not those of the reports they count.
        unchecked: Estimates whose reports the fusion centre had erased before they were looked at:
            it keeps none longer than its policy by a clock that jumped. Their numbers are checked.
        repaid: Rounds for which a device paid twice.
        notes: Each violation in words.
    """

    rounds: int = 0
    withheld: int = 0
    accepted: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    unchecked: int = 0
    repaid: int = 0
    notes: list[str] = field(default_factory=list)


def is_settled(installation: Installation, rounds: set[int]) -> bool:
    """Return whether rounds are final at the fusion centre, and nothing of them waits elsewhere."""
    final = installation.rows(Role.FUSION, "SELECT round FROM rounds WHERE state <> 'open'")
    waiting = "SELECT round FROM report UNION SELECT round FROM outbox"
    return rounds <= {row[0] for row in final} and not rounds & {
        row[0] for row in installation.rows(Role.SHUFFLER, waiting)
    }


def unsettled(installation: Installation, rounds: set[int]) -> str:
    """Return in words where rounds are that are not settled."""
    places = {
        "with reports": (Role.SHUFFLER, "SELECT DISTINCT round FROM report"),
        "in the outbox": (Role.SHUFFLER, "SELECT round, state, attempts, next_s FROM outbox"),
        "open": (Role.FUSION, "SELECT round FROM rounds WHERE state = 'open'"),
    }
    found = {
        words: [row for row in installation.rows(*where) if row[0] in rounds]
        for words, where in places.items()
    }
    return "; ".join(f"{words}: {rows[:5]}" for words, rows in found.items() if rows)


def check(
    installation: Installation,
    probes: Probes,
    *,
    is_over: bool,
    seen: dict[int, Rows] | None = None,
) -> Verdict:
    """Compare the fusion centre's rounds with what devices were told.

    While the run goes on only final rounds and reports with known places are looked at; when it is
    over and all agents have ended, all rounds, and the agents' ledgers and logs.

    Args:
        installation: Whose rounds.
        probes: The devices with known places.
        is_over: Whether the run is.
        seen: The reports of final rounds as earlier looks found them; those of this one are added.
            They stand for reports that a clock that jumped has let the fusion centre erase.
    """
    verdict, seen = Verdict(), {} if seen is None else seen
    by_round: dict[int, list[Report]] = defaultdict(list)
    # Told before asked: what is acknowledged meanwhile is looked at the next time.
    for report in [report for report in list(probes.reports) if report.fate != "refused"]:
        by_round[report.round].append(report)
    # Asked first: what is final now has its estimate when that is asked for.
    final = {
        row[0]
        for row in installation.rows(Role.FUSION, "SELECT round FROM rounds WHERE state <> 'open'")
    }
    agents = _Agents(installation, verdict) if is_over else None
    told: dict[int, list[tuple[str, float, int]]] = defaultdict(list)
    for round, method, mean, n in installation.rows(
        Role.FUSION, "SELECT round, method, value, n FROM answers"
    ):
        told[round].append((method, mean, n))
    kept: dict[int, Rows] = defaultdict(list)
    for round, *row in installation.rows(
        Role.FUSION, "SELECT round, batch, places, classes FROM opened ORDER BY batch"
    ):
        kept[round].append((bytes(row[0]), bytes(row[1]), bytes(row[2])))
    seen |= {round: rows for round, rows in kept.items() if round in final}
    kept |= seen
    rounds = set(by_round) | (agents.rounds() if agents else set()) if is_over else final
    for round in sorted(rounds | set(told)):
        reports = by_round.get(round, [])
        places = np.frombuffer(b"".join(row[1] for row in kept[round]), "<i8").astype(np.int64)
        sure = [report.place for report in reports if report.fate == "acknowledged"]
        more = agents.counts(round) if agents else (0, len(installation.agents))
        verdict.accepted += len(sure) + more[0]
        if round not in told:
            verdict.withheld += 1
            _check_withheld(verdict, round, sure=len(sure) + more[0], k_min=probes.campaign.k_min)
            continue
        verdict.rounds += 1
        if not len(places):
            verdict.unchecked += 1
            _check_number(
                verdict,
                round,
                told[round][0][2],
                sure=len(sure) + more[0],
                sent=len(reports) + more[1],
            )
            continue
        _check_reports(verdict, round, places=places, reports=reports, more=more)
        classes = np.frombuffer(b"".join(row[2] for row in kept[round]), np.uint8)
        seed = b"".join(row[0] for row in kept[round])
        _check_estimates(
            verdict,
            round,
            told[round],
            expected=_expected(probes.campaign, places, classes, seed=seed),
            n=len(places),
        )
    return verdict


def check_logs(installation: Installation) -> list[str]:
    """Return what processes told that no program should: tracebacks and unexpected errors."""
    found = []
    for name, program in installation.all_programs().items():
        text = program.log.read_text(encoding="utf-8", errors="replace")
        lines = [
            line
            for line in text.splitlines()
            if re.search(r"Traceback|unexpected|round_failed", line)
        ]
        found += [f"{name}: {line[:160]}" for line in lines]
    return found


class Growth:
    """Watch memory and open files of processes over their lives."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, int], tuple[int, int]] = {}
        self.most: dict[str, tuple[int, int]] = {}
        self.notes: list[str] = []

    def look(self, installation: Installation) -> None:
        """Measure all processes; note those that hold far more than at their first look."""
        for name, program in installation.all_programs().items():
            held = program.held()
            if held is None:
                continue
            first = self._first.setdefault((name, program.process.pid), held)
            before = self.most.get(name, (0, 0))
            self.most[name] = (max(before[0], held[0]), max(before[1], held[1]))
            if held[0] > 2 * first[0] + _MEMORY_BYTES or held[1] > 2 * first[1] + _HANDLES:
                self.notes.append(f"{name} grew from {first} to {held} (bytes, files).")


class _Agents:
    """What devices with a folder of their own paid for, and know to be accepted."""

    def __init__(self, installation: Installation, verdict: Verdict) -> None:
        self._known: list[tuple[set[int], set[int]]] = []
        for agent in installation.agents:
            paid = agent.paid()
            twice = len(paid) - len(set(paid))
            if twice:
                verdict.repaid += twice
                verdict.notes.append(f"{agent.program.name} paid {twice} times for a round again.")
            self._known.append((set(paid), agent.sent()))

    def rounds(self) -> set[int]:
        """Return all rounds in which one of them has a report."""
        return {round for paid, sent in self._known for round in paid & sent}

    def counts(self, round: int) -> tuple[int, int]:
        """Return how many reports of a round are surely accepted, and how many may be."""
        sure = sum(round in paid and round in sent for paid, sent in self._known)
        return sure, sum(round in paid for paid, _ in self._known)


def _check_withheld(verdict: Verdict, round: int, *, sure: int, k_min: int) -> None:
    if sure >= k_min:
        verdict.lost += sure
        verdict.notes.append(f"round {round} has no estimate, with {sure} accepted reports.")


def _check_number(verdict: Verdict, round: int, n: int, *, sure: int, sent: int) -> None:
    """See whether an estimate counts as many reports as it must and can."""
    if not sure <= n <= sent:
        verdict.lost += max(0, sure - n)
        verdict.doubled += max(0, n - sent)
        verdict.notes.append(f"round {round}: {n} counted, {sure} accepted, {sent} sent.")


def _check_reports(
    verdict: Verdict,
    round: int,
    *,
    places: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    reports: list[Report],
    more: tuple[int, int],
) -> None:
    """Look for each known place, and see whether there are as many reports as there can be."""
    sure = [report.place for report in reports if report.fate == "acknowledged"]
    missing = (Counter(sure) - Counter(places.tolist())).total()
    lost = max(missing, len(sure) + more[0] - len(places), 0)
    doubled = max(0, len(places) - len(reports) - more[1])
    if lost or doubled:
        verdict.lost += lost
        verdict.doubled += doubled
        verdict.notes.append(
            f"round {round}: {len(places)} counted, {len(sure)} + {more[0]} accepted, "
            f"{len(reports)} + {more[1]} sent, {missing} of the known missing."
        )


def _check_estimates(
    verdict: Verdict,
    round: int,
    told: list[tuple[str, float, int]],
    *,
    expected: Mapping[str, float],
    n: int,
) -> None:
    # The tracked mean hangs on all rounds before it; of it, only the number is looked at.
    alone = [(method, mean) for method, mean, _ in told if method != TRACKED]
    is_right = (
        sorted(method for method, _ in alone) == sorted(expected)
        and all(np.isclose(mean, expected[method], rtol=1e-12, atol=1e-9) for method, mean in alone)
        and all(count == n for _, _, count in told)
    )
    if not is_right:
        verdict.wrong += 1
        verdict.notes.append(f"round {round}: told {told}, expected {dict(expected)} of {n}.")


def _expected(
    campaign: Campaign,
    places: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    classes: "np.ndarray[tuple[int], np.dtype[np.uint8]]",
    *,
    seed: bytes,
) -> dict[str, float]:
    found = estimate_round(
        counts_of(campaign, places, classes),
        randomizer_of(campaign),
        {name: estimator_named(name) for name in campaign.estimators},
        rng=Resampling(seed),
    )
    return {one.method: one.value for one in found.estimates.values()}
