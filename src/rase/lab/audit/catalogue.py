"""Everything that `rase lab audit` audits: randomizers, device laws, shufflers and channels."""

from collections.abc import Iterator, Sequence

import numpy as np

from rase.accounting.amplification import amplify
from rase.campaign import ShufflePlan
from rase.domain import Precision, Range
from rase.kernels.words import Random
from rase.lab.audit.orders import (
    channel_subject,
    kept_subject,
    live_kept_subject,
    live_order_subject,
    mallows_law_subject,
    order_subject,
    position_subject,
    promise_subjects,
)
from rase.lab.audit.reports import (
    certificate_subject,
    device_subject,
    forked_subject,
    ledger_retry,
    pair_subject,
    proven_subjects,
    recount_subjects,
    report_law_subject,
    report_subject,
    retry_subject,
)
from rase.lab.audit.subject import AnySubject, Cells, LawSubject, ProvenSubject, Subject
from rase.laws.geometric import BudgetAware
from rase.laws.randomizer import RangeRandomizer
from rase.laws.registry import MECHANISMS, randomizer_named
from rase.shuffle.mallows import Mallows
from rase.shuffle.partition import Partition, sensitivity
from rase.shuffle.robust import Robust
from rase.shuffle.shufflers import MallowsShuffle
from rase.shuffle.uniform import Uniform

__all__ = ["BUDGETS", "randomizers", "subjects", "subjects_named"]

BUDGETS = (0.5, 1.0, 4.0)
_PUBLIC = Range(0, 3000)
_LOW, _HIGH = _PUBLIC.low, _PUBLIC.high
# Lemma 1 clamps below its bound: always, and never from epsilon 0.36 on.
_CLAMPED, _UNCLAMPED = Precision(beta=0, rho=0.9), Precision(beta=1, rho=0.3)
_DELTA = 1e-3
_PROMISED_DELTA = 1e-2
# Large rounds of which observers' numbers are computed: a law, its epsilon, how many are shuffled,
# and for how many reports of a device; and the delta.
_LARGE = (
    ("optimal", 3.32, 1000, (1,)),
    ("optimal", 5.48, 10_000, (1,)),
    ("duchi", 1.38, 1000, (1, 24)),
)
_LARGE_DELTA = 1e-6
# Rounds of which every stated number is counted again, also where no known observer comes near it.
_RECOUNTED = (
    ("optimal", 1.6, 100, (1,)),
    ("optimal", 2.35, 1000, (1, 24)),
    ("optimal", 5.48, 10_000, (1,)),
    ("duchi", 0.277, 1000, (720,)),
)
_ALPHA = 1.0
_WIDE, _THETA = 64, 0.1
# Exact noise without end takes several times as long as the others.
_SLOW, _SLOW_SHARE = "budget-aware unclamped", 0.25


def subjects() -> list[AnySubject]:
    """Return every audited claim, in the order of the tables.

    Example:
        >>> sorted({subject.kind for subject in subjects()})
        ['certificate', 'channel', 'device', 'law', 'order', 'pair', 'promise', 'recount', 'report']
    """
    return [
        *_reports(),
        *_certificates(),
        *_devices(),
        *_pairs(),
        *_orders(),
        *_laws(),
        *_channels(),
        *_promises(),
    ]


def subjects_named(names: Sequence[str]) -> list[AnySubject]:
    """Return the claims of a kind, or whose names begin with one of these; all for no name.

    Raises:
        ValueError: If a name fits none.

    Example:
        >>> [subject.name for subject in subjects_named(["duchi", "pair"])][:2]
        ['duchi 0.5', 'duchi 1']
    """
    every = subjects()
    for name in names:
        if not any(_is_named(one, name) for one in every):
            kinds = ", ".join(dict.fromkeys(one.kind for one in every))
            raise ValueError(
                f"only must be a kind ({kinds}) or the beginning of a name, got {name!r}."
            )
    return [one for one in every if not names or any(_is_named(one, name) for name in names)]


