"""A real Home Assistant without screen, in a folder of its own, driven through its own interfaces.

``make homeassistant`` installs it and runs the tests that need it; RASE_HOME_ASSISTANT names
another ``hass``. Nothing of Home Assistant is imported: it is asked over HTTP, as its own pages do.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.loading.ports import held_port
from tests.broker import Mosquitto
from tests.patience import PATIENCE_S, until

__all__ = ["HomeAssistant"]

_PROGRAM = Path(
    os.environ.get("RASE_HOME_ASSISTANT")
    or Path(__file__).parents[1] / ".venv-homeassistant/bin/hass"
)
_OWNER = {"username": "owner", "password": "only-for-tests"}


class HomeAssistant:
    """Run Home Assistant with its MQTT integration against a broker.

    Args:
        folder: Where it keeps everything.
        broker: The broker in the home.
    """

    def __init__(self, folder: Path, broker: Mosquitto) -> None:
        if not _PROGRAM.exists():
            pytest.fail(f"{_PROGRAM} must be Home Assistant. Run make homeassistant.")
        folder.mkdir()
        port = held_port()
        self.url = f"http://127.0.0.1:{port}"
        (folder / "configuration.yaml").write_text(
            "homeassistant: {name: Test, unit_system: metric, time_zone: UTC}\n"
            f"http: {{server_host: 127.0.0.1, server_port: {port}}}\napi:\nconfig:\n"
        )
        where = ["--config", str(folder)]
        subprocess.run(
            [_PROGRAM, "--script", "auth", *where, "add", *_OWNER.values()],
            check=True,
            capture_output=True,
        )
        self._log = (folder / "out.log").open("w")
        self._process = subprocess.Popen(
            [_PROGRAM, *where, "--skip-pip"], stdout=self._log, stderr=subprocess.STDOUT
        )
        self._client = httpx.Client(base_url=self.url, timeout=PATIENCE_S)
        try:
            until(self._is_up)
            self.token = self._logged_in()
            self._client.headers["Authorization"] = f"Bearer {self.token}"
            self._add_broker(broker)
        except BaseException:
            self.close()
            raise

    def state(self, entity: str) -> dict[str, Any]:
        """Return an entity with state and attributes; empty if there is none."""
        answer = self._client.get(f"/api/states/{entity}")
        return dict(answer.json()) if answer.status_code == 200 else {}

    def entities(self, domain: str, word: str) -> dict[str, dict[str, Any]]:
        """Return the entities of a domain whose id has a word in it."""
        return {
            one["entity_id"]: one
            for one in self._client.get("/api/states").json()
            if one["entity_id"].startswith(f"{domain}.") and word in one["entity_id"]
        }

    def press(self, entity: str, service: str) -> None:
        """Call a service of an entity's domain, as a tap on the screen does."""
        domain = entity.partition(".")[0]
        self._client.post(
            f"/api/services/{domain}/{service}", json={"entity_id": entity}
        ).raise_for_status()

    def complaints(self) -> list[str]:
        """Return what Home Assistant wrote about MQTT or its entities that is not good."""
        self._log.flush()
        return [
            line
            for line in Path(self._log.name).read_text("utf-8").splitlines()
            if ("ERROR" in line or "WARNING" in line)
            and ("components.mqtt" in line or "components.sensor" in line or "helpers" in line)
        ]

    def close(self) -> None:
        """End it."""
        self._client.close()
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _is_up(self) -> bool:
        assert self._process.poll() is None, "Home Assistant ended"
        try:
            # Without a token it refuses, which is an answer.
            return self._client.get("/api/").status_code == 401
        except httpx.TransportError:
            return False

    def _logged_in(self) -> str:
        client = f"{self.url}/"
        begun = self._client.post(
            "/auth/login_flow",
            json={
                "client_id": client,
                "handler": ["homeassistant", None],
                "redirect_uri": client,
            },
        ).json()
        done = self._client.post(
            f"/auth/login_flow/{begun['flow_id']}", json={"client_id": client, **_OWNER}
        ).json()
        answer = self._client.post(
            "/auth/token",
            data={
                "grant_type": "authorization_code",
                "code": done["result"],
                "client_id": client,
            },
        )
        return str(answer.raise_for_status().json()["access_token"])

    def _add_broker(self, broker: Mosquitto) -> None:
        flows = "/api/config/config_entries/flow"
        begun = self._client.post(flows, json={"handler": "mqtt"}).raise_for_status().json()
        asked = {"broker": "127.0.0.1", "port": broker.port}
        # Since 2026 what used to be optional is a section that must be there.
        sections = [one["name"] for one in begun["data_schema"] if one.get("type") == "expandable"]
        asked.update({name: {"set_client_cert": False, "set_ca_cert": "off"} for name in sections})
        done = self._client.post(f"{flows}/{begun['flow_id']}", json=asked).json()
        assert done.get("type") == "create_entry", done
