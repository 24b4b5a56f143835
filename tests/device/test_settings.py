"""What the owner of a device writes down."""

import base64
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.spending import spend

from rase.accounting.ledger import CampaignLimits, Ledger, create_ledger
from rase.device.enrolment import settings_text
from rase.device.settings import key_bytes, read_settings, settings_of
from rase.errors import BudgetSpent, ConfigurationError

KEYS = [base64.urlsafe_b64encode(bytes([value]) * 32).decode() for value in (251, 252)]
TABLES: dict[str, dict[str, Any]] = {
    "device": {
        "shuffler": "https://shuffler.example",
        "campaign": "street-power",
        "fusion_key": KEYS[0],
        "shuffler_key": KEYS[1].rstrip("="),
        "registrar": "https://registrar.example",
        "registrar_key": "B" * 42 + "E",
    },
    "owner": {"report_epsilon": 1, "span_epsilon": 24.0, "total_epsilon": 1000},
    "source": {"kind": "stdin"},
}


def changed(section: str, **values: Any) -> dict[str, dict[str, Any]]:
    """Return the settings with some changed."""
    return {**TABLES, section: {**TABLES[section], **values}}


def mistakes(tables: Any, environment: dict[str, str] | None = None) -> tuple[str, ...]:
    """Return all mistakes of some settings."""
    with pytest.raises(ConfigurationError) as caught:
        settings_of(tables, environment or {})
    assert caught.value.exit_code == 3
    return caught.value.mistakes


def test_few_settings_are_needed() -> None:
    """Everything else has a default."""
    settings = settings_of(TABLES, {})
    assert settings.pinned.fusion == b"\xfb" * 32
    assert (settings.sends_cover, settings.schedule, settings.tls_ca_file) == (
        True,
        "every-round",
        None,
    )
    assert settings.limits.span_s == 86_400
    assert settings.source.kind == "stdin"
    assert "\xfb" not in repr(settings)


def test_an_owner_who_says_nothing_allows_little(quick_folder: Path) -> None:
    """Epsilon 4.5 a report, 8 a day and 240 ever, and the ledger keeps to it."""
    settings = settings_of({name: one for name, one in TABLES.items() if name != "owner"}, {})
    limits = settings.limits
    assert (limits.report_epsilon, limits.span_epsilon, limits.total_epsilon) == (4.5, 8.0, 240.0)
    assert limits.span_s == 86_400
    create_ledger(quick_folder / "ledger.db")
    with Ledger(quick_folder / "ledger.db", limits) as ledger:
        ledger.join(CampaignLimits("street-power", 3600, window=1, window_epsilon=9.0))

        def sent(rounds: range, epsilon: float) -> list[int]:
            """Return the rounds whose reports are paid for."""
            paid = []
            for round in rounds:
                with suppress(BudgetSpent):
                    spend(ledger, "street-power", round, epsilon=epsilon)
                    paid.append(round)
            return paid

        assert sent(range(24), 4.6) == []
        assert sent(range(48), 4.5) == [0, 24]
        assert sent(range(48, 96), 1.0) == [*range(48, 56), *range(72, 80)]


def test_all_mistakes_are_told_at_once() -> None:
    """Missing, unknown and wrong settings are listed together."""
    tables = {
        "device": {"campaign": 7, "colour": "red"},
        "owner": [],
        "source": {"kind": "stdin", "scale": "big", "command": []},
        "extra": {},
    }
    assert mistakes(tables) == (
        "device.colour is not a setting.",
        "device.shuffler is missing.",
        "device.campaign must be a text, got 7.",
        "device.fusion_key is missing.",
        "device.shuffler_key is missing.",
        "device.registrar is missing.",
        "device.registrar_key is missing.",
        "[owner] must be a section.",
        "source.scale must be a number, got 'big'.",
        "source.command must be a list of texts, got [].",
        "[extra] is not a section of device.toml.",
    )


@pytest.mark.parametrize(
    ("section", "values", "mistake"),
    [
        (
            "device",
            {"schedule": "never"},
            "device.schedule must be one of every-round, rotate, turns.",
        ),
        (
            "device",
            {"timeout_s": 0},
            "device.timeout_s must be greater than 0 and below 1000000, got 0",
        ),
        ("device", {"cover": 1}, "device.cover must be true or false, got 1."),
        ("device", {"fusion_key": "x"}, "device.fusion_key must be the 32 bytes"),
        ("device", {"fusion_key": KEYS[1]}, "fusion and shuffler must have different keys"),
        ("device", {"campaign_hash": "ab"}, "device.campaign_hash must be the 64 hexadecimal"),
        ("device", {"campaign_hash": "zz"}, "device.campaign_hash must be the 64 hexadecimal"),
        ("owner", {"report_epsilon": 0}, "report_epsilon must be greater than 0"),
        ("owner", {"report_epsilon": True}, "owner.report_epsilon must be a number, got True."),
        ("owner", {"low": 2, "high": 1}, "owner.low must be below owner.high"),
        ("source", {"kind": "magic"}, "source.kind must be one of csv, stdin, exec, http"),
        ("source", {"kind": "csv"}, "source.path is missing: the source csv needs it."),
        ("source", {"kind": "http"}, "source.url is missing: the source http needs it."),
        (
            "source",
            {"every_s": -1},
            "source.every_s must be greater than 0 and below 1000000, got -1.",
        ),
    ],
)
def test_wrong_settings_are_named(section: str, values: dict[str, Any], mistake: str) -> None:
    """Each mistake names the setting as it was typed."""
    assert mistake in " ".join(mistakes(changed(section, **values)))


