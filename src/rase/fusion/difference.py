"""How far two answers differ: between labels, campaigns or periods, with the error of that."""

from dataclasses import dataclass
from statistics import NormalDist

from rase.answer import Answer, Difference
from rase.campaign import Campaign
from rase.fusion.answers import answer_window
from rase.fusion.parts import EVERY, Part, check_part
from rase.fusion.query import MAX_ROUNDS, Questions
from rase.fusion.refusals import BAD_QUESTION, Refused
from rase.series.window import window

__all__ = ["Side", "difference_of"]

_MEAN = "unbiased_mean"


@dataclass(frozen=True, slots=True)
class Side:
    """Say what one of two answers is about.

    Args:
        campaign: The campaign.
        first: The first round.
        last: The last round, included.
        part: Which of a round's answers.
    """

    campaign: Campaign
    first: int
    last: int
    part: Part

    @property
    def times_s(self) -> tuple[int, int]:
        """When its rounds begin and end."""
        return self.first * self.campaign.round_s, (self.last + 1) * self.campaign.round_s


def difference_of(
    questions: Questions, one: Side, other: Side, *, level: float = 0.95
) -> Difference:
    """Return one answer less another, with its error.

    Each side is the mean of its rounds, each by itself: errors of rounds and of labels are of
    different reports, so they are independent and their squares add up. Where the same reports are
    on both sides, as with two states of one round, the errors are added instead, which is never too
    little.

    Guarantee: every side is a mean over sets of k_min reports or more, and two labels are of
    different reports; so is their difference (tests/fusion/test_isolation.py).

    Args:
        questions: Where answers come from.
        one: The first side.
        other: The second side.
        level: The probability that the interval holds the true difference.

    Raises:
        Refused: If the sides cannot be compared: by their units, because a label is compared with
            all devices it is one of, or because their times overlap in part.
    """
    if not 0 < level < 1:
        raise Refused(BAD_QUESTION, "level must be between 0 and 1.")
    _check_comparable(one, other)
    found = [_answer(questions, side) for side in (one, other)]
    (first, first_error), (second, second_error) = found
    unit = "" if one.part.category is not None else one.campaign.unit
    spent = _epsilon(one, other, first, second)
    value = error = low = high = chance = None
    if first.value is not None and second.value is not None:
        value = first.value - second.value
    if value is not None and first_error is not None and second_error is not None:
        error = (
            first_error + second_error
            if _is_same(one, other)
            else (first_error**2 + second_error**2) ** 0.5
        )
        reach = NormalDist().inv_cdf((1 + level) / 2) * error
        low, high = value - reach, value + reach
        chance = NormalDist().cdf(value / error) if error else float(value > 0)
    return Difference(
        value=value,
        standard_error=error,
        low=low,
        high=high,
        level=level,
        above_zero=chance,
        unit=unit,
        local_epsilon=spent,
        first=first,
        second=second,
    )


def _answer(questions: Questions, side: Side) -> tuple[Answer, float | None]:
    """Return the mean of a side's rounds, and its error."""
    campaign, w = side.campaign, side.last - side.first + 1
    if not 1 <= w <= MAX_ROUNDS:
        raise Refused(BAD_QUESTION, f"Ask for periods of 1 to {MAX_ROUNDS} rounds.")
    method = None if campaign.states is not None else _MEAN
    known = {
        one.answer.round: one
        for one in questions.answered(campaign, side.first, side.last, method, side.part)
    }
    row = [known.get(round) for round in range(side.first, side.last + 1)]
    (mean,) = window((None if one is None else one.alone for one in row), w)
    answer = answer_window(campaign, side.last, mean, row, method, part=side.part)
    return answer, None if mean is None else mean.standard_error


def _check_comparable(one: Side, other: Side) -> None:
    for side in (one, other):
        check_part(side.campaign, side.part)
        if side.part.label == EVERY:
            raise Refused(BAD_QUESTION, "label must be one label here.")
        if side.campaign.states is not None and side.part.category is None:
            names = ", ".join(side.campaign.categories)
            raise Refused(BAD_QUESTION, f"category must be one of {names}.")
        if side.campaign.states is None and not (
            side.part.label or {_MEAN, "tracked"} & set(side.campaign.estimators)
        ):
            raise Refused(BAD_QUESTION, f"the campaign must have {_MEAN} or tracked to compare.")
    units = [
        "a share" if side.part.category is not None else side.campaign.unit or "no unit"
        for side in (one, other)
    ]
    if units[0] != units[1]:
        raise Refused(BAD_QUESTION, f"units must agree, got {units[0]} and {units[1]}.")
    if one == other:
        raise Refused(BAD_QUESTION, "the two sides must differ; both are the same question.")
    if one.campaign.id != other.campaign.id or _are_apart(one, other):
        return
    labels = {one.part.label, other.part.label}
    if None in labels and len(labels) > 1:
        raise Refused(
            BAD_QUESTION,
            "label must be compared with another label: all devices together hold it, too.",
        )
    is_same_time = (one.first, one.last) == (other.first, other.last)
    if not is_same_time and len(labels) == 1:
        raise Refused(BAD_QUESTION, "periods must not overlap.")


def _are_apart(one: Side, other: Side) -> bool:
    return one.last < other.first or other.last < one.first


def _is_same(one: Side, other: Side) -> bool:
    """Return whether both sides are of the same campaign and label in the same rounds."""
    return (
        one.campaign.id == other.campaign.id
        and one.part.label == other.part.label
        and not _are_apart(one, other)
    )


def _epsilon(one: Side, other: Side, first: Answer, second: Answer) -> float | None:
    """Return what both answers cost a device together, at most."""
    spent = [side.local_epsilon or 0.0 for side in (first, second)]
    if one.campaign.id == other.campaign.id and not _are_apart(one, other):
        # The same reports, or those of devices of another label.
        return max(spent)
    return sum(spent)
