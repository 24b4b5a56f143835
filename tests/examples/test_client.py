"""A device in JavaScript, written from the specification alone, passes the conformance servers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S
from tests.programs import program

CLIENT = Path(__file__).parents[2] / "examples/client/device.mjs"


@pytest.mark.needs("node")
def test_the_client_reports_and_its_rounds_become_final(tmp_path: Path) -> None:
    """It enrols, fetches tokens and reports for two devices, and nothing is found wrong."""
    command = [sys.executable, "-m", "rase", "conformance", "serve", "--json"]
    command += ["--kit", "kit.json", "--mechanism", "optimal", "--patience", f"{PATIENCE_S:.0f}s"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as servers:
        assert servers.stdout is not None
        ready = json.loads(servers.stdout.readline())
        assert ready["kind"] == "ready"
        client = subprocess.run(
            [program("node"), CLIENT, "kit.json", "400", "2"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert client.returncode == 0, client.stderr
        lines = [json.loads(line) for line in servers.stdout]
    assert servers.returncode == 0, lines
    assert [line["kind"] for line in lines].count("ok") == 4
    assert lines[-1]["text"] == "2 rounds final, 4 reports right, 0 findings."
