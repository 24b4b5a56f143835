"""Every file under deploy is parsed, its options exist, and its ports and names agree."""

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from pydantic import BaseModel
from tests.programs import program

from rase.answer import Answer
from rase.cli import COMMANDS, main
from rase.clock import SystemClock
from rase.device.settings import KEYS, settings_of
from rase.device.sources import SOURCES
from rase.fusion.settings import FusionSettings
from rase.registrar.settings import RegistrarSettings
from rase.service.keyring import rotate_opening_key
from rase.service.metrics import COUNTERS, GAUGES
from rase.service.settings import load_settings
from rase.shuffler.settings import LimitSettings, ShufflerSettings
from rase.wire.frames import MAX_POLICY_BYTES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PORTS = {
    "shuffler": "8701",
    "fusion": "8702",
    "closer": "8703",
    "registrar": "8704",
    "broker": "8883",
}
ANSWER = set(Answer.__dataclass_fields__)


def parse_yaml(text: str) -> Any:
    """Read the plain YAML of these files: maps and lists by indent, scalars, flow lists of JSON."""
    lines = [
        line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")
    ]
    assert not any("\t" in line for line in lines)
    value, rest = _block(lines, 0)
    assert rest == []
    return value


def _block(lines: list[str], indent: int) -> tuple[Any, list[str]]:
    if lines[0].lstrip().startswith("- "):
        items: list[Any] = []
        while lines and _indent(lines[0]) == indent and lines[0].lstrip().startswith("- "):
            inner = lines[0][indent + 2 :]
            if re.match(r"[\w_]+:( |$)", inner):
                item, lines = _block([" " * (indent + 2) + inner, *lines[1:]], indent + 2)
            else:
                item, lines = _scalar(inner), lines[1:]
            items.append(item)
        return items, lines
    found: dict[str, Any] = {}
    while lines and _indent(lines[0]) == indent:
        key, sign, value = lines[0].strip().partition(":")
        assert sign, lines[0]
        assert key not in found, key
        lines = lines[1:]
        if value.strip():
            found[key] = _scalar(value.strip())
        else:
            found[key], lines = _block(lines, _indent(lines[0]))
    assert not lines or _indent(lines[0]) < indent, lines[0]
    return found, lines


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _scalar(text: str) -> Any:
    if text[0] in '[{"' or text in ("true", "false"):
        return json.loads(text)
    return int(text) if text.isdecimal() else text


