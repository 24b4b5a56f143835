"""The parts of the owner's page: figures, notices, budgets, terms and the ledger."""

import math
from collections.abc import Callable
from typing import Final

from rase.accounting.ledger import OwnerLimits
from rase.campaign import Campaign
from rase.device.comparison import RoundSeen, Trouble
from rase.device.page.markup import Child, Markup, tag
from rase.device.page.outlook import of_hundred
from rase.device.page.owner import Moment
from rase.device.states import measured_words, sent_words, shown_unit
from rase.device.terms import REASONS
from rase.theme.formatting import duration, each, keep_percent_signs, moment, near, number
from rase.theme.promises import promises

__all__ = [
    "PLACE",
    "budget",
    "card",
    "comparison_table",
    "figures",
    "ledger",
    "notice",
    "notices",
    "table",
    "terms",
]

PLACE: Final = (
    "This page is served by the agent on this machine, for you alone; its address is a secret."
)
_MOST_ROWS: Final = 24
# What a whole share may lie above itself as a float.
_EXACT: Final = 1e-9
_WORDS: Final = {"info": "Note", "warn": "Warning", "bad": "Problem", "good": "Done"}
# Why a round has no noisy value, in the words of the journal.
_WHY: Final = {
    "budget-spent": "your budget was spent",
    "not-sealed": "it could not be sealed",
    "state-unusable": "the disk could not be written",
    "ledger-unusable": "the ledger could not be written",
    "ledger-refused": "the ledger refused",
    "epsilon-above-limit": "it would spend more than you allow",
    "shuffled-epsilon-above-limit": "it would give the fusion centre more than you allow",
    "k-below-limit": "it would be released with fewer others than you demand",
    "no-campaign": "no terms hold in it",
    "not-noted-as-sent": "it was sent, but could not be noted down",
}
_TROUBLES: Final = {
    "not-fetched": "The campaign's terms cannot be fetched; the agent goes by those it has.",
    "source-failed": "The source of readings does not answer, so there is nothing to report.",
    "unreachable": "The shuffler does not answer; reports wait and are sent again.",
    "refused": "The shuffler does not take reports for now; they are sent again.",
}


def card(name: str, title: str, *content: Child, head: Child = None) -> Markup:
    """Return a card with a heading."""
    heading = tag("h2", title, id=f"{name}-title")
    return tag(
        "section",
        tag("div", heading, head, class_="card-head") if head else heading,
        *content,
        class_="card",
        aria_labelledby=f"{name}-title",
    )


def notice(kind: str, text: str) -> Markup:
    """Return a notice: ``info``, ``warn``, ``bad`` or ``good``."""
    return tag("p", tag("strong", f"{_WORDS[kind]}."), f" {text}", class_=f"notice {kind}")


def notices(now: Moment) -> Markup | None:
    """Return what does not work or was refused, with the reason and when it ends."""
    found = [_trouble(one) for one in now.troubles]
    spent = _spent_note(now)
    if spent:
        found.append(notice("warn", spent))
    if now.campaign is not None and now.epsilon is None:
        found.append(
            notice(
                "warn", "Every budget that the campaign offers is above your limit for a report."
            )
        )
    return tag("div", found, class_="notices") if found else None


