"""Lower bounds on what a release reveals: what two observers achieve who may really exist.

Both know the readings of all contributors but one, which are alike, and must tell two readings of
that one apart. The best observer uses the likelihood ratio of the whole release. Given the reports
y_1 ... y_n in any order, the likelihood under a reading x is the mean over i of R_x(y_i) /
R_o(y_i), times what the others' law R_o gives them all. So with all n reports drawn from R_o the
hockey-stick divergence of the release is

    delta(epsilon) = E[(X_1 + ... + X_n)_+] / n,   X = (R_x(y) - e^epsilon R_x'(y)) / R_o(y).

It is the divergence of one pair of rounds that may occur, so no true epsilon is below. Others whose
readings differ can be worse: where this meets an upper bound both are exact, elsewhere the truth
lies between.

A simpler observer asks one yes-no question of each shuffled report and counts. A count is a
function of the release, so the release reveals at least as much: no true epsilon is below.

Over many rounds an observer gives each shuffled report a whole number, about by how much it speaks
for one of two readings, (R_x - R_x') / R_o. The sum over a round is a function of the release whose
two laws are known exactly, so its loss ln P/Q is one that the release really has, and losses of
rounds add up. Everything is rounded downwards.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from rase.accounting.binomial import Floats, probabilities, window
from rase.accounting.blanket import Channel
from rase.accounting.curve import crossing
from rase.accounting.lattice import Lattice, split

__all__ = [
    "CountingObserver",
    "LikelihoodObserver",
    "Question",
    "attack_epsilon",
    "best_questions",
    "least_mean_excess",
    "observed_epsilon",
    "response_question",
]

# Covers the rounding of probabilities and of the FFT many times over, and costs 1e-5 of epsilon.
_SLACK = 1e-4
# Places of the lattice: within a standard deviation, at least, at most, and for a first sketch.
_PER_DEVIATION = 12
_FINE = 32
_FEWEST, _MOST = 2**13, 2**19
_SKETCH = 512
# Deviations looked at about 0, and the log of what may lie beyond them; skewed sums need more.
_REACHES = (8.0, 12.0, 18.0, 27.0, 60.0)
_LOG_BEYOND = -25.0
# The search ends this close below the epsilon it looks for, as a share; an observer must promise
# more than the second to be looked at.
_CLOSE = 1e-4
_WORTH_A_SEARCH = 1e-3
_QUICK = 1e-2
_NOT_FAR = 1.02
# Keeps weights of sums at which nothing lies from overflowing.
_LARGEST_EXPONENT = 700.0


def observed_epsilon(
    channel: Channel,
    n: int,
    *,
    delta: float,
    highest: float,
    least: float = 0.0,
    is_quick: bool = False,
) -> float:
    """Return an epsilon that a round really has at least, at this delta.

    The largest over observers who look for the two readings of the worst pair, in both orders,
    among others who are all at an end of the range, at a quarter or in the middle.

    Args:
        channel: The mechanism's rows.
        n: How many reports.
        delta: The delta allowed.
        highest: The epsilon of one report.
        least: An epsilon that is known to be one; observers who achieve no more are passed over.
        is_quick: Whether to ask one observer only, and not to look closely: for sliders.
    """
    best = None
    for observer in islice(_observers(channel, n), 1 if is_quick else None):
        start = (1 + _WORTH_A_SEARCH) * least
        if start < highest:
            low, high = crossing(
                observer.delta,
                delta,
                lowest=start,
                highest=highest,
                precision=_QUICK if is_quick else _CLOSE,
            )
            if low < high:
                least, best = low, observer
    if best is None or is_quick:
        return least
    # A finer lattice loses less, and one search is enough for it.
    finer = partial(best.delta, per_deviation=_FINE)
    highest = min(highest, _NOT_FAR * least)
    return max(least, crossing(finer, delta, lowest=least, highest=highest, precision=_CLOSE)[0])


def _observers(channel: Channel, n: int) -> Iterator["LikelihoodObserver"]:
    """Yield the observers, those first who achieve most in rounds without end."""
    found = [
        LikelihoodObserver(first, second, others, n)
        for first, second in ((channel.low, channel.high), (channel.high, channel.low))
        for others in (channel.middle, channel.quarter, channel.low)
        if others is not None
    ]
    yield from sorted(found, key=lambda observer: -observer.contrast)


class LikelihoodObserver:
    """Compute at any epsilon a delta that no valid one is below.

    Guarantee: `delta` is at most the hockey-stick divergence of the release of n uniformly shuffled
    reports, for one contributor's two readings and all others at a third
    (tests/accounting/test_lower_bounds.py sums and enumerates it).

    Args:
        first: The law of the report of the contributor's first candidate reading.
        second: That of the second.
        others: That of everybody else's reading.
        n: How many reports.
    """

    def __init__(self, first: Floats, second: Floats, others: Floats, n: int) -> None:
        """Keep the reports that the others make: leaving out events only lessens a divergence."""
        occurs = others > 0
        self._first, self._second, self._others = first[occurs], second[occurs], others[occurs]
        self._n = n

    @property
    def contrast(self) -> float:
        """The chi-square distance of the two readings among the others: it decides for large n."""
        return float((np.square(self._first - self._second) / self._others).sum())

    def delta(self, epsilon: float, *, per_deviation: float = _PER_DEVIATION) -> float:
        """Return the divergence at epsilon, rounded down.

        Args:
            epsilon: The epsilon.
            per_deviation: As for `least_mean_excess`.
        """
        values = (self._first - math.exp(epsilon) * self._second) / self._others
        return least_mean_excess(values, self._others, self._n, per_deviation=per_deviation)


def least_mean_excess(
    values: Floats, masses: Floats, n: int, *, per_deviation: float = _FINE
) -> float:
    """Return a lower bound on E[(X_1 + ... + X_n)_+] / n.

    Splitting the atoms of X between places of a lattice adds to the sum S a noise N whose mean is 0
    whatever S is, which raises the mean of the positive part; by how much at most is taken off.
    Each of the n noises has a range of one step h, so N is sub-Gaussian with V = n h^2 / 4
    (Hoeffding), and x_+ <= e^(x/v - 1) v with v = √V gives

        E[(S + N)_+ | S] - S_+ <= v e^(-1/2) e^(-|S|/v).

    With T = S + N on the lattice, E[e^(-|T|/v) | S] >= e^(-E[|T| | S]/v) >= e^(-|S|/v - 1) by
    Jensen, so the whole is at most v e^(1/2) E[e^(-|T|/v)], a mean over the law that is computed.

    Args:
        values: The values of X, of a mean of at most 0.
        masses: Their masses, which sum to 1.
        n: How many summands.
        per_deviation: How many places of the lattice are wished for within a standard deviation
            of X; with more, less is lost.
    """
    highest = float(values.max())
    if highest <= 0:
        return 0.0
    # One summand below -(n - 1) * highest keeps the sum from being positive, however low it is.
    values = np.maximum(values, -(n - 1) * highest)
    step, low, high = _layout(values, masses, n, per_deviation=per_deviation)
    # Events that are left out only lessen the mean, and without them the lattice is short.
    is_kept = np.abs(values) <= step * (high - low)
    if not (values[is_kept] > 0).any():
        return 0.0
    law = split(values[is_kept], masses[is_kept], step)
    tilt = law.tilt_for(0.0)
    # The sums looked at are the places from low to high; those beyond come round the cycle.
    size = high - low + 1
    tilted, log_factor = law.sum_of(n, tilt=tilt, size=size)
    places = np.arange(low, high + 1)
    sums = step * places
    untilted = np.minimum(log_factor - tilt * sums, _LARGEST_EXPONENT)
    chances = tilted[places % size] * np.exp(untilted)
    found = float((np.maximum(sums, 0.0) * chances).sum())
    # A sum from beyond counts at most s e^(-tilt s) for some s, which is largest at 1 / tilt.
    largest = min(step * high, 1 / (math.e * tilt)) if tilt else step * high
    log_lost = log_factor + _log_beyond(law, n, tilt, low=step * low, high=step * high)
    lost = largest * math.exp(min(log_lost, _LARGEST_EXPONENT))
    deviation = step * math.sqrt(n) / 2
    near = float((np.exp(-np.abs(sums) / deviation) * chances).sum())
    far = math.exp(step * low / deviation) + math.exp(-step * high / deviation)
    raised = deviation * math.sqrt(math.e) * (near + far)
    return max(0.0, found * (1 - _SLACK) - lost - raised) / n


def _layout(
    values: Floats, masses: Floats, n: int, *, per_deviation: float
) -> tuple[float, int, int]:
    """Return the lattice's step, and its lowest and highest places to look at."""
    width = float(values.max() - values.min())
    sketch = split(values, masses, width / _SKETCH)
    tilt = sketch.tilt_for(0.0)
    deviation = sketch.moments(tilt)[1]
    spread = deviation * math.sqrt(n)
    lowest, highest = n * float(values.min()), n * float(values.max())
    for reach in _REACHES:
        low, high = max(-reach * spread, lowest), min(reach * spread, highest)
        if _log_beyond(sketch, n, tilt, low=low, high=high) < _LOG_BEYOND:
            break
    # Splitting widens the support by a noise of √n / 2 steps: ten times as much on either side.
    room = 5 * math.isqrt(n) + 8
    wished = per_deviation * (high - low) / deviation + 2 * room
    size = min(max(_FEWEST, 1 << math.ceil(math.log2(wished))), _MOST)
    step = (high - low) / max(size - 2 * room, 1)
    first = math.floor(low / step) - room
    return step, first, first + size - 1


