"""``rase init``: make the folders of two servers and of a device, with keys, ready to run."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.accounting.ledger.limits import UNASKED_DAY_EPSILON, UNASKED_REPORT_EPSILON
from rase.cli.arguments import usage
from rase.cli.init_guide import advised_campaign, ask_missing
from rase.clock import SystemClock, parse_duration_s, round_number
from rase.device.settings import SCHEDULES
from rase.domain import Categories
from rase.errors import ConfigurationError
from rase.laws.registry import CHOICES, mechanisms_of

if TYPE_CHECKING:
    from rase.accounting.ledger.limits import OwnerLimits
    from rase.campaign import Campaign

__all__ = ["command"]

_DAY_S = 86_400
_K_MIN = 20
# What of its devices a round may lack before it is withheld.
_OF_DEVICES = 0.8
_SHUFFLED_EPSILON = 1.0
_WISHES = ("shuffled_epsilon", "delta", "colluding")


class _Above0(click.FloatRange):
    """A finite number above 0: click alone lets NaN pass."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


_ABOVE_0 = _Above0(min=0, min_open=True)


@click.command("init", short_help="Make the folders of the servers and a device, with keys.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--range",
    "value_range",
    type=(float, float),
    metavar="LOW HIGH",
    help="The public range of readings; asked for on a terminal.",
)
@click.option("--categories", help="States in the place of a range, with commas between them.")
@click.option(
    "--bound",
    "bounds",
    type=float,
    multiple=True,
    help="Devices report between which bounds a reading lies; may be repeated.",
)
@click.option("--labels", help="Public kinds of devices to answer for, with commas between them.")
@click.option(
    "--epsilon",
    type=float,
    multiple=True,
    help="Budget of one report, towards everybody. Up to four, each a class that owners may "
    "choose. Without it, the largest that --shuffled-epsilon allows within 4.5 a report and 8 a "
    "day.",
)
@click.option(
    "--shuffled-epsilon",
    type=_ABOVE_0,
    help="What one report may give away to the fusion centre; 1 unless --epsilon is given.",
)
@click.option("--delta", type=_ABOVE_0, help="Delta of --shuffled-epsilon; 1e-6.")
@click.option(
    "--colluding",
    type=click.IntRange(min=0),
    default=0,
    help="Reports of a round that may be of whoever looks (0).",
)
@click.option(
    "--devices",
    type=click.IntRange(min=2),
    help="How many devices there will be: k_min is then four fifths of a round's reports.",
)
@click.option("--campaign", "campaign_id", default="fleet", show_default=True, help="Its id.")
@click.option("--quantity", default="reading", show_default=True, help="What is measured.")
@click.option("--unit", default="", help="The unit of readings, e.g. W.")
@click.option(
    "--round",
    "round_",
    help="Length of a round; 1h, or 1d where --devices are too few for hours.",
)
@click.option("--upload", help="Time after a round in which reports are sent; 1/12 of a round.")
@click.option("--grace", help="Time after a round until it is closed; 1/6 of a round.")
@click.option("--k-min", type=int, help="Fewest released together; 20, or as --devices says.")
@click.option("--carry-rounds", type=int, default=0, help="Rounds a too small one waits (0: drop).")
@click.option(
    "--mechanism",
    type=click.Choice((*CHOICES, *mechanisms_of(Categories))),
    default="auto",
    show_default=True,
    metavar="NAME",
    help="How devices make reports noisy; auto writes down the best for a mean at this epsilon. "
    f"Others: {', '.join((*CHOICES[1:], *mechanisms_of(Categories)))}.",
)
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULES),
    default="rotate",
    show_default=True,
    help="When a device reports: in one round of each window, or in every round.",
)
@click.option(
    "--target",
    type=click.Choice(("reporters", "fleet")),
    help="Whose mean is answered: that of a round's reporters, or of all enrolled devices, the "
    "default where devices rotate.",
)
@click.option("--window", type=int, help="Rounds of a budget; those of a day.")
@click.option(
    "--window-budget",
    type=_ABOVE_0,
    help="Epsilon in a window; that of one report if devices rotate, else of one in every round.",
)
@click.option(
    "--owner-report",
    type=_ABOVE_0,
    help="Most that owners allow a report; the largest epsilon, at most 4.5.",
)
@click.option(
    "--owner-day",
    type=_ABOVE_0,
    help="Most that owners allow in a day; what the campaign asks for, at most 8.",
)
@click.option("--owner-ever", type=_ABOVE_0, help="Most that owners allow in all; that of 30 days.")
@click.option(
    "--accept-weak",
    is_flag=True,
    help="Accept more than 4.5 a report or 8 a day: hardly any protection if both servers work "
    "together.",
)
@click.option("--days", type=click.IntRange(min=1), default=365, help="Days it lasts (365).")
@click.option("--kem", type=click.Choice(("x25519", "x-wing")), default="x25519", help="Inner KEM.")
@click.option(
    "--shuffler-url",
    default="http://127.0.0.1:8701",
    show_default=True,
    help="Address of the shuffler.",
)
@click.option(
    "--fusion-url",
    default="http://127.0.0.1:8702",
    show_default=True,
    help="Address of the fusion centre.",
)
@click.option(
    "--registrar-url",
    default="http://127.0.0.1:8704",
    show_default=True,
    help="Address of the registrar, which gives devices their tokens.",
)
@click.option("--cache", default="1h", show_default=True, help="How long devices keep a keyset.")
@click.option("--keys-valid", default="365d", show_default=True, help="How long keys are used.")
def command(folder: Path, **options: Any) -> None:
    """Make the folders of the servers and a device, with keys.

    FOLDER gets settings and keys for a shuffler, a fusion centre, a registrar and a device. Nothing
    is overwritten. Then says what to run, in order. Without --range it asks, on a terminal: what is
    measured, how many devices there are, how private.
    """
    from rase.device.enrolment import settings_text
    from rase.service.allowance import Allowance
    from rase.service.installation import Plan, install, next_steps
    from rase.service.keyring import fingerprint

    now_s = int(SystemClock().now_s())
    options = ask_missing(options)
    campaign = advised_campaign(options, lambda asked: _campaign(now_s, **asked))
    owner = Allowance(
        report=options["owner_report"],
        day=options["owner_day"],
        ever=options["owner_ever"],
        accepts_weak=options["accept_weak"],
    ).limits(campaign)
    plan = Plan(
        campaign=campaign,
        shuffler_url=options["shuffler_url"].rstrip("/"),
        fusion_url=options["fusion_url"].rstrip("/"),
        registrar_url=options["registrar_url"].rstrip("/"),
        cache_s=_seconds("--cache", options["cache"]),
        keys_valid_s=_seconds("--keys-valid", options["keys_valid"]),
        takes_turns=options["schedule"] == "rotate",
    )

    def device_text(fusion_key: str, shuffler_key: str, registrar_key: str) -> str:
        return settings_text(
            shuffler=plan.shuffler_url,
            campaign=campaign.id,
            fusion_key=fusion_key,
            shuffler_key=shuffler_key,
            registrar=plan.registrar_url,
            registrar_key=registrar_key,
            report_epsilon=owner.report_epsilon,
            span_epsilon=owner.span_epsilon,
            total_epsilon=owner.total_epsilon,
            value_range=None if campaign.states else (campaign.low, campaign.high),
            least_k=campaign.k_min,
            schedule=options["schedule"],
            shuffled_epsilon=owner.shuffled_epsilon,
            span_shuffled_epsilon=owner.span_shuffled_epsilon,
            reads_states=bool(campaign.states) and not campaign.bounds,
        )

    made = install(folder, plan, now_s=now_s, device_text=device_text, device_file="device.toml")
    click.echo(
        f"made {folder}: shuffler, fusion, registrar, device; keys are for you only (0600).",
        err=True,
    )
    for keys in made.public:
        click.echo(f"{keys.role:<9} signs with {fingerprint(keys.signing_key)}", err=True)
    click.echo(f"registrar signs with {fingerprint(made.registrar)}", err=True)
    for line in (
        *_describe_demands(campaign, owner, plan.takes_turns),
        *_describe_promises(campaign, options),
    ):
        click.echo(line, err=True)
    click.echo(
        "All servers' keys are on this machine: good to try it, not for production, where two "
        "operators keep one half each (docs/guides/two-servers.md). Next:",
        err=True,
    )
    for line in next_steps(folder, plan):
        click.echo(line)


