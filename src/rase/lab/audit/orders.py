"""Claims about orders: of shufflers alone, and of whole channels from readings to a release.

Other claims are that an order follows its law: a statistic of it is compared with its exact
distribution. Two inputs that must not be told apart show faults that are large against rare events.
An order that is drawn a little wrong (a theta that is 1 % too large, one round of a thousand that
is not shuffled) shows in a number whose whole distribution is known: how many pairs a round of 64
reports has out of order, or how many reports stay where they were. Of a round that is left as it
came the second is 64, which has probability 1 / 64!.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rase.accounting.accountant.bit import bit_profile
from rase.accounting.accountant.claims import claims
from rase.accounting.blanket import is_bit
from rase.campaign import ShufflePlan
from rase.kernels.words import Random, SecureRandom
from rase.lab.audit.reports import Noise
from rase.lab.audit.subject import Cells, LawSubject, Subject
from rase.laws.law import Law
from rase.laws.randomizer import RangeRandomizer
from rase.promise import Claim
from rase.shuffle.release import RoundShuffler, Shuffler
from rase.shuffler.order import draw_order

__all__ = [
    "channel_subject",
    "fixed_point_law",
    "inversion_law",
    "kept_subject",
    "live_kept_subject",
    "live_order_subject",
    "mallows_law_subject",
    "order_subject",
    "position_subject",
    "promise_subjects",
]

Floats = NDArray[np.float64]

_SINGLE_SHARE = 1 / 250
_WIDE_SHARE = 1 / 10
# A report in a release is coded by three letters: at the lower end, between, at the upper one.
_LETTERS = 3


def order_subject(
    name: str, shuffler: Shuffler, *, claim: float, changed: Sequence[int], single: bool = False
) -> Subject:
    """Claim that the order of release hides which of two orders reports arrived in.

    All n! releases are told apart, so n is small.

    Args:
        name: What to call it.
        shuffler: What draws the order.
        claim: The alpha that is claimed.
        changed: The second arrival order; the first is 0, 1, 2, ...
        single: Whether to draw one round at a time, where the shuffler knows many at once.
    """
    n = len(changed)
    arrivals = (np.arange(n, dtype=np.float64), np.array(changed, dtype=np.float64))

    def draw(is_second: bool, count: int, rng: Random) -> Cells:
        rows = np.tile(arrivals[is_second], (count, 1))
        return _word_cells(_release_rows(shuffler, rows, rng, single=single).astype(np.int64), n)

    share = 1.0 if _is_quick(shuffler, single=single) else _SINGLE_SHARE
    inputs = f"arrival {_list_items(range(n))} or {_list_items(changed)}"
    return Subject(name, "order", inputs, claim, n**n, draw, share=share)


def position_subject(name: str, shuffler: Shuffler, n: int, *, claim: float) -> Subject:
    """Claim that the place of release of one report hides whether it arrived first or second.

    For rounds too large to tell all releases apart.

    Args:
        name: What to call it.
        shuffler: What draws the order.
        n: How many reports a round has.
        claim: The alpha that is claimed.
    """

    def draw(is_second: bool, count: int, rng: Random) -> Cells:
        rows = np.zeros((count, n))
        rows[:, int(is_second)] = 1.0
        slots: Cells = np.argmax(_release_rows(shuffler, rows, rng, single=False), axis=1)
        return slots

    share = _WIDE_SHARE if _is_quick(shuffler, single=False) else _SINGLE_SHARE
    inputs = f"one of {n} reports arrives first or second"
    return Subject(name, "order", inputs, claim, n, draw, share=share)


def live_order_subject(
    name: str, plan: ShufflePlan, *, claim: float, groups: tuple[Sequence[str], Sequence[str]]
) -> Subject:
    """Claim the same of the order that the shuffler's program draws; it takes secure words alone.

    Args:
        name: What to call it.
        plan: The campaign's.
        claim: The alpha that is claimed.
        groups: The senders' public groups, by place of arrival, for the two inputs.
    """
    n = len(groups[0])

    def draw(is_second: bool, count: int, rng: Random) -> Cells:
        source = rng if isinstance(rng, SecureRandom) else SecureRandom()
        rows = [draw_order(groups[is_second], plan, rng=source)[0] for _ in range(count)]
        return _word_cells(np.array(rows, dtype=np.int64), n)

    inputs = f"groups {_list_items(groups[0])} or {_list_items(groups[1])} by arrival"
    return Subject(name, "order", inputs, claim, n**n, draw, share=_SINGLE_SHARE)


def channel_subject(
    name: str,
    noise: Noise,
    shuffler: Shuffler,
    *,
    readings: tuple[Sequence[float], Sequence[float]],
    claim: float,
    delta: float = 0.0,
    is_ordered: bool = True,
    share: float | None = None,
) -> Subject:
    """Claim that a whole release hides which of two sets of readings the fleet has.

    Args:
        name: What to call it.
        noise: What makes reports.
        shuffler: What draws the order.
        readings: The fleet's readings, in their sequence of arrival, for the two inputs.
        claim: The epsilon (or alpha) that is claimed of the release.
        delta: The delta that is claimed with it.
        is_ordered: Whether releases are told apart slot by slot, or by their counts alone; the
            latter for larger fleets, where the order is uniform.
        share: Which share of the samples asked for is drawn; by the size of the fleet unless given.
    """
    fleets = tuple(np.array(one, dtype=np.float64) for one in readings)
    n = fleets[0].size
    public = noise.domain

    def draw(is_second: bool, count: int, rng: Random) -> Cells:
        reports = noise.randomize(np.tile(fleets[is_second], (count, 1)), rng=rng)
        released = _release_rows(shuffler, reports, rng, single=False)
        lows, highs = released <= public.low, released >= public.high
        if is_ordered:
            return _word_cells(np.where(lows, 0, np.where(highs, 2, 1)), _LETTERS)
        counts: Cells = lows.sum(axis=1) * (n + 1) + highs.sum(axis=1)
        return counts

    cells = _LETTERS**n if is_ordered else (n + 1) ** 2
    usual = min(1.0, 4 / n) if _is_quick(shuffler, single=False) else _SINGLE_SHARE
    inputs = f"readings {_list_items(readings[0])} or {_list_items(readings[1])}"
    return Subject(name, "channel", inputs, claim, cells, draw, delta=delta, share=share or usual)


def _release_rows(shuffler: Shuffler, rows: Floats, rng: Random, *, single: bool) -> Floats:
    """Shuffle each row separately."""
    if isinstance(shuffler, RoundShuffler) and not single:
        return np.asarray(shuffler.shuffle_rounds(rows, rng=rng).values)
    return np.array([shuffler.shuffle(row, rng=rng).values for row in rows])


def _is_quick(shuffler: Shuffler, *, single: bool) -> bool:
    return isinstance(shuffler, RoundShuffler) and not single


def _word_cells(rows: Cells, letters: int) -> Cells:
    """Return each row of letters 0 .. letters - 1 as one number."""
    cells = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        cells = cells * letters + column
    return cells


def _list_items(items: Sequence[object]) -> str:
    """Return few items in words; of many the first, and how many there are."""
    shown = " ".join(f"{item:g}" if isinstance(item, float) else str(item) for item in items[:8])
    return shown if len(items) <= 8 else f"{shown} … ({len(items)})"


_WIDE_LAW_SHARE = 1 / 25


def fixed_point_law(n: int) -> Floats:
    """Return how likely 0, 1, ..., n reports stay in their place in a uniform order.

    Montmort's numbers: k stay with probability D(n - k) / (k! (n - k)!), D counting derangements.

    Example:
        >>> fixed_point_law(3).round(4).tolist()
        [0.3333, 0.5, 0.0, 0.1667]
    """
    # D(m) / m! is the sum of (-1)^j / j! up to m.
    shares = np.cumsum([(-1) ** j / math.factorial(j) for j in range(n + 1)])
    return np.array([max(shares[n - k], 0.0) / math.factorial(k) for k in range(n + 1)])


def inversion_law(n: int, theta: float) -> Floats:
    """Return how likely 0, 1, 2, ... pairs are out of order in a Mallows order of n items.

    Their number is a sum of independent ones: of item j with j items before it, 0 to j, with
    weights e^(-theta v) (Fligner and Verducci, J. R. Stat. Soc. B 1986).

    Example:
        >>> inversion_law(3, 0.0).round(4).tolist()
        [0.1667, 0.3333, 0.3333, 0.1667]
    """
    law = np.ones(1)
    for j in range(1, n):
        weights = np.exp(-theta * np.arange(j + 1))
        law = np.convolve(law, weights / weights.sum())
    return law


def kept_subject(name: str, shuffler: Shuffler, n: int, *, single: bool = False) -> LawSubject:
    """Claim that as many reports stay in their place as in a uniform order, and no more.

    Args:
        name: What to call it.
        shuffler: What draws the order.
        n: How many reports a round has.
        single: Whether to draw one round at a time, where the shuffler knows many at once.
    """
    is_quick = isinstance(shuffler, RoundShuffler) and not single
    return LawSubject(
        name,
        f"{n} reports, how many stay in their place",
        fixed_point_law(n),
        lambda count, rng: _count_fixed(_orders(shuffler, n, count, rng, is_quick=is_quick)),
        share=_WIDE_LAW_SHARE if is_quick else _SINGLE_SHARE,
    )


def live_kept_subject(name: str, plan: ShufflePlan, n: int) -> LawSubject:
    """Claim the same of the order that the shuffler's program draws; it takes secure words alone.

    Args:
        name: What to call it.
        plan: The campaign's.
        n: How many reports a round has.
    """

    def draw(count: int, rng: Random) -> Cells:
        source = rng if isinstance(rng, SecureRandom) else SecureRandom()
        orders = [draw_order(["a"] * n, plan, rng=source)[0] for _ in range(count)]
        return _count_fixed(np.array(orders, dtype=np.int64))

    inputs = f"{n} reports, how many stay in their place"
    return LawSubject(name, inputs, fixed_point_law(n), draw, share=_SINGLE_SHARE)


def mallows_law_subject(
    name: str,
    draw_orders: Callable[[int, Random], Cells],
    n: int,
    *,
    theta: float,
    single: bool = False,
) -> LawSubject:
    """Claim that orders are drawn with exactly this theta.

    Args:
        name: What to call it.
        draw_orders: Draws so many orders of n items from a source, one a row.
        n: How many reports a round has.
        theta: The dispersion that is claimed.
        single: Whether orders are drawn one at a time, which is slow.
    """
    return LawSubject(
        name,
        f"{n} reports, how many pairs are out of order",
        inversion_law(n, theta),
        lambda count, rng: _inversions(draw_orders(count, rng)),
        share=_SINGLE_SHARE if single else _WIDE_LAW_SHARE,
    )


def _orders(shuffler: Shuffler, n: int, count: int, rng: Random, *, is_quick: bool) -> Cells:
    arrival = np.arange(n, dtype=np.float64)
    if is_quick and isinstance(shuffler, RoundShuffler):
        released = shuffler.shuffle_rounds(np.tile(arrival, (count, 1)), rng=rng).values
    else:
        released = np.array([shuffler.shuffle(arrival, rng=rng).values for _ in range(count)])
    return np.asarray(released).astype(np.int64)


def _count_fixed(orders: Cells) -> Cells:
    found: Cells = (orders == np.arange(orders.shape[1])).sum(axis=1)
    return found


def _inversions(orders: Cells) -> Cells:
    found = np.zeros(len(orders), dtype=np.int64)
    for place in range(orders.shape[1] - 1):
        found += (orders[:, place : place + 1] > orders[:, place + 1 :]).sum(axis=1)
    return found


# Into how many cells rounds are told apart by how much they lean to a reading.
_LEANS = 2001


def promise_subjects(
    name: str,
    drawn: RangeRandomizer,
    n: int,
    *,
    delta: float,
    stated: Claim | None = None,
    share: float = 1.0,
) -> list[Subject]:
    """Return what is claimed of a shuffled round: of the best guess, and of epsilon at a delta.

    The observer knows all other readings, and sums up for each round how much likelier it is under
    one reading than under the other. That a guess is right at most S of the time is the claim that
    no event has a chance of more than 2 S - 1 above what it has under the other reading.

    Args:
        name: What the claims are called in tables.
        drawn: What devices draw by.
        n: How many reports are shuffled.
        delta: The delta of the claimed epsilon.
        stated: The claim; what the accountant computes for ``drawn`` unless given.
        share: As for `Subject`.
    """
    if stated is None:
        (stated,) = claims(drawn, n, delta=delta, reports=1)
    asked = (
        ("best guess", 0.0, 2 * stated.guess - 1),
        ("epsilon", stated.epsilon, delta),
    )
    return [
        Subject(
            name=f"{name}, {what}",
            kind="promise",
            inputs=f"one reading at either end, among {n - 1} others",
            claim=claim,
            cells=_LEANS,
            draw=_Rounds(drawn, _worst_others(drawn, n, claim)).draw,
            delta=summand,
            share=share,
        )
        for what, claim, summand in asked
    ]


class _Rounds:
    """Draw rounds as an observer sees them: by how much a round leans to the lower reading."""

    def __init__(self, drawn: RangeRandomizer, others: list[float]) -> None:
        law = drawn.law(drawn.guarantee.epsilon)
        ends = [law.weights(index) for index in (0, drawn.domain.steps)]
        self._drawn, self._others = drawn, others
        self._places = np.array(sorted(ends[0]), dtype=np.int64)
        rows = [[end[place] for place in self._places.tolist()] for end in ends]
        base = self._weights_of_others(law, rows)
        self._odds = [np.array(row, dtype=np.float64) / base for row in rows]

    def _weights_of_others(self, law: Law, rows: list[list[int]]) -> Floats:
        """Return how likely each report is among the others, where all of them read the same.

        Then the sums of odds are in the ratio of the two likelihoods of the whole round, which no
        statistic beats. Of bits any weights will do: their number of ones says everything.
        """
        if len(set(self._others)) > 1:
            return np.array([min(both) for both in zip(*rows, strict=True)], dtype=np.float64)
        index, _ = self._drawn.domain.spot(self._others[0])
        weights = law.weights(index)
        return np.array([weights[place] for place in self._places.tolist()], dtype=np.float64)

    def draw(self, is_second: bool, count: int, rng: Random) -> Cells:
        domain = self._drawn.domain
        own = domain.high if is_second else domain.low
        rows = np.broadcast_to(np.array([own, *self._others]), (count, len(self._others) + 1))
        at = np.searchsorted(self._places, self._drawn.draw_many(rows, rng=rng))
        first, second = (odds[at].sum(axis=1) for odds in self._odds)
        lean = (first - second) / (first + second)
        return np.asarray(np.rint((lean + 1) / 2 * (_LEANS - 1)), dtype=np.int64)


def _worst_others(drawn: RangeRandomizer, n: int, epsilon: float) -> list[float]:
    """Return readings of the others that hide a reading badly: for a bit, worst of all."""
    domain = drawn.domain
    if not is_bit(drawn):
        return [domain.middle] * (n - 1)
    high = bit_profile(drawn.effective_epsilon, n, delta=1e-6).worst_others(epsilon)
    # The observer of the profile looks for the high reading; ours for the low one, mirrored.
    return [domain.low] * high + [domain.high] * (n - 1 - high)
