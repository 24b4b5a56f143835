"""Faults planted on purpose: the audit calls each of them broken, and its honest twin not.

False alarms: none by chance, as the seed is fixed; only a fork draws from the secure source, and an
honest one is called broken in fewer than one of 1e13 runs. Power: every fault exceeds its claim by
several times what its bound loses to chance at the number of samples taken here.
"""

import math
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from rase import Precision, Range, Robust, SecureRandom, SeededRandom, Uniform
from rase.kernels.entropy import Entropy
from rase.kernels.integers import chosen_with, integers_below
from rase.kernels.words import Keystream, Random, source_of
from rase.lab.audit.catalogue import randomizers
from rase.lab.audit.orders import kept_subject, mallows_law_subject, order_subject, position_subject
from rase.lab.audit.reports import (
    certificate_subject,
    forked_subject,
    ledger_retry,
    pair_subject,
    report_subject,
    retry_subject,
)
from rase.lab.audit.subject import CONFIDENCE, Finding, LawSubject, Subject, audit_claims
from rase.laws.registry import randomizer_named
from rase.shuffle.mallows import Mallows
from rase.shuffle.release import Manifest, Release
from rase.shuffle.shufflers import Cyclic, UnsafeShuffleWarning

PUBLIC = Range(0, 3000)
SWAPPED = (1, 0, 2, 3)
Floats = NDArray[np.float64]
Places = NDArray[np.int64]


def found(
    subject: Subject | LawSubject,
    *,
    samples: int,
    rng: Random | None = None,
    confidence: float = CONFIDENCE,
) -> Finding:
    """Audit one subject, from a fixed seed unless a source is given."""
    source = SeededRandom(2026) if rng is None else rng
    return audit_claims([subject], samples=samples, rng=source, confidence=confidence)[0]


class ReusedKeystream(SecureRandom):
    """A source that begins the same keystream again for everybody who asks."""

    def stream(self) -> Keystream:
        """Return the keystream of a key that never changes."""
        return Keystream(bytes(32))


class FloatLaplace:
    """Textbook Laplace noise, added in floating point."""

    domain = PUBLIC

    def __init__(self, epsilon: float) -> None:
        self.scale = PUBLIC.width / epsilon

    def randomize(self, readings: ArrayLike, /, *, rng: Random | None = None) -> Floats:
        """Add NumPy's noise, from a seed that the source draws."""
        seed = source_of(rng).words(2).tolist()
        noise = np.random.default_rng(seed).laplace(0.0, self.scale, np.shape(readings))
        return np.asarray(readings, dtype=np.float64) + noise


class KeepsFirst:
    """A shuffler that leaves the first slot as it is."""

    def shuffle(self, values: ArrayLike, *, rng: Random | None = None) -> Release:
        """Shuffle all but the first."""
        released = self.shuffle_rounds(np.reshape(values, (1, -1)), rng=rng)
        return Release(released.values[0], released.manifest)

    def shuffle_rounds(self, values: ArrayLike, *, rng: Random | None = None) -> Release:
        """Shuffle all but the first of each row."""
        table = np.array(values, dtype=np.float64)
        rest = Uniform().shuffle_rounds(table[:, 1:], rng=rng)
        return Release(np.column_stack([table[:, 0], rest.values]), rest.manifest)

    def manifest_for(self, n: int) -> Manifest:
        """Claim to be uniform."""
        return Uniform().manifest_for(n)


@pytest.mark.uncovered
@pytest.mark.parametrize("name", list(randomizers(1.0)))
def test_noise_ten_percent_too_small(name: str) -> None:
    """Every randomizer whose noise is a tenth too small is caught; the right one stands."""
    honest, small = randomizers(1.0)[name], randomizers(1 / 0.9)[name]
    assert found(report_subject(name, honest, claim=1.0), samples=300_000).holds
    caught = found(report_subject(name, small, claim=1.0), samples=300_000)
    assert not caught.holds
    assert caught.lower_bound <= 1 / 0.9


