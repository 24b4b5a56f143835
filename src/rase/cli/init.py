"""``rase init``: make the folders of two servers and of a device, with keys, ready to run."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.clock import SystemClock, parse_duration_s, round_number
from rase.errors import ConfigurationError

if TYPE_CHECKING:
    from rase.campaign import Campaign

__all__ = ["command"]

_DAY_S = 86_400
_OWNER_DAYS = 30
_MOST_EPSILON = 900_000.0  # rounds of seconds would ask for more than a ledger can count


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
@click.option("--window", type=int, default=24, show_default=True, help="Rounds of a budget.")
@click.option("--window-budget", type=float, help="Epsilon in a window; window times epsilon.")
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
    from rase.service.installation import Plan, install, next_steps
    from rase.service.keyring import fingerprint

    now_s = int(SystemClock().now_s())
    campaign = _campaign(now_s, **options)
    plan = Plan(
        campaign=campaign,
        shuffler_url=options["shuffler_url"].rstrip("/"),
        fusion_url=options["fusion_url"].rstrip("/"),
        cache_s=_seconds("--cache", options["cache"]),
        keys_valid_s=_seconds("--keys-valid", options["keys_valid"]),
    )
    # The owner's limits: what the campaign can spend, for a month; the owner may lower them.
    windows = -(-_DAY_S // (campaign.window * campaign.round_s))
    span_epsilon = min(windows * campaign.window_budget, _MOST_EPSILON)

    def device_text(fusion_key: str, shuffler_key: str) -> str:
        return settings_text(
            shuffler=plan.shuffler_url,
            campaign=campaign.id,
            fusion_key=fusion_key,
            shuffler_key=shuffler_key,
            report_epsilon=max(campaign.epsilon),
            span_epsilon=span_epsilon,
            total_epsilon=min(_OWNER_DAYS * span_epsilon, _MOST_EPSILON),
            value_range=(campaign.low, campaign.high),
            least_k=campaign.k_min,
        )

    made = install(folder, plan, now_s=now_s, device_text=device_text, device_file="device.toml")
    click.echo(f"made {folder}: shuffler, fusion, device; keys are for you only (0600).", err=True)
    for keys in made.public:
        click.echo(f"{keys.role:<9} signs with {fingerprint(keys.signing_key)}", err=True)
    click.echo(
        f"A device may spend epsilon {campaign.window_budget:g} in {campaign.window} rounds. Both "
        "servers' keys are on this machine: good to try it, not for production, where two "
        "operators keep one half each (docs/guides/two-servers.md). Next:",
        err=True,
    )
    for line in next_steps(folder, plan):
        click.echo(line)


def _campaign(now_s: int, **options: Any) -> "Campaign":
    from rase.campaign import Campaign
    from rase.mistakes import CampaignInvalid

    round_s = _seconds("--round", options["round_"])
    upload, grace = options["upload"], options["grace"]
    grace_s = max(1, round_s // 6) if grace is None else _seconds("--grace", grace)
    upload_s = max(1, round_s // 12) if upload is None else _seconds("--upload", upload)
    epsilon = sorted(options["epsilon"])
    budget = options["window_budget"]
    low, high = options["value_range"]
    present = round_number(now_s, round_s)
    try:
        return Campaign.from_fields(
            {
                "id": options["campaign_id"],
                "version": 1,
                "quantity": options["quantity"],
                "unit": options["unit"],
                "low": low,
                "high": high,
                "epsilon": epsilon,
                "window": options["window"],
                "window_budget": options["window"] * epsilon[-1] if budget is None else budget,
                "round_s": round_s,
                "upload_s": upload_s,
                "grace_s": grace_s,
                "k_min": options["k_min"],
                "carry_rounds": options["carry_rounds"],
                "not_before": present,
                "not_after": present + options["days"] * _DAY_S // round_s,
                "kem": options["kem"],
            }
        )
    except CampaignInvalid as error:
        raise ConfigurationError(error.mistakes) from None


def _seconds(name: str, text: str) -> int:
    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise click.UsageError(f"{name}: {error}") from None
