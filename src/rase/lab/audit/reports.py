"""Claims about reports: of every randomizer, of the device's own, of two reports together.

Claims about large rounds are tested by computing what the best observer achieves. At a delta of
1e-6, or among thousands of reports, no sample shows a fault of a few per cent in what shuffled
reports are claimed to give away. But the observer who knows all other readings, and weighs every
report by its exact law, achieves a number that can be computed, rounded down: a claim below it is
broken for certain, and no true claim is ever called broken. That devices draw by this law is for
samples to show: `report_law_subject` compares what is drawn with it, report by report.
"""

import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.accounting.accountant.claims import claims
from rase.accounting.blanket import Channel, channel_of
from rase.accounting.curve import crossing
from rase.accounting.ledger import CampaignLimits, Ledger, OwnerLimits, create_ledger
from rase.accounting.lower_bounds import LikelihoodObserver, attack_epsilon, observed_epsilon
from rase.arrays import Indices
from rase.domain import Range
from rase.kernels.entropy import Entropy, SecureEntropy, SeededEntropy
from rase.kernels.words import Random, SecureRandom, SeededRandom
from rase.lab.audit.subject import Cells, LawSubject, ProvenSubject, Subject
from rase.laws.optimal import ProgrammeLaw
from rase.laws.randomizer import RangeRandomizer
from rase.laws.windows import Duchi
from rase.promise import Claim

__all__ = [
    "CountedPair",
    "Noise",
    "Retry",
    "certificate_subject",
    "count_pairs",
    "device_subject",
    "forked_subject",
    "ledger_retry",
    "pair_subject",
    "proven_subjects",
    "recount_subjects",
    "report_cells",
    "report_law_subject",
    "report_subject",
    "retry_subject",
]

Floats = NDArray[np.float64]

# A report is coded by its place, in bins of a 32nd of the range up to two ranges beyond its ends,
_BINS = 32
_BEYOND = 2
_PLACES = _BINS * (2 * _BEYOND + 1) + 4
# and, unless it is a point of the grid, by its low bits: of which power of two it is a multiple.
_LOW_BITS = 6
_OF_EIGHTHS = np.array([1, 4, 3, 4, 2, 4, 3, 4], dtype=np.int64)
# Two reports together are coded by fewer places each, and by whether they are equal.
_FEW_PLACES = 13

_DEVICE_SHARE = 1 / 50
_LEDGER_SHARE = 1 / 2000
# The most a ledger keeps: what is audited is that a round is drawn once, not that budgets end.
_MUCH = 1_000_000
# Places of the observer's lattice within a standard deviation: what rounding down costs is little.
_FINE = 64


class Noise(Protocol):
    """What is audited: something that makes reports of readings."""

    @property
    def domain(self) -> Range:
        """The public range."""
        ...

    def randomize(self, readings: ArrayLike, /, *, rng: Random | None = None) -> Floats:
        """Return one report for each reading."""
        ...


def report_subject(
    name: str, noise: Noise, *, claim: float, readings: tuple[float, float] | None = None
) -> Subject:
    """Claim that one report hides which of two readings it came from.

    Args:
        name: What to call it.
        noise: What makes reports.
        claim: The epsilon that is claimed.
        readings: The two readings; the ends of the range unless given.
    """
    public = noise.domain
    pair = readings or (public.low, public.high)

    def draw(is_second: bool, count: int, rng: Random) -> Cells:
        return report_cells(noise.randomize(np.full(count, pair[is_second]), rng=rng), public)

    inputs = f"one reading, {pair[0]:g} or {pair[1]:g}"
    return Subject(name, "report", inputs, claim, _PLACES * _LOW_BITS, draw)


class Certified(Noise, Protocol):
    """Noise that states the epsilon it is drawn with."""

    @property
    def effective_epsilon(self) -> float:
        """The largest log-ratio of the law as it is drawn."""
        ...


