"""What the live demonstration prints: a line a round, then what became of all of them, in words."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rase.campaign import Campaign
    from rase.cli.demo.live import LiveRound, LiveSummary

__all__ = ["LIVE_HEAD", "live_document", "live_line", "opening_words", "summary_words"]

_FORM: Final = "{:<16}  {:>8}  {:>8}  {:>16}  {:>6}  {:>4}  {:>11}  {:>8}"
LIVE_HEAD: Final = _FORM.format(
    *("hour (UTC)", "estimate", "± error", "95 % interval", "truth", "n", "mean so far", "off by")
)
_SEEN: Final = "          {:<16}  {:<10}  {:<32}  {}"


def opening_words(
    campaign: "Campaign",
    *,
    devices: int,
    rounds: int,
    shuffler_url: str,
    fusion_url: str,
    login_url: str | None = None,
    token: str = "",
) -> Iterator[str]:
    """Yield what there is to know before the first round."""
    low, high = f"{campaign.low:g}", f"{campaign.high:g}"
    yield (
        f"live      {devices} enrolled devices, shuffler at {shuffler_url}, fusion centre at "
        f"{fusion_url}: this machine only, with keys made for this run."
    )
    yield (
        f"campaign  {campaign.id}, signed by both servers: {campaign.unit} from {low} to {high}, "
        f"epsilon {campaign.epsilon[0]:g} a report, at least {campaign.k_min} reports or nothing "
        "is told."
    )
    yield (
        f"clock     made up: {rounds} hourly rounds, each over as soon as all devices have sent; "
        "Ctrl-C ends it."
    )
    if login_url is not None:
        yield f"dashboard {login_url} opens once; afterwards log in at {fusion_url} with {token}"
    yield "truth     known only because the fleet is synthetic; nobody in the system ever sees it."
    yield ""


def live_line(one: "LiveRound") -> str:
    """Return the line of a round."""
    answer = one.answer
    return _FORM.format(
        answer.time[:16].replace("T", " "),
        answer.status if answer.value is None else f"{answer.value:.1f}",
        _number(answer.standard_error),
        _interval(answer.low, answer.high),
        f"{one.truth:.1f}",
        answer.n,
        _number(one.mean_so_far),
        _number(one.error_so_far, sign="+"),
    ).rstrip()


def summary_words(summary: "LiveSummary", *, unit: str) -> Iterator[str]:
    """Yield what became of all rounds."""
    yield ""
    yield (
        f"reports   {summary.sent} sent, each {summary.report_bytes} bytes: {summary.accepted} "
        f"accepted, {summary.repeated} duplicates ignored, {summary.late} too late and refused. Of "
        f"the accepted, {summary.unopened} did not open and {summary.withheld_reports} were "
        "withheld."
    )
    yield f"rounds    {summary.released} released, {summary.withheld} withheld as too_few."
    if summary.released:
        yield (
            f"error     root mean square {summary.rmse:.1f} {unit} against the truth; the "
            f"estimates said {summary.predicted:.1f} {unit}, and {summary.covered} of "
            f"{summary.released} intervals held the truth."
        )
        yield f"privacy   {summary.guarantee}"
    yield (
        f"budget    each device spent epsilon {summary.epsilon_spent:g} by its own ledger, for "
        "late and withheld reports too."
    )
    if summary.shuffle:
        yield f"shuffle   {summary.shuffle}."
    yield "who saw what"
    yield _SEEN.format("", "identity", "value", "left at the end")
    for line in _who_saw_what(summary):
        yield _SEEN.format(*line)
    yield (
        "          Here both servers are one process. In life two operators run them: together "
        "they could join identity and noisy value, and only the epsilon of a report would protect."
    )
    yield ""


def live_document(rounds: "list[LiveRound]", summary: "LiveSummary") -> dict[str, Any]:
    """Return the live part as plain values."""
    return {
        "rounds": [
            {
                **{
                    name: getattr(one.answer, name)
                    for name in ("time", "round", "status", "value", "standard_error")
                },
                "low": one.answer.low,
                "high": one.answer.high,
                "n": one.answer.n,
                "truth": one.truth,
                "mean_so_far": one.mean_so_far,
                "error_so_far": one.error_so_far,
                "mishap": one.mishap,
            }
            for one in rounds
        ],
        "summary": {
            # JSON has no NaN.
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(summary).items()
        },
    }


def _who_saw_what(summary: "LiveSummary") -> Iterator[tuple[str, str, str, str]]:
    yield "device", "its own", "its own reading", "ledger: spent, never a reading"
    yield (
        "shuffler",
        f"all {summary.devices}",
        "none: opens the outer seal only",
        f"{summary.envelopes_left} sealed reports",
    )
    yield (
        "fusion centre",
        "none",
        "noisy, shuffled, k_min or more",
        f"{summary.values_left} noisy reports",
    )
    yield "subscriber", "none", "none: estimates alone", "-"


def _number(value: float | None, *, sign: str = "-") -> str:
    return "-" if value is None else f"{value:{sign}.1f}"


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.0f} to {high:.0f}"
