"""What would show movement that a fleet's noise hides: four ways, each by itself.

A verdict names the spread of rounds that would show (`rase.series.verdict`). Half of it shows where
a round's noise is half: with four times the devices, half the range, a larger budget, or longer
rounds whose one report has the budget of all that it replaces.
"""

import functools
from dataclasses import dataclass

from rase.accounting.accountant.claims import claims
from rase.accounting.plan.inverse import Setting, epsilon_needed, expected_error
from rase.domain import PAPER_PRECISION, Precision, Range
from rase.laws.registry import randomizer_named
from rase.privacy import MAX_EPSILON, rounded_up
from rase.series.verdict import ROUNDS_NEEDED, Verdict, visible_share

__all__ = ["Crowd", "Ways", "find_ways", "verdict_fields"]

# The error of a mean of reports is a share of the range, and falls with the root of their number.
_UNIT, _DEVICES = Range(0, 1), 100
_HALF, _TIMES = 0.5, 4
# How many rounds one may replace.
_LONGER = (2, 3, 4, 6, 8, 12, 24)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class Crowd:
    """In which crowd reports are shuffled, if something is promised of them.

    Args:
        n: The fewest honest reports of a round.
        delta: The delta of the promise.
    """

    n: int
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """Say what would show half of the spread that shows now, each by itself; None where nothing.

    Args:
        devices: How many devices.
        width: How wide a range.
        round_s: How long a round, in seconds, if its one report has the budget of all rounds that
            it replaces, and the movement lasts as long.
        epsilon: Which budget of a report.
        shuffled_epsilon: What that gives away once shuffled, where that is promised.
    """

    devices: int
    width: float
    round_s: int | None
    epsilon: float | None
    shuffled_epsilon: float | None

    def words(self) -> str:
        """Return the ways in words.

        Example:
            >>> Ways(devices=200, width=1500.0, round_s=10800, epsilon=1.894,
            ...        shuffled_epsilon=None).words()
            '4 times the devices, half the range, rounds of 3h or epsilon 1.9'
        """
        ways = ["4 times the devices", "half the range"]
        if self.round_s is not None:
            ways.append(f"rounds of {_duration(self.round_s)}")
        if self.shuffled_epsilon is not None:
            ways.append(f"shuffled epsilon {rounded_up(self.shuffled_epsilon, 2):g}")
        elif self.epsilon is not None:
            ways.append(f"epsilon {rounded_up(self.epsilon, 2):g}")
        return f"{', '.join(ways[:-1])} or {ways[-1]}"


def find_ways(
    value_range: Range,
    *,
    mechanism: str,
    epsilon: float | None,
    devices: int,
    rounds: int,
    round_s: float | None,
    precision: Precision = PAPER_PRECISION,
    crowd: Crowd | None = None,
) -> Ways:
    """Return what would show half of the spread that shows in some rounds.

    Validation: runs of half that spread are found in 9 of 10 by each way, in
    tests/accounting/plan/test_showing.py.

    Args:
        value_range: The public range.
        mechanism: The name of the mechanism.
        epsilon: The budget of a report; None where devices differ in it.
        devices: How many report in a round.
        rounds: How many rounds were compared.
        round_s: The length of a round; None if that is not known.
        precision: The (beta, rho) asked for.
        crowd: In which crowd reports are shuffled; None if nothing is promised.

    Example:
        >>> find_ways(Range(0, 3000), mechanism="optimal", epsilon=1.0, devices=50,
        ...                 rounds=168, round_s=3600).words()
        '4 times the devices, half the range, rounds of 3h or epsilon 1.9'
    """
    larger = None if epsilon is None else _larger_budget(mechanism, epsilon, precision)
    times = None
    if epsilon is not None and round_s is not None:
        times = _times_longer(mechanism, epsilon, precision, rounds)
    shuffled = None
    if larger is not None and crowd is not None:
        shuffled = _given_away(mechanism, larger, precision, crowd)
    return Ways(
        devices=_TIMES * devices,
        width=_HALF * value_range.width,
        round_s=None if times is None or round_s is None else int(times * round_s),
        epsilon=larger,
        shuffled_epsilon=shuffled,
    )


def verdict_fields(verdict: Verdict | None, needed: Ways | None) -> dict[str, bool | float | None]:
    """Return a verdict as fields of `rase.answer.Answer`; none where there is none.

    Args:
        verdict: The verdict.
        needed: What would show half of what shows; None where nothing can be advised.
    """
    if verdict is None:
        return {}
    found: dict[str, bool | float | None] = {
        "moves": verdict.is_moving,
        "would_show": verdict.visible,
    }
    if needed is None or verdict.is_moving:
        return found
    return {
        **found,
        "half_by_devices": needed.devices,
        "half_by_width": needed.width,
        "half_by_round_s": needed.round_s,
        "half_by_epsilon": needed.epsilon,
        "half_by_shuffled_epsilon": needed.shuffled_epsilon,
    }


def _setting(mechanism: str, epsilon: float, precision: Precision) -> Setting:
    return Setting(
        value_range=_UNIT,
        epsilon=epsilon,
        devices=_DEVICES,
        mechanism=mechanism,
        precision=precision,
    )


@functools.lru_cache(maxsize=64)
def _error(mechanism: str, epsilon: float, precision: Precision) -> float:
    return expected_error(_setting(mechanism, epsilon, precision)).total


@functools.lru_cache(maxsize=64)
def _larger_budget(mechanism: str, epsilon: float, precision: Precision) -> float | None:
    """Return the budget of a report at which a round's noise is half; None if none is."""
    wished = _HALF * _error(mechanism, epsilon, precision)
    return epsilon_needed(_setting(mechanism, epsilon, precision), wished).value


def _times_longer(mechanism: str, epsilon: float, precision: Precision, rounds: int) -> int | None:
    """Return how many times as long rounds must be, each with the budget of all it replaces.

    There are fewer rounds then, so noise must be less than half.
    """
    wished = _HALF * visible_share(rounds) * _error(mechanism, epsilon, precision)
    for times in _LONGER:
        if rounds // times < ROUNDS_NEEDED or times * epsilon > MAX_EPSILON:
            return None
        error = _error(mechanism, times * epsilon, precision)
        if error * visible_share(rounds // times) <= wished:
            return times
    return None


@functools.lru_cache(maxsize=64)
def _given_away(mechanism: str, epsilon: float, precision: Precision, crowd: Crowd) -> float:
    law = randomizer_named(mechanism, epsilon, domain=_UNIT, precision=precision)
    (claim,) = claims(law, crowd.n, delta=crowd.delta, reports=(1,))
    return claim.epsilon


def _duration(seconds: int) -> str:
    for unit_s, name in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds % unit_s == 0:
            return f"{seconds // unit_s}{name}"
    return f"{seconds}s"