def _log_beyond(law: Lattice, n: int, tilt: float, *, low: float, high: float) -> float:
    """Return a bound on the log of the tilted mass of sums outside ``low .. high`` (Chernoff).

    Any tilt on an end's side of the one in use gives a bound, the one that moves the mean to the
    end nearly the best.
    """
    found, at_tilt = -math.inf, law.log_mgf(tilt)
    if n * float(law.values[-1]) > high:
        above = law.tilt_for(high / n)
        found = n * (law.log_mgf(above) - at_tilt) - (above - tilt) * high
    if n * float(law.values[0]) < low:
        mirrored = Lattice(law.step, 1 - law.start - law.masses.size, law.masses[::-1])
        below = law.tilt_for(low / n) or -mirrored.tilt_for(-low / n)
        bound = n * (law.log_mgf(below) - at_tilt) - (below - tilt) * low
        found = float(np.logaddexp(found, bound))
    return found


# Multiplications allowed for one law.
_MOST_WORK = 1.5e8
# Covers the rounding of probabilities, and costs 1e-7 of epsilon.
_COUNTING_SLACK = 1e-6
# An observer who forgets a yes this seldom is an observer too; its chances are never quite 1.
_FORGETS = 1e-12


@dataclass(frozen=True, slots=True)
class Question:
    """The chances of a yes to a question about one report.

    Args:
        first: The chance if the contributor's reading is the first candidate.
        second: The chance if it is the second.
        others: The chance for everybody else.
    """

    first: float
    second: float
    others: float