def certificate_subject(name: str, noise: Certified) -> Subject:
    """Claim that one report hides its reading as well as the noise's own certificate states.

    Args:
        name: What to call it.
        noise: What makes reports and states its epsilon.
    """
    claim = noise.effective_epsilon
    return replace(report_subject(name, noise, claim=claim), kind="certificate")


def report_cells(reports: Floats, public: Range) -> Cells:
    """Return for each report its place among the bins, and its low bits.

    The low bits of a point of the grid say nothing beyond its place. Those of float noise depend on
    the reading it was added to (Mironov, CCS 2012).
    """
    grid = public.low + public.step * np.rint((reports - public.low) / public.step)
    is_off = grid != reports
    if not is_off.any():
        return _places(reports, public) * _LOW_BITS
    unit = float(np.spacing(max(abs(public.low), abs(public.high))))
    eighths = reports / unit
    eighths -= np.floor(eighths)
    eighths *= 8
    whole = eighths.astype(np.int64)
    low_bits = np.where(whole == eighths, _OF_EIGHTHS[whole], _LOW_BITS - 1)
    return _places(reports, public) * _LOW_BITS + np.where(is_off, low_bits, 0)


def device_subject(name: str, device: RangeRandomizer, *, claim: float) -> Subject:
    """Claim the same of a device's own randomizer, which draws one report at a time.

    Args:
        name: What to call it.
        device: The randomizer.
        claim: The epsilon that is claimed.
    """
    public = device.domain

    def draw(is_second: bool, count: int, rng: Random) -> Cells:
        entropy, reading = _entropy(rng), public.high if is_second else public.low
        drawn = [device.draw_one(reading, entropy) for _ in range(count)]
        return report_cells(public.low + public.step * np.array(drawn, dtype=np.float64), public)

    inputs = f"one reading, {public.low:g} or {public.high:g}"
    cells = _PLACES * _LOW_BITS
    return Subject(name, "device", inputs, claim, cells, draw, share=_DEVICE_SHARE)


def pair_subject(name: str, noise: Noise, *, claim: float, share: float = 1.0) -> Subject:
    """Claim that the reports of two devices together hide the reading of the first.

    The second device's reading stays, and it has randomness of its own; were it shared, its report
    would reveal the first one's noise.

    Args:
        name: What to call it.
        noise: What both make reports with.
        claim: The epsilon that is claimed.
        share: Which share of the samples asked for is drawn.
    """
    public = noise.domain

    def draw(is_second: bool, count: int, rng: Random) -> Cells:
        reading = public.high if is_second else public.low
        first = noise.randomize(np.full(count, reading), rng=rng)
        return _joint_cells(first, noise.randomize(np.full(count, public.low), rng=rng), public)

    inputs = f"the first of two devices, {public.low:g} or {public.high:g}"
    return Subject(name, "pair", inputs, claim, _FEW_PLACES**2 * 2, draw, share=share)


def forked_subject(
    name: str, noise: Noise, *, claim: float, source: Callable[[], Random] = SecureRandom
) -> Subject:
    """Claim the same of a process and its fork, which draw from one source made before the fork.

    A source that both sides go on with would give both the same noise.

    Args:
        name: What to call it.
        noise: What both make reports with.
        claim: The epsilon that is claimed.
        source: Makes the source; it is used once before the fork, as in a running program.
    """
    public = noise.domain

    def draw(is_second: bool, count: int, rng: Random) -> Cells:
        made = source()
        made.words(1)
        reading = public.high if is_second else public.low
        of_child = _in_child(lambda: noise.randomize(np.full(count, public.low), rng=made))
        return _joint_cells(noise.randomize(np.full(count, reading), rng=made), of_child(), public)

    inputs = f"one report of a process and one of its fork, {public.low:g} or {public.high:g}"
    return Subject(name, "pair", inputs, claim, _FEW_PLACES**2 * 2, draw)


