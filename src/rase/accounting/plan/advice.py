"""What the planner would do and why, in sentences: mechanism, estimator, shuffle, warnings."""

import math
from collections.abc import Callable, Iterator

from rase.accounting.plan.inverse import (
    Answer,
    Setting,
    devices_needed,
    epsilon_needed,
    rounds_needed,
)
from rase.accounting.plan.parts import ErrorRow, Period, Recommendation, Request, Wish
from rase.accounting.plan.promises import Promises
from rase.privacy import percent, rounded_up
from rase.promise import Claim
from rase.shuffle.release import Manifest

__all__ = ["USELESS_SHARE", "WORTHLESS_POSTERIOR", "recommend"]

# A standard error of a quarter of the range says hardly more than the range itself.
USELESS_SHARE = 0.25
# What is suggested where nobody wished for an error: a twentieth of the range.
_USEFUL_SHARE = 0.05
WORTHLESS_POSTERIOR = 0.99
_NOTABLE_CLIP_SHARE = 0.01
_NOTABLE_GAIN = 0.05
_NOTABLE_EMPTY_SHARE = 0.01
# Without bias as well, so that it is never the "biased answer" of a warning.
_WINSORIZED = "winsorized_mean"


def recommend(
    request: Request,
    *,
    setting: Setting,
    standard_errors: dict[str, float],
    rows: list[ErrorRow],
    manifest: Manifest,
    periods: tuple[Period, ...],
    wish: Wish | None,
    best: str,
    by_schedule: dict[str, float],
    promises: Promises | None,
) -> Recommendation:
    """Return the recommendation for a request.

    Args:
        request: What was asked.
        setting: The same as the inverse searches take it.
        standard_errors: The worst standard error of a round by mechanism.
        rows: The expected errors.
        manifest: What the shuffler will do.
        periods: What reporting costs.
        wish: The wished error, if any.
        best: The best mechanism at this epsilon.
        by_schedule: The error of a round for the same window budget, split and rotated.
        promises: Both promises, if there are two: what protects is judged by both then.
    """
    return Recommendation(
        mechanism=best,
        estimator="unbiased_mean",
        shuffle="uniform",
        reasons=(
            _about_mechanism(standard_errors, best, setting.mechanism),
            _about_estimator(rows),
            _about_shuffle(request, manifest),
        ),
        warnings=(
            *_warnings(request, setting, rows=rows, wish=wish),
            *(_weak_periods(periods) if promises is None else _weak_spans(promises)),
        ),
        remedies=(
            *_remedies(request, setting, rows=rows, wish=wish),
            *_turns(request, periods, has_promises=promises is not None),
            *_better_schedule(request, by_schedule),
        ),
    )


def _about_mechanism(standard_errors: dict[str, float], best: str, used: str) -> str:
    paper = standard_errors["budget-aware"]
    less = 100 * (1 - standard_errors[best] / paper)
    sentence = (
        f"{best}: best for a mean at this epsilon; its worst error is {less:.0f} % below that of "
        "budget-aware with the same estimator."
    )
    if used in ("auto", best):
        return sentence
    more = max(0.0, 100 * (standard_errors[used] / standard_errors[best] - 1))
    return f"{sentence} {used}, as asked, has {more:.0f} % more."


def _about_estimator(rows: list[ErrorRow]) -> str:
    biases = [abs(row.round.bias) for row in rows if row.estimator == "sample_mean"]
    if max(biases) == 0:
        return (
            "unbiased_mean: here the same as sample_mean, and right for every mechanism; the "
            "median answers another question."
        )
    return (
        f"unbiased_mean: averaging reports as they are has a bias of up to {max(biases):.3g} that "
        "neither devices nor windows remove; the median answers another question."
    )


def _about_shuffle(request: Request, manifest: Manifest) -> str:
    if manifest.method == "mallows":
        return (
            "uniform: a mean does not look at the order, so Mallows makes it no better, loses "
            f"{manifest.real_loss:.3g} for the real groups instead of 0, and has no amplification. "
            "Take it only where places carry meaning, as for regional means."
        )
    if request.alpha is not None:
        return f"uniform, and so the shuffler decides by itself: {manifest.reason}"
    return "uniform: no loss for any groups, and the only shuffle with amplification."


def _warnings(
    request: Request,
    setting: Setting,
    *,
    rows: list[ErrorRow],
    wish: Wish | None,
) -> Iterator[str]:
    row = _row(rows, setting)
    width = request.value_range.width
    if row.round.total > USELESS_SHARE * width:
        yield (
            f"One round says hardly anything: its error of {row.round.total:.3g} is "
            f"{100 * row.round.total / width:.0f} % of the range."
        )
    empty = request.schedule.empty_share(request.devices)
    if empty > _NOTABLE_EMPTY_SHARE:
        yield f"{percent(empty)} of the rounds have no report, and no estimate."
    if wish is not None and not wish.is_met:
        yield f"The wished error of {wish.error:g} is missed: expect {wish.expected:.3g}."
    least = min(
        (one for one in rows if one.readings == setting.basis and one.estimator != _WINSORIZED),
        key=_window_error,
    )
    if least.window.total < (1 - _NOTABLE_GAIN) * row.window.total:
        yield (
            f"{least.estimator} errs less here, {least.window.total:.3g}: where noise is large a "
            "biased answer can be nearer, even a constant. It says little about other readings."
        )
    readings = setting.readings
    if readings is not None and readings.clipped_share > _NOTABLE_CLIP_SHARE:
        yield (
            f"{percent(readings.clipped_share)} of your readings lie outside the range; moving "
            f"them to its ends shifts the mean by {readings.clip_bias:+.3g}."
        )


