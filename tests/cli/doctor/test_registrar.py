"""``rase doctor`` over a registrar's folder: what it pins, and how long tokens last."""

import json
import tomllib
from contextlib import closing
from email.utils import formatdate
from pathlib import Path

import pytest

from rase.campaign import Campaign
from rase.cli import main
from rase.cli.doctor import examine
from rase.clock import FakeClock, round_start_s
from rase.registrar.upkeep import windows_ahead
from rase.service import doctor
from rase.service.doctor import Fetched, Finding, Level
from rase.service.key_settings import read_signing_key
from rase.storage.opening import open_database
from rase.wire.keys import Role
from rase.wire.signed import SignedCampaign, signature_of, versions_bytes


class World:
    """An installation with a registrar whose shuffler answers; nothing is asked of a network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own = folder / "registrar"
        text = (folder / "fusion/campaign.toml").read_text()
        self.campaign = Campaign.from_fields(tomllib.loads(text)["campaign"])
        start = max(self.campaign.not_before, 1) + 10
        self.clock = FakeClock(round_start_s(start, self.campaign.round_s) + 1)
        keys = [
            read_signing_key(folder / role / "keys/signing.key", role=role)
            for role in (Role.FUSION, Role.SHUFFLER)
        ]
        signed = SignedCampaign(self.campaign, *(signature_of(self.campaign, key) for key in keys))
        self.pages = {
            "/healthz": b"ok\n",
            "/readyz": b"ready\n",
            f"/v1/campaigns/{self.campaign.id}/versions": versions_bytes([signed.to_bytes()]),
        }

    def fetch(self, url: str, path: str, *, tls: object = None) -> Fetched:
        """Answer as any of the servers."""
        date = formatdate(self.clock.now_s(), usegmt=True)
        return Fetched(200 if path in self.pages else 404, self.pages.get(path, b""), date)

    def due(self, *, last: int | None = None) -> list[tuple[int, int]]:
        """Return the windows that the registrar must make now."""
        options = {"window_rounds": 0, "lead_s": 0, "windows": 2}
        now_s = self.clock.now_s()
        return list(windows_ahead(self.campaign, last_round=last, now_s=now_s, **options))

    def keep(
        self, windows: list[tuple[int, int]], *, private: bytes | None, signed: bytes | None
    ) -> None:
        """Put windows into the registrar's database."""
        with (
            closing(open_database(self.own / "registrar.db", migrations="registrar")) as database,
            database.transaction() as transaction,
        ):
            transaction.execute_many(
                "INSERT INTO token_key (campaign, first_round, last_round, issue_until_s, over_s, "
                "body, private, signed) VALUES (?, ?, ?, ?, 0, ?, ?, ?)",
                [
                    (self.campaign.id, a, b, a * self.campaign.round_s, b"", private, signed)
                    for a, b in windows
                ],
            )

    def amiss(self, folder: Path | None = None) -> list[Finding]:
        """Return what is not well in the registrar's folder."""
        found = examine(folder or self.own, self.clock)
        return [one for one in found if one.level is not Level.OK]


@pytest.fixture
def world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> World:
    """A new installation, all of whose servers are up."""
    folder = tmp_path / "ours"
    options = ("--range", "0", "1", "--epsilon", "1", "--registrar-url", "http://127.0.0.1:8704")
    assert main(["init", str(folder), *options]) == 0
    assert f"made {folder}: shuffler, fusion, registrar, device;" in capsys.readouterr().err
    made = World(folder)
    monkeypatch.setattr(doctor, "fetch", made.fetch)
    return made


def test_a_registrar_that_is_well(world: World) -> None:
    """With the windows that are due published, and the pins of all agreeing, nothing is amiss."""
    world.keep(world.due(), private=b"k", signed=b"s")
    assert world.amiss() == []
    found = [one for one in examine(world.folder, world.clock) if one.where == str(world.own)]
    assert {one.check for one in found} >= {"settings", "signing key", "database", "peer", "clock"}
    assert [one.level for one in found if one.check == "pinned key"] == [Level.OK] * 2
    (tokens,) = (one for one in found if one.check == "tokens")
    assert f"{len(world.due())} windows ahead are published" in tokens.text


def test_windows_that_run_out(world: World) -> None:
    """One that is missing is a warning, none to come a problem, and the hours left are said."""
    windows = world.due()
    world.keep(windows[:1], private=b"k", signed=b"s")
    (found,) = world.amiss()
    left_s = round_start_s(windows[0][1] + 1, world.campaign.round_s) - world.clock.now_s()
    assert (found.check, found.level) == ("tokens", Level.WARNING)
    assert f"last {left_s / 3600:.1f} h more" in found.text
    world.clock.advance(left_s)
    (found,) = world.amiss()
    assert (found.level, "last 0.0 h more" in found.text) == (Level.PROBLEM, True)


