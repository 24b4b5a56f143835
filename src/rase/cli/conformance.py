"""``rase conformance``: servers to try a device in another language against, and its law.

The servers are the real ones, with keys to throw away, on this machine alone. What a device sends
is looked into with their private keys, so every refusal comes with its reason; no server of a real
installation can do that, and none of this runs in one.
"""

import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rase.cli.conformance_law import NotConforming, check, law, law_fields, law_options
from rase.clock import Clock, SystemClock, parse_duration_s, round_number
from rase.errors import WireError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from rase.campaign import Campaign
    from rase.cli.demo.servers import Servers
    from rase.laws.randomizer import Randomizer

__all__ = ["Exchange", "Findings", "Inspector", "campaign_for", "command", "law_fields"]

_REPORTS: Final = "/v1/reports"
_LONGEST: Final = 1 << 22
_WINDOW: Final = 4
_LEAD_S: Final = 20
# A device under test may be slow, or its machine.
_GRACE_ROUNDS: Final = 4
_LOOK_S: Final = 0.2
# Rounds that devices may miss; each window needs a key, which takes a moment to make.
_SPARE: Final = 20


@click.group("conformance", short_help="Try a device that is written in another language.")
def command() -> None:
    """Try a device that is written in another language.

    docs/reference/specification.md says what it must do.
    """


command.add_command(law)
command.add_command(check)


@command.command("serve")
@law_options
@click.option("--round", "every", default="5s", show_default=True, help="Length of a round.")
@click.option("--devices", type=click.IntRange(2, 1000), default=2, help="How many devices (2).")
@click.option("--rounds", type=click.IntRange(1), default=2, help="Final rounds to wait for (2).")
@click.option("--patience", default="5min", show_default=True, help="How long to wait at most.")
@click.option(
    "--kit",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("kit.json"),
    show_default=True,
    help="Written here: addresses, keys, tokens, approvals and the law.",
)
@click.option("--json", "as_json", is_flag=True, help="A JSON document a line.")
def serve(
    *,
    randomizer: "Randomizer",
    every: str,
    devices: int,
    rounds: int,
    patience: str,
    kit: Path,
    as_json: bool,
) -> None:
    """Run servers for devices to be tried, and say of each request what was wrong with it.

    Writes the kit, waits until enough rounds are final, and ends with 0 if nothing was wrong. The
    devices enrol with the kit's tokens and approvals and send real reports; the first round begins
    about 20 seconds after the start.

    Example: rase conformance serve --devices 2 --rounds 2 --kit kit.json
    """
    try:
        round_s, patience_s = parse_duration_s(every), parse_duration_s(patience)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if round_s < 2:
        raise click.UsageError("--round must be at least 2s.")
    law = law_fields(randomizer)
    findings = Findings(as_json=as_json)
    campaign = campaign_for(randomizer, round_s=round_s, rounds=rounds, now_s=SystemClock().now_s())
    with tempfile.TemporaryDirectory(prefix="rase-conformance-") as folder:
        final = _serve(
            Path(folder),
            findings,
            campaign=campaign,
            law=law,
            kit=kit,
            devices=devices,
            rounds=rounds,
            patience_s=patience_s,
        )
    findings.say(
        "end", f"{final} rounds final, {findings.right} reports right, {findings.wrong} findings."
    )
    if findings.wrong or final < rounds:
        raise NotConforming(
            f"{findings.wrong} findings, {final} of {rounds} rounds became final: see above."
        )