def _in_child(work: Callable[[], Floats]) -> Callable[[], Floats]:
    """Start work in a forked process; return a function that waits for its result."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Newer Pythons warn of forks next to threads; the child does nothing but draw and write.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(work().tobytes())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)

    def wait() -> Floats:
        with os.fdopen(reader, "rb") as pipe:
            found = np.frombuffer(pipe.read())
        if os.waitpid(child, 0)[1] != 0:
            raise RuntimeError("the forked process failed.")
        return found

    return wait


Retry = Callable[[float, int, Entropy], Iterator[tuple[int, int]]]
"""Report a reading in so many rounds, each asked for twice: what was sent each time."""


def retry_subject(name: str, retry: Retry, public: Range, *, claim: float) -> Subject:
    """Claim that a report that is sent twice hides no less than one that is sent once.

    Args:
        name: What to call it.
        retry: Makes the places sent in first and second attempts.
        public: The public range.
        claim: The epsilon that is claimed.
    """

    def draw(is_second: bool, count: int, rng: Random) -> Cells:
        reading = public.high if is_second else public.low
        sent = np.array(list(retry(reading, count, _entropy(rng))), dtype=np.float64)
        first, second = public.low + public.step * sent.T
        return _joint_cells(first, second, public)

    inputs = f"one reading sent twice, {public.low:g} or {public.high:g}"
    return Subject(name, "pair", inputs, claim, _FEW_PLACES**2 * 2, draw, share=_LEDGER_SHARE)


def ledger_retry(device: RangeRandomizer) -> Retry:
    """Return retries as a device makes them: through its ledger, which keeps what was drawn."""
    epsilon = device.budgets[-1]

    def attempt(ledger: Ledger, round: int, reading: float, entropy: Entropy) -> int:
        with ledger.report("audit", round, epsilon=epsilon) as spending:
            if spending.found is None:
                drawn = str(device.draw_one(reading, entropy)).encode()
                spending.keep(drawn, envelope=drawn)
        return int(spending.stored_report.envelope)

    def retry(reading: float, count: int, entropy: Entropy) -> Iterator[tuple[int, int]]:
        with _ledger(epsilon) as ledger:
            for round in range(count):
                first, second = (attempt(ledger, round, reading, entropy) for _ in range(2))
                yield first, second

    return retry


@contextmanager
def _ledger(epsilon: float) -> Iterator[Ledger]:
    """Open a new ledger with a practically unlimited budget."""
    # Nothing in it must outlive the audit, so it need not wait for a disk where memory will do.
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a private folder
    with tempfile.TemporaryDirectory(dir=quick) as folder:
        path = Path(folder) / "ledger.db"
        create_ledger(path)
        owner = OwnerLimits(report_epsilon=epsilon, span_epsilon=_MUCH, total_epsilon=_MUCH)
        with Ledger(path, owner) as ledger:
            ledger.join(CampaignLimits("audit", 1, window=1, window_epsilon=epsilon))
            yield ledger


def _places(reports: Floats, public: Range) -> Cells:
    """Return the bin of each report; both ends of the range are bins of their own."""
    exact = np.rint((reports - public.low) / public.step * 1024) / 1024
    shares = exact / public.steps
    # Behind the bin of an end come those beyond it: 0 and the last hold everything farther out.
    inner = np.clip(np.floor(shares * _BINS), -_BEYOND * _BINS - 1, (_BEYOND + 1) * _BINS)
    places = inner.astype(np.int64) + _BEYOND * _BINS + 1
    places[exact == 0] = _PLACES - 2
    places[exact == public.steps] = _PLACES - 1
    return places


def _joint_cells(first: Floats, second: Floats, public: Range) -> Cells:
    """Return for two reports the places of both among few, and whether they are equal."""
    both = (_few_places(first, public), _few_places(second, public))
    cells: Cells = (both[0] * _FEW_PLACES + both[1]) * 2 + (first == second)
    return cells


def _few_places(reports: Floats, public: Range) -> Cells:
    """Return one of 13 places: the two ends, and 11 stretches inside and beyond them."""
    exact = np.rint((reports - public.low) / public.step * 1024) / 1024
    places = np.clip(np.floor(exact / public.steps * 5), -3, 7).astype(np.int64) + 3
    places[exact == 0] = _FEW_PLACES - 2
    places[exact == public.steps] = _FEW_PLACES - 1
    return places


def _entropy(rng: Random) -> Entropy:
    """Return a device's source of words: the operating system's, or a seeded one for study."""
    if isinstance(rng, SeededRandom):
        return SeededEntropy(f"{rng.seed!r}/{rng.words(1)[0]}")
    return SecureEntropy()


def proven_subjects(
    name: str,
    drawn: RangeRandomizer,
    n: int,
    *,
    delta: float,
    reports: Sequence[int] = (1,),
    stated: Sequence[Claim] | None = None,
) -> list[ProvenSubject]:
    """Return what is claimed of shuffled rounds, held to the best observer by computation.

    False alarms: none, ever. Observers' numbers are true lower bounds
    (tests/accounting/test_lower_bounds.py), whatever is stated.

    Args:
        name: What the claims are called in tables.
        drawn: What devices draw by.
        n: How many reports are shuffled.
        delta: The delta of the claimed epsilon.
        reports: How many reports of a device each claim is for.
        stated: The claims; what the accountant computes for ``drawn`` unless given.
    """
    table = claims(drawn, n, delta=delta, reports=reports) if stated is None else stated
    channel, local = channel_of(drawn), drawn.guarantee.epsilon
    inputs = f"one reading at either end, among {n - 1} others"
    found = []
    for claim in table:
        if claim.reports == 1:
            bound = partial(observed_epsilon, channel, n, delta=claim.delta, highest=local)
            above = 2 * claim.guess - 1
            guessing = partial(_guessed_beyond, channel, n, above, highest=local)
            found.append(ProvenSubject(f"{name}, best guess", inputs, 0.0, above, guessing))
        else:
            bound = partial(
                attack_epsilon,
                channel,
                n,
                rounds=claim.reports,
                delta=claim.delta,
                local_epsilon=local,
            )
        span = "" if claim.reports == 1 else f" of {claim.reports}"
        title = f"{name}, epsilon{span}"
        found.append(ProvenSubject(title, inputs, claim.epsilon, claim.delta, bound))
    return found


def report_law_subject(
    name: str, noise: RangeRandomizer, *, point: int, drawn: RangeRandomizer | None = None
) -> LawSubject:
    """Claim that a report follows its exact law, so that no event is likelier than it says.

    Args:
        name: What to call it.
        noise: The randomizer with the law that is claimed.
        point: The reading, as a point of the grid.
        drawn: What makes the reports; the same unless given.
    """
    law, domain = noise.law(noise.guarantee.epsilon), noise.domain
    low, own, high = (law.weights(index) for index in (0, point, domain.steps))
    # By what a report says of the two ends, so that the law's tails are what an observer looks for.
    places = sorted(own, key=lambda place: (low[place] / high[place], place))
    by_value = np.argsort(places)
    sequence = np.array(places, dtype=np.int64)[by_value]
    whole = sum(own.values())
    source, reading = noise if drawn is None else drawn, domain.low + domain.step * point

    def draw(count: int, rng: Random) -> Cells:
        found = source.draw_many(np.full(count, reading), rng=rng)
        at = np.minimum(np.searchsorted(sequence, found), sequence.size - 1)
        # What the law never draws is a cell of its own.
        cells: Cells = np.where(sequence[at] == found, by_value[at], sequence.size)
        return cells

    chances = np.array([*(own[place] / whole for place in places), 0.0])
    return LawSubject(name, f"reports of {reading:g}", chances, draw)


def _guessed_beyond(channel: Channel, n: int, above: float, *, highest: float) -> float:
    """Return an epsilon at which a round has more than a delta, 0 if no observer is known to."""
    looked_at = (channel.middle, channel.quarter, channel.low)
    observers = [
        LikelihoodObserver(first, second, others, n)
        for first, second in ((channel.low, channel.high), (channel.high, channel.low))
        for others in looked_at
        if others is not None
    ]
    return max(
        crossing(partial(one.delta, per_deviation=_FINE), above, highest=highest, precision=1e-3)[0]
        for one in observers
    )


# Every number of a claim counted again, by another way than the accountant's: from the whole
# numbers that devices draw by, rounded down. A stated number below is less than the theorem gives.
# Mass that need not be counted, for each number of reports; and what rounding can amount to.
_LEFT_OUT = 1e-13
_ROUNDING = 1e-11
# Deviations looked at of a sum of losses, its places, and epsilons at which its curve is taken.
_MOST_CELLS = 20_000_000
_REACH = 12.0
_SUM_PLACES = 1 << 19
_LOOKED_AT = 2000
_FAR_BELOW = 1e-6
_FARTHEST = 300.0
# A row favours a report if it reports it this many times as often as the row that does least.
_FAVOURS = 1 + 1e-6


@dataclass(frozen=True, eq=False)
class CountedPair:
    """The losses ln P/Q of many rounds under P, with every number rounded down.

    Args:
        losses: The losses.
        masses: The probability of each under P, or less.
        local_epsilon: The log of the largest ratio of two weights, for all reports together.
        unsure: What each delta may be too large by; it is taken off.
    """

    losses: Floats
    masses: Floats
    local_epsilon: float
    unsure: float = _ROUNDING

    def compose(self, rounds: int) -> "CountedPair":
        """Return so many of these rounds together, each loss rounded down to a lattice.

        Args:
            rounds: How many.
        """
        if rounds == 1:
            return self
        mean = float(self.masses @ self.losses)
        deviation = math.sqrt(float(self.masses @ np.square(self.losses - mean)))
        half = _REACH * math.sqrt(rounds) * deviation + 2 * float(np.abs(self.losses).max())
        step = 2 * half / _SUM_PLACES
        places = np.floor(self.losses / step).astype(np.int64)
        law = np.bincount(places % _SUM_PLACES, weights=self.masses, minlength=_SUM_PLACES)
        summed = np.maximum(np.fft.irfft(np.fft.rfft(law) ** rounds, _SUM_PLACES), 0.0)
        sums = np.arange(_SUM_PLACES) + math.floor((rounds * mean - half) / step)
        found = summed[sums % _SUM_PLACES]
        values = np.asarray(step * sums, dtype=np.float64)
        own = np.asarray(step * places, dtype=np.float64)
        # What lies beyond an end comes round the cycle to the other one.
        beyond = math.exp(_log_beyond(own, self.masses, rounds, float(values[-1])))
        beyond += math.exp(_log_beyond(-own, self.masses, rounds, -float(values[0])))
        return CountedPair(values, found, rounds * self.local_epsilon, _ROUNDING + beyond)

    @cached_property
    def _above(self) -> tuple[Floats, Floats, Floats]:
        """The losses in sequence, and the masses under P and Q of all from each on."""
        order = np.argsort(self.losses)
        losses, masses = self.losses[order], self.masses[order]
        sums = [
            np.append(np.cumsum(one[::-1])[::-1], 0.0)
            for one in (masses, masses * np.exp(-np.clip(losses, -_FARTHEST, _FARTHEST)))
        ]
        return losses, sums[0], sums[1]

    def delta(self, epsilon: float) -> float:
        """Return a divergence that the pair has at least."""
        losses, likely, unlikely = self._above
        first = int(np.searchsorted(losses, epsilon, side="right"))
        found = likely[first] * (1 - _ROUNDING) - math.exp(epsilon) * unlikely[first]
        return max(0.0, float(found) - self.unsure)

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that the pair has at least at a delta."""
        return crossing(self.delta, delta, highest=float(self.losses.max()), precision=1e-4)[0]

    def guess(self) -> float:
        """Return how often the best guess is right, at least."""
        return (1 + self.delta(0.0)) / 2

    def loss(self, chance: float) -> float:
        """Return the least log-odds that follow from the curve for a chance, rounded down.

        That of `rase.accounting.accountant.pair.Pair.loss`, with delta from below: between two
        epsilons the curve is at least its right end, and the divisor at most its left one.

        Args:
            chance: The probability.
        """
        highest = self.epsilon(chance * _FAR_BELOW)
        grid = np.linspace(0.0, highest, _LOOKED_AT)
        deltas = np.array([self.delta(float(one)) for one in grid[1:]])

        def chance_of(loss: float) -> float:
            below = grid[:-1] < loss
            if not below.any():
                return 1.0
            bounds = deltas[below] / -np.expm1(grid[:-1][below] - loss)
            return float(bounds.min()) * (1 + math.exp(-loss))

        return crossing(chance_of, chance, highest=float(self.losses.max()), precision=1e-4)[0]


