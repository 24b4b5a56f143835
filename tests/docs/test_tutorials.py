"""Tutorials are followed word by word: their shell blocks run in an empty folder, in order."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from benchmarks.loading.ports import held_port
from tests.lab.kept_cells import kept_folder
from tests.programs import commands_in, program

START = Path(__file__).parents[2] / "docs/start"
_LONGEST_S = 300


@pytest.mark.needs("mosquitto", "mosquitto_pub")
def test_the_first_device_tutorial_ends_with_a_mean(tmp_path: Path) -> None:
    """Broker, servers and three devices start as the page says, and the question is answered."""
    broker, shuffler, fusion = (held_port() for _ in range(3))
    script = blocks_of(START / "first-device.md")
    # Other tests run beside this one: only the ports are not those of the page.
    script = script.replace("18830", str(broker)).replace(":8702", f":{fusion}")
    servers = f"--shuffler-url http://127.0.0.1:{shuffler} --fusion-url http://127.0.0.1:{fusion}"
    script = script.replace("rase init try", f"rase init try {servers}")
    told = followed(script, tmp_path)
    assert re.search(r"Z  -?\d+ W ± \d+ \(95 %: -?\d+ to \d+, n = 3\)", told), told
    assert "1-LDP per report" in told
    assert re.search(r"reports made +[1-9]", told), told
    logs = "".join((tmp_path / f"plug-{i}.log").read_text(encoding="utf-8") for i in (1, 2, 3))
    assert "event=sent" in logs


def test_the_figure_5_tutorial_gives_what_it_says(tmp_path: Path) -> None:
    """All claims of the experiment hold, and the report and table are there."""
    # Cells that a test of this code has measured are taken from there.
    cells = kept_folder(tmp_path / "cells")
    cells.mkdir(exist_ok=True)
    (tmp_path / "rase-lab").mkdir()
    (tmp_path / "rase-lab/.cache").symlink_to(cells)
    told = followed(blocks_of(START / "figure-5.md"), tmp_path)
    assert re.search(r"^fig5 +Fig\. 5a-e +7 of 7$", told, re.MULTILINE), told
    assert "report: rase-lab/report.html" in told
    assert (tmp_path / "rase-lab/report.html").stat().st_size > 100_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["first-mean", "notebook"])
def test_what_is_typed_in_python_gives_what_the_page_shows(name: str, tmp_path: Path) -> None:
    """A fresh Python in an empty folder answers every line of the page as it says."""
    text = (START / f"{name}.md").read_text("utf-8")
    # A fence is no output: without the blank line it would be taken for one.
    (tmp_path / "page.md").write_text(text.replace("\n```", "\n\n```"), encoding="utf-8")
    printed = followed("python -m doctest -v -o NORMALIZE_WHITESPACE page.md", tmp_path)
    (passed,) = re.findall(r"^(\d+) passed and 0 failed", printed, re.MULTILINE)
    assert int(passed) == text.count("\n>>> ")


@pytest.mark.slow
def test_the_demonstration_prints_the_lines_of_its_page(tmp_path: Path) -> None:
    """`rase demo --seed 1` gives the hours that the page shows, word for word, and a picture."""
    (shown,) = re.findall(
        r"^```text\n(.*?)^```", (START / "live-demo.md").read_text("utf-8"), re.M | re.S
    )
    printed = followed("rase demo --seed 1", tmp_path)
    hours = [line for line in shown.splitlines() if " true " in line]
    remarks = [line for line in shown.splitlines() if " true " not in line]
    assert len(hours) == 4
    for line in [*hours, *remarks]:
        assert line in printed
    for name in ("Result", "Day", "Reports", "Privacy", "Who saw", "Small"):
        assert re.search(rf"^{name} ", printed, re.MULTILINE), name
    assert (tmp_path / "rase-demo.png").stat().st_size > 50_000


@pytest.mark.slow
@pytest.mark.needs("git")
def test_the_install_page_ends_with_a_program(tmp_path: Path) -> None:
    """In a clone, the commands for an environment of your own end with a program that answers."""
    blocks = re.findall(
        r"\n\n((?:    \S.*\n)+)", (START / "install.md").read_text("utf-8").replace("\t", "    ")
    )
    own = next(block for block in blocks if "python3 -m venv rase-env" in block)
    root = START.parents[1]
    script = f"git clone -q --depth 1 file://{root} rase\ncd rase\n{own}\ncd ..\n"
    script = script.replace("python3 -m venv", f"{sys.executable} -m venv")
    printed = followed(f"{script}rase run --help\nrase lab list\n", tmp_path)
    assert re.search(r"^rase(?:, version)? \d+\.\d+", printed, re.MULTILINE), printed[-2000:]
    assert "fig5" in printed
    # Nothing that the page makes shows up as a change of the clone.
    assert followed("git -C rase status --porcelain", tmp_path).strip() == ""


def blocks_of(page: Path) -> str:
    """Return the page's shell blocks, joined."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.M | re.S))


def followed(script: str, folder: Path) -> str:
    """Run a script in a folder as its own session, and return what it printed."""
    for name in commands_in(script):
        program(name)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with (folder / "told.txt").open("w", encoding="utf-8") as out:
        run = subprocess.Popen(
            ["/bin/bash", "-e", "-c", script],
            cwd=folder,
            env={**os.environ, "PATH": path, "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = run.wait(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    told = (folder / "told.txt").read_text(encoding="utf-8")
    assert code == 0, told
    return told
