"""Claims about reports: of every randomizer, of the device's own, of two reports together."""

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rase.accounting.ledger import CampaignLimits, Ledger, OwnerLimits, create_ledger
from rase.domain import Range
from rase.kernels.entropy import Entropy, SecureEntropy, SeededEntropy
from rase.kernels.words import Random, SecureRandom, SeededRandom
from rase.lab.audit.subject import Cells, Subject
from rase.laws.randomizer import RangeRandomizer

__all__ = [
    "Noise",
    "Retry",
    "certificate_subject",
    "device_subject",
    "forked_subject",
    "ledger_retry",
    "pair_subject",
    "report_cells",
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
