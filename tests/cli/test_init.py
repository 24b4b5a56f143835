"""``rase init`` writes what the programs accept as it is, all of it or nothing."""

import io
import tomllib
from pathlib import Path

import pytest

from rase.campaign import Campaign
from rase.cli import main
from rase.device.folder import DeviceFolder
from rase.fusion.mechanism import campaign_of
from rase.fusion.settings import FusionSettings
from rase.service import installation
from rase.service.key_settings import public_key_bytes, read_opening_keys, read_signing_key
from rase.service.keyring import read_keyset, read_public_keys
from rase.service.settings import load_settings
from rase.shuffler.settings import ShufflerSettings
from rase.wire.keys import Role

OPTIONS = ["--range", "0", "3000", "--epsilon", "1"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An installation."""
    path = tmp_path / "installed"
    assert main(["init", str(path), *OPTIONS]) == 0
    return path


def test_servers_accept_their_settings(folder: Path) -> None:
    """Both settings files load as they are, and each pins the other's signing key."""
    shuffler = load_settings(
        ShufflerSettings, "shuffler", path=folder / "shuffler/rase.toml", environment={}
    )
    fusion = load_settings(
        FusionSettings, "fusion", path=folder / "fusion/rase.toml", environment={}
    )
    keys = {
        role: read_signing_key(settings.signing_key_file, role=role)
        for role, settings in ((Role.SHUFFLER, shuffler), (Role.FUSION, fusion))
    }
    assert public_key_bytes(shuffler.fusion_key) == keys[Role.FUSION].public_bytes()
    assert public_key_bytes(fusion.shuffler_key) == keys[Role.SHUFFLER].public_bytes()
    assert (shuffler.port, fusion.port) == (8701, 8702)
    assert (shuffler.fusion_url, fusion.shuffler_url) == (
        "http://127.0.0.1:8702",
        "http://127.0.0.1:8701",
    )
    assert shuffler.policy.max_epsilon == 1.0
    configs = {config.role: config for config in read_keyset(folder / "fusion/keyset.json").configs}
    for role, settings in ((Role.SHUFFLER, shuffler), (Role.FUSION, fusion)):
        (key,) = read_opening_keys(settings.opening_key_files, role=role)
        assert configs[role] == key.config(
            not_before_s=configs[role].not_before_s, not_after_s=configs[role].not_after_s
        )


def test_a_device_accepts_its_settings(folder: Path) -> None:
    """The device's folder loads as it is, with both servers pinned and the campaign's limits."""
    place = DeviceFolder(folder / "device")
    place.make()
    settings = place.settings({})
    for role in Role:
        public = read_public_keys(folder / role / "public.json")
        assert settings.pinned.of(role) == public.signing_key
    assert settings.limits.report_epsilon == 1.0
    # Of a device that takes turns, and whose owner said nothing.
    assert settings.schedule == "rotate"
    assert (settings.limits.span_epsilon, settings.limits.total_epsilon) == (1.0, 30.0)
    assert (settings.rules.low, settings.rules.high, settings.rules.least_k) == (0, 3000, 20)


def test_the_campaign_can_be_published(folder: Path) -> None:
    """The campaign file holds a valid first version within the shuffler's policy."""
    with (folder / "fusion/campaign.toml").open("rb") as file:
        campaign = Campaign.from_fields(tomllib.load(file)["campaign"])
    settings = load_settings(
        ShufflerSettings, "shuffler", path=folder / "shuffler/rase.toml", environment={}
    )
    settings.policy.policy().check_campaign(campaign)
    assert (campaign.version, campaign.round_s, campaign.upload_s) == (1, 3600, 300)


def test_private_files_are_for_their_owner(folder: Path) -> None:
    """Folders are 0700, keys and settings 0600, whatever the umask allows."""
    for path in folder.rglob("*"):
        mode = path.stat().st_mode & 0o777
        if path.is_dir():
            assert mode == 0o700
        elif path.suffix == ".key" or path.name in ("rase.toml", "device.toml"):
            assert mode == 0o600


def test_no_private_key_leaves_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither what is printed nor any other file holds a private key."""
    folder = tmp_path / "installed"
    assert main(["init", str(folder), *OPTIONS]) == 0
    printed = capsys.readouterr()
    # The registrar's has no header.
    keys = {path: path.read_text().split()[-1] for path in folder.rglob("*.key")}
    assert len(keys) == 5
    for secret in keys.values():
        assert secret not in printed.out + printed.err
        holders = [path for path in folder.rglob("*") if path.is_file()]
        assert sum(secret in path.read_text() for path in holders) == 1


def test_the_next_steps_are_told_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands on stdout are those of the file, servers first, the question last."""
    folder = tmp_path / "installed"
    assert main(["init", str(folder), *OPTIONS]) == 0
    printed = capsys.readouterr().out
    assert printed == (folder / "NEXT.txt").read_text()
    commands = [line.split()[1:3] for line in printed.splitlines() if line.startswith("rase")]
    assert [" ".join(words) for words in commands[:11]] == [
        "shuffler run",
        "fusion run",
        "registrar run",
        "fusion publish-keys",
        "campaign publish",
        "shuffler enrol",
        "registrar approve",
        "device enrol",
        "device run",
        "fusion subscribers",
        "query avg",
    ]


def test_nothing_is_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with anything in it stays as it is, exit code 3."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(["init", str(folder), *OPTIONS]) == 3
    assert "is there already" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert list(folder.parent.iterdir()) == [folder]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    """A folder that is there but empty may be used."""
    (tmp_path / "empty").mkdir()
    assert main(["init", str(tmp_path / "empty"), *OPTIONS]) == 0


def test_a_failure_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the disk is full in the middle, there is no folder afterwards."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(installation, "keyset_text", full)
    assert main(["init", str(tmp_path / "installed"), *OPTIONS]) == 3
    assert "No space left on device; nothing was made." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    assert main(["init", str(tmp_path / "file/installed"), *OPTIONS]) == 3


def campaign_in(folder: Path) -> Campaign:
    """Return the campaign as it is published."""
    with (folder / "fusion/campaign.toml").open("rb") as file:
        return campaign_of(tomllib.load(file)["campaign"])


def test_without_further_words_a_promise_is_planned_within_what_owners_allow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At most 4.5 a report and 8 a day, (1, 1e-6) towards the fusion centre, and what it costs."""
    folder = tmp_path / "installed"
    assert main(["init", str(folder), "--range", "0", "1", "--devices", "400000"]) == 0
    shown = capsys.readouterr().err
    campaign = campaign_in(folder)
    assert (campaign.k_min, campaign.shuffled_epsilon, campaign.delta) == (13333, 1.0, 1e-6)
    assert campaign.window_budget == campaign.epsilon[0] <= 4.5
    assert campaign.cover
    assert "Towards the fusion centre: (" in shown
    assert "of the range), at epsilon 4.5 a report. The limits of owners, 4.5 a report" in shown
    assert "the promise alone would allow epsilon 5." in shown
    settings = load_settings(
        ShufflerSettings, "shuffler", path=folder / "shuffler/rase.toml", environment={}
    )
    settings.policy.policy().check_campaign(campaign)
    assert (settings.policy.max_shuffled_epsilon, settings.policy.max_delta) == (1.0, 1e-6)
    place = DeviceFolder(folder / "device")
    place.make()
    owner = place.settings({}).limits
    assert (owner.shuffled_epsilon, owner.span_shuffled_epsilon) == (
        1.0,
        campaign.claims[0].epsilon,
    )


def test_reports_in_every_round_share_the_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twenty-four reports of a day spend 8 together, and may give away what they claim."""
    folder = tmp_path / "installed"
    assert main(["init", str(folder), "--range", "0", "1", "--schedule", "every-round"]) == 0
    campaign = campaign_in(folder)
    assert campaign.window_budget == pytest.approx(8.0, rel=1e-3)
    assert campaign.most_reports(24) == 24
    assert "shuffled reports of a day" in capsys.readouterr().err


def test_a_small_promise_costs_owners_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the promise itself is the limit, that is said."""
    folder = tmp_path / "installed"
    options = ["--shuffled-epsilon", "0.5", "--delta", "1e-7", "--colluding", "4", "--k-min", "50"]
    assert main(["init", str(folder), "--range", "0", "1", *options]) == 0
    campaign = campaign_in(folder)
    assert (campaign.shuffled_epsilon, campaign.delta, campaign.colluding) == (0.5, 1e-7, 4)
    assert "the limits of owners cost nothing" in capsys.readouterr().err


def test_either_number_may_be_the_wish(tmp_path: Path) -> None:
    """With --epsilon and --delta what holds is promised; with --epsilon alone nothing is."""
    for options, is_promised in ((["--delta", "1e-6"], True), ([], False)):
        folder = tmp_path / str(is_promised)
        assert main(["init", str(folder), *OPTIONS, *options]) == 0
        campaign = campaign_in(folder)
        assert campaign.epsilon == (1.0,)
        assert (campaign.shuffled_epsilon is not None) == is_promised


def test_a_promise_that_cannot_be_kept_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wish below what any noise reaches is named, and nothing is made."""
    folder = tmp_path / "installed"
    assert main(["init", str(folder), "--range", "0", "1", "--shuffled-epsilon", "1e-6"]) == 5
    assert "no local epsilon" in capsys.readouterr().err
    crowd = ("--k-min", "20", "--colluding", "19")
    assert main(["init", str(folder), "--range", "0", "1", *crowd]) == 2
    assert "two honest reports of k_min 20, got 19" in capsys.readouterr().err
    assert main(["init", str(folder), "--range", "0", "1", "--delta", "1"]) == 2
    assert "delta must be between 1e-100 and 1, got 1.0" in capsys.readouterr().err
    assert not folder.exists()


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--round", "soon"], 2, "--round: a duration"),
        (["--k-min", "1"], 3, "k_min must be"),
        (["--window", "0"], 3, "window must be"),
        (["--owner-day", "0"], 2, "--owner-day"),
        (["--owner-report", "nan"], 2, "'--owner-report': nan is not a finite number"),
        (["--window-budget", "nan"], 2, "'--window-budget': nan is not a finite number"),
        (["--shuffled-epsilon", "inf"], 2, "'--shuffled-epsilon': inf is not a finite number"),
        (["--devices", "9", "--k-min", "10"], 2, "--k-min must be at most what reports"),
        (["--delta", "1"], 3, "delta must be a number from 1e-12 to 0.1, got 1.0"),
        (["--campaign", "No Good"], 3, "id must be"),
        (["--fusion-url", "http://fusion.example"], 3, "--fusion-url must begin with https://"),
        (["--fusion-url", "http://127.0.0.1:99999"], 3, "--fusion-url must be an address"),
        (["--fusion-url", "http://127.0.0.1:8701"], 3, "must be different"),
    ],
)
def test_mistakes_are_named(
    options: list[str], code: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong option is told as it was typed, and nothing is made."""
    assert main(["init", str(tmp_path / "installed"), *OPTIONS, *options]) == code
    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_servers_behind_a_proxy_listen_on_loopback(tmp_path: Path) -> None:
    """With https addresses TLS ends in a proxy, and the servers keep their default ports."""
    folder = tmp_path / "installed"
    urls = ["--shuffler-url", "https://s.example/", "--fusion-url", "https://f.example"]
    classes = ["--epsilon", "0.5", "--kem", "x-wing"]
    assert main(["init", str(folder), *OPTIONS, *urls, *classes]) == 0
    settings = load_settings(
        ShufflerSettings, "shuffler", path=folder / "shuffler/rase.toml", environment={}
    )
    assert (settings.host, settings.port) == ("127.0.0.1", 8701)
    assert settings.fusion_url == "https://f.example"
    device = DeviceFolder(folder / "device").settings({})
    assert device.shuffler == "https://s.example"
    assert device.limits.total_epsilon == 30


@pytest.mark.parametrize(
    ("epsilon", "options"),
    [(0.3, []), (1, []), (2, ["--epsilon", "1"]), (4, []), (4.5, ["--round", "15min"])],
)
def test_owners_limits_are_small_unasked(
    tmp_path: Path, epsilon: float, options: list[str]
) -> None:
    """Whatever is asked for, an owner who said nothing allows 8 a day at most, and 4.5 a report."""
    folder = tmp_path / "installed"
    assert (
        main(["init", str(folder), "--range", "0", "1", "--epsilon", f"{epsilon}", *options]) == 0
    )
    limits = DeviceFolder(folder / "device").settings({}).limits
    assert limits.report_epsilon <= 4.5
    assert limits.report_epsilon <= limits.span_epsilon <= 8
    assert limits.total_epsilon == 30 * limits.span_epsilon


def test_a_report_every_hour_of_a_month_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """24 reports of epsilon 1 a day need --accept-weak, and the refusal says what else would do."""
    asked = [*OPTIONS, "--schedule", "every-round"]
    assert main(["init", str(tmp_path / "weak"), *asked]) == 5
    told = capsys.readouterr().err
    assert "A day of reports may spend epsilon 24, and at most 8 protects" in told
    assert "--schedule rotate" in told
    assert "--accept-weak" in told
    assert list(tmp_path.iterdir()) == []
    assert main(["init", str(tmp_path / "weak"), *asked, "--accept-weak"]) == 0
    settings = DeviceFolder(tmp_path / "weak/device").settings({})
    # The operator's word alone does not raise what the owner allows.
    assert (settings.schedule, settings.limits.span_epsilon) == ("every-round", 8)


def test_short_rounds_take_an_explicit_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rounds of seconds ask for as much as owners were said to allow, not for hundred thousands."""
    asked = [*OPTIONS, "--schedule", "every-round", "--round", "10s"]
    asked += ["--owner-day", "100", "--owner-ever", "100", "--accept-weak"]
    assert main(["init", str(tmp_path / "try"), *asked]) == 0
    assert "100 a day and 100 in all, which is one such day; then" in capsys.readouterr().err
    with (tmp_path / "try/fusion/campaign.toml").open("rb") as file:
        campaign = Campaign.from_fields(tomllib.load(file)["campaign"])
    assert (campaign.window, campaign.window_budget) == (8640, 100)
    limits = DeviceFolder(tmp_path / "try/device").settings({}).limits
    assert (limits.span_epsilon, limits.total_epsilon) == (100, 100)


@pytest.mark.parametrize(
    ("options", "mechanism"),
    [
        ([], "optimal"),
        (["--mechanism", "auto"], "optimal"),
        (["--mechanism", "duchi"], "duchi"),
        (["--epsilon", "0.4", "--window-budget", "1"], "optimal"),
    ],
)
def test_the_campaign_names_the_law_that_devices_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], mechanism: str
) -> None:
    """What auto stands for is decided here, before anything is signed."""
    assert main(["init", str(tmp_path / "new"), *OPTIONS, *options]) == 0
    assert f"drawn by the mechanism {mechanism}." in capsys.readouterr().err
    with (tmp_path / "new/fusion/campaign.toml").open("rb") as file:
        assert tomllib.load(file)["campaign"]["mechanism"] == mechanism


