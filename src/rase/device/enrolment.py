"""How a device becomes one of the fleet: what it agrees on for a token, and where it is kept."""

import base64
import json

from rase.accounting.ledger.limits import (
    UNASKED_DAY_EPSILON,
    UNASKED_REPORT_EPSILON,
    UNASKED_TOTAL_EPSILON,
)
from rase.device.folder import DeviceFolder
from rase.device.settings import DeviceSettings
from rase.errors import ConfigurationError, Malformed, RaseError
from rase.transport.interface import Answer, Transport, Unreachable
from rase.wire.agreement import Agreement, Applicant
from rase.wire.problems import Problem
from rase.wire.signed import public_key_of, sign_with
from rase.wire.tokens import CERTIFICATES_PATH, proof_input

__all__ = ["ENROLMENTS_PATH", "EnrolmentRefused", "enrol", "settings_text"]

ENROLMENTS_PATH = "/v1/enrolments"
_LONGEST_DETAIL = 300

_TEMPLATE = """\
# A device of RASE. RASE_DEVICE__SHUFFLER and the like in the environment go before this file.

[device]
shuffler = {shuffler}
campaign = {campaign}
# Gives the tokens without which no report counts.
registrar = {registrar}
# The public keys of all three, got from their operators, not over this network.
fusion_key = {fusion_key}
shuffler_key = {shuffler_key}
registrar_key = {registrar_key}
# tls_ca_file = "ca.pem"       # the only authority accepted for TLS
# tls_certificate_file = "device.pem"    # where the shuffler asks for a certificate
# tls_key_file = "device-tls.key"
# campaign_hash = "ab12"         # of the first campaign to accept, 64 hexadecimal digits
# broker = "mqtts://broker.example"      # reports go through it instead of HTTPS
{schedule_line}
# label = "north"              # one of the campaign's; needs owner.shares_label
# cover = false                # send nothing in rounds without a report; that can be seen. true
#                                refuses campaigns that go without cover reports

[owner]
# The most one report, all reports of any span_s seconds, and all reports ever may spend.
report_epsilon = {report_epsilon!r}
span_epsilon = {span_epsilon!r}
total_epsilon = {total_epsilon!r}
# span_s = 86400
{low_line}
{high_line}
least_k = {least_k}
# What one report, and all reports of a span, may give away to the fusion centre, which sees them
# shuffled; where a campaign promises nothing there, what they spend counts.
{shuffled_line}
{span_shuffled_line}
# most_delta = 1e-5
# What you agree to is the first campaign that keeps these rules. A new version of it may not:
# epsilon_may_rise = true       # make reports cost more, up to report_epsilon
# most_alpha = 0.5              # hide senders less, up to an order that may reveal so much
# shares_label = true           # the shuffler may learn the label; false reports without it

[source]
# stdin: one number a line, or one state. Others:
#   kind = "csv"     path = "power.csv", column = "power_w"
#   kind = "exec"    command = ["/usr/local/bin/read-meter"]
#   kind = "http"    url = "http://192.168.1.20/rpc/Switch.GetStatus?id=0", json_path = "apower"
#   kind = "python"  function = "meter:read"
#   kind = "mqtt"    preset = "tasmota", meter = "plug-1"; the broker stands in [home]
#   kind = "homeassistant"  url = "http://ha:8123", entity = "sensor.power", token_file = "token"
kind = "stdin"
{reads_line}
# every_s = 60                 # how often to ask; ten times a round by default
# scale = 1.0
# aggregate = "mean"           # or "last", or "increments" of a counter

# [home]
# broker = "mqtt://192.168.1.10"         # the owner's own broker
# user = "rase"
# password_file = "home-password"

# What the source says, and which state of the campaign it is; others stand for themselves.
# [states]
# "HEAT" = "heating"
"""


_READS_LINE = 'reads = "states"             # names of states instead of numbers'
_SCHEDULE_LINES = {
    "every-round": '# schedule = "rotate"         # one report in each window, not in every round',
    "rotate": 'schedule = "rotate"           # one report in each window, not in every round',
}


class EnrolmentRefused(RaseError):
    """The shuffler did not enrol the device."""

    exit_code = 4