def check_command(words: list[str]) -> None:
    """Fail unless a command line of rase exists with all its options."""
    command: Any = import_module(COMMANDS[words[0]].module).command
    words = words[1:]
    while isinstance(command, click.Group):
        command = command.commands[words[0]]
        words = words[1:]
    options = {name for one in command.params for name in one.opts}
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in options, word


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_are_hardened_and_start_what_exists(unit: Path) -> None:
    """A unit runs a command that exists, as a user of its own, with few rights."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    service = dict(parser["Service"])
    started, *words = shlex.split(service["ExecStart"])
    assert started == "/opt/rase/bin/rase"
    check_command(words)
    assert service["User"] not in ("", "root")
    assert (service["ProtectSystem"], service["NoNewPrivileges"]) == ("strict", "yes")
    assert service["CapabilityBoundingSet"] == ""
    assert (service["UMask"], service["LimitCORE"]) == ("0077", "0")
    assert parser["Install"]["WantedBy"] == "multi-user.target"


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_finds_the_units_sound_and_little_exposed(unit: Path, tmp_path: Path) -> None:
    """It has nothing to say about a unit but that its program is not installed here."""
    analyze = program("systemd-analyze")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/rase/bin/rase", sys.executable))
    done = subprocess.run([analyze, "verify", copy], capture_output=True, text=True, check=False)
    mine = [line for line in done.stderr.split("\n") if unit.name in line]
    assert mine == []
    # Tenths: 0 is no exposure, 100 all; what remains is the network, which a server needs.
    done = subprocess.run(
        [analyze, "security", "--offline=true", "--threshold=15", "--no-pager", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-200:]


@pytest.mark.needs("systemd-analyze")
def test_the_one_file_takes_the_place_of_the_package(tmp_path: Path) -> None:
    """With the drop-in the same unit runs the file, and systemd has nothing to say about it."""
    unit = tmp_path / "rase-device.service"
    unit.write_text((DEPLOY / "systemd" / unit.name).read_text())
    (tmp_path / "rase-device.service.d").mkdir()
    drop_in = (DEPLOY / "systemd/rase-device.service.d/one-file.conf").read_text()
    # Were the package's command still there, systemd would miss its program.
    (tmp_path / "rase-device.service.d/one-file.conf").write_text(
        drop_in.replace("/usr/local/bin/rase-device.pyz", sys.executable)
    )
    done = subprocess.run(
        [program("systemd-analyze"), "verify", unit],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.split("\n") if "rase-device" in line] == []


def test_the_intake_has_more_connections_than_reports_may_wait() -> None:
    """Its queue is full before its files are, so that the many are answered 429."""
    unit = (DEPLOY / "systemd/rase-shuffler-intake.service").read_text(encoding="utf-8")
    limit = re.search(r"^LimitNOFILE=(\d+)$", unit, re.M)
    assert limit is not None
    assert int(limit.group(1)) > 2 * LimitSettings().max_waiting


@pytest.fixture
def rotated(tmp_path: Path) -> Path:
    """A shuffler's folder whose opening key was rotated 30 times; its path stands for /etc/rase."""
    folder = tmp_path / "installed"
    options = ("--range", "0", "3000", "--epsilon", "1", "--cache", "1h")
    assert main(["init", str(folder), *options]) == 0
    shuffler = folder / "shuffler"
    for step in range(30):
        settings = load_settings(
            ShufflerSettings, "shuffler", path=shuffler / "rase.toml", environment={}
        )
        files = settings.opening_key_files
        now_s = int(SystemClock().now_s()) + step * 86400
        rotate_opening_key(shuffler, files, now_s=now_s, valid_s=40 * 86400)
    keys = sorted(path.name for path in (shuffler / "keys").iterdir())
    assert len([name for name in keys if name.startswith("opening-")]) == 31
    assert "signing.key" in keys
    return shuffler


def hidden_from_intake(path: str) -> bool:
    """Return whether the unit of the intake keeps a path from it."""
    text = (DEPLOY / "systemd/rase-shuffler-intake.service").read_text()
    hidden = re.findall(r"^InaccessiblePaths=-?(/\S+)$", text, re.M)
    return any(Path(path).is_relative_to(one) for one in hidden)


def test_the_intake_cannot_see_private_keys(rotated: Path) -> None:
    """Its unit hides the signing key and every opening key, also those of 30 rotations."""
    private = []
    for path in (one for one in rotated.rglob("*") if one.is_file()):
        deployed = f"/etc/rase/shuffler/{path.relative_to(rotated)}"
        is_private = "RASE-SECRET-KEY" in path.read_text("utf-8")
        assert hidden_from_intake(deployed) is is_private, deployed
        private += [path] if is_private else []
    assert len(private) == 32
    full = tomllib.loads((DEPLOY / "config/shuffler-full.toml").read_text())["shuffler"]
    for name in (full["signing_key_file"], *full["opening_key_files"]):
        assert hidden_from_intake(f"/etc/rase/shuffler/{name}")
    # What the intake itself needs must not be hidden with them.
    for name in (full["public_keys_file"], full["mqtt"]["password_file"]):
        assert not hidden_from_intake(f"/etc/rase/shuffler/{name}")
    closer = (DEPLOY / "systemd/rase-shuffler-closer.service").read_text()
    assert "InaccessiblePaths" not in closer


def test_the_intakes_container_cannot_see_private_keys(rotated: Path) -> None:
    """An empty folder lies over every place where a mounted folder has a private key."""
    services = parse_yaml((DEPLOY / "compose/compose.yaml").read_text())["services"]

    def visible(service: dict[str, Any]) -> list[Path]:
        found = []
        covered = [Path(one.partition(":")[0]) for one in service["tmpfs"]]
        for mount in service["volumes"]:
            source, _, target = mount.rpartition(":")
            assert source.startswith("${RASE_INSTALLED:")
            assert source.endswith("}/shuffler")
            for path in rotated.rglob("*.key"):
                place = Path(target) / path.relative_to(rotated)
                if not any(place.is_relative_to(one) for one in covered):
                    found.append(place)
        return found

    assert visible(services["intake"]) == []
    assert len(visible(services["closer"])) == 32