def randomizers(epsilon: float, public: Range = _PUBLIC) -> dict[str, RangeRandomizer]:
    """Return every randomizer at one budget, by name."""
    named = {
        name: randomizer_named(name, epsilon, domain=public, precision=_CLAMPED)
        for name in MECHANISMS
    }
    clamped = named.pop("budget-aware")
    return {
        "budget-aware clamped": clamped,
        "budget-aware unclamped": BudgetAware(epsilon, public, _UNCLAMPED),
        **named,
    }


def _reports() -> Iterator[Subject]:
    for epsilon in BUDGETS:
        for name, randomizer in randomizers(epsilon).items():
            yield report_subject(f"{name} {epsilon:g}", randomizer, claim=epsilon)
    # Readings between grid points are rounded at random, which must not help an observer.
    between = (_LOW + 0.3 * _PUBLIC.step, _HIGH - 0.7 * _PUBLIC.step)
    for name, randomizer in randomizers(1.0).items():
        yield report_subject(f"{name} 1, off the grid", randomizer, claim=1.0, readings=between)


def _certificates() -> Iterator[Subject]:
    # What a certificate states is often less than was asked for, and is a claim of its own.
    for epsilon in BUDGETS:
        for name, randomizer in randomizers(epsilon).items():
            yield certificate_subject(f"certificate of {name} {epsilon:g}", randomizer)


def _devices() -> Iterator[Subject]:
    for mechanism in MECHANISMS:
        device = randomizer_named(mechanism, 1.0, domain=_PUBLIC, precision=_CLAMPED)
        yield device_subject(f"device {mechanism} 1", device, claim=1.0)


def _pairs() -> Iterator[Subject]:
    for name, randomizer in _different().items():
        share = _SLOW_SHARE if name == _SLOW else 1.0
        yield pair_subject(f"two devices, {name} 1", randomizer, claim=1.0, share=share)
    yield forked_subject("a process and its fork, duchi 1", randomizers(1.0)["duchi"], claim=1.0)
    device = randomizer_named("budget-aware", 1.0, domain=_PUBLIC, precision=_CLAMPED)
    yield retry_subject("a report sent twice", ledger_retry(device), _PUBLIC, claim=1.0)


def _orders() -> Iterator[Subject]:
    swapped, turned = (1, 0, 2, 3, 4), (4, 3, 2, 1, 0)
    one_group = Partition.contiguous(5, 1)
    theta = _ALPHA / sensitivity(one_group)
    yield order_subject("uniform, two exchanged", Uniform(), claim=0.0, changed=swapped)
    yield order_subject("uniform, all turned", Uniform(), claim=0.0, changed=turned)
    yield order_subject(
        "uniform, one round at a time", Uniform(), claim=0.0, changed=swapped, single=True
    )
    yield position_subject("uniform, 64 reports", Uniform(), 64, claim=0.0)
    # The exact loss of the neighbouring exchange is theta, that of the whole group alpha.
    robust = Robust(_ALPHA, 1)
    yield order_subject("robust, all turned", robust, claim=_ALPHA, changed=turned)
    yield order_subject("robust, two exchanged", robust, claim=theta, changed=swapped)
    yield order_subject("robust without Mallows", Robust(30, 16), claim=0.0, changed=turned)
    mallows = MallowsShuffle(alpha=_ALPHA, partition=one_group)
    yield order_subject("mallows, all turned", mallows, claim=_ALPHA, changed=turned)
    yield live_order_subject(
        "live uniform", ShufflePlan(), claim=0.0, groups=(["a", "b", "b"], ["b", "a", "b"])
    )