def figures(now: Moment) -> Markup:
    """Return the four figures that are looked at first."""
    unit = shown_unit(now.campaign) if now.campaign else ""
    last = next((one for one in now.rounds if one.sent is not None), None)
    if now.now is None:
        measured = ("–", "no reading in this round yet")
    else:
        count = f"{number(now.now.count)} reading{'s' if now.now.count > 1 else ''}"
        mean = now.now.mean
        said = None if now.campaign is None else measured_words(now.campaign, mean)
        measured = (said or number(mean), f"from {count} in this round")
    if last is None or now.campaign is None:
        sent = ("–", "nothing was sent yet" if not now.rounds else "nothing recently")
    else:
        began = moment(last.round * now.campaign.round_s, "%m-%d %H:%M UTC")
        said = None if last.sent is None else sent_words(now.campaign, last.sent)
        sent = (said or f"{number(last.sent)}", f"for the round of {began}")
    left = ("–", "no terms yet")
    if now.outlook is not None:
        left = (
            number(now.outlook.reports),
            f"at most, in the next 7 days ({number(now.outlook.rounds)} rounds)",
        )
    odds = ("–", "no terms yet")
    if now.epsilon is not None:
        odds = (
            of_hundred(now.epsilon),
            f"right guesses between two readings, 50 by chance; epsilon {now.epsilon:g}",
        )
        claim = None if now.campaign is None else now.campaign.claim_over(1)
        if claim is not None:
            odds = (
                f"{math.ceil(100 * claim.guess - _EXACT)} of 100",
                (
                    "right guesses between two readings towards the fusion centre, 50 by chance; "
                    f"{of_hundred(now.epsilon)} if both servers work together"
                ),
            )
    return tag(
        "dl",
        _stat("Measured now", *measured, unit="" if now.now is None else unit),
        _stat("Sent last", *sent, unit="" if last is None else unit),
        _stat("Reports left this week", *left),
        _stat("One report reveals", *odds),
        class_="stats",
    )


def comparison_table(now: Moment) -> Markup:
    """Return the last rounds as a table, or why there is none."""
    if not now.rounds or now.campaign is None:
        return tag(
            "div",
            tag("strong", "No round has ended yet"),
            tag("p", "The first one appears here when it ends."),
            class_="empty",
        )
    unit = f" ({shown_unit(now.campaign)})" if shown_unit(now.campaign) else ""
    round_s = now.campaign.round_s
    form = "%m-%d %H:%M" if round_s % 60 == 0 else "%m-%d %H:%M:%S"
    return table(
        "The last rounds",
        [
            ("Began (UTC)", ""),
            (f"Measured{unit}", "number"),
            (f"Sent{unit}", "number"),
            ("What happened", ""),
        ],
        [
            (
                (moment(one.round * round_s, form), "time"),
                (_reading(one.measured, now.campaign, measured_words), "number"),
                (_reading(one.sent, now.campaign, sent_words), "number"),
                (_describe_outcome(one, round_s), "words"),
            )
            for one in now.rounds[:_MOST_ROWS]
        ],
        is_tall=True,
    )


def budget(now: Moment) -> Markup:
    """Return what is spent and left under every limit, and when there is more."""
    status = now.status
    rows = [
        (
            f"in any {each(status.owner.span_s)}",
            status.span_spent,
            status.owner.span_epsilon,
            status.span_left,
            status.refresh_s,
        ),
        ("ever", status.total_spent, status.owner.total_epsilon, status.total_left, None),
    ]
    if status.owner.span_shuffled_epsilon is not None:
        limit = status.owner.span_shuffled_epsilon
        left = max(limit - status.span_given, 0.0)
        name = f"towards the fusion centre, in any {each(status.owner.span_s)}"
        rows.append((name, status.span_given, limit, left, None))
    rows += [
        (
            f"campaign {item.limits.campaign}, in any {number(item.limits.window)} rounds",
            item.window_spent,
            item.limits.window_epsilon,
            item.window_left,
            item.refresh_s,
        )
        for item in status.campaigns
    ]
    return card(
        "budget",
        "Your budget",
        table(
            "Your budget",
            [
                ("Limit", ""),
                ("Used", ""),
                ("Epsilon spent", "number"),
                ("of", "number"),
                ("left", "number"),
                ("More from (UTC)", ""),
            ],
            [
                (
                    (name, "name"),
                    (_meter(name, spent, limit), ""),
                    (number(spent), "number"),
                    (number(limit), "number"),
                    (number(left), "number"),
                    (_more_from(name, at_s), "time"),
                )
                for name, spent, limit, left, at_s in rows
            ],
        ),
        tag(
            "p",
            f"Reports add up. All {number(status.reports)} so far together: whoever could join "
            f"them would guess right {of_hundred(status.total_spent)} times; one alone "
            f"{of_hundred(now.epsilon or status.owner.report_epsilon)}.",
        )
        if status.reports
        else None,
    )