def _weak_periods(periods: tuple[Period, ...]) -> Iterator[str]:
    """Yield the first period whose reports hardly protect."""
    for period in periods:
        if period.local.posterior() >= WORTHLESS_POSTERIOR:
            if period.reports == 1:
                yield f"One report, epsilon {period.local.epsilon:g}, hardly protects."
            else:
                yield (
                    f"A {period.name} of reports, epsilon {period.local.epsilon:g}, hardly "
                    "protects from whoever can link a device's reports."
                )
            break


def _weak_spans(promises: Promises) -> Iterator[str]:
    """Yield the first spans that hardly protect from both servers together, and from one alone."""
    alone = _first_span(promises, lambda claim: claim.guess)
    together = _first_span(promises, lambda claim: claim.colluding_certainty)
    if together is not None and together != alone:
        words, claim = together
        yield (
            f"{words} protects towards the fusion centre alone: ({rounded_up(claim.epsilon):g}, "
            f"{claim.delta:g})-DP; if both servers work together, epsilon "
            f"{rounded_up(claim.local_epsilon):g} hardly protects."
        )
    if alone is not None:
        words, claim = alone
        yield f"{words} hardly protects: {claim.summary}."


def _first_span(
    promises: Promises, certainty: Callable[[Claim], float]
) -> tuple[str, Claim] | None:
    for span, claim in promises.spans:
        if certainty(claim) >= WORTHLESS_POSTERIOR:
            words = "One report" if claim.reports == 1 else f"A {span} of {claim.reports} reports"
            return words, claim
    return None


def _remedies(
    request: Request,
    setting: Setting,
    *,
    rows: list[ErrorRow],
    wish: Wish | None,
) -> Iterator[str]:
    row, width = _row(rows, setting), request.value_range.width
    goal: float | None = None
    answers: tuple[Answer, ...] = ()
    if wish is not None and not wish.is_met:
        goal, answers = wish.error, (wish.devices, wish.window, wish.epsilon)
    elif wish is None and row.round.total > USELESS_SHARE * width:
        goal = _USEFUL_SHARE * width
        answers = (
            devices_needed(setting, goal),
            rounds_needed(setting, goal),
            epsilon_needed(setting, goal),
        )
    if goal is not None:
        for answer in answers:
            if answer.value is not None:
                yield answer.reason
        narrow = width * goal / row.window.total
        yield (
            f"A range {narrow:.3g} wide suffices for an error of {goal:g}, if readings outside it "
            "may be moved to its ends."
        )
    robust = _row(rows, setting, _WINSORIZED)
    if robust.window.total < (1 - _NOTABLE_GAIN) * row.window.total:
        yield (
            f"{_WINSORIZED} errs by {robust.window.total:.3g} instead of {row.window.total:.3g}, "
            "without bias too: it counts reports beyond the range at its ends."
        )


def _turns(request: Request, periods: tuple[Period, ...], *, has_promises: bool) -> Iterator[str]:
    """Yield what turns would change, if reports of a period hardly protect together."""
    for period in periods if request.schedule.name == "every" else ():
        if period.reports > 1 and period.local.posterior() >= WORTHLESS_POSTERIOR:
            noise = f"{math.sqrt(period.reports):.3g} times the noise in a round"
            once = f"Let each device report once in {period.reports} rounds (rotate): epsilon "
            if has_promises:
                yield (
                    f"{once}{request.epsilon:g} a {period.name} if both servers work together, and "
                    f"{noise}. Towards the fusion centre turns gain little: plan again with "
                    "--devices and --k-min of one turn."
                )
            else:
                yield f"{once}{request.epsilon:g} a {period.name}, and {noise}."
            break


def _better_schedule(request: Request, by_schedule: dict[str, float]) -> Iterator[str]:
    used = request.schedule.name
    for name, error in by_schedule.items():
        if name != used and error < (1 - _NOTABLE_GAIN) * by_schedule[used]:
            yield (
                f"With schedule {name} a round errs by {error:.3g} instead of "
                f"{by_schedule[used]:.3g}, for the same budget of a window."
            )


def _row(rows: list[ErrorRow], setting: Setting, estimator: str = "unbiased_mean") -> ErrorRow:
    return next(row for row in rows if (row.estimator, row.readings) == (estimator, setting.basis))


def _window_error(row: ErrorRow) -> float:
    return row.window.total
