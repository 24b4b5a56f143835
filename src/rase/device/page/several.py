"""The first page of a device with several quantities: all of them, one budget, one switch."""

from collections.abc import Mapping

from rase.device.page import cards
from rase.device.page.markup import Child, Markup, tag
from rase.device.page.owner import Moment, Sharing
from rase.device.page.views import TONES, Form, follow_link, forget_card, frame
from rase.device.states import measured_words, sent_words, shown_unit
from rase.theme.formatting import number

__all__ = ["overview"]


def overview(moments: Mapping[str, Moment], form: Form, *, theme: str) -> bytes:
    """Return the page.

    Args:
        moments: The quantities as they stand, by their campaigns.
        form: Makes a form.
        theme: The colours.
    """
    first = next(iter(moments.values()))
    return frame(
        "Your device",
        tag("div", tag("h1", "Your device"), follow_link(), class_="heading"),
        tag(
            "div",
            tag("p", f"{len(moments)} quantities, one budget.", class_="lead"),
            tag("p", cards.PLACE, class_="small soft"),
            _quantities(moments, form),
            _switch(moments, form),
            cards.budget(first),
            cards.ledger(first),
            forget_card(form),
            id="now",
            class_="live",
        ),
        form=form,
        theme=theme,
        script="owner.js",
    )


def _quantities(moments: Mapping[str, Moment], form: Form) -> Markup:
    columns = ("Quantity", "Measured now", "Sent last", "State")
    return cards.card(
        "quantities",
        "What is measured",
        tag(
            "div",
            tag(
                "table",
                tag("thead", tag("tr", [tag("th", one, scope="col") for one in columns])),
                tag("tbody", [_row(name, now, form) for name, now in moments.items()]),
            ),
            class_="table-box",
            tabindex=0,
            role="group",
            aria_label="What is measured",
        ),
        tag(
            "p",
            "Every limit of yours counts the reports of all of them together.",
            class_="small soft",
        ),
    )


def _row(name: str, now: Moment, form: Form) -> Markup:
    campaign = now.campaign
    measured, sent = "–", "–"
    if campaign is not None:
        unit = shown_unit(campaign)
        if now.now is not None:
            said = measured_words(campaign, now.now.mean)
            measured = said or f"{number(now.now.mean)} {unit}"
        last = next((one.sent for one in now.rounds if one.sent is not None), None)
        if last is not None:
            sent = sent_words(campaign, last) or f"{number(last)} {unit}"
    button: Child = None
    if now.sharing is Sharing.ON:
        button = form(f"{name}/pause", tag("button", "Pause", aria_label=f"Pause {name}"))
    elif now.sharing is Sharing.PAUSED:
        button = form(f"{name}/resume", tag("button", "Resume", aria_label=f"Resume {name}"))
    shown = name if campaign is None else f"{campaign.quantity} ({name})"
    return tag(
        "tr",
        tag("th", tag("a", shown, href=f"{name}/"), scope="row"),
        tag("td", measured.strip()),
        tag("td", sent.strip()),
        # Together, so that both are seen on a telephone.
        tag("td", tag("span", now.sharing.value, class_=f"badge {TONES[now.sharing]}"), button),
    )


def _switch(moments: Mapping[str, Moment], form: Form) -> Markup:
    """Return the switch for all; on is only reached by way of the bytes of each."""
    states = {now.sharing for now in moments.values()}
    if states == {Sharing.OFF}:
        text = (
            "Sharing is off: nothing is sent, not even cover reports. Look at what would leave "
            "for each quantity; the switch there is for all of them."
        )
        links = [
            tag("a", f"See what would be sent of {name}", class_="button", href=f"{name}/payload")
            for name in moments
        ]
        return cards.card("sharing", "Sharing", tag("p", text), tag("div", links, class_="buttons"))
    buttons: list[Child] = [form("off", tag("button", "Switch all off"))]
    buttons.insert(
        0,
        form("resume", tag("button", "Resume all", class_="primary"))
        if Sharing.ON not in states
        else form("pause", tag("button", "Pause all")),
    )
    text = "One switch for all quantities; each can be paused by itself."
    return cards.card("sharing", "Sharing", tag("p", text), tag("div", buttons, class_="buttons"))