def _describe_demands(
    campaign: "Campaign", owner: "OwnerLimits", takes_turns: bool
) -> Iterator[str]:
    """Yield what devices will draw and spend, and what their owners allow."""
    from rase.theme.formatting import duration

    window_s = campaign.window * campaign.round_s
    when = "once" if takes_turns else "in every round while the budget lasts"
    span = "round" if campaign.window == 1 else f"{campaign.window} rounds"
    yield (
        f"Reports are drawn by the mechanism {campaign.mechanism}. In any {span} "
        f"({duration(window_s)}) a device reports {when} and spends at most epsilon "
        f"{campaign.window_budget:g}."
    )
    days = owner.total_epsilon / owner.span_epsilon
    lasting = "one such day" if days == 1 else f"{days:.3g} such days"
    yield (
        f"Its owner allows epsilon {owner.report_epsilon:g} a report, {owner.span_epsilon:g} a day "
        f"and {owner.total_epsilon:g} in all, which is {lasting}; then it falls silent "
        "until the owner changes [owner] in device.toml."
    )


def _describe_promises(campaign: "Campaign", options: dict[str, Any]) -> Iterator[str]:
    """Yield what is promised towards the fusion centre, and what that costs in error."""
    from rase.theme.promises import towards_fusion

    yield from towards_fusion(campaign)
    if campaign.shuffled_epsilon is None or campaign.delta is None or options["epsilon"]:
        return
    from rase.accounting.campaign_claims import fit_budget
    from rase.errors import PrivacyRefused
    from rase.fusion.mechanism import effect_of

    (effect,) = effect_of(campaign, campaign.k_min)
    if campaign.states is not None:
        yield (
            f"A round of {campaign.k_min} reports has a standard error of "
            f"{100 * effect.standard_error:.3g} points of a per cent for each share, at epsilon "
            f"{campaign.epsilon[0]:g} a report."
        )
        return
    share = 100 / campaign.domain.width
    unit = f" {campaign.unit}" if campaign.unit else ""
    words = (
        f"A round of {campaign.k_min} reports has a standard error of {effect.standard_error:.3g}"
        f"{unit} at most ({share * effect.standard_error:.3g} % of the range), at epsilon "
        f"{campaign.epsilon[0]:g} a report."
    )
    try:
        freely = fit_budget(
            replace(campaign, **_NO_PROMISE),
            shuffled_epsilon=campaign.shuffled_epsilon,
            delta=campaign.delta,
            colluding=campaign.colluding,
        )
    except PrivacyRefused:  # pragma: no cover - what holds with a limit holds without it
        yield words
        return
    (other,) = effect_of(freely, campaign.k_min)
    if other.standard_error >= 0.99 * effect.standard_error:
        yield f"{words} That is all the promise allows; the limits of owners cost nothing."
        return
    yield (
        f"{words} The limits of owners, 4.5 a report and 8 a day if both servers work together, "
        f"cost that: the promise alone would allow epsilon {freely.epsilon[0]:g} and an error of "
        f"{other.standard_error:.3g}{unit}. More is their choice and yours: --epsilon, "
        "--accept-weak, --owner-report, --owner-day."
    )


