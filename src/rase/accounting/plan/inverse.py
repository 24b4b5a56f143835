"""The planner turned round: an error or an attacker's success is wished, parameters are sought.

Every answer is found by a search on the same functions that plan with it, so planning with the
answer meets the wish, and a step below does not.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from rase.accounting.checks import MOST_REPORTS
from rase.accounting.error_model import Error, ErrorModel, FleetReadings
from rase.accounting.plan.schedule import turn_error
from rase.domain import PAPER_PRECISION, Precision, Range
from rase.laws.parts import HYBRID_FROM
from rase.laws.registry import randomizer_named
from rase.privacy import MAX_EPSILON, MIN_EPSILON, rounded_down
from rase.shuffle.attacker import exposed_success

__all__ = [
    "MOST_ROUNDS",
    "Answer",
    "Setting",
    "attacker_limits",
    "checked_error",
    "devices_needed",
    "epsilon_needed",
    "expected_error",
    "largest_theta",
    "rounds_needed",
]

MOST_ROUNDS = 10**9
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Answer:
    """A parameter that meets a wish, or why there is none.

    Args:
        value: The parameter; None if no value meets the wish.
        reason: One sentence.
    """

    value: float | None
    reason: str

    def __str__(self) -> str:
        """Return the sentence."""
        return self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What an error depends on.

    Args:
        value_range: The public range.
        epsilon: The budget of one report.
        devices: How many devices there are.
        window: How many rounds are averaged.
        turns: One of so many devices reports in a round, by chance.
        mechanism: A name, or ``auto`` for the best at each epsilon.
        estimator: Whose error is meant.
        precision: The (beta, rho) asked for.
        readings: How readings are spread; None for the worst case.
    """

    value_range: Range
    epsilon: float
    devices: int
    window: int = 1
    turns: int = 1
    mechanism: str = "auto"
    estimator: str = "unbiased_mean"
    precision: Precision = PAPER_PRECISION
    readings: FleetReadings | None = None

    @property
    def basis(self) -> str:
        """For which readings errors are given: ``worst`` or ``yours``."""
        return "worst" if self.readings is None else "yours"


def expected_error(setting: Setting) -> Error:
    """Return the error of the mean over the window in a setting."""
    return _of_round(setting).over(setting.window)


def devices_needed(setting: Setting, error: float) -> Answer:
    """Return the smallest number of devices whose error is at most the one wished for.

    Args:
        setting: All but the number of devices.
        error: The root mean square error wished for, in the unit of the readings.

    Raises:
        ValueError: If the error is not positive.

    Example:
        >>> setting = Setting(value_range=Range(0, 3000), epsilon=1.0, devices=50)
        >>> print(devices_needed(setting, 100))
        899 devices suffice for an error of 100.
    """
    error = checked_error(error)

    def is_met(devices: int) -> bool:
        return expected_error(replace(setting, devices=devices)).total <= error

    devices = _smallest(is_met, least=2, most=MOST_REPORTS)
    if devices is None:
        return Answer(None, _never("No number of devices", setting, error))
    return Answer(devices, f"{devices} devices suffice for an error of {error:g}.")


def rounds_needed(setting: Setting, error: float) -> Answer:
    """Return the smallest window whose error is at most the one wished for.

    Args:
        setting: All but the window.
        error: As for `devices_needed`.

    Raises:
        ValueError: If the error is not positive.

    Example:
        >>> setting = Setting(value_range=Range(0, 3000), epsilon=1.0, devices=50)
        >>> print(rounds_needed(setting, 100))
        A window of 18 rounds suffices for an error of 100.
    """
    error = checked_error(error)
    one = _of_round(setting)
    rounds = _smallest(lambda w: one.over(w).total <= error, least=1, most=MOST_ROUNDS)
    if rounds is None:
        return Answer(None, _never("No window", setting, error))
    if rounds == 1:
        return Answer(1, f"One round suffices for an error of {error:g}.")
    return Answer(rounds, f"A window of {rounds} rounds suffices for an error of {error:g}.")


