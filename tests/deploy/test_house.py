"""The measures of the house notice what they are for, on small houses made up for it."""

from pathlib import Path

import pytest
from scripts import measure_house
from scripts.house.code import lonely, modules_of, rooms_of, shape_of
from scripts.house.concepts import Concept, problems
from scripts.house.way import Way, forwards, way_of_round, way_of_run

_FILES = {
    "__init__.py": "",
    "root.py": "from rase.room.front import enter\n",
    "room/__init__.py": '"""A room."""\n',
    "room/front.py": (
        '"""The door.\n\nIn two paragraphs.\n"""\n\nfrom rase.room import parts\n\n\n'
        "def enter():\n    # why\n    return parts.LAWS\n"
    ),
    "room/parts.py": 'LAWS = ("duchi", "piecewise")\n',
    "hall/__init__.py": "",
    "hall/door.py": "def open_it(path):\n    path.replace(path)\n\n\ndef shut():\n    pass\n",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A package of two rooms."""
    for name, text in _FILES.items():
        path = tmp_path / "rase" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "rase"


def test_rooms_are_counted(source: Path) -> None:
    """Lines and statements are those of the room's files; docstrings are no statements."""
    rooms = {room.name: room for room in rooms_of(modules_of(source))}
    assert set(rooms) == {"(root)", "room", "hall"}
    assert (rooms["room"].files, rooms["room"].lines) == (3, 13)
    assert rooms["room"].statements == 4  # an import, a function, its return, a name


def test_shape_does_not_count_words(source: Path) -> None:
    """Comments, docstrings and empty lines hold no code: without them density cannot be faked."""
    shape = shape_of(modules_of(source))
    assert (shape.functions, shape.longest) == (3, 3)
    assert shape.statements_per_line == 1.0


def test_modules_for_one_reader_are_found(source: Path) -> None:
    """A module that one module of its own room imports is lonely; one of another room is not."""
    assert lonely(modules_of(source)) == ["room.parts"]


def test_a_second_home_is_noticed(source: Path) -> None:
    """A sign outside of the homes is another home, and a home that is gone must leave the list."""
    modules = modules_of(source)
    known = Concept("files", ("hall.door:open_it",), (r"\.replace\(",))
    assert list(problems([known], modules)) == []
    moved = Concept("files", ("room.front:enter",), (r"\.replace\(",))
    assert ["hall.door looks like another one" in one for one in problems([moved], modules)] == [
        True
    ]
    gone = Concept("files", ("hall.door:closed",))
    assert ["no such thing" in one for one in problems([gone], modules)] == [True]


def test_what_is_over_its_limit_is_named() -> None:
    """A number or a list that is longer than its limit is a sentence, and nothing else is."""
    found = {"lines": 10, "lonely_modules": ["a", "b"], "concept_problems": []}
    assert measure_house.over(found, {"lines": 10, "lonely_modules": 2}) == []
    assert measure_house.over(found, {"lines": 9, "lonely_modules": 1}) == [
        "lines must be at most 9, got 10.",
        "lonely_modules must be at most 1, got 2.",
    ]


def test_the_way_of_a_run_is_traced() -> None:
    """Functions that the command calls are on its way; what is read at import time is not."""
    way = way_of_run(measure_house.SOURCE)
    assert any(file.startswith("cli/") for file in way.files)
    assert any(name == "Tracker.follow" for _, name in way.functions)
    assert not any(name.endswith(">") for _, name in way.functions)


def test_a_live_round_is_traced() -> None:
    """The way of a reading passes the device, both servers and the subscriber, and says where."""
    way = way_of_round(measure_house.SOURCE)
    called = set(way.functions)
    for step in (
        ("device/agent.py", "Agent.step"),
        ("transport/http.py", "HttpTransport.post"),
        ("shuffler/release.py", "Releaser.close"),
        ("fusion/intake.py", "Intake.receive"),
        ("subscriber/client.py", "Subscriber.average"),
    ):
        assert step in called
    assert {file.partition("/")[0] for file in way.files} == {
        "device",
        "fusion",
        "shuffler",
        "subscriber",
        "transport",
    }


def test_functions_that_only_call_another_are_found(tmp_path: Path) -> None:
    """With what they were given, and undecorated; who adds, checks or names something does more."""
    (tmp_path / "door.py").write_text(
        '"""A door."""\n\n\n'
        "class Door:\n"
        "    def enter(self, guest):\n"
        '        """Pass on."""\n'
        "        return self._let_in(guest, quiet=True)\n\n"
        "    async def wait(self):\n        await self.bell\n\n"
        "    async def ring(self):\n        return await self.bell.ring()\n\n"
        "    @property\n    def width(self):\n        return measure(self)\n\n"
        "    def widen(self, more):\n        return measure(self, more + 1)\n\n"
        "    def shut(self):\n        check(self)\n        return close(self)\n\n"
        "    @property\n    def bell(self):\n        def ring():\n            strike(self)\n\n"
        "        return ring\n",
        encoding="utf-8",
    )
    names = ["enter", "wait", "ring", "width", "widen", "shut", "bell.<locals>.ring", "gone"]
    way = Way(tuple(("door.py", f"Door.{name}") for name in names))
    found = [name for _, name in forwards(tmp_path, way)]
    assert found == ["Door.enter", "Door.ring", "Door.bell.<locals>.ring"]
