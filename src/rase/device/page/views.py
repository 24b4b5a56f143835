"""The owner's page as HTML: everything in words; a script only asks for it again.

The chart of measured and sent values is SVG without styles or scripts of its own.
"""

from collections.abc import Callable
from typing import Final

from rase.campaign import Campaign
from rase.device.comparison import RoundSeen
from rase.device.fleet import Against
from rase.device.page import cards
from rase.device.page.markup import Child, Markup, document, tag
from rase.device.page.owner import Moment, Sharing
from rase.device.page.payload import Payload, parts_of
from rase.device.states import measured_words, sent_words, shown_unit
from rase.theme.formatting import moment, number, sentence
from rase.version import __version__

__all__ = [
    "THEMES",
    "TONES",
    "Form",
    "chart",
    "follow_link",
    "forget_card",
    "forgotten_page",
    "frame",
    "home",
    "payload",
    "problem",
]

THEMES = ("auto", "light", "dark")
_MARKS = {"auto": "◐ Auto", "light": "○ Light", "dark": "● Dark"}
TONES = {Sharing.OFF: "plain", Sharing.PAUSED: "warn", Sharing.ON: "good"}

_BESIDES = {
    "above": "yours is above",
    "below": "yours is below",
    "alike": "no difference beyond noise",
}
_HOW = (
    "Computed on this machine from estimates that are public; nothing was sent for it. Where both "
    "are the same, it says so in 95 of 100 cases or more."
)

# Makes a form that posts to an address with its proof inside.
Form = Callable[..., Markup]


def home(now: Moment, form: Form, *, theme: str, name: str) -> bytes:
    """Return the whole page."""
    state = tag("span", now.sharing.value, id="state", class_=f"badge {TONES[now.sharing]}")
    campaign = now.campaign
    lead = (
        f"{sentence(campaign.quantity)}{f' in {campaign.unit}' if campaign.unit else ''} · "
        f"campaign {campaign.id}, version {campaign.version}"
        if campaign
        else f"Campaign {name}: its terms have not been accepted yet."
    )
    return frame(
        "Your device",
        tag("div", tag("h1", "Your device ", state), follow_link(), class_="heading"),
        tag(
            "div",
            tag("p", lead, class_="lead"),
            tag("p", cards.PLACE, class_="small soft"),
            cards.notices(now),
            cards.figures(now),
            _sharing(now, form),
            _comparison_card(now),
            _against_fleet(now),
            cards.budget(now),
            cards.terms(now),
            cards.ledger(now),
            forget_card(form),
            id="now",
            class_="live",
        ),
        form=form,
        theme=theme,
        script="owner.js",
    )


def payload(found: Payload | None, now: Moment, form: Form, *, theme: str) -> bytes:
    """Return the bytes that would leave, and the switch below them."""
    if found is None or now.campaign is None:
        body: Child = cards.notice(
            "info",
            "There are no terms or keys yet, so nothing could be sent. Look again in a minute.",
        )
    else:
        body = _bytes(found, now, form)
    return frame(
        "What leaves your device",
        tag("div", tag("h1", "What leaves your device"), _back(), class_="heading"),
        body,
        form=form,
        theme=theme,
    )


def forgotten_page(*, theme: str) -> bytes:
    """Return the last page of a device."""
    return frame(
        "Forgotten",
        tag("div", tag("h1", "Forgotten"), class_="heading"),
        cards.notice(
            "good",
            "Unsent reports, credential and key are erased, and the agent has stopped. The ledger "
            "keeps what was spent. You can close this page; it is served no longer.",
        ),
        form=None,
        theme=theme,
    )


def problem(title: str, text: str, *, form: Form | None, theme: str) -> bytes:
    """Return a page that says what is wrong."""
    return frame(
        title,
        tag("div", tag("h1", title), _back() if form else None, class_="heading"),
        tag("p", tag("strong", "Problem."), f" {text}", class_="notice bad", role="alert"),
        form=form,
        theme=theme,
    )


