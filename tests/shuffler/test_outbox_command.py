"""``rase shuffler outbox`` and what ``rase doctor`` finds in a database, also of one at rest."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.shuffler.test_outbox import released

from rase.cli import main
from rase.cli.doctor import examine_work
from rase.service.heartbeat import Heartbeat
from rase.wire.keys import Role

if TYPE_CHECKING:
    from tests.shuffler.conftest import World

SETTINGS = """[shuffler]
database = "{database}"
signing_key_file = "signing.key"
opening_key_files = ["opening.key"]
fusion_key = "{fusion}"
registrar_key = "abababababababababababababababababababababababababababababababab"
fusion_url = "http://127.0.0.1:9"
[shuffler.policy]
max_epsilon = 4.0
max_window_budget = 100.0
min_k_min = 3
"""


@pytest.fixture
def config(world: "World", tmp_path: Path) -> Path:
    """The settings of a shuffler that does not run, with one refused batch and one that waits."""
    released(world, 100, 101)
    with world.database.transaction() as transaction:
        transaction.execute(
            "UPDATE outbox SET state = 'refused', refusals = 4, attempts = 4, "
            "problem = 'bad-batch' WHERE round = 100"
        )
    path = tmp_path / "rase.toml"
    database = getattr(world.address, "url", world.address)
    path.write_text(SETTINGS.format(database=database, fusion=world.pinned.fusion.hex()))
    return path


def test_list_and_retry(world: "World", config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is refused is named with its reason; retry lets it wait again, with the same bytes."""
    at = ["--config", str(config)]
    bodies = sorted(world.rows("SELECT batch, body FROM outbox"))
    assert main(["shuffler", "outbox", "list", *at]) == 0
    shown = capsys.readouterr()
    first, _ = shown.out.splitlines()
    assert "refused  homes round 100" in first
    assert first.endswith("sent 4x, refused 4x  bad-batch")
    assert "2 in the outbox, 1 of them refused." in shown.err
    assert main(["shuffler", "outbox", "list", "--json", *at]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "rase/outbox/1"
    assert set(document["batches"][0]) == {
        *("batch", "campaign", "round", "state", "age_s", "attempts", "refusals", "problem")
    }
    assert main(["shuffler", "outbox", "retry", first.split()[0], *at]) == 0
    assert "1 sent again." in capsys.readouterr().err
    assert world.rows("SELECT DISTINCT state, refusals, attempts FROM outbox") == [
        ("waiting", 0, 0)
    ]
    assert sorted(world.rows("SELECT batch, body FROM outbox")) == bodies
    assert main(["shuffler", "outbox", "retry", "--json", *at]) == 0
    retried = json.loads(capsys.readouterr().out)["batches"]
    assert retried == [bytes(batch).hex() for batch, _ in bodies]
    assert main(["shuffler", "outbox", "retry", "zz", *at]) == 2
    assert "no batch in the outbox" in capsys.readouterr().err


def test_discard_asks_first(
    world: "World", config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an answer nothing is erased; with --yes the named batch is."""
    at = ["--config", str(config)]
    ((batch,),) = world.rows("SELECT batch FROM outbox WHERE round = 100")
    name = bytes(batch).hex()
    assert main(["shuffler", "outbox", "discard", name, *at]) != 0
    assert world.rows("SELECT COUNT(*) FROM outbox") == [(2,)]
    assert main(["shuffler", "outbox", "discard", "zz", "--yes", *at]) == 2
    assert main(["shuffler", "outbox", "discard", name, "--yes", *at]) == 0
    assert capsys.readouterr().out.split() == [name]
    assert world.rows("SELECT round FROM outbox") == [(101,)]


@pytest.mark.usefixtures("config")
def test_the_doctor_sees_stuck_batches_and_no_closer(world: "World") -> None:
    """Both are problems; once a closer runs and the outbox is empty all is well."""
    settings = SimpleNamespace(database=world.address)
    found = examine_work("here", Role.SHUFFLER, settings, world.clock)
    assert [one.level for one in found] == ["problem", "problem"]
    assert "no closer runs" in found[0].text
    assert "refused 1 batches (bad-batch)" in found[1].text
    with world.database.transaction() as transaction:
        transaction.execute("DELETE FROM outbox")
    (one,) = examine_work("here", Role.SHUFFLER, settings, world.clock)
    assert (one.level, one.check) == ("warning", "backlog")
    Heartbeat(world.database, world.clock, part="closer").beat()
    (one,) = examine_work("here", Role.SHUFFLER, settings, world.clock)
    assert one.level == "ok"
    assert one.text.startswith("closers that run: 1;")


def test_without_a_database_nothing_is_said(world: "World", tmp_path: Path) -> None:
    """Another check says that it is missing, or of another form."""
    settings = SimpleNamespace(database=tmp_path / "none.db")
    assert examine_work("here", Role.SHUFFLER, settings, world.clock) == []
    (tmp_path / "none.db").write_bytes(b"nonsense" * 1000)
    assert examine_work("here", Role.SHUFFLER, settings, world.clock) == []