def terms(now: Moment) -> Markup:
    """Return what was agreed to, in sentences."""
    if now.campaign is None:
        return card("terms", "What you agreed to", tag("p", "No terms were accepted yet."))
    one = now.campaign
    own = now.status.owner
    what = f"between {number(one.low)} and {number(one.high)} {one.unit}"
    made = "a mean"
    if one.categories:
        what, made = f"one of {', '.join(one.categories)}", "one state"
    label = now.label
    sentences = [
        (
            f"Measured is {one.quantity}, {what}; every {each(one.round_s)} {made}, sent at a "
            f"random moment of the {duration(one.upload_s)} after."
        ),
        *(
            [
                (
                    f"You agreed to report as one of {label!r}: the shuffler learns that, and "
                    "answers are given for each such label that has enough reports."
                )
            ]
            if label is not None and one.labels
            else []
        ),
        *promises(one),
        (
            f"Your own rules go before: at most epsilon {own.report_epsilon:g} a report, "
            f"{own.span_epsilon:g} in any {each(own.span_s)}, {own.total_epsilon:g} ever"
            f"{_caps(own)}."
        ),
        (
            f"A new version that costs more than epsilon {now.limit:g} a report, or "
            f"{_shuffles_less(now)}, is refused until you agree to it."
        ),
    ]
    return card(
        "terms",
        "What you agreed to",
        tag(
            "div",
            tag("ul", [tag("li", keep_percent_signs(text)) for text in sentences]),
            class_="prose",
        ),
    )


def _caps(own: OwnerLimits) -> str:
    """Return what the owner allows towards the fusion centre, as far as there is a limit."""
    caps = []
    if own.shuffled_epsilon is not None:
        caps.append(f"{own.shuffled_epsilon:g} a report")
    if own.span_shuffled_epsilon is not None:
        caps.append(f"{own.span_shuffled_epsilon:g} in any {each(own.span_s)}")
    return f"; towards the fusion centre at most {' and '.join(caps)}" if caps else ""


def _more_from(name: str, at_s: int | None) -> str:
    """Return when there is more under a limit; what is given away goes with its reports."""
    if name.startswith("towards"):
        return "as reports leave it"
    return "never" if name == "ever" else moment(at_s, "%m-%d %H:%M")


def _shuffles_less(now: Moment) -> str:
    if now.most_alpha is None:
        return "hides senders less"
    return f"has an order that may reveal more than alpha {now.most_alpha:g}"


def ledger(now: Moment) -> Markup:
    """Return the last entries, and where all are."""
    if not now.entries:
        return card("ledger", "Ledger", tag("p", "Nothing was spent yet."))
    lengths = {item.limits.campaign: item.limits.round_s for item in now.status.campaigns}
    is_fine = any(length_s % 60 for length_s in lengths.values())
    form = "%Y-%m-%d %H:%M:%S" if is_fine else "%Y-%m-%d %H:%M"
    return card(
        "ledger",
        "Ledger",
        table(
            "Ledger",
            [
                ("Round began (UTC)", ""),
                ("Campaign", ""),
                ("Round", "number"),
                ("Epsilon", "number"),
            ],
            [
                (
                    (moment(one.round * lengths[one.campaign], form), "time"),
                    (one.campaign, "name"),
                    (number(one.round), "number"),
                    (f"{one.epsilon:g}", "number"),
                )
                for one in now.entries
            ],
            is_tall=True,
        ),
        head=tag("a", "Save all as CSV", href="ledger.csv", download="ledger.csv", class_="small"),
    )


def _trouble(one: Trouble) -> Markup:
    when = (
        f"Since {moment(one.time_s, '%m-%d %H:%M UTC')}"
        if one.count == 1
        else (f"{number(one.count)} times, last {moment(one.time_s, '%m-%d %H:%M UTC')}")
    )
    if one.event == "terms-refused":
        reason = str(one.fields.get("reason", ""))
        text = f"Terms were refused: {REASONS.get(reason, '')} ({reason})"
        return notice("bad", f"{text} {when}.")
    if one.fields.get("kind") == "states":
        text = (
            "The source gives numbers and the campaign is of states, or the other way round, so "
            "there is nothing to report: see source.reads."
        )
    elif one.fields.get("kind") == "unit":
        text = "Readings cannot be turned into the campaign's unit, so there is nothing to report."
        return notice("bad", f"{text} {when}.")
    problem = one.fields.get("problem")
    named = f" ({problem})" if isinstance(problem, str) else ""
    return notice("warn", f"{_TROUBLES[one.event]}{named} {when}.")


