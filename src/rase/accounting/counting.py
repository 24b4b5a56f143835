"""What a concrete observer achieves: the lower bounds that stand beside the upper ones.

The observer knows the readings of all contributors but one, which are alike, and must tell two
readings of that one apart. It asks of each shuffled report one yes-no question and counts. A count
is a function of the release, so the release is at least as revealing: no true epsilon is below.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rase.accounting.binomial import Floats, probabilities, window
from rase.accounting.blanket import Channel

__all__ = ["CountingObserver", "Question", "best_questions", "response_question"]

# Multiplications allowed for one law.
_MOST_WORK = 1.5e8
# Covers the rounding of probabilities, and costs 1e-7 of epsilon.
_SLACK = 1e-6
# An observer who forgets a yes this seldom is an observer too; its chances are never quite 1.
_FORGETS = 1e-12
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, slots=True)
class Question:
    """Hold the chances of a yes to a question about one report.

    Args:
        first: The chance if the contributor's reading is the first candidate.
        second: The chance if it is the second.
        others: The chance for everybody else.
    """

    first: float
    second: float
    others: float


class CountingObserver:
    """Tell at any epsilon a delta that no valid one is below.

    Guarantee: `delta` is at most the true hockey-stick divergence of the release
    (tests/statistical/test_channel_audit.py enumerates it).

    Args:
        question: The yes-no question.
        n: How many reports a round.
        rounds: Over how many rounds the yeses are counted. Where that would be long work, fewer
            are counted: what holds for some of the rounds holds for all.
        negligible: The mass of counts that need not be looked at. It is taken off delta.
    """

    def __init__(self, question: Question, n: int, rounds: int, *, negligible: float) -> None:
        """Compute the two laws of the count."""
        log_lost = math.log(negligible / 4)
        counted = rounds
        crowd, own = _windows(question, n, counted, log_lost)
        while counted > 1 and len(crowd) * len(own) > _MOST_WORK:
            counted = (3 * counted + 3) // 4 - 1
            crowd, own = _windows(question, n, counted, log_lost)
        others = probabilities(_numbers(crowd), counted * (n - 1), question.others)
        self._first, self._second = (
            np.convolve(others, probabilities(_numbers(own), counted, chance))
            for chance in (question.first, question.second)
        )
        # What a law lacks outside the window could have lessened the difference.
        self._lost = negligible

    def delta(self, epsilon: float) -> float:
        """Return the larger of both hockey-stick divergences of the count, rounded down."""
        if epsilon > _LARGEST_EXPONENT:
            return 0.0
        factor = math.exp(epsilon)
        ahead = float(np.maximum(self._first - factor * self._second, 0.0).sum())
        behind = float(np.maximum(self._second - factor * self._first, 0.0).sum())
        return max(0.0, max(ahead, behind) * (1 - _SLACK) - factor * self._lost)


def response_question(epsilon_local: float) -> Question:
    """Return the question to randomized response, a mechanism that attains its epsilon."""
    kept = 1 / (1 + math.exp(-epsilon_local))
    return Question(first=kept, second=1 - kept, others=1 - kept)


def best_questions(channel: Channel) -> list[Question]:
    """Return good questions about one mechanism, for others at the low end and in the middle.

    A question is a set of reports, those that speak most for the first reading; the set is chosen
    for the count's largest shift against its noise. The high end mirrors the low one.

    Args:
        channel: The mechanism's rows.
    """
    return [
        _best(first, second, others)
        for first, second in ((channel.low, channel.high), (channel.high, channel.low))
        for others in (channel.low, channel.middle)
    ]


def _best(first: Floats, second: Floats, others: Floats) -> Question:
    occurs = others > 0
    first, second, others = first[occurs], second[occurs], others[occurs]
    ranking = np.argsort(-(first - second) / others, kind="stable")
    yes = [np.cumsum(row[ranking])[:-1] for row in (first, second, others)]
    noise = yes[2] * (1 - yes[2])
    shift = np.where(noise > 0, np.square(yes[0] - yes[1]) / np.maximum(noise, 1e-300), 0.0)
    chosen = int(np.argmax(shift))
    return Question(*(float(row[chosen]) * (1 - _FORGETS) for row in yes))


def _numbers(counts: range) -> NDArray[np.int64]:
    return np.arange(counts.start, counts.stop)


def _windows(question: Question, n: int, rounds: int, log_lost: float) -> tuple[range, range]:
    """Return the counts to look at: of the others' yeses, and of the contributor's own."""
    low, high = window(rounds * (n - 1), question.others, log_lost)
    ends = [window(rounds, chance, log_lost) for chance in (question.first, question.second)]
    lowest, highest = min(end[0] for end in ends), max(end[1] for end in ends)
    return range(low, high + 1), range(lowest, highest + 1)
