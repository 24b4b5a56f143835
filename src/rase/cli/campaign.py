"""``rase campaign``: publish what a fleet agrees to, change it for rounds to come, show it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.campaign import TARGETS, Campaign
from rase.cli.fusion import fusion_config, fusion_settings
from rase.clock import SystemClock, round_number, round_start_s, time_in_words
from rase.errors import ConfigurationError
from rase.toml import parse_toml
from rase.validation import CampaignInvalid

if TYPE_CHECKING:
    from rase.counts.ranges import RangeAdvice
    from rase.fusion.campaigns import Publisher
    from rase.fusion.mechanism import Effect
    from rase.wire.signed import SignedCampaign

__all__ = ["command"]

# Devices keep a campaign for some time; a version for the very next round would miss many.
_ROUNDS_AHEAD = 2


@click.group("campaign", short_help="Publish, change and show what a fleet agrees to.")
def command() -> None:
    """Publish, change and show what a fleet agrees to."""


@command.command("publish")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@fusion_config
def publish(file: Path, config: Path) -> None:
    """Publish the campaign in FILE (TOML), countersigned by the shuffler."""
    campaign = _read(file)
    settings = fusion_settings(config)
    from rase.fusion.program import open_publisher

    with open_publisher(settings, SystemClock()) as (publisher, _):
        signed = _publish(publisher, campaign, is_sure=True)
    click.echo(signed.hash.hex())


@command.command("update")
@click.argument("campaign_id", metavar="[CAMPAIGN]", required=False)
@fusion_config
@click.option("--beta", type=float, help="Half-width of the precision interval.")
@click.option("--rho", type=float, help="Probability of meeting it.")
@click.option("--epsilon", type=float, multiple=True, help="Budget of a report; may be repeated.")
@click.option("--low", type=float, help="Lower end of the range.")
@click.option("--high", type=float, help="Upper end of the range.")
@click.option("--probe-every", type=int, help="Probe in every so-many-th round; 0 for never.")
@click.option(
    "--target",
    type=click.Choice(TARGETS),
    help="Whose mean is answered: that of a round's reporters, or of all enrolled devices.",
)
@click.option("--k-min", type=int, help="Fewest reports released together; may only rise.")
@click.option("--window-budget", type=float, help="Epsilon in a window; may only fall.")
@click.option(
    "--shuffled-epsilon", type=float, help="What a report gives the fusion centre; may only fall."
)
@click.option("--delta", type=float, help="Delta of --shuffled-epsilon; may only fall.")
@click.option("--colluding", type=int, help="Reports of a round of whoever looks; may only rise.")
@click.option("--from-round", type=int, help="First round of the new version; two rounds ahead.")
@click.option("--last-round", type=int, help="Last round of the new version; as it is.")
@click.option("--reports", type=click.IntRange(min=1), help="Reports a round to assume.")
@click.option("--dry-run", is_flag=True, help="Show the effect and publish nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def update(
    campaign_id: str | None,
    config: Path,
    *,
    from_round: int | None,
    last_round: int | None,
    reports: int | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Publish new parameters for rounds to come, after showing their effect.

    The error shown is that of the unbiased mean, computed from the mechanism, not measured.
    """
    settings = fusion_settings(config)
    from rase.fusion.mechanism import effect_of
    from rase.fusion.probes import range_status
    from rase.fusion.program import open_publisher

    clock = SystemClock()
    changes = {name: value for name, value in asked.items() if value not in (None, ())}
    if last_round is not None:
        changes["not_after"] = last_round
    if not changes:
        raise click.UsageError("nothing changes; give --beta, --rho, --epsilon or another field.")
    with open_publisher(settings, clock) as (publisher, questions):
        now = questions.campaign(campaign_id)
        present = round_number(int(clock.now_s()), now.round_s)
        if from_round is None:
            from_round = max(present + _ROUNDS_AHEAD, now.not_before + 1)
        then = _successor(now, from_round, present=present, **changes)
        n = questions.recent_n(now) if reports is None else reports
        effects = {"now": effect_of(now, n), "then": effect_of(then, n)}
        clipping = None
        if then.domain != now.domain:
            clipping = range_status(questions.database, then, n=n).advice
        _show_effect(
            now, then, effects, clipping=clipping, as_json=as_json, is_published=not dry_run
        )
        if not dry_run:
            _publish(publisher, then, is_sure=yes)


