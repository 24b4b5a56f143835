"""The references keep up: topics of brokers, routes of the shuffler, rooms of the package."""

import inspect
import re
import tomllib
from pathlib import Path
from pkgutil import resolve_name

from scripts.house.picture import PICTURE, draw_rooms, layers_of
from tests.wire.make_vectors import CAMPAIGN

from rase.device.home import owner_discovery
from rase.device.sources.presets import PRESETS
from rase.fusion.mqtt import fleet_discovery
from rase.wire.frames import Topics

ROOT = Path(__file__).parents[2]
TOPICS = (ROOT / "docs/reference/mqtt-topics.md").read_text(encoding="utf-8")


def test_every_topic_is_documented_and_no_other() -> None:
    """The tables of the page hold what servers, agents and Home Assistant go by."""
    tables = TOPICS.split("Meters that an agent reads")[0]
    assert set(re.findall(r"^\| `([^`]+)`", tables, re.MULTILINE)) == {
        *campaign_topics(),
        *home_topics(),
        "homeassistant/device/rase_<campaign>/config",
    }


def test_the_fleet_is_discovered_where_the_page_says() -> None:
    """The id of a fleet's device follows from the campaign's."""
    assert fleet_discovery(CAMPAIGN).topic == f"homeassistant/device/rase_{CAMPAIGN.id}/config"


def test_the_acl_allows_the_topics_of_both_servers_and_no_other() -> None:
    """What mosquitto lets through is what the page lists, with + for what varies."""
    acl = (ROOT / "deploy/mosquitto/acl").read_text(encoding="utf-8")
    allowed = {line.split()[-1].replace("%u", "+") for line in acl.splitlines() if "/" in line}
    allowed = {topic for topic in allowed if topic.startswith(("rase/", "homeassistant/"))}
    listed = {re.sub(r"<\w+>", "+", topic) for topic in campaign_topics()}
    assert allowed - {"rase/+/+/status", "homeassistant/device/+/config"} == listed


def test_every_preset_of_a_meter_is_documented() -> None:
    """Each preset has its row, with its topic and where it looks."""
    for name, preset in PRESETS.items():
        [row] = re.findall(rf"^\| `{name}` .*$", TOPICS, re.MULTILINE)
        assert preset.topic.replace("{", "<").replace("}", ">") in row
        for place in preset.places.values():
            assert place.suffix in row
            assert not place.path or f"`{place.path}`" in row


def test_every_route_of_the_shuffler_is_documented() -> None:
    """A route that the shuffler serves and its guide does not name fails the build."""
    source = "".join(
        (ROOT / f"src/rase/{name}").read_text(encoding="utf-8")
        for name in ("shuffler/app.py", "service/http.py")
    )
    routes = set(re.findall(r'@app\.(get|post|put|delete)\(\s*"([^"]+)"', source))
    plain = re.findall(r'PlainRoute\("(\w+)", "([^"]+)"', source)
    routes |= {(verb.lower(), path) for verb, path in plain}
    assert len(routes) >= 10
    table = (ROOT / "docs/guides/shuffler.md").read_text(encoding="utf-8").split("## Routes")[1]
    for verb, path in routes:
        shown = f"`{path.replace('campaign_id', 'id')}`"
        assert any(
            row.startswith(f"| {verb.upper()} ") and shown in row for row in table.splitlines()
        ), (verb, path)


def test_the_architecture_page_draws_the_layers_that_are_checked() -> None:
    """Its picture of rooms is import-linter's list of layers, and each room has its duty."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    wanted = [re.sub(r"[()]", "", layer) for layer in layers if layer != "(__main__)"]
    page = (ROOT / "docs/explain/architecture.md").read_text(encoding="utf-8")
    [drawn] = re.findall(r"^```\n(cli\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert drawn.split("\n")[:-1] == wanted
    rooms = {room for layer in wanted for room in layer.split(" | ")}
    assert set(re.findall(r"^\| `(\w+)` \| \S", page, re.MULTILINE)) == rooms


def test_the_picture_of_rooms_is_made_from_the_contract() -> None:
    """Each room has a box, layer after layer; a room more or less makes another picture."""
    layers = layers_of(ROOT / "pyproject.toml")
    drawn = PICTURE.read_text(encoding="utf-8")
    assert drawn == draw_rooms(layers), "run python -m scripts.house.picture"
    named = re.findall(r'class="room"[^>]*>([^<]+)<', drawn)
    assert named == [room for layer in layers for room in layer]
    assert draw_rooms([*layers, ["cellar"]]) != drawn
    assert "images/rooms.svg" in (ROOT / "docs/explain/architecture.md").read_text("utf-8")


def test_the_rooms_are_those_of_the_package() -> None:
    """Each drawn room exists, as a file or a folder; none is drawn that does not."""
    page = (ROOT / "docs/explain/architecture.md").read_text(encoding="utf-8")
    rooms = set(re.findall(r"^\| `(\w+)` \| \S", page, re.MULTILINE))
    paths = [path for path in (ROOT / "src/rase").iterdir() if not path.name.startswith("__")]
    there = {p.stem for p in paths if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert rooms == there


def test_the_picture_names_places_that_exist() -> None:
    """Every room and module in the picture of a reading's way is one of the package."""
    picture = (ROOT / "docs/images/way-of-a-reading.svg").read_text(encoding="utf-8")
    named = re.findall(r'class="room"[^>]*>([^<]+)<', picture)
    assert len(named) == 15
    for name in named:
        path = ROOT / "src/rase" / name
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_every_python_name_that_a_page_spells_out_is_there() -> None:
    """Modules and names of the package on any page can be imported; none has moved or gone."""
    named = [
        (page.name, name)
        for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
        for name in python_names(page.read_text(encoding="utf-8"))
        # Attributes of spans look like names, and are none.
        if page.name != "metrics.md"
    ]
    assert len(named) > 30
    assert [(page, name) for page, name in named if not is_importable(name)] == []


def python_names(text: str) -> set[str]:
    """Return the dotted names of a page: between backticks, and those that its examples import."""
    spelled = re.findall(r"`(rase(?:\.[A-Za-z_]\w*)+)(?=[`(])", text)
    imported = re.findall(r"from (rase[\w.]*) import ([\w, ]+)", text)
    spelled += [f"{module}.{name}" for module, names in imported for name in names.split(", ")]
    return {name for name in spelled if not name.endswith((".toml", ".rase"))}


def is_importable(name: str) -> bool:
    """Tell whether a dotted name leads to a module, or to something in one."""
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def campaign_topics() -> set[str]:
    """Return all topics of a campaign, with the names of arguments for what varies."""
    topics = Topics("<campaign>")
    found = {value for name, value in vars(topics).items() if not name.startswith("_")}
    for name, method in inspect.getmembers(topics, inspect.ismethod):
        if name == "status":
            found |= {method("shuffler"), method("fusion")}
        elif not name.startswith("_"):
            [argument] = inspect.signature(method).parameters
            found.add(method(f"<{argument}>"))
    return found


def home_topics() -> set[str]:
    """Return all topics of an agent at home."""
    discovery = owner_discovery("name")
    commands = {entity.fields["cmd_t"] for entity in discovery.entities if "cmd_t" in entity.fields}
    topics = {discovery.topic, discovery.state_topic, discovery.shared["avty_t"], *commands}
    return {re.sub(r"name(?=/)", "<name>", topic) for topic in topics}