def _laws() -> Iterator[LawSubject]:
    # Rounds of 64: one that is left as it came has all reports in their places, which a uniform
    # order practically never has; and a theta that is 1 % off moves the number of inversions.
    yield kept_subject("uniform law", Uniform(), _WIDE)
    yield kept_subject("uniform law, one round at a time", Uniform(), _WIDE, single=True)
    yield live_kept_subject("uniform law, live", ShufflePlan(), _WIDE)
    mallows = Mallows(_WIDE, _THETA)
    yield mallows_law_subject(
        "mallows law", lambda count, rng: mallows.samples(count, rng=rng), _WIDE, theta=_THETA
    )
    one_group = Partition.contiguous(_WIDE, 1)
    shuffler = MallowsShuffle(alpha=_THETA * sensitivity(one_group), partition=one_group)
    for name, epsilon, _, _ in _LARGE:
        noise = randomizer_named(name, epsilon, domain=_PUBLIC)
        for point in (0, _PUBLIC.steps // 2, _PUBLIC.steps):
            yield report_law_subject(f"{name} {epsilon:g}, law at {point}", noise, point=point)
    arrival = np.arange(_WIDE)

    def release_rows(count: int, rng: Random) -> Cells:
        rows = [shuffler.shuffle(arrival, rng=rng).values for _ in range(count)]
        return np.array(rows, dtype=np.int64)

    yield mallows_law_subject(
        "mallows law, released", release_rows, _WIDE, theta=_THETA, single=True
    )


def _channels() -> Iterator[Subject]:
    changed = ((_LOW, _HIGH, _HIGH, _HIGH), (_HIGH,) * 4)
    exchanged = ((_LOW, _HIGH, _LOW, _LOW), (_HIGH, _LOW, _LOW, _LOW))
    turned = ((_LOW, _LOW, _HIGH, _HIGH), (_HIGH, _HIGH, _LOW, _LOW))
    mallows = Robust(_ALPHA, 1)
    for name, noise in _different().items():
        yield channel_subject(
            f"{name} 1 and uniform",
            noise,
            Uniform(),
            readings=changed,
            claim=1.0,
            share=_SLOW_SHARE if name == _SLOW else None,
        )
    clamped = randomizers(1.0)["budget-aware clamped"]
    yield channel_subject(
        "budget-aware 1 and mallows", clamped, mallows, readings=changed, claim=1.0
    )
    yield channel_subject(
        "who sent what, uniform", clamped, Uniform(), readings=exchanged, claim=0.0
    )
    yield channel_subject("who sent what, mallows", clamped, mallows, readings=turned, claim=_ALPHA)
    for name, n in (("budget-aware clamped", 16), ("duchi", 16), ("duchi", 64)):
        noise = randomizers(1.0)[name]
        fleet = [_LOW] * (n - 1)
        yield channel_subject(
            f"{name} 1, {n} shuffled",
            noise,
            Uniform(),
            readings=([_LOW, *fleet], [_HIGH, *fleet]),
            claim=amplify(noise, n, delta=_DELTA).epsilon,
            delta=_DELTA,
            is_ordered=False,
        )


def _promises() -> Iterator[Subject | ProvenSubject]:
    # Bits among the others who hide them worst, and a channel that is mixed with its blanket.
    for epsilon, n in ((2.0, 4), (1.0, 16)):
        bit = randomizers(epsilon)["duchi"]
        yield from promise_subjects(f"duchi {epsilon:g} among {n}", bit, n, delta=_PROMISED_DELTA)
    mixed = randomizer_named("optimal", 2.35, domain=_PUBLIC)
    yield from promise_subjects(
        "optimal 2.35 among 16", mixed, 16, delta=_PROMISED_DELTA, share=_SLOW_SHARE
    )
    for name, epsilon, n, reports in _LARGE:
        noise = randomizer_named(name, epsilon, domain=_PUBLIC)
        title = f"{name} {epsilon:g} among {n}"
        yield from proven_subjects(title, noise, n, delta=_LARGE_DELTA, reports=reports)
    for name, epsilon, n, reports in _RECOUNTED:
        noise = randomizer_named(name, epsilon, domain=_PUBLIC)
        title = f"{name} {epsilon:g} among {n}"
        yield from recount_subjects(title, noise, n, delta=_LARGE_DELTA, reports=reports)


def _different() -> dict[str, RangeRandomizer]:
    """Return the randomizers at epsilon 1 without Laplace, which draws as unclamped BR does."""
    return {name: one for name, one in randomizers(1.0).items() if name != "laplace"}


def _is_named(subject: AnySubject, name: str) -> bool:
    return subject.kind == name or subject.name.startswith(name)