@pytest.mark.parametrize("name", ["shuffler-minimal", "shuffler-full"])
def test_shuffler_settings_are_read(name: str) -> None:
    """The files are accepted as they are."""
    settings = load_settings(
        ShufflerSettings, "shuffler", path=DEPLOY / f"config/{name}.toml", environment={}
    )
    assert str(settings.port) == PORTS["shuffler"]


@pytest.mark.parametrize("name", ["fusion-minimal", "fusion-full"])
def test_fusion_settings_are_read(name: str) -> None:
    """The files are accepted as they are."""
    settings = load_settings(
        FusionSettings, "fusion", path=DEPLOY / f"config/{name}.toml", environment={}
    )
    assert str(settings.port) == PORTS["fusion"]


@pytest.mark.parametrize("name", ["registrar-minimal", "registrar-full"])
def test_registrar_settings_are_read(name: str) -> None:
    """The files are accepted as they are."""
    settings = load_settings(
        RegistrarSettings, "registrar", path=DEPLOY / f"config/{name}.toml", environment={}
    )
    assert str(settings.port) == PORTS["registrar"]


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("shuffler", ShufflerSettings),
        ("fusion", FusionSettings),
        ("registrar", RegistrarSettings),
    ],
)
def test_full_settings_name_everything_with_its_default(name: str, model: type[BaseModel]) -> None:
    """No setting is missing from the full file; what is said to be a default is one."""
    text = (DEPLOY / f"config/{name}-full.toml").read_text()
    table = tomllib.loads(text)[name]
    assert set(table) == set(model.model_fields)
    for key, field in model.model_fields.items():
        if isinstance(field.default, int | str) and not isinstance(table[key], dict):
            assert table[key] == field.default, key
    minimal = tomllib.loads((DEPLOY / f"config/{name}-minimal.toml").read_text())[name]
    needed = {key for key, field in model.model_fields.items() if field.is_required()}
    assert set(minimal) == needed
    commented = set(re.findall(r"# (\w+) = ", text))
    for key in ("policy", "limits", "mqtt"):
        if key in table:
            inner: Any = model.model_fields[key].annotation
            inner = next((one for one in getattr(inner, "__args__", ()) if one is not None), inner)
            assert set(table[key]) | commented >= set(inner.model_fields)


def test_device_settings_name_everything() -> None:
    """The full file is accepted, and names every setting at least in a comment."""
    text = (DEPLOY / "config/device-full.toml").read_text()
    settings = settings_of(tomllib.loads(text), {})
    assert settings.home.name == "kitchen"
    for section, keys in KEYS.items():
        part = text.split(f"[{section}]")[1].split("\n[")[0]
        for key in keys:
            assert re.search(rf"\b{key}\b", part), f"{section}.{key}"
    assert all(kind in text for kind in SOURCES)


def test_compose_starts_what_exists() -> None:
    """All servers and the broker have commands, files and ports that agree."""
    services = parse_yaml((DEPLOY / "compose/compose.yaml").read_text())["services"]
    roles = {"intake": "shuffler", "closer": "shuffler", "fusion": "fusion"}
    for name, role in {**roles, "registrar": "registrar"}.items():
        service = services[name]
        check_command(service["command"])
        assert service["command"][0] == role
        assert role != "shuffler" or service["command"][2:4] == ["--part", name]
        assert service["build"]["target"] == role
        assert [mount.rpartition("}")[2] for mount in service["volumes"]] == [f"/{role}:/etc/rase"]
        assert service["network_mode"] == "host"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "UID" in service["user"]
        context = (DEPLOY / "compose" / service["build"]["context"]).resolve()
        assert (context / service["build"]["dockerfile"]).is_file()
    for service in services.values():
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service
        assert "cap_add" not in service
    assert "profiles" not in services["registrar"]
    assert services["broker"]["ports"] == [f"{PORTS['broker']}:{PORTS['broker']}"]
    text = (DEPLOY / "compose/Dockerfile").read_text()
    assert "--require-hashes -r /src/requirements/server.txt" in text
    assert "--no-deps --no-build-isolation /src" in text
    locked = set(
        re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements/server.txt").read_text(), re.M)
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["service"], *extras["mqtt"]]
    assert locked >= {re.split(r"[^a-z0-9-]", name.lower())[0] for name in wanted}
    assert 'ENTRYPOINT ["rase"]' in text