def epsilon_needed(setting: Setting, error: float) -> Answer:
    """Return the smallest epsilon of a report whose error is at most the one wished for.

    Args:
        setting: All but epsilon.
        error: As for `devices_needed`.

    Raises:
        ValueError: If the error is not positive.

    Example:
        >>> setting = Setting(value_range=Range(0, 3000), epsilon=1.0, devices=50)
        >>> print(epsilon_needed(setting, 100))
        Reports of epsilon 3.35 suffice for an error of 100.
    """
    error = checked_error(error)

    def is_met(epsilon: float) -> bool:
        return expected_error(replace(setting, epsilon=epsilon)).total <= error

    if setting.mechanism in ("auto", "optimal"):
        # The error falls or stays with every rung of the ladder, so it is one piece.
        if not is_met(MAX_EPSILON):
            return Answer(None, _never(f"No epsilon up to {MAX_EPSILON:g}", setting, error))
        if is_met(MIN_EPSILON):
            return Answer(MIN_EPSILON, _epsilon_words(MIN_EPSILON, error))
        found = _bisect(is_met, MIN_EPSILON, MAX_EPSILON, close=_CLOSE)
        return Answer(found, _epsilon_words(found, error))
    # Where a mechanism changes its law the error may jump up, so each piece is searched alone.
    bounds = [MIN_EPSILON, HYBRID_FROM, setting.precision.epsilon_bound(setting.value_range)]
    starts = sorted(bound for bound in bounds if MIN_EPSILON <= bound < MAX_EPSILON)
    for low, high in zip(starts, [*starts[1:], MAX_EPSILON], strict=True):
        # The next piece begins at its bound; this one ends just before it.
        last = math.nextafter(high, 0.0) if high < MAX_EPSILON else high
        if is_met(low):
            return Answer(low, _epsilon_words(low, error))
        if is_met(last):
            found = _bisect(is_met, low, last, close=_CLOSE)
            return Answer(found, _epsilon_words(found, error))
    return Answer(None, _never(f"No epsilon up to {MAX_EPSILON:g}", setting, error))


def largest_theta(n: int, attacker_cap: float) -> Answer:
    """Return the largest theta at which no slot is named more often than a multiple of chance.

    The first and the last slot are the most exposed ones; all others are named less surely.

    Args:
        n: How many reports are shuffled.
        attacker_cap: How many times better than chance the best observer of order may be in the
            most exposed slot.

    Raises:
        ValueError: If the cap is below 1, or n or more, at which the observer may be certain.

    Example:
        >>> print(largest_theta(1000, 2))
        Theta up to 0.001595 keeps the best observer of order below 2 times chance in every slot.
    """
    if not (attacker_cap >= 1 and math.isfinite(attacker_cap)):
        raise ValueError(f"attacker_cap must be at least 1 and finite, got {attacker_cap}.")
    if attacker_cap >= n:
        raise ValueError(
            f"attacker_cap must be below the {n} reports of a round, got {attacker_cap:g}: so many "
            "times chance is certainty, and every theta would keep it."
        )
    if attacker_cap == 1:
        return Answer(None, "Only a uniform shuffle, theta 0, leaves an observer no better off.")
    theta = _largest_theta(n, attacker_cap)
    return Answer(
        theta,
        f"Theta up to {rounded_down(theta, 4):g} keeps the best observer of order below "
        f"{attacker_cap:g} times chance in every slot.",
    )


def attacker_limits(
    n: int, attacker_cap: float, *, alpha: float | None, group_count: int | None
) -> dict[str, Answer]:
    """Return the largest theta, alpha and number of groups that keep the attacker's cap.

    Groups are blocks of places, the best refinement: of k groups the largest has g = ceil(n / k)
    members and sensitivity g (g - 1) / 2. Fewer groups are larger and so have a smaller theta.

    Args:
        n: How many reports are shuffled.
        attacker_cap: As for `largest_theta`.
        alpha: The loss allowed, for which the number of groups is sought.
        group_count: The number of groups for which alpha is sought.

    Raises:
        ValueError: As `largest_theta`.
    """
    theta = largest_theta(n, attacker_cap)
    limits = {"theta": theta}
    if theta.value is None:
        return limits
    if group_count is not None:
        limits["alpha"] = _alpha_limit(n, theta.value, group_count)
    if alpha is not None:
        limits["group_count"] = _group_limit(n, theta.value, alpha)
    return limits


