"""``rase fusion``: run the server that estimates, and say who may ask it."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.cli.acts import acts_command
from rase.cli.arguments import section_config
from rase.clock import SystemClock, parse_duration_s, time_in_words
from rase.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from rase.fusion.alarms import Alarms
    from rase.fusion.centre import FusionCentre
    from rase.fusion.settings import FusionSettings
    from rase.storage.interface import Database
    from rase.wire.keys import Keyset

__all__ = ["command", "fusion_config", "fusion_settings"]


fusion_config = section_config("fusion")


def fusion_settings(config: Path, **flags: Any) -> "FusionSettings":
    """Read the settings of the fusion centre; what was typed overrules the file."""
    from rase.fusion.settings import FusionSettings
    from rase.service.settings import load_settings

    return load_settings(FusionSettings, "fusion", path=config, flags=flags)


@click.group("fusion", short_help="Run the server that estimates.")
def command() -> None:
    """Run the server that estimates.

    It reads noisy values and never knows whose they are.
    """


@command.command("run")
@fusion_config
@click.option("--host", help="Address to listen on; overrules the settings.")
@click.option("--port", type=int, help="Port to listen on, 0 for any free one.")
def run(config: Path, host: str | None, port: int | None) -> None:
    """Take batches in, estimate rounds and answer subscribers, until asked to stop."""
    settings = fusion_settings(config, host=host, port=port)
    from rase.cli.pages import with_dashboard
    from rase.fusion.app import fusion_app
    from rase.fusion.program import open_centre
    from rase.service.http import serve
    from rase.service.tracing import send_spans

    clock = SystemClock()
    with (
        open_centre(settings, clock) as centre,
        send_spans(centre.telemetry, settings.traces, process="fusion"),
    ):
        app: ASGIApp = fusion_app(centre, background=_background_of(settings, centre))
        if settings.dashboard:
            try:
                app, _ = with_dashboard(app, clock, database=centre.database)
            except ModuleNotFoundError as error:
                centre.telemetry.event("dashboard_left_out", part=str(error.name))
        serve(
            app,
            host=settings.host,
            port=settings.port,
            telemetry=centre.telemetry,
            limits=settings.limits,
        )


def _background_of(
    settings: "FusionSettings", centre: "FusionCentre"
) -> Callable[[], AbstractAsyncContextManager[None]]:
    parts: list[Callable[[], AbstractAsyncContextManager[None]]] = []
    if settings.mqtt is not None:
        from rase.fusion.mqtt import publishing
        from rase.transport.broker import Broker

        # A mistake is reported before anything is served.
        Broker.of(settings.mqtt)
        parts.append(partial(publishing, centre, settings.mqtt))
    if centre.alarms is not None:
        from rase.fusion.alarms import watching

        parts.append(partial(watching, centre, centre.alarms))

    @asynccontextmanager
    async def all_of() -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for part in parts:
                await stack.enter_async_context(part())
            yield

    return all_of


@command.group("alarms", short_help="Show alarms and what they said, and try them.")
def alarms() -> None:
    """Show alarms and what they said, and try them. They are tables of the settings."""


@alarms.command("list")
@fusion_config
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def list_alarms(config: Path, as_json: bool) -> None:
    """Show how each alarm stands, its false alarms, and how soon it notices a shift of a tenth."""
    with _alarms_of(config) as found:
        known = found.status()
    if as_json:
        document = {"schema": "rase/alarms/1", "alarms": [asdict(one) for one in known]}
        click.echo(json.dumps(document))
        return
    for one in known:
        if one.problem is not None:
            click.echo(f"{one.alarm:<24} {one.state:<8} {one.problem}")
            continue
        soon = "not known yet"
        if one.shift is not None:
            rounds = one.detection_rounds
            soon = "not noticed" if rounds is None else f"noticed in {rounds} rounds"
            soon = f"a shift of {one.shift:.4g} is {soon}"
        click.echo(
            f"{one.alarm:<24} {one.state:<8} {one.campaign}, {one.kind} {one.level:g}; at most "
            f"{one.false_alarms_per_month:g} false alarms a month; {soon}"
        )


@alarms.command("history")
@fusion_config
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="How many changes to show.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def alarm_history(config: Path, *, count: int, as_json: bool) -> None:
    """Show when alarms were raised and became quiet again, newest first."""
    with _alarms_of(config) as found:
        events = found.history(count)
    if as_json:
        document = {"schema": "rase/alarm-history/1", "events": [asdict(one) for one in events]}
        click.echo(json.dumps(document))
        return
    for one in events:
        click.echo(
            f"{one.time}  {one.alarm:<24} {one.state:<8} {one.value:.6g} ± {one.standard_error:.2g}"
        )


@alarms.command("test")
@click.argument("name")
@fusion_config
def test_alarm(name: str, config: Path) -> None:
    """Send a test event of the alarm NAME to its webhook, and to the broker of estimates."""
    settings = fusion_settings(config)
    with _alarms_of(config) as found:
        if name not in found.names:
            known = ", ".join(found.names) or "none"
            raise click.UsageError(f"NAME must be one of the alarms, {known}; got {name!r}.")
        problem = found.problem(name)
        if problem is not None:
            raise click.UsageError(problem)
        webhook, event = found.settings(name).webhook, found.test_event(name)
    if webhook is None and settings.mqtt is None:
        raise click.UsageError(
            f"the alarm {name} has no webhook, and there is no fusion.mqtt; give it one of both."
        )
    mistakes: list[str] = []
    if webhook is not None:
        import httpx

        from rase.fusion.alarms import post_event

        try:
            post_event(webhook, event)
        except httpx.HTTPError as error:
            mistakes.append(
                f"fusion.alarms: the webhook of {name} did not take it: {type(error).__name__}."
            )
        else:
            click.echo(f"the webhook of {name} took a test event.", err=True)
    if settings.mqtt is not None:
        from rase.fusion.mqtt import send_test_event

        try:
            send_test_event(settings.mqtt, event)
        except ConfigurationError as error:
            mistakes += error.mistakes
        else:
            click.echo(f"the broker took a test event of {name}.", err=True)
    if mistakes:
        raise ConfigurationError(mistakes)


@contextmanager
def _alarms_of(config: Path) -> "Iterator[Alarms]":
    from rase.fusion.alarms import Alarms
    from rase.fusion.query import Questions
    from rase.storage.opening import open_database

    settings = fusion_settings(config)
    database = open_database(settings.database, migrations="fusion")
    try:
        yield Alarms(database, Questions(database), settings.alarms)
    finally:
        database.close()


@command.command("publish-keys")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@fusion_config
def publish_keys(file: Path, config: Path) -> None:
    """Publish the public keys of both servers, countersigned by the shuffler.

    A running fusion centre must hold all of its keys in the file; it reads new ones by itself.

    FILE is JSON: version, cache_s, and configs, each with role, id, public_key (hex),
    not_before_s, not_after_s, and kem and aead if they are not the default.
    """
    settings = fusion_settings(config)
    from rase.fusion.held_keys import wait_until_held
    from rase.fusion.program import open_publisher

    keyset, clock = _keyset(file), SystemClock()
    with open_publisher(settings, clock) as (publisher, questions):
        wait_until_held(questions.database, keyset, settings=settings, clock=clock)
        try:
            publisher.publish_keyset(keyset)
        except ValueError as error:
            raise click.UsageError(f"{file.name}: {error}") from None
    click.echo(f"published keyset {keyset.version}", err=True)


@command.group("subscribers")
def subscribers() -> None:
    """Say who may ask."""


@subscribers.command("add")
@click.argument("name")
@fusion_config
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    default=("read:estimates",),
    show_default=True,
    help="read:estimates or admin:campaign; may be repeated.",
)
@click.option("--valid", help="How long the token is valid, as 12h or 90d; for ever if not given.")
def add(name: str, config: Path, scopes: tuple[str, ...], valid: str | None) -> None:
    """Make a subscriber and print the token, which is shown only now."""
    from rase.fusion.subscribers import add_subscriber

    with _open_database(config) as database:
        try:
            expires_s = None
            if valid is not None:
                expires_s = int(SystemClock().now_s()) + parse_duration_s(valid)
            token = add_subscriber(
                database,
                name,
                scopes=scopes,
                expires_s=expires_s,
                made_s=int(SystemClock().now_s()),
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    click.echo(token)


@subscribers.command("list")
@fusion_config
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def list_(config: Path, as_json: bool) -> None:
    """Show who may ask, and who no longer may."""
    from rase.fusion.subscribers import list_subscribers

    with _open_database(config) as database:
        found = list_subscribers(database)
    if as_json:
        rows = [asdict(one) for one in found]
        click.echo(json.dumps({"schema": "rase/subscribers/1", "subscribers": rows}))
        return
    for one in found:
        state = "valid"
        if one.revoked_s is not None:
            state = f"revoked {time_in_words(one.revoked_s)}"
        elif one.expires_s is not None:
            state = f"until {time_in_words(one.expires_s)}"
        click.echo(f"{one.name}  {' '.join(one.scopes)}  {state}")


@subscribers.command("revoke")
@click.argument("name")
@fusion_config
def revoke(name: str, config: Path) -> None:
    """Take a token back, at once."""
    from rase.fusion.subscribers import revoke_subscriber

    with _open_database(config) as database:
        try:
            revoke_subscriber(database, SystemClock(), name=name)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    click.echo(f"revoked {name}", err=True)


@command.command("access-log")
@fusion_config
@click.option("--subscriber", help="Only of this subscriber.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, help="How many (100).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def access_log(config: Path, subscriber: str | None, limit: int, as_json: bool) -> None:
    """Show who asked what, newest last."""
    from rase.fusion.subscribers import list_access

    with _open_database(config) as database:
        found = list_access(database, subscriber=subscriber, limit=limit)
    if as_json:
        rows = [asdict(one) for one in found]
        click.echo(json.dumps({"schema": "rase/access-log/1", "accesses": rows}))
        return
    for one in found:
        click.echo(f"{time_in_words(one.time_s)}  {one.subscriber}  {one.question}  {one.answer}")


@contextmanager
def _open_database(config: Path) -> "Iterator[Database]":
    from rase.storage.opening import open_database

    database = open_database(fusion_settings(config).database, migrations="fusion")
    try:
        yield database
    finally:
        database.close()


def _keyset(file: Path) -> "Keyset":
    from rase.service.keyring import read_keyset

    try:
        return read_keyset(file)
    except ConfigurationError as error:
        # An argument, not a setting.
        raise click.UsageError(str(error)) from None


command.add_command(acts_command("fusion", _open_database))
