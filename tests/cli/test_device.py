"""``rase device`` and ``rase budget`` without a network."""

import json
from pathlib import Path

import pytest
from tests.spending import spend

from rase.accounting.ledger import CampaignLimits
from rase.cli import main
from rase.device.folder import DeviceFolder

OPTIONS = [
    "--shuffler=http://127.0.0.1:9",
    "--campaign=power",
    "--fusion-key=" + "A" * 43,
    "--shuffler-key=" + "A" * 42 + "E",
    "--registrar=http://127.0.0.1:9",
    "--registrar-key=" + "B" * 42 + "E",
    "--report-epsilon=1",
    "--span-epsilon=24",
    "--total-epsilon=100",
]


@pytest.fixture
def token(tmp_path: Path) -> str:
    """The option that names a file with a token, and approval.txt next to it."""
    file = tmp_path / "token"
    (tmp_path / "approval").write_text("b2.secret-approval\n", encoding="ascii")
    file.write_text("a1.secret-token\n", encoding="ascii")
    return f"--token-file={file}"


def approved(token: str) -> str:
    """Return the option that names the file with an approval."""
    return f"--approval-file={Path(token.partition('=')[2]).with_name('approval')}"


@pytest.fixture
def folder(tmp_path: Path, token: str, capsys: pytest.CaptureFixture[str]) -> DeviceFolder:
    """A device as enrolment leaves it, though no shuffler was there."""
    path = tmp_path / "device"
    assert main(["device", "enrol", f"--folder={path}", token, approved(token), *OPTIONS]) == 4
    assert "127.0.0.1 does not answer" in capsys.readouterr().err
    made = DeviceFolder(path)
    made.keep_enrolment("bearer")
    return made


