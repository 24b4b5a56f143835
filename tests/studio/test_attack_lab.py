"""The attack lab without scripts: forms, runs, who may see them, and what they leave behind."""

import asyncio
import csv
import io
import json
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S
from tests.studio.conftest import Visitor

from rase.lab.attacks import ATTACK_NAMES
from rase.lab.schemes import SCHEME_NAMES
from rase.studio import attack as attack_page
from rase.studio import attack_worker
from rase.studio.attack import ATTACKS, RUNS, SCHEMES, Wanted, wanted_of
from rase.studio.attack.jobs import Run, Runs

FAST: dict[str, Any] = {"devices": "6", "days": "4", "attacks": "bayes", "schemes": ["raw", "best"]}


@pytest.fixture
def lab(visitor: Visitor) -> Iterator[Visitor]:
    """A visitor; nothing is left of the runs afterwards."""
    yield visitor
    RUNS.close()


def send(visitor: Visitor, action: str = "/attack", **fields: Any) -> Any:
    """Send a form of the attack lab."""
    files = fields.pop("files", None)
    return visitor.ask(
        "POST",
        action,
        data={"proof": visitor.proof(visitor.get("/attack").text), **fields},
        files=files or {"file": ("", b"")},
    )


def started(visitor: Visitor, **fields: Any) -> str:
    """Start a run and return its address."""
    answer = send(visitor, **{**FAST, **fields})
    assert answer.status_code == 303, answer.text
    address: str = answer.headers["location"]
    return address


def ended(visitor: Visitor, address: str) -> dict[str, Any]:
    """Wait until a run is over; return its state."""
    run = RUNS._runs[address.rsplit("/", 1)[1]]
    with RUNS.changed:
        assert RUNS.changed.wait_for(lambda: run.is_over, PATIENCE_S)
    state: dict[str, Any] = visitor.get(f"{address}/state.json").json()
    return state


def test_names_are_the_labs() -> None:
    """The form offers every attack and every scheme of the lab, and nothing else."""
    assert tuple(ATTACKS) == ATTACK_NAMES
    assert tuple(SCHEMES) == SCHEME_NAMES


@pytest.mark.uncovered
def test_a_run_on_the_synthetic_fleet(lab: Visitor) -> None:
    """Precision and recall of every device, chance, the report and the table come out."""
    address = started(lab)
    assert ended(lab, address)["state"] == "done"
    page = lab.get(address)
    assert "home-1 fridge" in page.text
    assert "16.7 %" in page.text
    assert "style=" not in page.text
    assert address in lab.get("/attack").text
    report = lab.get(f"{address}/report.html")
    assert report.headers["content-disposition"].startswith("attachment")
    assert "<svg" in report.text
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]+"|http-equiv', "", report.text)
    rows = list(csv.DictReader(io.StringIO(lab.get(f"{address}/devices.csv").text)))
    assert len(rows) == 6 * 2
    assert {row["scheme"] for row in rows} == {"raw", "best"}
    assert float(rows[0]["chance"]) == pytest.approx(1 / 6)
    assert lab.get(f"{address}/job.json").status_code == 404
    assert lab.get(f"{address}/../../etc/passwd").status_code == 404


@pytest.mark.uncovered
def test_a_run_on_ones_own_file_keeps_no_readings(lab: Visitor) -> None:
    """The file is attacked, its name shown harmlessly, and erased when the run is over."""
    lines = ["time,device,value"]
    for hour in range(60):
        for device in ("kettle", "=cmd()", "<b>lamp</b>"):
            time = f"2026-06-{1 + hour // 24:02d}T{hour % 24:02d}:00:00Z"
            lines.append(f"{time},{device},{100 + 7 * hour % 50}")
    upload = {"file": ("../my <file>.csv", "\n".join(lines).encode())}
    address = started(lab, data="file", devices="3", every="1h", files=upload)
    state = ended(lab, address)
    assert state["state"] == "done", state
    folder = RUNS._runs[address.rsplit("/", 1)[1]].folder
    assert not (folder / "data.csv").exists()
    assert folder.stat().st_mode & 0o077 == 0
    page = lab.get(address).text
    assert "my _file_.csv" in page
    assert "<b>lamp" not in page
    assert "&#39;=cmd()" not in page
    assert "'=cmd()" in lab.get(f"{address}/devices.csv").text
    assert "<b>lamp" not in lab.get(f"{address}/report.html").text