class CountingObserver:
    """At any epsilon a delta that no valid one is below.

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
        return max(0.0, max(ahead, behind) * (1 - _COUNTING_SLACK) - factor * self._lost)


def response_question(epsilon_local: float) -> Question:
    """Return the question to randomized response, a mechanism that attains its epsilon."""
    kept = 1 / (1 + math.exp(-epsilon_local))
    return Question(first=kept, second=1 - kept, others=1 - kept)


def best_questions(channel: Channel) -> list[Question]:
    """Return good questions about one mechanism, for others at the low end and in the middle.

    A question is a set of reports, those that speak most for the first reading; the set is chosen
    for the count's largest shift against its noise. The high end is the reflection of the low one.

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


# Scores are whole numbers up to this size, and sums are counted modulo so many.
_LARGEST_SCORE = 64
_SCORE_REACH = 12.0
_MOST_SCORES = 2**18
# The rounding of the FFT, many times over; sums with less mass are left out.
_ROUNDING = 1e-14
_LEAST = 1e-12
# Places for the losses of all rounds, and deviations looked at.
_PLACES = 2**19
_SCORE_SLACK = 1e-6


def attack_epsilon(
    channel: Channel, n: int, *, rounds: int, delta: float, local_epsilon: float
) -> float:
    """Return an epsilon that many rounds really have at least, at this delta.

    Guarantee: no epsilon below it holds for all rounds together
    (tests/accounting/test_attack.py enumerates small ones). The largest over observers
    of the worst pair, in both orders, among others at an end, a quarter or the middle of the range.

    Args:
        channel: The mechanism's rows.
        n: How many reports a round.
        rounds: How many rounds.
        delta: The delta allowed.
        local_epsilon: The epsilon of one report.
    """
    found = 0.0
    for first, second, others in _readings(channel):
        losses, masses = _round_losses(first, second, others, n)
        observer = _LeastSums(losses, masses, rounds, delta=delta)
        highest = rounds * local_epsilon
        found = max(found, crossing(observer.delta, delta, highest=highest, precision=1e-4)[0])
    return found