def _spent_note(now: Moment) -> str | None:
    """Return that the budget of the present round is spent, and when there is more."""
    if now.epsilon is None or now.campaign is None:
        return None
    status = now.status
    own = next((i for i in status.campaigns if i.limits.campaign == now.campaign.id), None)
    limits = [
        (f"in any {each(status.owner.span_s)}", status.span_left, status.refresh_s),
        ("for ever", status.total_left, None),
    ]
    if own is not None:
        limits.append((f"in any {own.limits.window} rounds", own.window_left, own.refresh_s))
    for name, left, at_s in limits:
        if left < now.epsilon:
            more = "There will be no more" if at_s is None else f"There is more from {moment(at_s)}"
            return (
                f"The budget {name} is spent: {number(left)} is left, a report needs "
                f"{now.epsilon:g}. {more}; until then "
                f"{'cover reports are' if now.campaign.cover else 'nothing is'} sent."
            )
    return None


def _meter(name: str, spent: float, limit: float) -> Markup:
    return tag(
        "meter",
        value=f"{spent:g}",
        min=0,
        max=f"{limit:g}",
        low=f"{limit / 2:g}",
        high=f"{0.9 * limit:g}",
        optimum=0,
        aria_label=f"{number(spent)} of {number(limit)} spent, {name}",
    )


def _reading(
    value: float | None, campaign: Campaign, words: Callable[[Campaign, float], str | None]
) -> str:
    """Return a state by its name, or a value with as many digits as all others of its column."""
    if value is not None and campaign.categories:
        return words(campaign, value) or number(value)
    return near(value, campaign.low, campaign.low + (campaign.high - campaign.low) / 10)


def _describe_outcome(one: RoundSeen, round_s: int) -> str:
    if one.sent is not None:
        fate = {"sent": "sent", "waiting": "waits to be sent", "dropped": "came too late"}
        return f"{fate.get(one.fate, 'drawn')}, epsilon {one.epsilon:g}"
    if one.refresh_round is not None or one.reason == "budget-spent":
        again = (
            ""
            if one.refresh_round is None
            else f"; more from {moment(one.refresh_round * round_s, '%m-%d %H:%M UTC')}"
        )
        return (
            f"{'cover report' if one.fate else 'nothing was sent'}: {_WHY['budget-spent']}{again}"
        )
    if one.reason:
        return _WHY.get(one.reason, one.reason)
    if not one.is_shared:
        return "cover report: you paused" if one.fate else "nothing was sent: sharing was off"
    if not one.fate:
        return "nothing was sent"
    return f"cover report: {'no reading' if one.measured is None else 'the schedule left it out'}"


def _stat(label: str, value: str, note: str, *, unit: str = "") -> Markup:
    small = [" ", tag("span", unit, class_="unit")] if unit else None
    return tag(
        "div",
        tag("dt", label),
        tag("dd", tag("span", value, small, class_="value"), tag("span", note, class_="note")),
        class_="stat",
    )


def table(
    label: str,
    columns: list[tuple[str, str]],
    rows: list[tuple[tuple[str, str], ...]],
    *,
    is_tall: bool = False,
) -> Markup:
    """Return a table; each column and each cell with its class."""
    head = [tag("th", name, scope="col", class_=kind or None) for name, kind in columns]
    body = [tag("tr", [tag("td", text, class_=kind or None) for text, kind in row]) for row in rows]
    return tag(
        "div",
        tag("table", tag("thead", tag("tr", head)), tag("tbody", body)),
        class_="table-box tall" if is_tall and len(rows) > 12 else "table-box",
        tabindex=0,
        role="group",
        aria_label=label,
    )