@pytest.mark.uncovered
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not,a\ntable", "x.csv"),
        (b"time,device,value\n2026-01-01,a,1\n", "rows of x.csv come at irregular times"),
        (b"\x00\xff\x00", ""),
    ],
)
def test_a_file_that_cannot_be_attacked_is_told(lab: Visitor, content: bytes, words: str) -> None:
    """A sentence says what is wrong with it, without a path of the server."""
    address = started(lab, data="file", devices="", files={"file": ("x.csv", content)})
    state = ended(lab, address)
    assert state["state"] == "failed"
    assert words in state["error"]
    assert state["error"].endswith(".")
    assert "/tmp" not in state["error"]  # noqa: S108 - a path must not be told
    assert state["error"] in lab.get(address).text.replace("&#39;", "'").replace("&#34;", '"')


@pytest.mark.uncovered
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("epsilon", {"epsilon": "0"}),
        ("epsilon", {"epsilon": "nan"}),
        ("epsilon", {"epsilon": "one"}),
        ("devices", {"devices": "1"}),
        ("devices", {"devices": "1e9"}),
        ("devices", {"devices": "2.5"}),
        ("days", {"days": "x" * 500}),
        ("high", {"high": "-1"}),
        ("seed", {"seed": "-1"}),
        ("groups", {"groups": "0"}),
        ("alpha", {"alpha": "inf"}),
        ("every", {"every": "1s"}),
        ("every", {"every": "soon"}),
        ("data", {"data": "live"}),
        ("split", {"split": "never"}),
        ("arrival", {"arrival": "late"}),
        ("attacks", {"attacks": []}),
        ("attacks", {"attacks": ["bayes", "magic"]}),
        ("schemes", {"schemes": list(SCHEMES)}),
        ("file", {"data": "file"}),
    ],
)
def test_a_bad_form_starts_nothing(lab: Visitor, name: str, fields: dict[str, Any]) -> None:
    """The form comes back with a sentence beside the field."""
    answer = send(lab, **{**FAST, **fields})
    assert answer.status_code == 400
    if name not in ("data",):
        assert f'id="e-{name}"' in answer.text
    assert not RUNS.newest_first()


@pytest.mark.parametrize(
    ("name", "size", "words"),
    [
        ("data.exe", 5, "must end in .csv or .parquet"),
        ("data.csv", 17 << 20, "at most 16 MiB"),
        ("data.csv", 0, "must be chosen"),
    ],
)
def test_bad_files_are_refused(name: str, size: int, words: str) -> None:
    """Kind and size are checked before anything is kept."""
    texts = {**Wanted.usual().texts, "data": "file"}
    wanted = wanted_of(texts, attacks=["bayes"], schemes=["raw"], file_name=name, file_bytes=size)
    assert wanted.job is None
    assert words in wanted.mistakes["file"]


def test_a_body_beyond_the_limit_is_cut(lab: Visitor) -> None:
    """More than the largest file is not even read."""
    answer = send(lab, **FAST, files={"file": ("big.csv", bytes(18 << 20))})
    assert answer.status_code == 413


def test_a_run_can_be_cancelled_and_erased(lab: Visitor) -> None:
    """Cancelling ends the process; erasing leaves no file, and the address is gone."""
    address = started(lab, devices="64", days="40", attacks=["value", "value_time", "profile"])
    run = RUNS._runs[address.rsplit("/", 1)[1]]
    with RUNS.changed:
        assert RUNS.changed.wait_for(lambda: run.process is not None, PATIENCE_S)
    process = run.process
    assert process is not None
    assert send(lab, f"{address}/cancel").status_code == 303
    assert process.wait(PATIENCE_S) != 0
    assert "cancelled" in lab.get(address).text
    assert lab.get(f"{address}/report.html").status_code == 404
    assert send(lab, f"{address}/cancel").status_code == 303
    assert send(lab, f"{address}/erase").headers["location"] == f"{lab.root}/attack"
    assert not run.folder.exists()
    assert lab.get(address).status_code == 404


@pytest.mark.uncovered
def test_the_queue_is_bounded(lab: Visitor) -> None:
    """More runs than can wait are refused with a sentence, and nothing of them is kept."""
    answers = [send(lab, **{**FAST, "devices": "40", "days": "30"}) for _ in range(10)]
    assert {answer.status_code for answer in answers} == {303, 429}
    assert "Too many runs" in answers[-1].text
    assert len(RUNS.newest_first()) <= 8