class Window:
    """Piecewise noise on a grid of 65536 steps, its places from a source of whole numbers."""

    domain = Range(0, 3000, steps=65536)

    def __init__(self, epsilon: float, integers: Callable[[Places, Random], Places]) -> None:
        self.integers = integers
        self.steps = self.domain.steps
        self.width = 2 * round(self.steps * math.exp(-epsilon / 2) / 2)
        inside = (self.width + 1) * math.exp(epsilon)
        self.inside = inside / (inside + self.steps)

    def randomize(self, readings: ArrayLike, /, *, rng: Random | None = None) -> Floats:
        """Choose inside or outside the window of a reading, then one of its places."""
        source = source_of(rng)
        index = np.rint(np.asarray(readings) / self.domain.step).astype(np.int64)
        near = chosen_with(np.full(index.shape, self.inside), source)
        drawn = self.integers(np.where(near, self.width + 1, self.steps), source)
        outside = np.where(drawn < index, drawn, drawn + self.width + 1)
        places = np.where(near, index + drawn, outside) - self.width // 2
        return self.domain.step * places.astype(np.float64)


def test_modulo_bias() -> None:
    """Whole numbers drawn as a 16-bit word modulo their bound are caught."""

    def biased(bounds: Places, source: Random) -> Places:
        words = source.words(bounds.size).reshape(bounds.shape)
        return (words >> np.uint64(48)).astype(np.int64) % bounds

    honest = report_subject("window", Window(1.0, integers_below), claim=1.0)
    assert found(honest, samples=200_000).holds
    assert found(honest, samples=200_000).lower_bound > 0.9
    caught = report_subject("modulo", Window(1.0, biased), claim=1.0)
    assert found(caught, samples=200_000).lower_bound > 1.1


@pytest.mark.parametrize("name", list(randomizers(1.0)))
def test_reused_keystream(name: str) -> None:
    """Two devices with one keystream are caught: the second report tells the first one's noise."""
    subject = pair_subject(name, randomizers(1.0)[name], claim=1.0)
    assert found(subject, samples=50_000).holds
    assert found(subject, samples=50_000, rng=ReusedKeystream()).lower_bound > 2


def test_noise_drawn_again_on_retry() -> None:
    """A device that draws anew when it sends again gives away twice what it claims."""
    device = randomizer_named(
        "budget-aware", 1.0, domain=PUBLIC, precision=Precision(beta=0.5, rho=0.9)
    )

    def careless(reading: float, count: int, entropy: Entropy) -> Iterator[tuple[int, int]]:
        for _ in range(count):
            yield device.draw_one(reading, entropy), device.draw_one(reading, entropy)

    kept = retry_subject("ledger", ledger_retry(device), PUBLIC, claim=1.0)
    drawn = retry_subject("careless", careless, PUBLIC, claim=1.0)
    # Of retries a small share of the samples is taken, at least a hundred.
    assert found(kept, samples=1000).holds
    caught = found(drawn, samples=20_000_000)
    assert caught.samples == 10_000
    assert 1.4 < caught.lower_bound <= 2


def test_float_leak() -> None:
    """The low bits of float noise are caught, although its law is right in real numbers."""
    caught = found(report_subject("float", FloatLaplace(1.0), claim=1.0), samples=100_000)
    assert caught.lower_bound > 5


def test_shuffler_that_keeps_the_first_slot() -> None:
    """Whoever arrives first is released first: caught from all orders, and from places alone."""
    assert found(
        order_subject("uniform", Uniform(), claim=0.0, changed=SWAPPED), samples=50_000
    ).holds
    assert found(position_subject("uniform", Uniform(), 64, claim=0.0), samples=100_000).holds
    for subject in (
        order_subject("first", KeepsFirst(), claim=0.0, changed=SWAPPED),
        position_subject("first of 64", KeepsFirst(), 64, claim=0.0),
    ):
        assert found(subject, samples=100_000).lower_bound > 5