def test_turns_need_more_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next steps count the devices that a round of turns needs."""
    assert main(["init", str(tmp_path / "turns"), *OPTIONS]) == 0
    assert "about 480 devices or more" in capsys.readouterr().out
    assert main(["init", str(tmp_path / "days"), *OPTIONS, "--round", "1d"]) == 0
    assert "A round needs 20 devices (k_min)." in capsys.readouterr().out


def test_it_asks_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured, the range, the devices and how private are asked, and decide."""
    monkeypatch.setattr("rase.cli.init_guide.sys.stdin.isatty", lambda: True, raising=False)
    answers = iter(["temperature", "°C", 15.0, 25.0, 20_000, "strong"])
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(answers))
    assert main(["init", str(tmp_path / "fleet")]) == 0
    campaign = campaign_in(tmp_path / "fleet")
    assert (campaign.quantity, campaign.unit) == ("temperature", "°C")
    assert (campaign.low, campaign.high, campaign.shuffled_epsilon) == (15, 25, 0.5)
    assert campaign.round_s == 3600
    assert campaign.k_min == 20_000 * 4 // 5 // 24


def test_without_a_terminal_it_says_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody is asked where nobody can answer."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["init", str(tmp_path / "fleet")]) == 2
    assert "--range must be given" in capsys.readouterr().err
    assert not (tmp_path / "fleet").exists()


