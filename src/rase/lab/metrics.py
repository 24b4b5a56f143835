"""The success of an attack: precision and recall per device, chance, intervals, confidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["CONFIDENT", "AttackResult", "Interval", "score_guesses"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# From this posterior on an attacker would act on the guess.
CONFIDENT = 0.9
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A measured share with its bootstrap confidence interval.

    Args:
        value: The share measured.
        low: Lower end.
        high: Upper end.
        level: The confidence level.
    """

    value: float
    low: float
    high: float
    level: float = _LEVEL

    def is_below(self, other: "Interval") -> bool:
        """Return whether this interval lies completely below the other."""
        return self.high < other.low

    def __str__(self) -> str:
        """Format in per cent.

        Example:
            >>> print(Interval(0.5, 0.41, 0.6))
            50.0 % (41.0 to 60.0)
        """
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True, slots=True, eq=False)
class AttackResult:
    """The success of one attack against one scheme.

    Precision of a device that was never guessed is 0, as in scikit-learn. Recall of a device
    without a test record is NaN, and so is precision if it was never guessed either; both are left
    out of the means.

    Args:
        attack: The attack's name.
        scheme: The scheme's name.
        n: How many devices there were to choose from.
        records: How many records were tested.
        guessed: For how many of them the attack named a device.
        precision: For each device, the share of guesses of it that were right.
        recall: For each device, the share of its records that were guessed.
        macro_precision: Mean over devices.
        macro_recall: Mean over devices.
        chance: What guessing a device at random achieves, 1 / n.
        top_k: For some k, the share of records whose sender was among the first k guesses.
        confident: How many records were named with a posterior of at least 0.9.
        confident_right: How many of those rightly.
        split: "random" or "time".
        seed: What the split, the attack and the bootstrap were drawn with.
    """

    attack: str
    scheme: str
    n: int
    records: int
    guessed: int
    precision: Floats
    recall: Floats
    macro_precision: Interval
    macro_recall: Interval
    chance: float
    top_k: Mapping[int, float]
    confident: int
    confident_right: int
    split: str
    seed: int

    @property
    def accuracy(self) -> float:
        """The share of correctly named records."""
        return self.top_k[1]

    @property
    def is_above_chance(self) -> bool:
        """Whether the interval of recall lies above chance."""
        return self.macro_recall.low > self.chance


def score_guesses(
    truth: Codes,
    ranked: Codes,
    *,
    confidence: Floats,
    clusters: Codes,
    n: int,
    attack: str,
    scheme: str,
    split: str,
    seed: int,
    ks: Sequence[int] = (1, 3, 5, 10),
    resamples: int = 200,
) -> AttackResult:
    """Score the guesses of an attack.

    Intervals come from resampling clusters of records, because records of one round, or of one
    slot that is followed, are not independent. Where all resamples agree on 0 or 1, the end is
    moved to the exact binomial limit for the number of clusters: no success in 64 tries does not
    prove success impossible.

    Args:
        truth: The right device of each record.
        ranked: The guesses of each record, best first, records x guesses; -1 for none.
        confidence: The posterior of each record's first guess.
        clusters: Which records belong together, whole numbers from 0.
        n: How many devices there are.
        attack: The attack's name.
        scheme: The scheme's name.
        split: How training and test were parted.
        seed: Of the bootstrap.
        ks: For which k to report the top-k share; those beyond ``ranked`` are left out.
        resamples: How many bootstrap samples.

    Raises:
        ValueError: If there is no record or the shapes do not fit.
    """
    if not len(truth) == len(ranked) == len(confidence) == len(clusters):
        raise ValueError("truth, ranked, confidence and clusters must have one length.")
    if not len(truth):
        raise ValueError("truth must hold at least one record, got none.")
    guess = ranked[:, 0]
    is_right = guess == truth
    is_confident = (confidence >= CONFIDENT) & (guess >= 0)
    precision, recall = _shares(truth, guess, n, np.ones(len(truth)))
    bootstrap = _resample_means(truth, guess, clusters, n=n, seed=seed, resamples=resamples)
    count = int(clusters.max()) + 1
    means = (float(np.nanmean(precision)), float(np.nanmean(recall)))
    intervals = [
        _interval(mean, samples, count) for mean, samples in zip(means, bootstrap.T, strict=True)
    ]
    return AttackResult(
        attack=attack,
        scheme=scheme,
        n=n,
        records=len(truth),
        guessed=int((guess >= 0).sum()),
        precision=precision,
        recall=recall,
        macro_precision=intervals[0],
        macro_recall=intervals[1],
        chance=1 / n,
        top_k={
            k: float((ranked[:, :k] == truth[:, np.newaxis]).any(axis=1).mean())
            for k in ks
            if k <= ranked.shape[1]
        },
        confident=int(is_confident.sum()),
        confident_right=int((is_confident & is_right).sum()),
        split=split,
        seed=seed,
    )


def _shares(truth: Codes, guess: Codes, n: int, weight: Floats) -> tuple[Floats, Floats]:
    named = guess >= 0
    guesses = np.bincount(guess[named], weights=weight[named], minlength=n)
    actual = np.bincount(truth, weights=weight, minlength=n)
    is_right = guess == truth
    hits = np.bincount(truth[is_right], weights=weight[is_right], minlength=n)
    never = np.where(actual > 0, 0.0, np.nan)
    precision = np.divide(hits, guesses, out=never, where=guesses > 0)
    recall = np.divide(hits, actual, out=np.full(n, np.nan), where=actual > 0)
    return precision, recall


def _resample_means(
    truth: Codes, guess: Codes, clusters: Codes, *, n: int, seed: int, resamples: int
) -> Floats:
    generator = np.random.default_rng(seed)
    count = int(clusters.max()) + 1
    means = np.empty((resamples, 2))
    for sample in range(resamples):
        drawn = np.bincount(generator.integers(count, size=count), minlength=count)
        precision, recall = _shares(truth, guess, n, drawn[clusters].astype(np.float64))
        means[sample] = np.nanmean(precision), np.nanmean(recall)
    return means


def _interval(mean: float, samples: Floats, clusters: int) -> Interval:
    low, high = np.quantile(samples, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]).tolist()
    # The exact (Clopper-Pearson) end for none, or all, of so many independent clusters.
    limit = 1 - ((1 - _LEVEL) / 2) ** (1 / clusters)
    if high == 0:
        high = limit
    if low == 1:
        low = 1 - limit
    return Interval(mean, min(low, mean), max(high, mean))