class Findings:
    """Say what was right and wrong, a line each, from whichever thread."""

    def __init__(self, *, as_json: bool) -> None:
        self.right = self.wrong = 0
        self._as_json = as_json
        self._lock = threading.Lock()

    def say(self, kind: str, text: str) -> None:
        """Print a line; kinds are ok, wrong, and others that count as neither."""
        with self._lock:
            self.right += kind == "ok"
            self.wrong += kind == "wrong"
            line = json.dumps({"kind": kind, "text": text}) if self._as_json else f"{kind}: {text}"
            click.echo(line)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer."""

    server: str
    method: str
    path: str
    authorization: bytes
    body: bytes
    status: int
    answer: bytes


def _watch_app(server: str, app: "ASGIApp", note: Callable[[Exchange], None]) -> "ASGIApp":
    """Return an app that also hands every exchange on, after it was answered."""

    async def handle_request(scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        asked, answered, status = bytearray(), bytearray(), 0

        async def hear() -> "Message":
            message = await receive()
            asked.extend(message.get("body", b"")[: _LONGEST - len(asked)])
            return message

        async def speak(message: "Message") -> None:
            nonlocal status
            status = message.get("status", status)
            answered.extend(message.get("body", b"")[: _LONGEST - len(answered)])
            await send(message)

        await app(scope, hear, speak)
        headers = dict(scope["headers"])
        note(
            Exchange(
                server,
                scope["method"],
                scope["path"],
                headers.get(b"authorization", b""),
                bytes(asked),
                status,
                bytes(answered),
            )
        )

    return handle_request


def _serve(
    folder: Path,
    findings: Findings,
    *,
    campaign: "Campaign",
    law: Mapping[str, Any],
    kit: Path,
    devices: int,
    rounds: int,
    patience_s: float,
) -> int:
    """Run the servers until enough rounds are final; return how many are."""
    from rase.cli.demo.servers import running_servers

    clock = SystemClock()
    waiting: list[Exchange] = []
    more = threading.Event()

    def note(exchange: Exchange) -> None:
        # The servers themselves only get and put documents; they are right.
        if exchange.method == "POST" or exchange.status >= 400:
            waiting.append(exchange)
            more.set()

    with running_servers(
        folder,
        clock,
        campaign=campaign,
        watch=lambda name, app: _watch_app(name, app, note),
    ) as servers:
        _write_kit(kit, servers, campaign, law=law, devices=devices)
        findings.say("ready", f"wrote {kit}; round {campaign.not_before} is the first.")
        inspector = Inspector(servers, campaign, findings, clock)
        final: set[int] = set()
        until = clock.monotonic_s() + patience_s
        while clock.monotonic_s() < until and len(final) < rounds:
            servers.upkeep.step()
            while servers.closer.step():
                pass
            while waiting:
                inspector.look(waiting.pop(0))
            for number in _final_rounds(servers):
                if number not in final:
                    final.add(number)
                    findings.say("final", f"round {number} is final.")
            more.wait(_LOOK_S)
            more.clear()
        return len(final)


def _final_rounds(servers: "Servers") -> Iterator[int]:
    from rase.wire.keys import Role

    with servers.databases[Role.FUSION].snapshot() as transaction:
        rows = transaction.execute("SELECT round FROM rounds WHERE state = 'final' ORDER BY round")
    for (round,) in rows:
        yield round


def campaign_for(
    randomizer: "Randomizer", *, round_s: int, rounds: int, now_s: float
) -> "Campaign":
    """Return what the devices under test take part in.

    Args:
        randomizer: How they randomize.
        round_s: The length of a round.
        rounds: How many rounds are waited for.
        now_s: The time; the first round begins some twenty seconds later.
    """
    from rase.campaign import Campaign
    from rase.domain import Categories

    domain, epsilon = randomizer.domain, randomizer.budgets[-1]
    first = round_number(int(now_s) + _LEAD_S, round_s) + 1
    # Windows end at multiples of their length, so the first begins with the campaign.
    first = -(-first // _WINDOW) * _WINDOW
    asked: dict[str, Any]
    if isinstance(domain, Categories):
        asked = {"categories": domain.names, "low": 0, "high": domain.steps, "steps": domain.steps}
        asked["estimators"] = ("shares",)
    else:
        asked = {"low": domain.low, "high": domain.high, "steps": domain.steps}
        asked["estimators"] = ("unbiased_mean",)
    return Campaign(
        id="conformance",
        version=1,
        quantity="a reading of the device under test",
        unit="",
        mechanism=randomizer.name,
        epsilon=(epsilon,),
        window=_WINDOW,
        window_budget=_WINDOW * epsilon,
        round_s=round_s,
        upload_s=1,
        grace_s=_GRACE_ROUNDS * round_s,
        k_min=2,
        not_before=first,
        not_after=first + _WINDOW * -(-(rounds + _SPARE) // _WINDOW) - 1,
        **asked,
    )


def _write_kit(
    file: Path,
    servers: "Servers",
    campaign: "Campaign",
    *,
    law: Mapping[str, Any],
    devices: int,
) -> None:
    from rase.atomic_files import replacing
    from rase.shuffler.enrolment import make_tokens
    from rase.wire.keys import Role

    expires_s = int(SystemClock().now_s()) + 86400
    document = {
        "schema": "rase/conformance-kit/1",
        "shuffler": servers.shuffler_url,
        "registrar": servers.registrar_url,
        "campaign": campaign.id,
        "fusion_key": servers.pinned.fusion.hex(),
        "shuffler_key": servers.pinned.shuffler.hex(),
        "registrar_key": servers.pinned.registrar.hex(),
        "tokens": list(make_tokens(servers.databases[Role.SHUFFLER], devices, expires_s=expires_s)),
        "approvals": list(servers.approve(devices, expires_s)),
        "law": law,
    }
    with replacing(file) as out:
        out.write(json.dumps(document, indent=1).encode())


class Inspector:
    """Look into what devices sent, with the private keys of both servers.

    Args:
        servers: The servers.
        campaign: Their campaign.
        findings: Where it is said.
        clock: The servers' time.
    """

    def __init__(
        self, servers: "Servers", campaign: "Campaign", findings: Findings, clock: Clock
    ) -> None:
        from rase.shuffler.enrolment import Authenticator
        from rase.wire.keys import Role

        self._servers, self._campaign, self._findings = servers, campaign, findings
        self._clock = clock
        self._senders = Authenticator(servers.databases[Role.SHUFFLER])
        self._sent: dict[tuple[str, int], bytes] = {}
        self._tokens: set[bytes] = set()

    def look(self, one: Exchange) -> None:
        """Say what one exchange was."""
        what = f"{one.method} {one.path} at the {one.server}"
        if one.method == "POST" and one.path == _REPORTS:
            try:
                self._findings.say("ok", self._report(one))
            except WireError as error:
                self._findings.say("wrong", f"{what}: {error}")
        elif one.status >= 400:
            self._findings.say("wrong", f"{what}: {one.status} {_problem(one.answer)}")
        elif one.method == "POST":
            self._findings.say("seen", f"{what}: {one.status}")

    def _report(self, one: Exchange) -> str:
        """Return what is right about a report.

        Raises:
            WireError: If something is wrong.
        """
        from rase.fusion.opening import open_inner
        from rase.shuffler.opening import open_outer
        from rase.wire.frames import read_authorization
        from rase.wire.keys import Role
        from rase.wire.signed import campaign_hash
        from rase.wire.suites import X25519

        shown = read_authorization(one.authorization)
        if shown is None:
            raise WireError("Authorization must be RASE, the handle, a dot and 32 hex digits.")
        handle, tag = shown
        self._senders.look_up_sender(handle, one.body + tag)
        keys, ch = self._servers.openers, campaign_hash(self._campaign)
        outer = open_outer([keys[Role.SHUFFLER]], one.body, campaign_hash=ch, kem=X25519)
        round = outer.round
        if self._sent.setdefault((handle, round), one.body) != one.body:
            raise WireError(f"a device sent a second, other report for round {round}.")
        if one.status >= 400:
            raise WireError(f"round {round}: {one.status} {_problem(one.answer)}")
        if outer.mark.is_cover:
            return f"round {round}: a cover report."
        content = open_inner(
            [keys[Role.FUSION]],
            outer.inner,
            campaign_hash=ch,
            class_count=1,
            key_id=outer.mark.fusion_key_id,
            round=round,
        )
        self._check_content(round, content.place, content.token, is_repeated=one.status == 200)
        return f"round {round}: place {content.place}, token accepted."

    def _check_content(self, round: int, place: int, token: bytes, *, is_repeated: bool) -> None:
        import numpy as np

        from rase.fusion.mechanism import drawable
        from rase.wire.issuing import verifier_of
        from rase.wire.tokens import NONCE_SIZE

        places, classes = np.array([place]), np.zeros(1, dtype=np.uint8)
        if not drawable(self._campaign, places, classes)[0]:
            raise WireError(f"place {place} is never drawn by {self._campaign.mechanism}.")
        key = self._token_key(round)
        nonce, signature = token[:NONCE_SIZE], token[NONCE_SIZE:]
        if not verifier_of(key).is_signed(nonce, signature):
            raise WireError(f"round {round}: the token is not signed by the key of its window.")
        if token in self._tokens and not is_repeated:
            raise WireError(f"round {round}: the token was in an earlier report.")
        self._tokens.add(token)

    def _token_key(self, round: int) -> bytes:
        from rase.shuffler.token_keys import published_token_keys
        from rase.wire.keys import Role
        from rase.wire.tokens import key_in_round, token_keys_from_bytes

        document = published_token_keys(
            self._servers.databases[Role.SHUFFLER], now_s=self._clock.now_s()
        )
        keys = [one.key for one in token_keys_from_bytes(document, self._servers.pinned)]
        found = key_in_round(keys, self._campaign.id, round)
        if found is None:
            raise WireError(f"round {round} is in no token window.")
        return found.modulus


def _problem(answer: bytes) -> str:
    try:
        fields = json.loads(answer)
        return f"{fields['type'].rpartition(':')[2]}: {fields.get('detail') or fields['title']}"
    except (ValueError, TypeError, KeyError, AttributeError):
        return answer[:200].decode("utf-8", "replace")