@command.command("range")
@click.argument("campaign_id", metavar="[CAMPAIGN]", required=False)
@fusion_config
@click.option("--low", type=float, help="Lowest end to recommend; the lowest that was probed.")
@click.option("--high", type=float, help="Highest end to recommend; the highest that was probed.")
@click.option("--reports", type=click.IntRange(min=1), help="Reports a round to assume.")
@click.option("--publish", is_flag=True, help="Publish the recommended range as next version.")
@click.option("--from-round", type=int, help="First round of the new version; two rounds ahead.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def range_(
    campaign_id: str | None,
    config: Path,
    *,
    low: float | None,
    high: float | None,
    reports: int | None,
    publish: bool,
    from_round: int | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Recommend a range from probing rounds, and publish it if asked to.

    Probing rounds are those of --probe-every; eight are needed. Devices refuse a range beyond their
    owner's limits.
    """
    settings = fusion_settings(config)
    from rase.domain import Range
    from rase.fusion.probes import FEWEST_PROBES, range_status
    from rase.fusion.program import open_publisher

    clock = SystemClock()
    with open_publisher(settings, clock) as (publisher, questions):
        now = questions.campaign(campaign_id)
        n = questions.recent_n(now) if reports is None else reports
        limits = None
        if low is not None or high is not None:
            try:
                limits = Range(now.low if low is None else low, now.high if high is None else high)
            except ValueError as error:
                raise click.UsageError(str(error)) from None
        status = range_status(questions.database, now, n=n, limits=limits)
        advice = status.advice
        if as_json:
            click.echo(json.dumps({"schema": "rase/range/1", **status.as_fields()}))
        elif advice is None:
            click.echo(
                f"{now.id}: {status.probes} of {FEWEST_PROBES} probing rounds; no range yet."
                + ("" if now.probe_every else " Probe with rase campaign update --probe-every 4.")
            )
        else:
            click.echo(f"{now.id}: {now.low:g} to {now.high:g} {now.unit}, {status.probes} probes")
            click.echo(str(advice))
            if not status.is_worthwhile:
                click.echo("The present range is as good.")
        if not publish:
            return
        if advice is None:
            raise click.UsageError("--publish needs a recommended range; there is none yet.")
        present = round_number(int(clock.now_s()), now.round_s)
        first = max(present + _ROUNDS_AHEAD, now.not_before + 1)
        first = first if from_round is None else from_round
        then = _successor(
            now, first, present=present, low=advice.recommended.low, high=advice.recommended.high
        )
        _publish(publisher, then, is_sure=yes)


@command.command("show")
@click.argument("campaign_id", metavar="[CAMPAIGN]", required=False)
@fusion_config
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def show(campaign_id: str | None, config: Path, as_json: bool) -> None:
    """Show the newest version of a campaign and what it promises."""
    from rase.fusion.query import Questions
    from rase.privacy import LocalDP
    from rase.storage.opening import open_database
    from rase.theme.promises import towards_fusion
    from rase.wire.signed import campaign_hash

    database = open_database(fusion_settings(config).database, migrations="fusion")
    try:
        campaign = Questions(database).campaign(campaign_id)
    finally:
        database.close()
    promise, promises = str(LocalDP(campaign.epsilon[-1])), list(towards_fusion(campaign))
    # Whose mean is answered is always shown, also where the signed fields leave the default out.
    fields = {**campaign.as_fields(), "target": campaign.target}
    if as_json:
        document = {
            "schema": "rase/campaign/1",
            **fields,
            "hash": campaign_hash(campaign).hex(),
            "guarantee": promise,
            **({"promises": promises} if promises else {}),
        }
        click.echo(json.dumps(document))
        return
    # The table is for programs; its sentences are below.
    fields.pop("claims", None)
    for name, value in fields.items():
        click.echo(f"{name:<14} {value}")
    click.echo(f"{'hash':<14} {campaign_hash(campaign).hex()}")
    click.echo(f"{'guarantee':<14} {promise}")
    for sentence in promises:
        click.echo(f"{'promise':<14} {sentence}")


def _successor(now: Campaign, first: int, *, present: int, **changes: Any) -> Campaign:
    """Return the next version from a round on, if it may follow."""
    from rase.fusion.campaigns import next_version

    try:
        then = next_version(now, not_before=first, **changes)
        then.check_succeeds(now, from_round=present + 1)
    except CampaignInvalid as error:
        raise ConfigurationError(error.mistakes) from None
    return then


def _publish(publisher: "Publisher", campaign: Campaign, *, is_sure: bool) -> "SignedCampaign":
    """Publish a campaign, after asking unless that was done; say so."""
    if not is_sure:
        click.confirm("Publish?", abort=True, err=True)
    try:
        signed = publisher.publish(campaign)
    except CampaignInvalid as error:
        # While somebody thought about the answer, its first round may have begun.
        raise ConfigurationError(error.mistakes) from None
    click.echo(f"published {campaign.id} version {campaign.version}", err=True)
    return signed


def _show_effect(
    now: Campaign,
    then: Campaign,
    effects: "dict[str, list[Effect]]",
    *,
    clipping: "RangeAdvice | None",
    as_json: bool,
    is_published: bool,
) -> None:
    from dataclasses import asdict

    from rase.device.consent import needs_consent
    from rase.fusion.probes import outlook_fields

    begin = time_in_words(round_start_s(then.not_before, then.round_s))
    if as_json:
        document = {
            "schema": "rase/campaign-effect/1",
            "campaign": now.id,
            "not_before": then.not_before,
            "time": begin,
            "needs_consent": needs_consent(then, now),
            "range": {"now": [now.low, now.high], "then": [then.low, then.high]},
            "clipping": None if clipping is None else outlook_fields(clipping.present),
            **{name: [asdict(one) for one in found] for name, found in effects.items()},
        }
        click.echo(json.dumps(document))
        return
    click.echo(f"version {then.version} from {begin} (round {then.not_before})")
    _show_range(now, then, clipping)
    for word, campaign, found in (
        ("now", now, effects["now"]),
        ("then", then, effects["then"]),
    ):
        for one in found:
            clamps = {None: "", True: ", clamped", False: ", not clamped"}[one.is_clamping]
            click.echo(
                f"{word:<5} beta {campaign.beta:g}, rho {campaign.rho:g}, epsilon {one.epsilon:g}"
                f"{clamps}: standard error {one.best_standard_error:.4g} to "
                f"{one.standard_error:.4g} {campaign.unit} with {one.n} reports"
            )
    if needs_consent(then, now):
        click.echo(
            "owners agreed to less: their devices take no part in this version until "
            "owner.epsilon_may_rise is set on them."
        )
    if not is_published:
        click.echo("nothing was published.", err=True)


def _show_range(now: Campaign, then: Campaign, clipping: "RangeAdvice | None") -> None:
    """Show how the range changes, and what clipping to it does, as far as that is known."""
    if then.domain == now.domain:
        click.echo(f"range {now.low:g} to {now.high:g} {now.unit}, as before")
        return
    click.echo(
        f"range {now.low:g} to {now.high:g} {now.unit} now, {then.low:g} to {then.high:g} then"
    )
    if then.low <= now.low and then.high >= now.high:
        return
    ends = f"readings outside {then.low:g} to {then.high:g} are reported as its ends"
    if clipping is None:
        click.echo(
            f"clip  {ends}; how far that moves the mean is not known. Probe first: "
            "rase campaign update --probe-every 4, then rase campaign range."
        )
    else:
        low, high = clipping.limits
        click.echo(
            f"clip  {ends}; this adds {clipping.present.clipping_in_words} {now.unit} to the mean, "
            f"counting readings of {low:g} to {high:g}"
        )


def _read(file: Path) -> Campaign:
    from rase.fusion.mechanism import campaign_of

    try:
        values = parse_toml(file.read_bytes())
    except ValueError as error:
        raise ConfigurationError([f"{file.name} is not TOML: {error}."]) from None
    try:
        return campaign_of(values.get("campaign", values))
    except CampaignInvalid as error:
        raise ConfigurationError(error.mistakes) from None
