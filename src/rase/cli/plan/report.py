"""A plan as lines for people: short, aligned, in plain words."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rase.accounting.plan.learnable import ROUGH, USEFUL, Answerable, Learnable
from rase.accounting.plan.parts import ErrorRow, Wish
from rase.accounting.plan.promises import Promises
from rase.accounting.plan.values import Plan
from rase.cli.output import decimals_for
from rase.counts.registry import TRACKED
from rase.domain import Range

if TYPE_CHECKING:
    from rase.cli.plan.forecast import Outlook

__all__ = ["NOT_PREDICTED", "learnable_lines", "plan_lines"]

# Said where nothing is known of how the fleet's mean moves, or devices do not always report.
NOT_PREDICTED = (
    "a first round as unbiased_mean; what the rounds before add is predicted for a report in every "
    "round only, from --data of several rounds, or --fleet-sd and --day-sd."
)
_LABEL = 10
_READINGS = {
    "worst": "worst case",
    "uniform": "spread evenly",
    "yours": "your readings",
}


def plan_lines(
    plan: Plan, outlook: "Outlook | None" = None, promises: Promises | None = None
) -> Iterator[str]:
    """Yield the lines of a plan.

    Args:
        plan: The plan.
        outlook: What is predicted of ``tracked``, where something is known of how the mean moves.
        promises: Both promises, where they were asked for; they stand instead of what a report, a
            day and a month cost among all devices.
    """
    yield from _block("plan", [_headline(plan)])
    yield from _block("noise", [_mechanism(plan)])
    yield from _block("certified", [str(plan.certificate), *_rung_lines(plan)])
    yield from _block("schedule", _schedule(plan))
    yield ""
    yield from _error_table(plan, outlook)
    yield ""
    yield from _block("precision", [_precision(plan)])
    if promises is None:
        yield from _block("privacy", (str(period) for period in plan.periods))
    else:
        yield from _block("promise", _promise(promises))
    if plan.refusal is not None:
        yield from _block("", [f"central: refused, {plan.refusal}"])
    yield from _block("shuffle", _shuffle(plan))
    if plan.wish is not None:
        yield from _block("wish", _wish(plan.wish))
    yield ""
    advice = plan.recommendation
    yield from _block("advice", advice.reasons)
    yield from _block("warning", advice.warnings)
    said = set() if plan.wish is None else set(_wish(plan.wish))
    yield from _block("helps", (line for line in advice.remedies if line not in said))


def _promise(promises: Promises) -> Iterator[str]:
    yield promises.sentence
    for span, claim in promises.spans:
        words = claim.sentence("round" if span == "report" else span)
        yield f"{span if span == 'report' else f'{span} of {claim.reports} reports'}: {words}"
        if claim.reports > 1:
            yield f"{span}: {claim.summary}."
    if promises.published is not None:
        yield promises.published.sentence


def _block(label: str, sentences: Iterable[str]) -> Iterator[str]:
    for place, sentence in enumerate(sentences):
        yield f"{label if place == 0 else '':<{_LABEL}}{sentence}"


def _headline(plan: Plan) -> str:
    request = plan.request
    public = request.value_range
    words = [
        f"readings from {public.low:g} to {public.high:g}",
        f"epsilon {request.epsilon:g} a report",
        f"{request.devices} devices",
    ]
    if request.window > 1:
        words.append(f"windows of {request.window} rounds")
    return ", ".join(words)


def _mechanism(plan: Plan) -> str:
    chosen = ", chosen as the best at this epsilon" if plan.request.mechanism == "auto" else ""
    return f"{plan.mechanism}{chosen}"


def _rung_lines(plan: Plan) -> Iterator[str]:
    drawn = plan.certificate.drawn_epsilon
    if plan.mechanism == "optimal" and drawn < plan.certificate.epsilon:
        yield (
            f"Channels are shipped for budgets up to {drawn:g} only, and this one is that of "
            f"epsilon {drawn:g}."
        )


def _schedule(plan: Plan) -> Iterator[str]:
    schedule, devices = plan.request.schedule, plan.request.devices
    if schedule.name == "every" and schedule.reports_per_window == schedule.window:
        return
    reports = schedule.reports_per_window
    times = "once" if reports == 1 else f"{reports} times"
    yield (
        f"{schedule.name}: a device reports {times} in any {schedule.window} rounds, epsilon "
        f"{schedule.epsilon:.6g} each; any window spends at most {schedule.window_budget:.6g}."
    )
    if schedule.name == "rotate":
        yield (
            f"about {schedule.reports_of_round(devices):.3g} of {devices} devices report in a "
            "round; the error of not asking the others is part of the noise."
        )
    if len(plan.schedule_errors) > 1:
        split, rotate = plan.schedule_errors["split"], plan.schedule_errors["rotate"]
        yield (
            f"error of a round for the same budget of a window: split {split:.4g}, rotate "
            f"{rotate:.4g}; ratio {split / rotate:.3g}."
        )


def _error_table(plan: Plan, outlook: "Outlook | None") -> Iterator[str]:
    window = plan.request.window
    head = ["estimator", "readings", "bias", "noise", "error"]
    if window > 1:
        head.append(f"of {window} rounds")
    rows = [*([] if outlook is None else [_tracked_cells(plan, outlook)])]
    rows += [_cells(row, plan) for row in plan.errors]
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    for row in [head, *rows]:
        shown = (
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(shown)
    if outlook is None:
        yield f"{TRACKED:<{widths[0]}}  {NOT_PREDICTED}"


def _tracked_cells(plan: Plan, outlook: "Outlook") -> list[str]:
    """Return the row of the estimator ``tracked``, whose error was tried out and not computed."""
    decimals = decimals_for(plan.request.value_range)
    whose = _READINGS["yours"] if outlook.basis == _READINGS["yours"] else "movement as stated"
    cells = [TRACKED, whose, "-", "-", f"{outlook.forecast.tracked:.{decimals}f}"]
    return [*cells, "-"] if plan.request.window > 1 else cells


def _cells(row: ErrorRow, plan: Plan) -> list[str]:
    decimals = decimals_for(plan.request.value_range)
    numbers = [row.round.bias, row.round.noise, row.round.total]
    if plan.request.window > 1:
        numbers.append(row.window.total)
    # Adding 0 turns a negative zero into a zero.
    shown = [f"{round(number, decimals) + 0.0:.{decimals}f}" for number in numbers]
    return [row.estimator, _READINGS[row.readings], *shown]


def _precision(plan: Plan) -> str:
    met, asked = plan.precision, plan.request.precision
    share = f"{100 * met.share_met:.3g} %"
    whose = "your readings" if met.readings == "yours" else "readings spread evenly"
    bound = f"epsilon* is {met.epsilon_bound:.4g}"
    if plan.mechanism == "budget-aware":
        bound += "; below it reports are clamped" if met.is_clamping else "; nothing is clamped"
    return (
        f"a report within {100 * asked.beta:g} % with probability {asked.rho:g}: met by {share} of "
        f"{whose}; {bound}."
    )


def _wish(wish: Wish) -> Iterator[str]:
    state = "met" if wish.is_met else "missed"
    yield (
        f"error {wish.error:g}, {_READINGS[wish.readings]}: {state}, expected {wish.expected:.4g}. "
        "With all else as it is:"
    )
    yield from (wish.devices.reason, wish.window.reason, wish.epsilon.reason)


def _shuffle(plan: Plan) -> Iterator[str]:
    manifest = plan.shuffle
    yield f"{manifest.method}: {manifest.reason}"
    stay = f"{100 * manifest.stay_share:.3g} % of the reports keep their place"
    yield (
        f"{stay}; an observer of the order assigns {100 * manifest.attacker_success:.3g} % of them "
        f"rightly (the most exposed one: {100 * manifest.exposed_slot_success:.3g} %), guessing "
        f"{100 * manifest.chance:.3g} %."
    )
    if manifest.theta is not None:
        yield (
            f"theta {manifest.theta:.4g}; loss {manifest.alpha:.4g} for the groups used, "
            f"{manifest.real_loss:.4g} for the real groups."
        )
    for answer in plan.attacker_limits.values():
        yield answer.reason


def learnable_lines(found: Learnable, public: Range | None) -> Iterator[str]:
    """Yield what a fleet can learn, the answer to ``rase plan --devices N`` and nothing more.

    Args:
        found: What it can learn.
        public: The range of readings, where it is known; else errors are shares of it.
    """
    yield (
        f"fleet     {found.devices} devices, all in every round; rounds of fewer than "
        f"{found.k_min} reports are withheld."
    )
    yield (
        f"promise   ({found.shuffled_epsilon:g}, {found.delta:g}) towards the fusion centre for "
        "all reports of an answer together, and what owners allow unasked if both servers work "
        "together: epsilon 4.5 a report, 8 a day."
    )
    yield ""
    head = ("what you ask", "reports", "error", "useful?", "towards fusion", "both together")
    rows = [head, *(_answer_cells(one, public) for one in found.answers)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(head))]
    for row in rows:
        shown = (
            cell.rjust(width) if place in (1, 2) else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(shown).rstrip()
    yield ""
    yield (
        f"useful    a standard error of at most {100 * USEFUL:g} % of the range; roughly, of "
        f"{100 * ROUGH:g} %. Errors are those of the readings for which they are largest."
    )
    best = min(found.answers, key=lambda one: one.share)
    reach = 1 / best.share
    yield (
        f"range     halve it and the error halves. For an error of 1 in the best of these answers "
        f"it may be {reach:.3g} wide, for 10 it may be {10 * reach:.3g}."
    )
    yield f"says      {_advice(found)}"


def _answer_cells(one: Answerable, public: Range | None) -> tuple[str, ...]:
    error = f"{100 * one.share:.2g} %" if public is None else f"{one.share * public.width:.3g}"
    return (
        one.question,
        str(one.reports),
        error,
        one.verdict,
        f"epsilon {one.claim.epsilon:.3g}",
        f"epsilon {one.claim.local_epsilon:.3g}",
    )


def _advice(found: Learnable) -> str:
    """Return in a sentence what to ask of such a fleet."""
    good = [one.question for one in found.answers if one.verdict == "yes"]
    rough = [one.question for one in found.answers if one.verdict == "roughly"]
    if not good and not rough:
        return (
            f"No: {found.devices} devices hide each other too little for a mean that is worth "
            "much. Take more devices or a narrower range; or agree on a larger epsilon, knowing "
            "what it gives away."
        )
    bad = [one.question for one in found.answers if one.verdict == "no"]
    parts = (("Useful", good), ("Rough", rough), ("Noise wins for", bad))
    return " ".join(f"{name}: {', '.join(some)}." for name, some in parts if some)