def frame(
    title: str, *content: Child, form: Form | None, theme: str, script: str | None = None
) -> bytes:
    """Return a whole page around its content."""
    after = THEMES[(THEMES.index(theme) + 1) % len(THEMES)]
    switch = None
    if form is not None:
        button = tag(
            "button",
            _MARKS[theme],
            class_="quiet",
            aria_label=f"Colours: {theme}. Change to {after}.",
        )
        switch = form("theme", tag("input", type="hidden", name="theme", value=after), button)
    return document(
        tag(
            "html",
            tag(
                "head",
                tag("meta", charset="utf-8"),
                tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
                tag("title", f"{title} · RASE"),
                tag("link", rel="icon", href="icon.svg", type="image/svg+xml"),
                tag("link", rel="stylesheet", href="rase.css"),
                tag("link", rel="stylesheet", href="owner.css"),
                tag("script", type="module", src=script) if script else None,
            ),
            tag(
                "body",
                tag("a", "Skip to the content", class_="skip", href="#main"),
                tag(
                    "header",
                    tag(
                        "span",
                        tag("img", src="icon.svg", alt="", width=24, height=24),
                        " RASE",
                        class_="brand",
                        title=f"version {__version__}",
                    ),
                    switch,
                    class_="top",
                ),
                tag("main", *content, id="main", tabindex=-1),
                class_="owner",
            ),
            lang="en",
            data_theme=None if theme == "auto" else theme,
        )
    )


def _sharing(now: Moment, form: Form) -> Markup:
    """Return the switch; on is only reached by way of the bytes."""
    off = form("off", tag("button", "Switch off"))
    has_cover = now.campaign is None or now.campaign.cover
    match now.sharing:
        case Sharing.OFF:
            words = (
                "Sharing is off: nothing is sent, not even cover reports. The device only asks "
                "for the campaign's terms. Look at what would leave it; the switch is there."
            )
            buttons: list[Child] = [
                tag("a", "See what would be sent", class_="button primary", href="payload")
            ]
        case Sharing.PAUSED:
            words = (
                "Sharing is paused: only cover reports are sent, which hold no reading and look "
                "like all others, so that nobody can see it."
                if has_cover
                else "Sharing is paused: nothing is sent, which the shuffler sees."
            )
            buttons = [form("resume", tag("button", "Resume", class_="primary")), off]
        case Sharing.ON:
            words = (
                "Once a round one noisy value is sent. Pausing sends cover reports in its place, "
                "so that nobody can see it; switching off sends nothing, which the shuffler sees."
                if has_cover
                else "Once a round one noisy value is sent. This campaign has no cover reports: "
                "the shuffler sees in which rounds you report."
            )
            buttons = [form("pause", tag("button", "Pause", class_="primary")), off]
            buttons.append(tag("a", "See the bytes", class_="button", href="payload"))
    tokens = None
    if now.tokens is not None and now.sharing is Sharing.ON:
        tokens = tag("p", f"Tokens, one for each report: {now.tokens.words}", class_="small soft")
    return cards.card(
        "sharing", "Sharing", tag("p", words), tokens, tag("div", buttons, class_="buttons")
    )


def _comparison_card(now: Moment) -> Markup:
    drawn = None if now.campaign is None else chart(now.rounds, now.campaign)
    legend = tag(
        "ul",
        tag("li", tag("span", class_="key"), "measured, stays here"),
        tag("li", tag("span", class_="ring"), "sent, with noise"),
        tag("li", "times are UTC"),
        class_="legend",
        aria_hidden="true",
    )
    return cards.card(
        "compared",
        "Measured against sent",
        [drawn, legend] if drawn else None,
        cards.comparison_table(now),
        tag(
            "p",
            "Measured values are in the agent's memory only: they are gone when it stops.",
            class_="small soft",
        ),
    )


def _against_fleet(now: Moment) -> Markup | None:
    """Compare the device with the fleet; None where the owner named no broker for that."""
    if now.against is None or now.campaign is None:
        return None
    if not now.against:
        text = "No round is known yet of both your device and the fleet."
        return cards.card("fleet", "You against the fleet", tag("p", text))
    rounds = max(one.rounds for one in now.against)
    unit = shown_unit(now.campaign)
    what = "State" if now.campaign.categories else "Mean"
    ending = "" if now.campaign.categories or not unit else f" ({unit})"
    return cards.card(
        "fleet",
        "You against the fleet",
        tag(
            "p",
            f"Over the {number(rounds)} round{'s' if rounds > 1 else ''} of which both are known.",
        ),
        cards.table(
            "You against the fleet",
            # What it comes to stands where a telephone shows it.
            [
                (what, ""),
                ("Compared", ""),
                (f"You{ending}", "number"),
                (f"The fleet{ending}", "number"),
                ("95 % interval", "number"),
            ],
            [_fleet_row(one, now.campaign) for one in now.against],
        ),
        tag("p", _HOW, class_="small soft"),
    )


