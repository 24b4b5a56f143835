"""Ranked guesses from scores, for all devices or for the nearest on a line."""

import numpy as np

from rase.lab.attacks.protocol import Codes, Floats

__all__ = ["RANKED", "best_first", "nearest_in_rank", "posterior_of"]

# How many devices an attack names for a record, best first.
RANKED = 10


def best_first(scores: Floats, count: int = RANKED) -> Codes:
    """Return the columns with the largest scores of each row, best first; ties to the first."""
    keep = min(count, scores.shape[1])
    if keep == scores.shape[1]:
        return np.argsort(-scores, axis=1, kind="stable")
    some = np.sort(np.argpartition(-scores, keep - 1, axis=1)[:, :keep], axis=1)
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def posterior_of(log_scores: Floats) -> Floats:
    """Return each row's posterior from log-likelihoods under equal prior chances."""
    shifted = np.exp(log_scores - log_scores.max(axis=1, keepdims=True))
    posterior: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return posterior


def nearest_in_rank(points: Floats, queries: Floats, count: int) -> Codes:
    """Return for each query ``count`` neighbouring points of the sorted line around it.

    Half of them lie below and half above where there are as many; O(n log n).

    Example:
        >>> nearest_in_rank(np.array([9.0, 1.0, 5.0, 7.0]), np.array([6.0]), 2).tolist()
        [[2, 3]]
    """
    by_size = np.argsort(points, kind="stable")
    keep = min(count, points.size)
    place = np.searchsorted(points[by_size], queries)
    first = np.clip(place - keep // 2, 0, points.size - keep)
    nearest: Codes = by_size[first[:, np.newaxis] + np.arange(keep)]
    return nearest
