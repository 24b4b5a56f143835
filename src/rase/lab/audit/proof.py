"""Claims about large rounds, tested by computing what the best observer achieves.

At a delta of 1e-6, or among thousands of reports, no sample shows a fault of a few per cent in what
shuffled reports are claimed to give away. But the observer who knows all other readings, and weighs
every report by its exact law, achieves a number that can be computed, rounded down: a claim below
it is broken for certain, and no true claim is ever called broken. That devices draw by this law is
for samples to show: `report_law_subject` compares what is drawn with it, report by report.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from rase.accounting.accountant.claims import claims
from rase.accounting.blanket import Channel, channel_of
from rase.accounting.curve import crossing
from rase.accounting.lower_bounds import LikelihoodObserver, attack_epsilon, observed_epsilon
from rase.kernels.words import Random
from rase.lab.audit.subject import Cells, LawSubject, ProvenSubject
from rase.laws.randomizer import RangeRandomizer
from rase.promise import Claim

__all__ = ["proven_subjects", "report_law_subject"]

# Places of the observer's lattice within a standard deviation: what rounding down costs is little.
_FINE = 64


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