def _fleet_row(one: Against, campaign: Campaign) -> tuple[tuple[str, str], ...]:
    def words(value: float) -> str:
        return f"{100 * value:.1f} %" if one.state is not None else number(value)

    return (
        (one.state or campaign.quantity, ""),
        (_BESIDES[one.word], ""),
        (words(one.own), "number"),
        (words(one.fleet), "number"),
        (f"{words(one.low)} to {words(one.high)}", "number"),
    )


def _bytes(found: Payload, now: Moment, form: Form) -> list[Child]:
    unit = now.campaign.unit if now.campaign else ""
    measured, sent = f"{number(found.measured)} {unit}", f"{number(found.sent)} {unit}"
    if now.campaign is not None and now.campaign.categories:
        measured = measured_words(now.campaign, found.measured) or measured
        sent = sent_words(now.campaign, found.sent) or sent
    made_up = (
        "the middle of the range, as there is no reading yet"
        if found.is_made_up
        else ("the mean of this round so far")
    )
    rows = [
        tag(
            "tr",
            tag("th", part.name, scope="row"),
            tag("td", len(part.data), class_="number"),
            tag("td", tag("code", part.data.hex(), class_="bytes"), class_="words"),
            tag("td", part.words, class_="words"),
        )
        for part in parts_of(found.envelope)
    ]
    newest = next((one for one in now.rounds if one.envelope), None)
    switch: Child = None
    if now.sharing is Sharing.OFF:
        switch = cards.card(
            "switch",
            "Switch sharing on",
            tag(
                "p",
                f"One such report a round, as long as your budget allows. Each spends epsilon "
                f"{found.epsilon:g}.",
            ),
            form("share", tag("button", "Switch sharing on", class_="primary")),
        )
    return [
        cards.card(
            "example",
            f"A report, {len(found.envelope)} bytes",
            tag(
                "p",
                f"Made now from {measured} ({made_up}), and not sent. Its "
                f"noisy value is {sent}. A real one has noise and keys of its "
                "own, drawn when its round ends; every other byte is the same.",
            ),
            tag(
                "div",
                tag(
                    "table",
                    tag(
                        "thead",
                        tag(
                            "tr",
                            tag("th", "Part", scope="col"),
                            tag("th", "Bytes", scope="col", class_="number"),
                            tag("th", "Hexadecimal", scope="col"),
                            tag("th", "Who can read it", scope="col"),
                        ),
                    ),
                    tag("tbody", rows),
                ),
                class_="table-box",
                tabindex=0,
                role="group",
                aria_label="Parts of the report",
            ),
            tag("p", "Inside the inner envelope, for the fusion centre alone:"),
            tag("pre", tag("code", found.content.hex(), class_="bytes"), tabindex=0),
        ),
        cards.card(
            "last",
            "The last real report",
            tag("p", f"Round {number(newest.round)}, {len(newest.envelope)} bytes:"),
            tag("pre", tag("code", newest.envelope.hex(), class_="bytes"), tabindex=0),
        )
        if newest is not None
        else None,
        switch,
    ]


def forget_card(form: Form) -> Markup:
    """Return the card that ends everything."""
    return cards.card(
        "forget",
        "Forget",
        tag(
            "p",
            "Erases reports that were not sent yet, the credential and the key, and stops the "
            "agent. The ledger keeps what was spent, so that a new enrolment goes on counting. "
            "What was sent cannot be called back.",
        ),
        form(
            "forget",
            tag(
                "div",
                tag("input", type="checkbox", id="sure", name="sure", value="yes", required=True),
                tag("label", "I am sure", for_="sure"),
                class_="check",
            ),
            tag("button", "Forget", class_="danger"),
            class_="stack",
        ),
    )


