"""The device as a program of its own does what ``rase device`` does, without click."""

import io
import json
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from tests.cases import each_case

from rase.device.__main__ import main
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
    for path in (file, tmp_path / "approval"):
        path.chmod(0o600)
    return f"--token-file={file}"


def approved(token: str) -> str:
    """Return the option that names the file with an approval."""
    return f"--approval-file={Path(token.partition('=')[2]).with_name('approval')}"


@pytest.fixture
def folder(tmp_path: Path, token: str, capsys: pytest.CaptureFixture[str]) -> DeviceFolder:
    """A device as enrolment leaves it, though no shuffler was there."""
    path = tmp_path / "device"
    options = [*OPTIONS, "--range", "0", "3000", "--least-k", "20"]
    assert main(["enrol", f"--folder={path}", token, approved(token), *options]) == 4
    assert "rase-device.pyz: error: " in capsys.readouterr().err
    made = DeviceFolder(path)
    made.keep_enrolment("bearer")
    return made


def test_enrolling_writes_the_settings_that_were_typed(
    folder: DeviceFolder, tmp_path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Range and group size arrive; without click a missing option is named all the same."""
    text = folder.settings_file.read_text("utf-8")
    assert "low = 0.0\nhigh = 3000.0\nleast_k = 20\n" in text
    assert main(["enrol", f"--folder={tmp_path / 'other'}", token, approved(token)]) == 3
    with (tmp_path / "token").open(encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        third = f"--folder={tmp_path / 'third'}"
        assert main(["enrol", third, "--token-file=-", approved(token), *OPTIONS]) == 4


def test_a_device_that_is_enrolled_is_named(
    folder: DeviceFolder, token: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """The line says what to do next with this file, and refusals name its own commands."""
    where = f"--folder={folder.path}"
    assert main(["enrol", where, token, approved(token)]) == 3
    assert "run rase-device.pyz forget first" in capsys.readouterr().err
    folder.credential_file.unlink()
    monkeypatch.setattr("rase.device.enrolment.enrol", lambda *_, **__: "d7")
    assert main(["enrol", where, token, approved(token)]) == 0
    shown = capsys.readouterr().err
    assert shown.startswith("enrolled as d7. Set [source] in ")
    assert f"rase-device.pyz run --folder {folder.path}" in shown


def test_the_owner_pauses_resumes_asks_and_forgets(
    folder: DeviceFolder,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forgetting asks first; the ledger stays."""
    where = f"--folder={folder.path}"
    assert main(["pause", where]) == 0
    assert folder.is_paused
    assert main(["budget", where]) == 0
    assert "sharing is paused" in capsys.readouterr().out
    assert main(["resume", where]) == 0
    assert not folder.is_paused
    assert main(["budget", where, "--json", "--history=3"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "rase/budget/1"
    assert main(["page", where]) == 3
    folder.keep_page("http://127.0.0.1:1/secret/")
    assert main(["page", where]) == 0
    assert capsys.readouterr().out == "http://127.0.0.1:1/secret/\n"
    answers = tmp_path / "answers"
    answers.write_text("no\nyes\n", encoding="ascii")
    with answers.open(encoding="ascii") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert main(["forget", where]) == 130
        assert folder.is_enrolled
        assert main(["forget", where]) == 0
    assert not folder.is_enrolled
    assert folder.ledger_file.exists()
    assert main(["forget", where, "--yes"]) == 0
    assert main(["pause", where]) == 3


@each_case(
    ("typed", "expected"),
    [
        ([], (Path("rase-device"), None, None, ())),
        (["--folder", "here", "--rounds=3"], (Path("here"), 3, None, ())),
        (["--page", "--rounds", "2"], (Path("rase-device"), 2, 8750, ())),
        (["--page=0"], (Path("rase-device"), None, 0, ())),
        (["--also=a", "--also=b"], (Path("rase-device"), None, None, [Path("a"), Path("b")])),
    ],
)
def test_running_takes_the_same_options(typed: list[str], expected: tuple[Any, ...]) -> None:
    """Folder, rounds and the page's port arrive as `rase device run` hands them on."""
    seen = []

    def note(folder: Path, *, rounds: int | None, page_port: int | None, more: Any) -> None:
        seen.append((folder, rounds, page_port, more))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rase.device.commands.run_agent", note)
        assert main(["run", *typed]) == 0
    assert seen == [expected]


@each_case(
    ("typed", "words"),
    [
        ([], "COMMAND"),
        (["dance"], "invalid choice"),
        (["enrol"], "--token-file"),
        (["enrol", "--token-file=x"], "--approval-file"),
        (["run", "--rounds=0"], "must be a whole number at least 1, got '0'"),
        (["run", "--page=65536"], "from 0 to 65535, got '65536'"),
        (["enrol", "--token-file=x", "--approval-file=x", "--least-k=1"], "at least 2, got '1'"),
        (["budget", "--history=-1"], "got '-1'"),
    ],
)
def test_what_is_typed_wrong_is_one_line(typed: list[str], words: str) -> None:
    """Exit code 2 and one line with the way to the help, as everywhere else."""
    with redirect_stderr(io.StringIO()) as written, pytest.raises(SystemExit) as ended:
        main(typed)
    assert ended.value.code == 2
    [line] = written.getvalue().splitlines()
    assert words in line
    assert line.startswith("rase-device.pyz: error: ")
    assert line.endswith("--help lists what there is.")