def test_without_the_extra_it_says_so(lab: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lab's packages the page names the extra, and starts nothing."""
    monkeypatch.setattr(attack_page, "_PACKAGES", ("a_package_that_is_not_there",))
    page = lab.get("/attack")
    assert "rase-iot[lab]" in page.text
    assert send(lab, **FAST).status_code == 409


@pytest.mark.uncovered
def test_the_studio_loads_no_package_of_the_lab() -> None:
    """Importing the pages loads neither sklearn, matplotlib nor scipy.stats."""
    code = (
        "import sys, rase.studio.app;"
        "bad = {'sklearn', 'matplotlib', 'scipy', 'rase.lab'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_form_without_its_proof_is_refused(lab: Visitor) -> None:
    """Another site cannot start a run."""
    assert lab.ask("POST", "/attack", data=FAST).status_code == 403


def a_job(**fields: str) -> dict[str, Any]:
    """Return the job of a form."""
    texts = {**Wanted.usual().texts, **fields}
    job = wanted_of(texts, attacks=["value"], schemes=["raw"], file_name="", file_bytes=0).job
    assert job is not None
    return job


def test_a_run_that_takes_too_long_is_ended() -> None:
    """The limit of time ends the process, and the run says so."""
    runs = Runs(longest_s=0.05)
    run = runs.start(a_job())
    with runs.changed:
        assert runs.changed.wait_for(lambda: run.is_over, PATIENCE_S)
    assert run.state == "failed"
    assert "ended early" in run.error
    runs.close()


def test_a_run_that_cannot_be_started_does_not_stop_those_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Want of memory for a process is that run's failure; the next one has its turn."""

    def no_memory(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    runs = Runs(longest_s=0.05)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", no_memory)
        first = runs.start(a_job())
        with runs.changed:
            assert runs.changed.wait_for(lambda: first.is_over, PATIENCE_S)
    assert first.error == "The run could not be started: Cannot allocate memory."
    second = runs.start(a_job())
    with runs.changed:
        assert runs.changed.wait_for(lambda: second.is_over, PATIENCE_S)
    assert "ended early" in second.error
    runs.close()


def test_a_run_whose_file_cannot_be_kept_takes_no_place() -> None:
    """A full disk must not fill the queue."""

    class Full(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise OSError(28, "No space left on device")

    runs = Runs()
    with pytest.raises(OSError, match="No space left"):
        runs.start({**a_job(), "file": "data.csv"}, upload=Full())
    assert runs.newest_first() == []
    runs.close()


def test_old_results_are_erased_while_nobody_asks() -> None:
    """The thread that runs attacks looks by itself for what is too old."""
    runs = Runs(longest_s=0.05, kept_s=0.0, sweep_s=0.05)
    run = runs.start(a_job())
    with runs.changed:
        assert runs.changed.wait_for(lambda: not runs._runs, PATIENCE_S)
    assert not run.folder.exists()
    runs.close()


def test_what_a_worker_says_cannot_break_the_server(tmp_path: Path) -> None:
    """Lines that are no steps are passed over, and so is what comes after the end."""
    runs = Runs()
    run = Run("id", a_job(), tmp_path, 0.0)
    for line in ("no json\n", "[1, 2]\n", '{"done": 3, "total": 9, "doing": "it"}\n'):
        runs._note(run, line)
    assert run.progress() == {"state": "queued", "done": 3, "total": 9, "doing": "it", "error": ""}
    runs.cancel(run)
    runs._note(run, '{"done": 9}\n')
    assert (run.done, run.state) == (3, "cancelled")
    runs._attack(run)
    assert run.process is None


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "too much memory"),
        (ModuleNotFoundError("no", name="sklearn"), 'Attacks need sklearn: pip install "rase-iot'),
    ],
)
def test_the_worker_says_what_it_lacks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    words: str,
) -> None:
    """Want of memory or of a package is one sentence on its output, and status 1."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(attack_worker, "_attack", fail)
    (tmp_path / "job.json").write_text("{}")
    assert attack_worker.main(tmp_path) == 1
    assert words in json.loads(capsys.readouterr().out)["error"]


def test_the_studio_takes_its_runs_along(lab: Visitor) -> None:
    """When the server stops, processes end and files go."""
    address = started(lab)
    run = RUNS._runs[address.rsplit("/", 1)[1]]

    async def serve() -> None:
        assert attack_page.PAGE.lifespan is not None
        async with attack_page.PAGE.lifespan():
            pass

    asyncio.run(serve())
    assert run.is_over
    assert not run.folder.exists()