def _readings(channel: Channel) -> Iterator[tuple[Floats, Floats, Floats]]:
    for first, second in ((channel.low, channel.high), (channel.high, channel.low)):
        for others in (channel.middle, channel.quarter, channel.low):
            if others is not None:
                occurs = others > 0
                yield first[occurs], second[occurs], others[occurs]


def _round_losses(first: Floats, second: Floats, others: Floats, n: int) -> tuple[Floats, Floats]:
    """Return losses that are at most those of a round's score, and masses at most those under P."""
    exact = (first - second) / others
    largest = float(np.abs(exact).max())
    scores = np.rint(exact * (_LARGEST_SCORE / largest)).astype(np.int64)
    spread = math.sqrt(n * float((others * np.square(scores)).sum()))
    size = min(
        _MOST_SCORES, 1 << math.ceil(math.log2(2 * _SCORE_REACH * spread + 8 * _LARGEST_SCORE))
    )
    # Sums modulo the size are a function of the sums, so nothing is lost to a proof by the cycle.
    laws = [
        np.bincount(scores % size, weights=law, minlength=size) for law in (others, first, second)
    ]
    spectra = [np.fft.rfft(law) for law in laws]
    crowd = np.exp((n - 1) * np.log(np.where(spectra[0] == 0, 1e-300, spectra[0])))
    under = [np.fft.irfft(crowd * own, size) for own in spectra[1:]]
    likely, unlikely = under[0] - _ROUNDING, under[1] + _ROUNDING
    kept = likely > _LEAST
    return np.log(likely[kept] / unlikely[kept]), likely[kept]


class _LeastSums:
    """The loss of many rounds, rounded down, and its delta, never too large."""

    def __init__(self, losses: Floats, masses: Floats, rounds: int, *, delta: float) -> None:
        mean = float((masses * losses).sum())
        deviation = math.sqrt(float((masses * np.square(losses - mean)).sum())) + 1e-12
        step = 2 * _SCORE_REACH * math.sqrt(rounds) * deviation / _PLACES
        law = _rounded_down(losses, masses, step)
        tilt = math.sqrt(-2 * math.log(delta) / rounds) / deviation
        centre, spread = law.moments(tilt)
        top = math.ceil((rounds * centre + _SCORE_REACH * math.sqrt(rounds) * spread) / step)
        places = np.arange(top - _PLACES + 1, top + 1)
        tilted, log_factor = law.sum_of(rounds, tilt=tilt, size=_PLACES)
        self._sums = step * places
        beyond = _log_beyond(
            law, rounds, tilt, low=float(self._sums[0]), high=float(self._sums[-1])
        )
        # What comes round the cycle could have landed on any place; it is taken off all.
        tilted = np.maximum(tilted - math.exp(beyond) - _ROUNDING / _PLACES, 0.0)
        self._masses = tilted[places % _PLACES] * np.exp(
            np.minimum(log_factor - tilt * self._sums, 700.0)
        )

    def delta(self, epsilon: float) -> float:
        """Return a divergence that all rounds together have at least."""
        first = int(np.searchsorted(self._sums, epsilon, side="right"))
        above = (-np.expm1(epsilon - self._sums[first:]) * self._masses[first:]).sum()
        return max(0.0, float(above) * (1 - _SCORE_SLACK))


def _rounded_down(losses: Floats, masses: Floats, step: float) -> Lattice:
    return split(losses, masses, step, upper_share=np.zeros_like)