def test_the_environment_goes_before_the_file() -> None:
    """Variables are typed as the settings are."""
    settings = settings_of(
        TABLES,
        {
            "RASE_DEVICE__CAMPAIGN": "other",
            "RASE_DEVICE__COVER": "False",
            "RASE_DEVICE__CAMPAIGN_HASH": "ab" * 32,
            "RASE_DEVICE__TLS_CA_FILE": "ca.pem",
            "RASE_OWNER__REPORT_EPSILON": "0.5",
            "RASE_OWNER__SPAN_S": "60",
            "RASE_OWNER__LOW": "-5",
            "RASE_SOURCE__KIND": "exec",
            "RASE_SOURCE__COMMAND": "read-meter --fast",
        },
    )
    assert (settings.campaign, settings.sends_cover) == ("other", False)
    assert settings.campaign_hash == b"\xab" * 32
    assert settings.tls_ca_file == Path("ca.pem")
    assert (settings.limits.report_epsilon, settings.limits.span_s) == (0.5, 60)
    assert settings.rules.low == -5
    assert settings.source.command == ("read-meter", "--fast")
    assert mistakes(TABLES, {"RASE_OWNER__SPAN_S": "soon", "RASE_DEVICE__COVER": "maybe"}) == (
        "device.cover must be true or false, got 'maybe'.",
        "owner.span_s must be a whole number, got 'soon'.",
    )


def test_the_file_must_be_toml(tmp_path: Path) -> None:
    """A missing file and one of another form are told."""
    path = tmp_path / "device.toml"
    with pytest.raises(ConfigurationError, match="No such file"):
        read_settings(path, {})
    path.write_text("[device", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="must be TOML"):
        read_settings(path, {})


@pytest.mark.parametrize("value_range", [None, (0.0, 3000.0)])
def test_what_enrolment_writes_can_be_read(
    tmp_path: Path, value_range: tuple[float, float] | None
) -> None:
    """The template is complete, and keeps what was given."""
    path = tmp_path / "device.toml"
    path.write_text(
        settings_text(
            shuffler='https://x/"quoted"',
            campaign="street-power",
            fusion_key=KEYS[0],
            shuffler_key=KEYS[1],
            registrar="https://registrar.example",
            registrar_key="B" * 42 + "E",
            report_epsilon=0.5,
            span_epsilon=12.0,
            total_epsilon=100.0,
            value_range=value_range,
            least_k=30,
        ),
        encoding="utf-8",
    )
    settings = read_settings(path, {})
    assert settings.shuffler == 'https://x/"quoted"'
    assert settings.rules.least_k == 30
    assert not settings.rules.epsilon_may_rise
    assert settings.rules.most_alpha is None
    assert (settings.rules.low, settings.rules.high) == (value_range or (None, None))


def test_keys_are_read_in_both_alphabets() -> None:
    """Hex, standard and URL-safe base64 mean the same; other texts are refused."""
    key = bytes([255, 250] * 16)
    for text in (base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode()):
        assert key_bytes(text) == key_bytes(text.rstrip("=")) == key
    assert key_bytes(key.hex()) == key_bytes(f" {key.hex().upper()}\n") == key
    for bad in ("", "abc", "é" * 43, KEYS[0] + "A", "g" * 64, "00" * 31 + " 0"):
        with pytest.raises(ValueError, match="32 bytes"):
            key_bytes(bad)


def test_certificates_are_for_https_and_come_with_what_they_need() -> None:
    """Files for TLS without TLS, and a key without its certificate, are mistakes."""
    secure = {**TABLES, "device": {**TABLES["device"], "shuffler": "https://x"}}
    key = {"RASE_DEVICE__TLS_KEY_FILE": "a.key"}
    assert mistakes(secure, key) == (
        "device.tls_certificate_file is missing: device.tls_key_file needs it.",
    )
    both = {**key, "RASE_DEVICE__TLS_CERTIFICATE_FILE": "a.pem"}
    settings = settings_of(secure, both)
    assert (settings.tls_certificate_file, settings.tls_key_file) == (Path("a.pem"), Path("a.key"))
    plain = {**TABLES, "device": {**TABLES["device"], "shuffler": "http://127.0.0.1"}}
    assert mistakes(plain, both) == tuple(
        f"device.{name} must be left out unless device.shuffler begins with https://."
        for name in ("tls_certificate_file", "tls_key_file")
    )