def test_enrolment_names_everything_that_is_missing(
    tmp_path: Path, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Budgets have defaults, keys have none; the exit code is that of the configuration."""
    assert (
        main(
            ["device", "enrol", f"--folder={tmp_path / 'd'}", token, approved(token), *OPTIONS[:3]]
        )
        == 3
    )
    shown = capsys.readouterr().err
    assert "--shuffler-key is missing." in shown
    assert "--registrar-key is missing." in shown
    assert "epsilon" not in shown


def test_a_mistyped_option_leaves_nothing_in_the_way(
    tmp_path: Path, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written before all options can be used; then the right ones are taken."""
    where = f"--folder={tmp_path / 'd'}"
    wrong = [*OPTIONS, "--fusion-key=abc"]
    assert main(["device", "enrol", where, token, approved(token), *wrong]) == 3
    assert "device.fusion_key must be the 32 bytes" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()
    # The network is away: the same command again is no contradiction.
    for _ in range(2):
        assert main(["device", "enrol", where, token, approved(token), *OPTIONS]) == 4
    assert main(["device", "enrol", where, token, approved(token), *OPTIONS, "--least-k=7"]) == 2
    assert "give --token-file and --approval-file alone to use it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "data", [b"one\ntwo\n", b"x" * 600, b"\xff\xfe\x00", b"time,device\n1 2", b"no-token"]
)
def test_what_is_no_token_is_not_sent(
    data: bytes, tmp_path: Path, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several tokens, a table or bytes are refused before anything is written."""
    (tmp_path / "token").write_bytes(data)
    assert (
        main(["device", "enrol", f"--folder={tmp_path / 'd'}", token, approved(token), *OPTIONS])
        == 2
    )
    assert "--token-file must hold one token and nothing else" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_settings_that_are_there_are_used(
    folder: DeviceFolder, tmp_path: Path, token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With device.toml only the token is needed, and other options are refused."""
    folder.credential_file.unlink()
    where = f"--folder={folder.path}"
    assert main(["device", "enrol", where, token, approved(token), "--campaign=x"]) == 2
    assert "edit it instead of --campaign" in capsys.readouterr().err
    assert main(["device", "enrol", where, token, approved(token), "--range", "0", "9"]) == 2
    assert "edit it instead of --range" in capsys.readouterr().err
    assert main(["device", "enrol", where, token, approved(token)]) == 4
    (tmp_path / "token").write_text("\n")
    assert main(["device", "enrol", where, token, approved(token)]) == 2
    assert "secret-token" not in capsys.readouterr().err


def test_pause_resume_and_forget(
    folder: DeviceFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner's switches; forgetting asks first."""
    where = f"--folder={folder.path}"
    assert main(["device", "pause", where]) == 0
    assert folder.is_paused
    assert main(["budget", where]) == 0
    assert "sharing is paused" in capsys.readouterr().out
    assert main(["device", "resume", where]) == 0
    assert not folder.is_paused
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    assert main(["device", "forget", where]) == 130
    assert folder.is_enrolled
    assert main(["device", "forget", where, "--yes"]) == 0
    assert not folder.is_enrolled
    assert main(["device", "pause", where]) == 3
    assert "is not enrolled" in capsys.readouterr().err
    assert main(["device", "run", where]) == 3


def test_the_budget_says_spent_left_and_when_it_refreshes(
    folder: DeviceFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """For people and as JSON, with the history when asked for."""
    where = f"--folder={folder.path}"
    assert main(["budget", where]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "reports made            0",
        "spent ever              0 of 100, 100 left",
        "spent in 86400 s        0 of 24, 24 left",
    ]
    with folder.ledger(folder.settings({})) as ledger:
        ledger.join(CampaignLimits("power", 3600, window=24, window_epsilon=2))
        # A round of the year 2200: it is still in its window whenever this runs.
        spend(ledger, "power", 2_016_000, epsilon=0.5, draw=b"drawn-noise")
        spend(ledger, "power", 2_016_001, epsilon=0.5, draw=b"drawn-noise")
    assert main(["budget", where, "--history=9"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "reports made            2"
    assert shown[1] == "spent ever              1 of 100, 99 left"
    assert shown[3].startswith("campaign power, round ")
    assert shown[4] == "spent in 24 rounds      0 of 2, 2 left"
    assert shown[5:] == [
        "power  round 2016001  epsilon 0.5",
        "power  round 2016000  epsilon 0.5",
    ]
    assert main(["budget", where, "--json", "--history=1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "rase/budget/1"
    assert document["total"] == {"limit": 100.0, "spent": 1.0, "left": 99.0}
    assert document["campaigns"][0]["window"] == 24
    assert document["history"] == [{"campaign": "power", "round": 2_016_001, "epsilon": 0.5}]
    assert "drawn-noise" not in str(document)


def test_a_refresh_is_told_as_a_time(
    folder: DeviceFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was spent in the present window comes back at a stated second."""
    with folder.ledger(folder.settings({})) as ledger:
        ledger.join(CampaignLimits("power", 3600, window=24, window_epsilon=2))
        spend(ledger, "power", 490_000, epsilon=0.5, draw=b"noisy")
    monkeypatch.setattr("rase.clock.SystemClock.now_s", lambda self: 490_001 * 3600.0)
    assert main(["budget", f"--folder={folder.path}"]) == 0
    assert "0.5 of 2, 1.5 left; more from 2025-11-25 16:00:00 UTC" in capsys.readouterr().out


def test_resuming_switches_on_what_was_off(
    folder: DeviceFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command is the owner's word, as the switch on the page is; its address is told there."""
    folder.switch(is_on=False)
    assert main(["device", "resume", f"--folder={folder.path}"]) == 0
    assert not folder.is_off
    assert main(["device", "page", f"--folder={folder.path}"]) == 3
    assert "rase device run --page" in capsys.readouterr().err
    folder.keep_page("http://127.0.0.1:1/secret/")
    assert main(["device", "page", f"--folder={folder.path}"]) == 0
    assert capsys.readouterr().out == "http://127.0.0.1:1/secret/\n"
