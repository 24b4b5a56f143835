"""``rase init``: make the folders of two servers and of a device, with keys, ready to run."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.clock import SystemClock, parse_duration_s, round_number
from rase.device.settings import SCHEDULES
from rase.errors import ConfigurationError
from rase.laws.registry import CHOICES

if TYPE_CHECKING:
    from rase.accounting.ledger.limits import OwnerLimits
    from rase.campaign import Campaign

__all__ = ["command"]

_DAY_S = 86_400
_ABOVE_0 = click.FloatRange(min=0, min_open=True)


@click.command("init", short_help="Make the folders of two servers and a device, with keys.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--range",
    "value_range",
    type=(float, float),
    metavar="LOW HIGH",
    required=True,
    help="The public range of readings.",
)
@click.option(
    "--epsilon",
    type=float,
    multiple=True,
    required=True,
    help="Budget of one report; no default. Up to four, each a class that owners may choose.",
)
@click.option("--campaign", "campaign_id", default="fleet", show_default=True, help="Its id.")
@click.option("--quantity", default="reading", show_default=True, help="What is measured.")
@click.option("--unit", default="", help="The unit of readings, e.g. W.")
@click.option("--round", "round_", default="1h", show_default=True, help="Length of a round.")
@click.option("--upload", help="Time after a round in which reports are sent; 1/12 of a round.")
@click.option("--grace", help="Time after a round until it is closed; 1/6 of a round.")
@click.option("--k-min", type=int, default=20, show_default=True, help="Fewest released together.")
@click.option("--carry-rounds", type=int, default=0, help="Rounds a too small one waits (0: drop).")
@click.option(
    "--mechanism",
    type=click.Choice(CHOICES),
    default="auto",
    show_default=True,
    help="How devices make reports noisy; auto writes down the best for a mean at this epsilon.",
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
    type=float,
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
    help="Accept more than 4.5 a report or 8 a day, which is hardly any protection.",
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
@click.option("--cache", default="1h", show_default=True, help="How long devices keep a keyset.")
@click.option("--keys-valid", default="365d", show_default=True, help="How long keys are used.")
def command(folder: Path, **options: Any) -> None:
    """Make the folders of two servers and a device, with keys.

    FOLDER gets settings and keys for a shuffler, a fusion centre and a device. Nothing is
    overwritten. Then says what to run, in order.
    """
    from rase.device.enrolment import settings_text
    from rase.service.allowance import Allowance
    from rase.service.installation import Plan, install, next_steps
    from rase.service.keyring import fingerprint

    now_s = int(SystemClock().now_s())
    campaign = _campaign(now_s, **options)
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
        cache_s=_seconds("--cache", options["cache"]),
        keys_valid_s=_seconds("--keys-valid", options["keys_valid"]),
        takes_turns=options["schedule"] == "rotate",
    )

    def device_text(fusion_key: str, shuffler_key: str) -> str:
        return settings_text(
            shuffler=plan.shuffler_url,
            campaign=campaign.id,
            fusion_key=fusion_key,
            shuffler_key=shuffler_key,
            report_epsilon=owner.report_epsilon,
            span_epsilon=owner.span_epsilon,
            total_epsilon=owner.total_epsilon,
            value_range=(campaign.low, campaign.high),
            least_k=campaign.k_min,
            schedule=options["schedule"],
        )

    made = install(folder, plan, now_s=now_s, device_text=device_text, device_file="device.toml")
    click.echo(f"made {folder}: shuffler, fusion, device; keys are for you only (0600).", err=True)
    for keys in made.public:
        click.echo(f"{keys.role:<9} signs with {fingerprint(keys.signing_key)}", err=True)
    for line in _asked(campaign, owner, plan.takes_turns):
        click.echo(line, err=True)
    click.echo(
        "Both servers' keys are on this machine: good to try it, not for production, where two "
        "operators keep one half each (docs/guides/two-servers.md). Next:",
        err=True,
    )
    for line in next_steps(folder, plan):
        click.echo(line)


def _asked(campaign: "Campaign", owner: "OwnerLimits", takes_turns: bool) -> Iterator[str]:
    """Yield what devices will draw and spend, and what their owners allow."""
    from rase.theme.formatting import duration

    window_s = campaign.window * campaign.round_s
    when = "once" if takes_turns else "in every round while the budget lasts"
    yield (
        f"Reports are drawn by the mechanism {campaign.mechanism}. In any {campaign.window} rounds "
        f"({duration(window_s)}) a device reports {when} and spends at most epsilon "
        f"{campaign.window_budget:g}."
    )
    days = owner.total_epsilon / owner.span_epsilon
    told = "one such day" if days == 1 else f"{days:.3g} such days"
    yield (
        f"Its owner allows epsilon {owner.report_epsilon:g} a report, {owner.span_epsilon:g} a day "
        f"and {owner.total_epsilon:g} in all, which is {told}; then it falls silent "
        "until the owner changes [owner] in device.toml."
    )


def _campaign(now_s: int, **options: Any) -> "Campaign":
    from rase.fusion.mechanism import campaign_of
    from rase.validation import CampaignInvalid

    round_s = _seconds("--round", options["round_"])
    upload, grace = options["upload"], options["grace"]
    grace_s = max(1, round_s // 6) if grace is None else _seconds("--grace", grace)
    upload_s = max(1, round_s // 12) if upload is None else _seconds("--upload", upload)
    epsilon = sorted(options["epsilon"])
    window = options["window"]
    if window is None:
        window = max(1, _DAY_S // round_s)
    low, high = options["value_range"]
    present = round_number(now_s, round_s)
    try:
        return campaign_of(
            {
                "id": options["campaign_id"],
                "version": 1,
                "quantity": options["quantity"],
                "unit": options["unit"],
                "low": low,
                "high": high,
                "epsilon": epsilon,
                "mechanism": options["mechanism"],
                "window": window,
                "window_budget": _window_budget(epsilon[-1], window, options),
                "round_s": round_s,
                "upload_s": upload_s,
                "grace_s": grace_s,
                "k_min": options["k_min"],
                "carry_rounds": options["carry_rounds"],
                "target": options["target"] or _target(options["schedule"]),
                "not_before": present,
                "not_after": present + options["days"] * _DAY_S // round_s,
                "kem": options["kem"],
            }
        )
    except CampaignInvalid as error:
        raise ConfigurationError(error.mistakes) from None


def _target(schedule: str) -> str:
    """Return whose mean is meant: where devices take turns, a round's reporters are a sample."""
    return "fleet" if schedule == "rotate" else "reporters"


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