def checked_error(error: float) -> float:
    """Return an error that can be wished for, or refuse it."""
    if isinstance(error, bool | str) or not hasattr(error, "__float__"):
        raise TypeError(f"error must be a number, got {error!r}.")
    value = float(error)
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"error must be greater than 0 and finite, got {value}.")
    return value


def _of_round(setting: Setting) -> Error:
    """Return the error of one round."""
    mechanism = randomizer_named(
        setting.mechanism,
        setting.epsilon,
        domain=setting.value_range,
        precision=setting.precision,
    )
    return turn_error(
        ErrorModel(mechanism),
        setting.estimator,
        setting.devices,
        turns=setting.turns,
        readings=setting.readings,
    )


def _never(what: str, setting: Setting, error: float) -> str:
    bias = abs(_of_round(setting).bias)
    if bias >= error:
        clip = 0.0 if setting.readings is None else abs(setting.readings.clip_bias)
        if clip >= error:
            cause = f"clipped readings alone shift the mean by {clip:.3g}"
        else:
            cause = f"the bias of {setting.estimator} alone is {bias:.3g}"
        return f"{what} suffices: {cause}, not below {error:g}."
    return f"{what} suffices for an error of {error:g}."


def _epsilon_words(epsilon: float, error: float) -> str:
    return f"Reports of epsilon {epsilon:.3g} suffice for an error of {error:g}."


def _smallest(is_met: Callable[[int], bool], *, least: int, most: int) -> int | None:
    """Return the smallest whole number that meets a wish which all larger ones meet too."""
    if is_met(least):
        return least
    fails, meets = least, least
    while not is_met(meets):
        if meets >= most:
            return None
        fails, meets = meets, min(2 * meets, most)
    while meets - fails > 1:
        middle = (fails + meets) // 2
        if is_met(middle):
            meets = middle
        else:
            fails = middle
    return meets


def _bisect(is_met: Callable[[float], bool], fails: float, meets: float, *, close: float) -> float:
    """Return a number that meets a wish, within a share ``close`` of one that does not."""
    while abs(meets - fails) > close * meets:
        middle = math.sqrt(fails * meets)
        if is_met(middle):
            meets = middle
        else:
            fails = middle
    return meets


def _largest_theta(n: int, attacker_cap: float) -> float:
    def is_kept(theta: float) -> bool:
        return exposed_success(n, theta) < attacker_cap / n

    # n/[n] is at least n (1 - q), and at most 1 / (1 - theta (n - 1) / 2).
    fails = -math.log1p(-attacker_cap / n)
    meets = 2 * (1 - 1 / attacker_cap) / (n - 1) * (1 - _CLOSE)
    return _bisect(is_kept, fails, meets, close=_CLOSE)


def _alpha_limit(n: int, theta: float, group_count: int) -> Answer:
    size = math.ceil(n / min(group_count, n))
    if size == 1:
        return Answer(None, "With groups of one there is nothing to permute; take fewer groups.")
    alpha = theta * size * (size - 1) / 2
    return Answer(alpha, f"With {group_count} groups alpha may be up to {alpha:.4g}.")


def _group_limit(n: int, theta: float, alpha: float) -> Answer:
    def is_enough(group_count: int) -> bool:
        size = math.ceil(n / group_count)
        return theta * size * (size - 1) / 2 >= alpha

    if not is_enough(1):
        return Answer(
            None,
            f"Alpha {alpha:g} is too large even for one group of all; shuffle uniformly or lower "
            "alpha.",
        )
    fails = _smallest(lambda count: not is_enough(count), least=1, most=n)
    most = n if fails is None else fails - 1
    groups = "one group" if most == 1 else f"{most} groups"
    return Answer(most, f"Alpha {alpha:g} allows up to {groups}.")