def test_few_devices_get_longer_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where an hour would say nothing a round is a day, and where a day says little it is said."""
    asked = ["--range", "0", "3000", "--unit", "W"]
    assert main(["init", str(tmp_path / "some"), *asked, "--devices", "500"]) == 0
    said = capsys.readouterr().err
    assert "With rounds of an hour the mean of one has a standard error of " in said
    assert "hide each other too little" not in said
    assert campaign_in(tmp_path / "some").round_s == 86_400
    assert main(["init", str(tmp_path / "few"), *asked, "--devices", "64"]) == 0
    said = capsys.readouterr().err
    assert "That says hardly anything: 64 devices hide each other too little." in said
    assert main(["init", str(tmp_path / "set"), *asked, "--devices", "64", "--round", "1h"]) == 0
    assert campaign_in(tmp_path / "set").round_s == 3600
    assert "With rounds of" not in capsys.readouterr().err


def test_states_bounds_and_labels_are_written(tmp_path: Path) -> None:
    """In the place of a range; the device's owner has no range to limit."""
    words = ["--categories", "on, off,other", "--labels", "north,south", "--epsilon", "2"]
    assert main(["init", str(tmp_path / "states"), *words]) == 0
    text = (tmp_path / "states/fusion/campaign.toml").read_text("utf-8")
    campaign = campaign_of(tomllib.loads(text)["campaign"])
    assert campaign.categories == ("on", "off", "other")
    assert campaign.labels == ("north", "south")
    assert campaign.target == "reporters"
    settings = DeviceFolder(tmp_path / "states/device")
    assert "# low" in settings.settings_file.read_text("utf-8")
    assert settings.settings({}).source.states == {}
    words = ["--bound", "3000", "--bound", "1000", "--devices", "4000"]
    assert main(["init", str(tmp_path / "bins"), *words]) == 0
    text = (tmp_path / "bins/fusion/campaign.toml").read_text("utf-8")
    campaign = campaign_of(tomllib.loads(text)["campaign"])
    assert campaign.bounds == (1000.0, 3000.0)
    assert campaign.shuffled_epsilon == 1.0
    assert DeviceFolder(tmp_path / "bins/device").settings({}).source.states is None


def test_one_question_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A range and states together are refused, and so is a state twice."""
    both = ["--range", "0", "1", "--categories", "on,off", "--epsilon", "1"]
    assert main(["init", str(tmp_path / "a"), *both]) == 2
    assert "give one of --range, --categories and --bound" in capsys.readouterr().err
    twice = ["--categories", "on,on", "--epsilon", "1"]
    assert main(["init", str(tmp_path / "b"), *twice]) == 3
    assert "categories must differ, got 'on' more than once." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("round_", "line"),
    [("1h", "# window_rounds = 24"), ("10s", "window_rounds = 6"), ("1min", "window_rounds = 2")],
)
def test_who_tries_out_short_rounds_waits_for_no_token_window_of_a_day(
    tmp_path: Path, round_: str, line: str
) -> None:
    """Windows are the campaign's own where rounds are long."""
    folder = tmp_path / "installed"
    assert main(["init", str(folder), *OPTIONS, "--round", round_]) == 0
    lines = (folder / "registrar/rase.toml").read_text().splitlines()
    assert [one.partition("  ")[0] for one in lines if "window_rounds" in one] == [line]