def count_pairs(drawn: RangeRandomizer, n: int) -> list[CountedPair]:
    """Return the pairs whose numbers the theorem gives at least, for one round.

    Of a channel with two levels that of its blanket; of bits the numbers of ones among others of
    whom none, a part or all have the high reading.

    Args:
        drawn: What devices draw by.
        n: The honest reports of a round.

    Raises:
        TypeError: If the law is another one.
        ValueError: If both ends of the range favour the same reports, or there are so many
            reports, each with little epsilon, that to count them out would take too long.
    """
    law = drawn.law(drawn.guarantee.epsilon)
    if law.largest_ratio.law == Duchi.name:
        weights = law.weights(0)
        flip = min(weights.values()) / sum(weights.values())
        return [_bit_pair(flip, n, high) for high in sorted({0, n // 4, n // 2, n - 1})]
    if not isinstance(law, ProgrammeLaw):
        raise TypeError(f"drawn must report bits or by the optimal channel, got {drawn!r}.")
    return [_blanket_pair(law, n)]


def recount_subjects(
    name: str,
    drawn: RangeRandomizer,
    n: int,
    *,
    delta: float,
    reports: Sequence[int] = (1,),
    stated: Sequence[Claim] | None = None,
) -> list[ProvenSubject]:
    """Return every number that is stated of shuffled rounds, held to the theorem counted again.

    False alarms: none, as all is rounded down (tests/lab/audit/test_recount.py).

    Args:
        name: What the claims are called in tables.
        drawn: What devices draw by.
        n: The honest reports of a round.
        delta: The delta of the claimed epsilon.
        reports: How many reports of a device each claim is for.
        stated: The claims; what the accountant computes for ``drawn`` unless given.
    """
    table = claims(drawn, n, delta=delta, reports=reports) if stated is None else stated
    inputs = f"the theorem's pair, {n} reports"
    return [
        ProvenSubject(
            f"{name} counted, {title}" + ("" if claim.reports == 1 else f" of {claim.reports}"),
            inputs,
            number,
            at,
            partial(_least_of, drawn, n, claim.reports, least),
            kind="recount",
        )
        for claim in table
        for title, number, at, least in (
            ("epsilon", claim.epsilon, claim.delta, methodcaller("epsilon", claim.delta)),
            ("best guess", claim.guess, 0.0, methodcaller("guess")),
            ("odds 1 in 100", claim.loss_in_100, 0.0, methodcaller("loss", 1 / 100)),
            ("odds 1 in 1000", claim.loss_in_1000, 0.0, methodcaller("loss", 1 / 1000)),
            ("local epsilon", claim.local_epsilon, 0.0, attrgetter("local_epsilon")),
        )
    ]


def _least_of(
    drawn: RangeRandomizer, n: int, reports: int, least: Callable[[CountedPair], float]
) -> float:
    return max(least(pair) for pair in _pairs_of_reports(drawn, n, reports))


@cache
def _pairs_of_reports(drawn: RangeRandomizer, n: int, reports: int) -> list[CountedPair]:
    return [pair.compose(reports) for pair in count_pairs(drawn, n)]


def _blanket_pair(law: ProgrammeLaw, n: int) -> CountedPair:
    """Return the pair of a report among blanket reports: a of one kind, b of the other, c of none.

    Outputs of one kind are counted as one, which says no more. Among m reports of the blanket the
    ratio is (E a + b + c) / (a + E b + c), and a number of each is as likely as in a round of which
    every report is drawn from the blanket, weighted by (E a + b + c) / n.
    """
    rows = [law.weights(index * law.steps // law.parts) for index in range(law.parts + 1)]
    least = {place: min(row[place] for row in rows) for place in rows[0]}
    kinds: dict[tuple[bool, bool], list[int]] = {}
    for place, fewest in least.items():
        own = [rows[end][place] for end in (0, -1)]
        kind = kinds.setdefault((own[0] > _FAVOURS * fewest, own[1] > _FAVOURS * fewest), [0, 0, 0])
        for index, weight in enumerate((fewest, *own)):
            kind[index] += weight
    if (True, True) in kinds or len(kinds) != 3:
        raise ValueError("drawn must be a channel whose ends favour different reports.")
    ratios = (max(row[place] for row in rows) / fewest for place, fewest in least.items())
    local = math.log(max(ratios)) - _ROUNDING
    whole = sum(rows[0].values())
    first, second, rest = (kinds[one] for one in ((True, False), (False, True), (False, False)))
    chances = [one[0] / whole for one in (first, second, rest)]
    log_of = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))
    a, b, c = np.ix_(*(_likely(n, one) for one in chances))
    if a.size * b.size * c.size > _MOST_CELLS:
        raise ValueError(f"n must be smaller for this law to be counted out, got {n}.")
    bare = n - a - b - c
    log_chance = log_of[n] - log_of[a] - log_of[b] - log_of[c] - log_of[np.maximum(bare, 0)]
    for number, chance in zip((a, b, c, bare), (*chances, 1 - sum(chances)), strict=True):
        log_chance = log_chance + number * math.log(chance)
    up, down = (
        a * (first[end] / first[0]) + b * (second[end] / second[0]) + c * (rest[end] / rest[0])
        for end in (1, 2)
    )
    kept = (bare >= 0) & (up > 0)
    masses = np.exp(log_chance[kept]) * up[kept] / n
    return CountedPair(np.log(up[kept] / down[kept]), masses, local)


def _bit_pair(flip: float, n: int, high: int) -> CountedPair:
    """Return the pair of the number of ones, where so many others have the high reading."""
    log_of = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))

    def ones(trials: int, chance: float) -> Floats:
        k = np.arange(trials + 1)
        ways = log_of[trials] - log_of[k] - log_of[trials - k]
        found: Floats = np.exp(ways + k * math.log(chance) + (trials - k) * math.log1p(-chance))
        return found

    others = np.convolve(ones(high, 1 - flip), ones(n - 1 - high, flip))
    likely, unlikely = (np.convolve(others, [1 - one, one]) for one in (1 - flip, flip))
    kept = likely > _LEFT_OUT / n
    local = math.log(1 - flip) - math.log(flip) - _ROUNDING
    return CountedPair(np.log(likely[kept] / unlikely[kept]), likely[kept], local)


def _likely(n: int, chance: float) -> Indices:
    """Return the numbers of reports of a kind that are likely enough to be counted (Bernstein)."""
    log_left = -math.log(_LEFT_OUT)
    half = log_left / 3 + math.sqrt(log_left**2 / 9 + 2 * n * chance * (1 - chance) * log_left)
    first, last = math.floor(n * chance - half), math.ceil(n * chance + half)
    return np.arange(max(0, first), min(n, last) + 1)


def _log_beyond(losses: Floats, masses: Floats, rounds: int, level: float) -> float:
    """Return a bound on the log of Pr[sum >= level], the least over some tilts (Chernoff)."""
    spread = math.sqrt(rounds * float(masses @ np.square(losses)))
    return min(
        rounds * math.log(float(masses @ np.exp(tilt * losses))) - float(tilt * level)
        for tilt in (np.geomspace(0.5, 30.0, 24) / spread).tolist()
    )