def test_keys_that_the_shuffler_did_not_sign(world: World) -> None:
    """What waits and what was refused are told apart."""
    first, second = world.due()[:2]
    last = [window for window in world.due() if window not in (first, second)]
    world.keep([first], private=None, signed=None)
    world.keep([second, *last], private=b"k", signed=None)
    refused, *waiting = world.amiss()
    assert (refused.level, "older backup" in refused.text) == (Level.WARNING, True)
    assert {one.level for one in waiting} == {Level.PROBLEM}
    assert all("waits for the shuffler's signature" in one.text for one in waiting)
    assert len(waiting) == 1 + len(last)


def test_before_a_campaign_is_published(world: World) -> None:
    """It is said that there are no windows yet; a forged campaign counts as none."""
    page = f"/v1/campaigns/{world.campaign.id}/versions"
    world.keep([], private=None, signed=None)
    signed = world.pages[page]
    for answer in (signed[:-1] + bytes([signed[-1] ^ 1]), None):
        world.pages.pop(page)
        if answer is not None:
            world.pages[page] = answer
        (found,) = world.amiss()
        assert (found.level, found.is_network) == (Level.WARNING, True)
        assert "could not be read" in found.text


def test_after_a_campaign_nothing_is_due(world: World) -> None:
    """A registrar whose campaign is over has nothing to do, and that is well."""
    world.keep([], private=None, signed=None)
    world.clock.advance((world.campaign.not_after + 1) * world.campaign.round_s)
    assert world.amiss() == []


def test_pins_that_do_not_agree(world: World) -> None:
    """Another key is found from the registrar's side, with what to set."""
    for name, old, new in [
        ("fusion", "registrar_key = ", f'registrar_key = "{"ab" * 32}" # '),
        ("registrar", "shuffler_key = ", f'shuffler_key = "{"cd" * 32}" # '),
    ]:
        path = world.folder / name / "rase.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    texts = [one.text for one in world.amiss(world.folder) if one.check == "pinned key"]
    for words in ("pins another registrar", "is not the key that"):
        assert sum(words in text for text in texts) == 1


@pytest.mark.parametrize("name", ["shuffler", "fusion"])
def test_a_server_that_pins_no_registrar_cannot_be_used(world: World, name: str) -> None:
    """The missing setting is named in the server's own folder."""
    path = world.folder / name / "rase.toml"
    text = path.read_text()
    assert "\nregistrar_key = " in text
    path.write_text(text.replace("\nregistrar_key = ", "\n# registrar_key = "))
    (found,) = (one for one in world.amiss(path.parent) if one.check == "settings")
    assert found.level is Level.PROBLEM
    assert found.text == f"{name}.registrar_key must be given."


def test_keys_settings_and_databases_that_cannot_be_used(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is a problem of files: exit code 3, one line, no traceback."""
    settings = world.own / "rase.toml"
    text = settings.read_text()
    (world.own / "registrar.db").write_bytes(b"no database")
    (world.own / "keys/signing.key").chmod(0o644)
    assert main(["doctor", str(world.own), "--json"]) == 3
    checks = json.loads(capsys.readouterr().out)["checks"]
    bad = {one["check"] for one in checks if one["level"] == "problem"}
    assert {"signing key", "database"} <= bad
    settings.write_text(text + "\nwrong = 1\n")
    assert [one.check for one in world.amiss()] == ["settings"]
    settings.write_text("[registrar")
    assert [one.check for one in world.amiss()] == ["settings"]
    settings.write_text(text.replace('"registrar.db"', '"postgresql://u:p4ss@127.0.0.1:1/d"'))
    (found,) = (one for one in world.amiss() if one.check == "database")
    assert "does not answer" in found.text or "psycopg is missing" in found.text
    assert "p4ss" not in found.text


def test_a_device_asks_its_registrar(world: World) -> None:
    """It answers by its name; over TLS, too."""
    device = world.folder / "device"
    found = examine(device, world.clock)
    assert any("the registrar answers at http://127.0.0.1:8704" in one.text for one in found)
    path = device / "device.toml"
    path.write_text(path.read_text().replace("http://127.0.0.1:8704", "https://registrar.example"))
    found = examine(device, world.clock)
    assert any("answers at https://registrar.example" in one.text for one in found)
