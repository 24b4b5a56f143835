"""What the demonstration prints: a line an hour, then the result, how sure it is, the promises."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rase.cli.demo.live import LiveDemo, LiveRound, LiveSummary

__all__ = ["document_of", "line_of", "opening_words", "summary_words"]

_BAR: Final = 24
_SEEN: Final = "          {:<15} {:<12} {:<32} {}"


def opening_words(demo: "LiveDemo") -> Iterator[str]:
    """Yield what there is to know before the first hour."""
    setting, campaign, servers = demo.setting, demo.campaign, demo.servers
    yield (
        f"{setting.homes:,} made-up homes report their power for "
        f"{_count_in_words(setting.days, 'day')}: "
        "one report a home a day, made noisy and sealed at home, shuffled, then averaged."
    )
    yield (
        f"Both servers run on this machine alone: shuffler {servers.shuffler_url}, fusion centre "
        f"{servers.fusion_url}. An hour with fewer than {campaign.k_min:,} reports is withheld. "
        "Only the clock is made up: it does not wait. Ctrl-C ends it."
    )
    if servers.login_url is not None:
        yield f"Dashboard: {servers.login_url()} (opens once)"
    yield ""


def line_of(one: "LiveRound", *, high: float) -> str:
    """Return the line of an hour; its bar ends at ``high``."""
    answer = one.answer
    hour = datetime.fromisoformat(answer.time).astimezone(UTC).strftime("%a %H:%M")
    true = f"true {one.truth:4.0f} W"
    if answer.value is None:
        return f"{hour}   withheld           {true}"
    half = ((answer.high or 0.0) - (answer.low or 0.0)) / 2
    bar = "█" * round(_BAR * min(answer.value / high, 1.0))
    return f"{hour}   {answer.value:4.0f} W ± {half:3.0f} W   {true}   {answer.n:6,} homes  {bar}"


def summary_words(demo: "LiveDemo", summary: "LiveSummary") -> Iterator[str]:
    """Yield what became of all hours."""
    yield ""
    if summary.released:
        known = [one for one in summary.correlations if not math.isnan(one)]
        correlations = ", ".join(f"{one:.3f}" for one in known)
        followed = (
            f" Correlation with the truth, day by day: {correlations}." if correlations else ""
        )
        yield (
            f"Result    Estimates of {_count_in_words(summary.released, 'hour')}, off by "
            f"{summary.rmse:.1f} W (root mean square).{followed}"
        )
        yield (
            f"          Each says how sure it is: ± {summary.half_width:.0f} W on average, and "
            f"{summary.covered} of {summary.released} intervals hold the truth (95 % should)."
        )
    for answer, truth in summary.days:
        yield f"Day       {answer.time[:10]}: {answer}; true {truth:.1f} W"
    yield f"Reports   {_report_words(summary)}"
    yield f"Privacy   {demo.setting.claim(1).sentence('day')}"
    days = demo.setting.days
    if days > 1:
        yield f"          {demo.setting.claim(days).sentence(f'period of {days} days')}"
    yield "Who saw   who, what, and what is left at the end:"
    for line in _who_saw_what(summary):
        yield _SEEN.format(*line)
    yield (
        "          Here one machine runs both servers. In life two operators do: together they "
        "could join name and noisy value, and only the noise of the report would protect."
    )


def document_of(
    demo: "LiveDemo", rounds: "list[LiveRound]", summary: "LiveSummary"
) -> dict[str, Any]:
    """Return the demonstration as plain values."""
    setting, campaign = demo.setting, demo.campaign
    numbers = asdict(summary)
    del numbers["days"]
    return {
        "schema": "rase.demo/3",
        "homes": setting.homes,
        "days": setting.days,
        "range": [campaign.low, campaign.high],
        "mechanism": campaign.mechanism,
        "k_min": campaign.k_min,
        "local_epsilon": campaign.epsilon[0],
        "shuffled_epsilon": setting.shuffled_epsilon,
        "delta": setting.delta,
        "rounds": [
            {**one.answer.as_fields(), "truth": one.truth, "note": one.note} for one in rounds
        ],
        "daily": [{**answer.as_fields(), "truth": truth} for answer, truth in summary.days],
        "summary": {name: _plain(value) for name, value in numbers.items()},
    }


def _report_words(summary: "LiveSummary") -> str:
    return (
        f"{summary.sent:,} sent, {summary.report_bytes} bytes each; {summary.repeated} repeated "
        f"ones ignored, {summary.unopened} did not open, {summary.withheld_reports:,} withheld in "
        f"{_count_in_words(summary.withheld, 'hour')}."
    )


def _who_saw_what(summary: "LiveSummary") -> Iterator[tuple[str, str, str, str]]:
    yield "gateway", "all homes", "their own readings", "nothing"
    yield (
        "shuffler",
        "all homes",
        "none: opens the outer seal only",
        f"{summary.envelopes_left} sealed reports",
    )
    yield (
        "fusion centre",
        "nobody",
        "noisy, shuffled, k_min or more",
        f"{summary.values_left} noisy reports",
    )
    yield "subscriber", "nobody", "none: estimates alone", "-"


def _count_in_words(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _plain(value: Any) -> Any:
    """Return a value that JSON can write: it has no NaN."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