def follow_link() -> Markup:
    """Return the link that asks again, and what takes its place where scripts run."""
    return tag(
        "div",
        tag(
            "span",
            tag("span", class_="live-dot", id="dot"),
            tag("span", "Live", id="follow-words", role="status"),
            tag("button", "Keep up to date", type="button", id="follow", aria_pressed="true"),
            class_="connection",
            id="following",
            hidden=True,
        ),
        tag("a", "Reload", class_="button", href="./", id="reload"),
        class_="actions",
    )


def _back() -> Markup:
    return tag("div", tag("a", "Back", class_="button", href="./"), class_="actions")


_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 12.0, 26.0, 30.0
# The style sheet shows one of them: letters stay as large on a phone as elsewhere.
_SHAPES: Final = {"wide": (720.0, 260.0), "narrow": (340.0, 250.0)}


def chart(rounds: list[RoundSeen], campaign: Campaign) -> list[Markup] | None:
    """Draw both of the last rounds over the campaign's range; None if there is nothing to draw.

    Args:
        rounds: Newest first.
        campaign: Whose range is the height.
    """
    shown = [one for one in reversed(rounds) if one.measured is not None or one.sent is not None]
    if len(shown) < 2 or campaign.categories:
        # States have no order that a height could show.
        return None
    return [_draw_chart(shown, campaign, shape) for shape in _SHAPES]


def _draw_chart(shown: list[RoundSeen], campaign: Campaign, shape: str) -> Markup:
    width, height = _SHAPES[shape]
    first, last = shown[0].round, shown[-1].round
    values = [value for one in shown for value in (one.measured, one.sent) if value is not None]
    low, high = min(campaign.low, *values), max(campaign.high, *values)

    def x(round: int) -> float:
        return _LEFT + (width - _LEFT - _RIGHT) * (round - first) / max(last - first, 1)

    def y(value: float) -> float:
        return _TOP + (height - _TOP - _BOTTOM) * (high - value) / (high - low)

    def dot(one: RoundSeen, value: float, kind: str) -> Markup:
        return tag("circle", cx=f"{x(one.round):.1f}", cy=f"{y(value):.1f}", r=3, class_=kind)

    middle = low / 2 + high / 2
    marks = [
        tag(
            "g",
            tag("line", x1=_LEFT, x2=width - _RIGHT, y1=f"{y(at):.1f}", y2=f"{y(at):.1f}"),
            tag("text", number(at), x=_LEFT - 6, y=f"{y(at) + 4:.1f}", text_anchor="end"),
            class_="axis",
        )
        for at in (low, middle, high)
    ]
    form = "%H:%M" if (last - first) * campaign.round_s < 86400 else "%m-%d %H:%M"
    ends = [
        tag(
            "text",
            moment(round * campaign.round_s, form),
            x=f"{x(round):.1f}",
            y=height - 8,
            text_anchor=anchor,
        )
        for round, anchor in ((first, "start"), (last, "end"))
    ]
    return tag(
        "svg",
        marks,
        tag("g", ends, tag("text", campaign.unit, x=4, y=14), class_="axis"),
        # What was measured is a line, what was sent are dots: told apart without colours.
        [tag("path", d=line, class_="measured") for line in _lines(shown, x, y)],
        [dot(one, one.measured, "measured") for one in shown if one.measured is not None],
        [dot(one, one.sent, "sent") for one in shown if one.sent is not None],
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        class_=f"owner-chart {shape}",
        role="img",
        aria_label=(
            f"What was measured and what was sent in {len(shown)} rounds, in "
            f"{campaign.unit or 'their unit'}; the table below has the same numbers."
        ),
    )


def _lines(
    shown: list[RoundSeen], x: Callable[[int], float], y: Callable[[float], float]
) -> list[str]:
    """Return a path for each run of rounds that follow each other and were measured."""
    lines: list[str] = []
    before: int | None = None
    for one in shown:
        if one.measured is None:
            before = None
            continue
        point = f"{x(one.round):.1f} {y(one.measured):.1f}"
        if before == one.round - 1:
            lines[-1] += f" L{point}"
        else:
            lines.append(f"M{point}")
        before = one.round
    return lines