def settings_text(
    *,
    shuffler: str,
    campaign: str,
    fusion_key: str,
    shuffler_key: str,
    registrar: str,
    registrar_key: str,
    report_epsilon: float | None,
    span_epsilon: float | None,
    total_epsilon: float | None,
    value_range: tuple[float, float] | None,
    least_k: int,
    schedule: str = "every-round",
    shuffled_epsilon: float | None = None,
    span_shuffled_epsilon: float | None = None,
    reads_states: bool = False,
) -> str:
    """Return a commented device.toml; budgets that are None are what an owner allows unasked."""
    low, high = value_range or (0.0, 0.0)
    mark = "" if value_range else "# "
    return _TEMPLATE.format(
        # JSON texts are TOML texts, too.
        shuffler=json.dumps(shuffler),
        campaign=json.dumps(campaign),
        fusion_key=json.dumps(fusion_key),
        shuffler_key=json.dumps(shuffler_key),
        registrar=json.dumps(registrar),
        registrar_key=json.dumps(registrar_key),
        report_epsilon=UNASKED_REPORT_EPSILON if report_epsilon is None else report_epsilon,
        span_epsilon=UNASKED_DAY_EPSILON if span_epsilon is None else span_epsilon,
        total_epsilon=UNASKED_TOTAL_EPSILON if total_epsilon is None else total_epsilon,
        low_line=f"{mark}low = {low!r}",
        high_line=f"{mark}high = {high!r}",
        least_k=least_k,
        shuffled_line=_owner_line("shuffled_epsilon", shuffled_epsilon, 1.0),
        span_shuffled_line=_owner_line("span_shuffled_epsilon", span_shuffled_epsilon, 4.0),
        schedule_line=_SCHEDULE_LINES[schedule],
        reads_line=f"{'' if reads_states else '# '}{_READS_LINE}",
    )


def _owner_line(name: str, value: float | None, example: float) -> str:
    return f"# {name} = {example!r}" if value is None else f"{name} = {value!r}"


def enrol(
    folder: DeviceFolder,
    token: str,
    *,
    transport: Transport,
    approval: str,
    registrar: Transport,
    settings: DeviceSettings | None = None,
) -> str:
    """Give a token for a credential, and make ledger and state.

    Args:
        folder: The device's folder.
        token: From the shuffler's operator; good for one device.
        transport: The way to the shuffler.
        approval: From the registrar's operator; good for one device.
        registrar: The way to the registrar.
        settings: What the owner wrote down, where the ledger is not the folder's own.

    Returns:
        The name the shuffler gave to the device.

    Raises:
        ConfigurationError: If the device is enrolled already, or the token is none.
        EnrolmentRefused: If the shuffler or the registrar refuses, or whoever answers does not know
            the token.
        Unreachable: If it does not answer; the same token may be tried again.
    """
    if folder.is_enrolled:
        raise ConfigurationError(
            [f"{folder.path} is enrolled already; run rase device forget first."]
        )
    # The key is kept over failed tries, so that the shuffler can tell them from a stolen token.
    secret = folder.device_secret()
    try:
        applicant = Applicant(token, secret)
    except ValueError as error:
        raise ConfigurationError([str(error)]) from None
    asked: dict[str, str] = applicant.application._asdict()
    asked["certificate"] = _certificate(secret, approval, registrar)
    answer = transport.post(
        ENROLMENTS_PATH,
        json.dumps(asked).encode(),
        content_type="application/json",
    )
    agreement = _read_agreement(answer)
    try:
        credential = applicant.credential(agreement)
    except Malformed as error:
        raise EnrolmentRefused(f"nothing was kept: {error}") from None
    folder.keep_enrolment(credential, settings)
    return agreement.device


def _certificate(secret: bytes, approval: str, registrar: Transport) -> str:
    """Give an approval for the registrar's certificate of the device's key."""
    key = public_key_of(secret)
    body = {
        "approval": approval,
        "device_key": _text(key),
        "proof": _text(sign_with(secret, proof_input(key))),
    }
    answer = registrar.post(
        CERTIFICATES_PATH, json.dumps(body).encode(), content_type="application/json"
    )
    if answer.status not in (200, 201):
        raise EnrolmentRefused(f"the registrar refuses to certify: {_reason(answer)}.")
    try:
        certificate = json.loads(answer.body)["certificate"]
    except (ValueError, KeyError, TypeError, RecursionError):
        certificate = None
    if not _is_plain(certificate):
        raise Unreachable("the registrar's answer cannot be read.")
    return str(certificate)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _read_agreement(answer: Answer) -> Agreement:
    if answer.status not in (200, 201):
        raise EnrolmentRefused(f"the shuffler refuses to enrol: {_reason(answer)}.")
    try:
        agreement = Agreement(**json.loads(answer.body))
    except (ValueError, TypeError, RecursionError):
        agreement = Agreement("", "", "")
    if not all(_is_plain(text) for text in agreement):
        raise Unreachable("the shuffler's answer to the enrolment cannot be read.")
    return agreement


def _is_plain(value: object) -> bool:
    # One goes to the terminal, the other into a header: printable and without blanks.
    return (
        isinstance(value, str)
        and 1 <= len(value) <= 1024
        and value.isascii()
        and (value.isprintable() and " " not in value)
    )


def _reason(answer: Answer) -> str:
    try:
        problem = Problem.from_json(answer.body)
    except Malformed:
        return f"status {answer.status}"
    # What another machine says goes to the terminal only if it is plain words.
    is_plain = problem.detail.isprintable() and 0 < len(problem.detail) <= _LONGEST_DETAIL
    reason = problem.detail if is_plain else problem.type.title
    return f"{reason.rstrip('.')} ({problem.type.name})"
