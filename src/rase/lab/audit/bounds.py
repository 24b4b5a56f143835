"""Lower bounds from samples: Clopper-Pearson intervals for the frequency of an event.

If a mechanism is (epsilon, delta)-DP for two inputs, every event E has Pr[E | first] <= e^epsilon
Pr[E | second] + delta. So any event whose frequencies break this, beyond what chance explains,
disproves the claim; and none can do so, beyond chance, where the claim is true.
"""

import math
import sys

import numpy as np
from numpy.typing import NDArray

__all__ = ["Counts", "chosen_event", "clopper_pearson", "departure_bound", "loss_bound"]

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# How far the pilot is distrusted.
_DOUBT = 1e-3
# Tails of a known law: the middle shows a small shift, the far ones a rare fault of any size.
_LEVELS = (0.5, 0.16, 0.02, 1e-3, 1e-6, 1e-18)


def clopper_pearson(count: int, trials: int, *, error: float) -> tuple[float, float]:
    """Return two bounds on a probability, each wrong with probability ``error`` at most.

    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 1934: exact, for any number of trials.

    Args:
        count: How often the event was seen.
        trials: How often it could have been.
        error: With which probability each bound may be wrong.

    Raises:
        ValueError: If ``count`` is not between 0 and ``trials``, or ``error`` not between 0 and 1.

    Example:
        >>> low, high = clopper_pearson(5, 10, error=0.025)
        >>> round(low, 4), round(high, 4)
        (0.1871, 0.8129)
    """
    if not 0 <= count <= trials or trials < 1:
        raise ValueError(f"count must be between 0 and trials {trials}, got {count}.")
    if not 0 < error < 1:
        raise ValueError(f"error must be between 0 and 1, got {error}.")
    low = float(_lower(np.array(count), trials, error))
    high = float(_upper(np.array(count), trials, error))
    return low, high


def loss_bound(first: int, second: int, trials: int, *, delta: float, error: float) -> float:
    """Return an epsilon below the true loss; it is above with probability 2 ``error`` at most.

    Args:
        first: How often the event was seen for the first input.
        second: How often for the second one.
        trials: How often each input was tried.
        delta: The delta that is claimed with epsilon.
        error: With which probability each of the two bounds may be wrong.

    Returns:
        ln((low - delta) / high), low and high being the bounds on the two probabilities; minus
        infinity where the event shows nothing.

    Example:
        >>> round(loss_bound(7311, 2689, 10_000, delta=0.0, error=1e-9), 2)
        0.87
    """
    low = clopper_pearson(first, trials, error=error)[0] - delta
    high = clopper_pearson(second, trials, error=error)[1]
    return math.log(low / high) if low > 0 else -math.inf


def departure_bound(counts: Counts, law: Floats, *, error: float) -> float:
    """Return a lower bound on the log-ratio of an event's probability to that of a law.

    The events are both tails of the law at fixed levels, and what each of them leaves, all chosen
    before any sample is seen; the bound is above the truth with probability ``error`` at most
    (Bonferroni over the events).

    Args:
        counts: How often each value was drawn.
        law: How likely it is said to be.
        error: With which probability the bound may be wrong.

    Returns:
        0 where the counts prove nothing.

    Example:
        >>> fair = np.array([0.25, 0.25, 0.25, 0.25])
        >>> departure_bound(np.array([100, 100, 100, 100]), fair, error=1e-6)
        0.0
        >>> round(departure_bound(np.array([400, 100, 100, 100]), fair, error=1e-6), 2)
        0.22
    """
    below, above = np.cumsum(law), np.cumsum(law[::-1])
    cuts = {int(np.searchsorted(below, level, side="right")) for level in _LEVELS}
    cuts |= {law.size - int(np.searchsorted(above, level, side="right")) for level in _LEVELS}
    events = [(0, cut) for cut in cuts if cut > 0]
    events += [(cut, law.size) for cut in cuts if cut < law.size]
    trials = int(counts.sum())
    bound = 0.0
    for start, end in events:
        seen = int(counts[start:end].sum())
        low = clopper_pearson(seen, trials, error=error / len(events))[0]
        said = max(float(law[start:end].sum()), sys.float_info.min)
        bound = max(bound, math.log(low / said) if low > 0 else 0.0)
    return bound


def chosen_event(
    first: Counts, second: Counts, *, trials: int, delta: float, error: float
) -> Flags:
    """Choose from a pilot the outcomes to count: the likelihood-ratio test that promises most.

    Outcomes are taken in the sequence of their estimated likelihood ratios, as many as give the
    highest bound for later counts (the lemma of Neyman and Pearson: no other event of that size
    tells the inputs apart better). The pilot's own chance is allowed for, so that what it saw by
    luck is not chosen. It decides nothing else: bounds from fresh samples hold whatever it chose.

    Args:
        first: How often the pilot saw each outcome for the first input.
        second: How often for the second one.
        trials: How often each input will be tried after the pilot.
        delta: The delta that is claimed with epsilon.
        error: With which probability each bound may be wrong.

    Returns:
        For each outcome whether it belongs to the event.
    """
    pilot = int(first.sum())
    seen = np.flatnonzero(first + second)
    # By what the ratio is at least: outcomes seen a few times only come last.
    more, fewer = first[seen] + 1.0, second[seen] + 1.0
    ratio = np.maximum(more - 2 * np.sqrt(more), 0.1) / (fewer + 2 * np.sqrt(fewer))
    sequence = seen[np.argsort(-ratio, kind="stable")]
    ups, downs = (np.cumsum(counts[sequence]) for counts in (first, second))
    # What the frequencies will be at least and at most, then what their bounds will be.
    low = trials * _lower(ups, pilot, _DOUBT)
    high = trials * _upper(downs, pilot, _DOUBT)
    low, high = _lower(low, trials, error) - delta, _upper(high, trials, error)
    with np.errstate(divide="ignore", invalid="ignore"):
        bounds = np.where(low > 0, np.log(low) - np.log(high), -np.inf)
    event = np.zeros(first.size, dtype=np.bool_)
    event[sequence[: int(np.argmax(bounds)) + 1]] = True
    return event


def _lower(counts: Floats | Counts, trials: int, error: float) -> Floats:
    """Return the lower Clopper-Pearson bounds of many counts, which need not be whole."""
    # Imported when needed: most who measure audit nothing, and it takes longer than all the rest.
    from scipy.special import betaincinv

    bounds = betaincinv(np.maximum(counts, 1e-9), trials - counts + 1, error)
    return np.where(counts > 0, bounds, 0.0)


def _upper(counts: Floats | Counts, trials: int, error: float) -> Floats:
    """Return the upper Clopper-Pearson bounds of many counts, which need not be whole."""
    from scipy.special import betainccinv

    bounds = betainccinv(counts + 1, np.maximum(trials - counts, 1e-9), error)
    return np.where(counts < trials, bounds, 1.0)