def test_ports_agree() -> None:
    """Proxies, Prometheus, mosquitto and settings speak of the same ports."""
    nginx = (DEPLOY / "proxy/nginx.conf").read_text()
    assert f"proxy_pass http://127.0.0.1:{PORTS['shuffler']};" in nginx
    assert nginx.count("{") == nginx.count("}")
    caddy = (DEPLOY / "proxy/Caddyfile").read_text()
    for port in (PORTS["shuffler"], PORTS["fusion"], PORTS["registrar"]):
        assert f"reverse_proxy 127.0.0.1:{port}" in caddy
    scraped = parse_yaml((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in scraped}
    assert targets == {
        "rase-shuffler": [f"127.0.0.1:{PORTS['shuffler']}", f"127.0.0.1:{PORTS['closer']}"],
        "rase-fusion": [f"127.0.0.1:{PORTS['fusion']}"],
        "rase-registrar": [f"127.0.0.1:{PORTS['registrar']}"],
    }
    full = tomllib.loads((DEPLOY / "config/shuffler-full.toml").read_text())["shuffler"]
    assert str(full["closer_metrics_port"]) == PORTS["closer"]
    assert f"listener {PORTS['broker']}\n" in (DEPLOY / "mosquitto/mosquitto.conf").read_text()
    assert full["mqtt"]["url"].endswith(f":{PORTS['broker']}")


def test_proxies_hide_metrics_and_senders() -> None:
    """No proxy tells metrics, keeps an access log, or passes addresses on."""
    nginx = (DEPLOY / "proxy/nginx.conf").read_text()
    assert "location = /metrics {\n        return 404;" in nginx
    assert "access_log off;" in nginx
    assert 'proxy_set_header X-Forwarded-For "";' in nginx
    # Without it the dashboard would take TLS for none, and its cookies would go without it, too.
    assert "proxy_set_header X-Forwarded-Proto $scheme;" in nginx
    caddy = (DEPLOY / "proxy/Caddyfile").read_text()
    assert "respond /metrics 404" in caddy
    assert not re.search(r"^\s*log\b", caddy, re.MULTILINE)


def test_proxies_bound_slow_and_many_requests() -> None:
    """Behind a proxy the servers see one address, so the proxy bounds each."""
    nginx = (DEPLOY / "proxy/nginx.conf").read_text()
    for zone, directive in (("limit_conn_zone", "limit_conn"), ("limit_req_zone", "limit_req")):
        named = re.search(rf"^{zone} \$binary_remote_addr zone=(\w+):", nginx, re.M)
        assert named is not None
        assert re.search(rf"^    {directive} (zone=)?{named[1]}\b", nginx, re.M)
    limits = LimitSettings()
    assert f"client_header_timeout {limits.header_s:g}s;" in nginx
    assert f"client_body_timeout {limits.body_s:g}s;" in nginx
    count, size = re.findall(r"large_client_header_buffers (\d+) (\d+)k;", nginx)[0]
    assert int(count) * int(size) * 1024 <= limits.max_header_bytes
    caddy = (DEPLOY / "proxy/Caddyfile").read_text()
    assert f"read_header {limits.header_s:g}s" in caddy
    assert f"read_body {limits.body_s:g}s" in caddy
    assert f"max_header_size {limits.max_header_bytes // 1024}KB" in caddy
    assert "max_size 8MB" in caddy


def test_the_broker_takes_the_longest_policy() -> None:
    """A campaign with many groups is not too long for the broker."""
    lines = (DEPLOY / "mosquitto/mosquitto.conf").read_text().splitlines()
    assert f"message_size_limit {MAX_POLICY_BYTES}" in lines


def test_users_of_the_acl_are_those_of_the_settings() -> None:
    """The servers log in as users that the ACL knows."""
    acl = (DEPLOY / "mosquitto/acl").read_text()
    for name in ("shuffler", "fusion"):
        table = tomllib.loads((DEPLOY / f"config/{name}-full.toml").read_text())[name]
        assert f"user {table['mqtt']['user']}\n" in acl
    telegraf = tomllib.loads((DEPLOY / "telegraf/rase.conf").read_text())
    assert f"user {telegraf['inputs']['mqtt_consumer'][0]['username']}\n" in acl


def test_the_dashboard_asks_for_fields_that_exist() -> None:
    """Every panel of the Infinity source asks a route for fields of its answers."""
    openapi = json.loads((ROOT / "docs/reference/openapi.json").read_text())
    board = json.loads((DEPLOY / "grafana/dashboards/rase.json").read_text())
    sources = parse_yaml((DEPLOY / "grafana/provisioning/datasources/rase.yaml").read_text())
    uids = {one["uid"]: one["type"] for one in sources["datasources"]}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    metrics = {
        f"rase_{process.split()[0]}_{name}_total"
        for process, names in COUNTERS.items()
        for name in names
    } | set(GAUGES)
    asked = 0
    for panel in board["panels"]:
        for target in panel["targets"]:
            assert uids[target["datasource"]["uid"]] == target["datasource"]["type"]
            if "expr" in target:
                assert set(re.findall(r"rase_[a-z_]+", target["expr"])) <= metrics
                continue
            asked += 1
            assert {column["selector"] for column in target["columns"]} <= ANSWER
            # A window is a point at its end, as in Influx lines.
            time = {one["selector"] for one in target["columns"] if one["type"] == "timestamp"}
            assert time == {"until" if target["url"] == "/v1/windows" else "time"}
            parameters = openapi["paths"][target["url"]]["get"]["parameters"]
            sent = {one["key"] for one in target["url_options"]["params"]}
            assert sent <= {one["name"] for one in parameters}
            assert {one["name"] for one in parameters if one.get("required")} <= sent
    assert asked >= 4
    other = json.loads((DEPLOY / "grafana/dashboards/rase-postgresql.json").read_text())
    for panel in other["panels"]:
        for target in panel["targets"]:
            assert uids[target["datasource"]["uid"]] == target["datasource"]["type"]
    assert other["uid"] != board["uid"]
    provider = parse_yaml((DEPLOY / "grafana/provisioning/dashboards/rase.yaml").read_text())
    assert provider["providers"][0]["type"] == "file"


def test_telegraf_and_node_red_ask_for_what_exists() -> None:
    """Snippets name routes, formats, topics and fields of this project."""
    telegraf = tomllib.loads((DEPLOY / "telegraf/rase.conf").read_text())["inputs"]
    assert "/v1/estimates/latest?campaign=fleet&format=influx" in telegraf["http"][0]["urls"][0]
    (consumer,) = telegraf["mqtt_consumer"]
    assert consumer["topics"] == ["rase/+/estimate"]
    (reading,) = consumer["json_v2"]
    paths = {one["path"] for one in (*reading["field"], *reading["tag"])}
    assert paths | {reading["timestamp_path"]} <= ANSWER
    flow = json.loads((DEPLOY / "node-red/rase.json").read_text())
    ids = {node["id"] for node in flow}
    assert {one for node in flow for wires in node.get("wires", []) for one in wires} <= ids
    (topic,) = [node["topic"] for node in flow if node["type"] == "mqtt in"]
    assert topic == "rase/fleet/estimate"
    for field in re.findall(r"payload\.(\w+)", json.dumps(flow)):
        assert field in ANSWER


def test_the_parser_refuses_what_it_does_not_know() -> None:
    """Crooked YAML does not pass for a file."""
    assert parse_yaml("a:\n  - b: 1\n    c: x\n  - d\n") == {"a": [{"b": 1, "c": "x"}, "d"]}
    for text in ("a:\n  b: 1\n c: 2\n", "a: 1\na: 2\n", "a\n", "a:\n\t- b\n"):
        with pytest.raises((AssertionError, ValueError)):
            parse_yaml(text)


def test_no_file_holds_a_secret() -> None:
    """What looks like a password, key or token is named by a file or a variable."""
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            # Pictures and compiled files among them, in which a key would be text all the same.
            text = path.read_text(encoding="utf-8", errors="replace")
            assert "PRIVATE KEY" not in text
            assert not re.search(r"(?m)^\s*(password|bearerToken|token)\s*[:=]\s*[^$\s]", text), (
                path
            )