_NO_PROMISE: dict[str, Any] = {
    "shuffled_epsilon": None,
    "delta": None,
    "colluding": 0,
    "claims": (),
}


def _campaign(now_s: int, **options: Any) -> "Campaign":
    from rase.fusion.mechanism import campaign_of
    from rase.validation import CampaignInvalid

    round_s = _seconds("--round", options["round_"])
    upload, grace = options["upload"], options["grace"]
    grace_s = max(1, round_s // 6) if grace is None else _seconds("--grace", grace)
    upload_s = max(1, round_s // 12) if upload is None else _seconds("--upload", upload)
    epsilon = sorted(options["epsilon"])
    window = options["window"]
    takes_turns = options["schedule"] == "rotate"
    if window is None:
        window = max(1, _DAY_S // round_s)
    if (options["value_range"] is not None) + bool(options["categories"] or options["bounds"]) != 1:
        raise click.UsageError("give one of --range, --categories and --bound.")
    present = round_number(now_s, round_s)
    target = options["target"]
    if target is None:
        # Shares are of those who reported.
        is_number = options["value_range"] is not None
        target = _target(options["schedule"]) if is_number else "reporters"
    budget: dict[str, Any] = {"epsilon": epsilon or [1.0], "window_budget": 1.0}
    if epsilon:
        budget["window_budget"] = _window_budget(epsilon[-1], window, options)
        budget |= {name: options[name] for name in _WISHES if options[name]}
    elif not takes_turns:
        # As many reports of a placeholder of 1 as there are rounds; the budget is fitted below.
        budget["window_budget"] = float(window)
    try:
        campaign = campaign_of(
            {
                "id": options["campaign_id"],
                "version": 1,
                "quantity": options["quantity"],
                "unit": options["unit"],
                **_question(options),
                "mechanism": options["mechanism"],
                "window": window,
                **budget,
                "round_s": round_s,
                "upload_s": upload_s,
                "grace_s": grace_s,
                "k_min": _k_min(options, window if takes_turns else 1),
                "carry_rounds": options["carry_rounds"],
                "target": target,
                "not_before": present,
                "not_after": present + options["days"] * _DAY_S // round_s,
                "kem": options["kem"],
            }
        )
        return campaign if epsilon else _fit_budget(campaign, options)
    except CampaignInvalid as error:
        raise ConfigurationError(error.mistakes) from None


def _question(options: dict[str, Any]) -> dict[str, Any]:
    """Return what a reading may be, and which labels there are, as fields of a campaign."""
    found: dict[str, Any] = {}
    if options["value_range"] is not None:
        found["low"], found["high"] = options["value_range"]
    elif options["categories"]:
        found["categories"] = [name.strip() for name in options["categories"].split(",")]
    if options["bounds"]:
        found["bounds"] = sorted(options["bounds"])
    if options["labels"]:
        found["labels"] = [name.strip() for name in options["labels"].split(",")]
    return found


def _target(schedule: str) -> str:
    """Return whose mean is meant: where devices take turns, a round's reporters are a sample."""
    return "fleet" if schedule == "rotate" else "reporters"


def _k_min(options: dict[str, Any], turns: int) -> int:
    """Return the fewest reports of a round: as asked, or four fifths of those to be expected."""
    if options["k_min"] is not None:
        return int(options["k_min"])
    if options["devices"] is None:
        return _K_MIN
    return max(2, math.floor(_OF_DEVICES * int(options["devices"]) / turns))


def _fit_budget(base: "Campaign", options: dict[str, Any]) -> "Campaign":
    """Return the campaign with the largest budget that its promise and its owners allow."""
    from rase.accounting.campaign_claims import DEFAULT_DELTA, fit_budget, state_promise
    from rase.service.allowance import DAY_S

    asked = {
        "shuffled_epsilon": options["shuffled_epsilon"] or _SHUFFLED_EPSILON,
        "delta": options["delta"] or DEFAULT_DELTA,
        "colluding": options["colluding"],
    }
    if base.k_min - asked["colluding"] < 2:
        raise click.UsageError(
            f"--colluding must leave two honest reports of k_min {base.k_min}, "
            f"got {asked['colluding']}."
        )
    a_day = base.most_reports(math.ceil(DAY_S / base.round_s))
    a_window = base.most_reports(base.window)
    most = min(
        options["owner_report"] or UNASKED_REPORT_EPSILON,
        (options["owner_day"] or UNASKED_DAY_EPSILON) / a_day,
        (options["window_budget"] or math.inf) / a_window,
    )
    with usage():
        fitted = fit_budget(base, mechanism=options["mechanism"], most=most, **asked)
    return state_promise(fitted, **asked)


def _window_budget(epsilon: float, window: int, options: dict[str, Any]) -> float:
    if options["window_budget"] is not None:
        return float(options["window_budget"])
    if options["schedule"] == "rotate":
        return epsilon
    # A campaign asks no more of a device than its owner was said to allow.
    return min(window * epsilon, max(options["owner_day"] or math.inf, epsilon))


def _seconds(name: str, text: str) -> int:
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise click.UsageError(f"{name}: {error}") from None