def test_cyclic_instead_of_uniform() -> None:
    """The paper's loop draws cycles alone, which two arrivals never share: caught."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsafeShuffleWarning)
        shuffler = Cyclic()
    subject = order_subject("cyclic", shuffler, claim=0.0, changed=SWAPPED)
    assert found(subject, samples=100_000).lower_bound > 3


def test_a_mallows_law_thirty_percent_too_tight() -> None:
    """A shuffler that claims less than its theta costs is caught."""
    turned = (3, 2, 1, 0)
    honest = order_subject("robust", Robust(1.0, 1), claim=1.0, changed=turned)
    tight = order_subject("robust", Robust(1.3, 1), claim=1.0, changed=turned)
    assert found(honest, samples=1_000_000).holds
    assert not found(tight, samples=1_000_000).holds


@pytest.mark.uncovered
@pytest.mark.parametrize("fault", [1.05, 0.95, 1.01])
def test_a_theta_that_is_a_little_wrong(fault: float) -> None:
    """A Mallows law 5 % too tight or too loose, and one 1 % too tight, are caught.

    Power: 1 % moves the mean number of inversions by about 12 of its standard errors here, 5 % by
    more than 20; six are needed.
    """
    samples = 1_000_000 if abs(fault - 1) < 0.02 else 200_000

    def drawn(theta: float) -> LawSubject:
        law = Mallows(64, theta)
        return mallows_law_subject(
            "mallows", lambda count, rng: law.samples(count, rng=rng), 64, theta=0.1
        )

    assert found(drawn(0.1), samples=samples).holds
    assert not found(drawn(0.1 * fault), samples=samples).holds


class Forgets:
    """A uniform shuffler that leaves some rounds as they came."""

    def __init__(self, share: float) -> None:
        self.share = share

    def shuffle(self, values: ArrayLike, *, rng: Random | None = None) -> Release:
        """Shuffle one round, or forget to."""
        released = self.shuffle_rounds(np.reshape(values, (1, -1)), rng=rng)
        return Release(released.values[0], released.manifest)

    def shuffle_rounds(self, values: ArrayLike, *, rng: Random | None = None) -> Release:
        """Shuffle each row, or forget to."""
        table = np.array(values, dtype=np.float64)
        is_kept = source_of(rng).words(len(table)) < np.uint64(int(self.share * 2**64))
        released = Uniform().shuffle_rounds(table, rng=rng)
        return Release(np.where(is_kept[:, None], table, released.values), released.manifest)

    def manifest_for(self, n: int) -> Manifest:
        """Claim to be uniform."""
        return Uniform().manifest_for(n)


@pytest.mark.uncovered
@pytest.mark.parametrize("single", [False, True])
def test_one_round_of_a_thousand_left_as_it_came(single: bool) -> None:
    """It is caught in rounds of 64, drawn together or one at a time.

    Power: among 25,000 rounds none is forgotten with probability below 2e-11, among the 10,000
    that are drawn one at a time below 5e-5, and the seed is fixed; one is enough.
    """
    samples = 2_500_000 if single else 625_000
    assert found(kept_subject("uniform", Uniform(), 64, single=single), samples=samples).holds
    caught = kept_subject("forgets", Forgets(0.001), 64, single=single)
    assert not found(caught, samples=samples).holds


@pytest.mark.parametrize("name", list(randomizers(1.0)))
def test_a_certificate_that_states_a_tenth_too_little(name: str) -> None:
    """It is caught in every mechanism, though the noise itself is as asked for."""

    class Understated:
        """Noise whose certificate says less than is true."""

        def __init__(self) -> None:
            self.honest = randomizers(1.0)[name]
            self.domain = self.honest.domain
            self.effective_epsilon = 0.9 * self.honest.effective_epsilon

        def randomize(self, readings: ArrayLike, /, *, rng: Random | None = None) -> Floats:
            """Make reports as the honest one does."""
            return self.honest.randomize(readings, rng=rng)

    assert found(certificate_subject(name, randomizers(1.0)[name]), samples=300_000).holds
    assert not found(certificate_subject(name, Understated()), samples=300_000).holds


class KeyOfBirth(SecureRandom):
    """A source that goes on with its keystream after a fork: both sides draw the same words."""

    def __init__(self) -> None:
        super().__init__()
        self._kept = Keystream(bytes(range(32)))

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next words of the keystream it was born with."""
        return self._kept.words(count)

    def stream(self) -> Keystream:
        """Return that keystream."""
        return self._kept


@pytest.mark.uncovered
@pytest.mark.parametrize("name", ["duchi", "optimal", "budget-aware clamped"])
def test_one_key_in_a_process_and_its_fork(name: str) -> None:
    """The fork's report gives the noise of the process away, and is caught; the real source not."""
    noise, confidence = randomizers(1.0)[name], 1 - 1e-13
    honest = forked_subject(name, noise, claim=1.0)
    assert found(honest, samples=50_000, confidence=confidence).holds
    caught = forked_subject(name, noise, claim=1.0, source=KeyOfBirth)
    assert not found(caught, samples=50_000, confidence=confidence).holds
