"""``rase keys``: rotation without a gap, pins that change only when asked, no secret shown."""

import io
import json
import shutil
from pathlib import Path

import pytest

from rase.cli import main
from rase.cli.doctor import examine
from rase.clock import SystemClock
from rase.errors import ConfigurationError, UnknownKey
from rase.fusion.settings import FusionSettings
from rase.service import keyring
from rase.service.doctor import Finding
from rase.service.key_settings import read_opening_keys
from rase.service.keyring import (
    PublicKeys,
    fingerprint,
    read_keyset,
    read_public_keys,
    rotate_opening_key,
)
from rase.service.settings import load_settings
from rase.shuffler.documents import lead_mistakes
from rase.shuffler.settings import ShufflerSettings
from rase.wire.key_schedule import limit_mistakes
from rase.wire.keys import KeyState, Role

DAY_S = 86_400
NOW_S = 1_800_000_000


@pytest.fixture(autouse=True)
def _stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all commands run in the same second."""
    monkeypatch.setattr(SystemClock, "now_s", lambda clock: float(NOW_S))


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An installation."""
    path = tmp_path / "installed"
    assert main(["init", str(path), "--range", "0", "1", "--epsilon", "1"]) == 0
    capsys.readouterr()
    return path


def rase(*arguments: object) -> int:
    """Run a command."""
    return main([str(argument) for argument in arguments])


def test_show_tells_fingerprints_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Role, number, state and fingerprint are shown, the secret is not."""
    public = read_public_keys(folder / "fusion/public.json")
    assert rase("keys", "show", folder / "fusion") == 0
    text = capsys.readouterr().out
    assert fingerprint(public.signing_key) in text
    assert "fusion opening 1 " in text
    assert "active, 20" in text
    assert rase("keys", "show", folder / "fusion", "--json") == 0
    shown = capsys.readouterr().out
    document = json.loads(shown)
    assert document["schema"] == "rase/keys/1"
    assert document["opening"][0]["fingerprint"] == fingerprint(public.configs[0].public_key)
    for path in (folder / "fusion").rglob("*.key"):
        assert path.read_text().split()[1] not in text + shown


def test_a_key_becomes_active_two_cache_times_after_it_must_be_published(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Operators say how long they need to publish; devices have two cache times from then on."""
    place = folder / "fusion"
    assert rase("keys", "rotate", place, "--publish-within", "1d") == 0
    keyset = read_keyset(place / "keyset.json")
    new = max(keyset.configs, key=lambda config: config.not_before_s)
    assert new.not_before_s == NOW_S + DAY_S + 2 * keyset.cache_s
    assert rase("keys", "rotate", place, "--publish-within", "soon") == 2
    assert "--publish-within: a duration must" in capsys.readouterr().err


def test_rotating_the_fusion_centre_renews_its_keyset(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new key is pending for three cache times, the old one active till then; both are held."""
    place = folder / "fusion"
    assert rase("keys", "rotate", place, "--valid", "10d") == 0
    printed = capsys.readouterr()
    assert "publish-keys" in printed.err
    keyset = read_keyset(place / "keyset.json")
    assert keyset.version == 2
    assert keyset.active(Role.FUSION, NOW_S).id == 1
    later_s = NOW_S + 3 * keyset.cache_s
    assert keyset.active(Role.FUSION, later_s - 1).id == 1
    new = keyset.active(Role.FUSION, later_s)
    assert (new.id, new.state(NOW_S)) == (2, KeyState.PENDING)
    assert new.not_after_s - new.not_before_s == 10 * DAY_S
    # The old number is accepted for twice the cache time after it expired, and no longer.
    old = keyset.accepted_key(Role.FUSION, 1, now_s=new.not_before_s + 2 * keyset.cache_s - 1)
    assert old.not_after_s == new.not_before_s
    with pytest.raises(UnknownKey):
        keyset.accepted_key(Role.FUSION, 1, now_s=new.not_before_s + 2 * keyset.cache_s)
    settings = load_settings(FusionSettings, "fusion", path=place / "rase.toml", environment={})
    keys = read_opening_keys(settings.opening_key_files, role=Role.FUSION)
    assert [key.id for key in keys] == [1, 2]
    assert (place / "keys/opening-2.key").stat().st_mode & 0o777 == 0o600
    assert fingerprint(new.public_key) in printed.out


def test_rotating_the_shuffler_is_handed_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fusion centre takes the keys in the shuffler's public file into the keyset."""
    assert rase("keys", "rotate", folder / "shuffler") == 0
    assert "rase keys adopt" in capsys.readouterr().err
    assert read_keyset(folder / "fusion/keyset.json").version == 1
    public = folder / "shuffler/public.json"
    assert rase("keys", "adopt", folder / "fusion", public) == 0
    assert "keyset 2; next: rase fusion publish-keys" in capsys.readouterr().err
    keyset = read_keyset(folder / "fusion/keyset.json")
    assert {(config.role, config.id) for config in keyset.configs} == {
        (Role.SHUFFLER, 1),
        (Role.SHUFFLER, 2),
        (Role.FUSION, 1),
    }
    assert rase("keys", "adopt", folder / "fusion", public) == 0
    assert "nothing changed." in capsys.readouterr().err
    settings = load_settings(
        ShufflerSettings, "shuffler", path=folder / "shuffler/rase.toml", environment={}
    )
    assert len(settings.opening_key_files) == 2


def test_keys_that_no_report_needs_retire(folder: Path) -> None:
    """A key whose time of acceptance has passed leaves settings and public keys, not the disk."""
    place = folder / "fusion"
    first = place / "keys/opening-1.key"
    done = rotate_opening_key(place, [first], now_s=NOW_S, valid_s=400 * DAY_S)
    second = done.key_file
    later_s = done.added.not_before_s + 2 * done.public.cache_s
    done = rotate_opening_key(place, [first, second], now_s=later_s, valid_s=DAY_S)
    assert [config.id for config in done.public.configs] == [2, 3]
    assert done.retired == (first,)
    assert first.exists()
    settings = load_settings(FusionSettings, "fusion", path=place / "rase.toml", environment={})
    assert settings.opening_key_files == [second, place / "keys/opening-3.key"]


def test_numbers_begin_again_after_the_last(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 255 comes the first number that is free."""
    monkeypatch.setattr(keyring, "_IDS", 4)
    place = folder / "fusion"
    files = [place / "keys/opening-1.key"]
    for day, number in enumerate((2, 3, 0)):
        done = rotate_opening_key(place, files, now_s=NOW_S + day * DAY_S, valid_s=30 * DAY_S)
        assert done.added.id == number
        files.append(done.key_file)
    with pytest.raises(ConfigurationError, match="a key of every number"):
        rotate_opening_key(place, files, now_s=NOW_S + 9 * DAY_S, valid_s=DAY_S)


def test_keys_in_rapid_succession_are_kept_apart(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second rotation waits for the first one's key, a third is refused with the way out."""
    place = folder / "fusion"
    for _ in range(2):
        assert rase("keys", "rotate", place) == 0
    keyset = read_keyset(place / "keyset.json")
    begins = sorted(one.not_before_s for one in keyset.configs if one.role is Role.FUSION)
    assert begins[2] - begins[1] == 2 * keyset.cache_s
    assert limit_mistakes(keyset, now_s=NOW_S) == []
    capsys.readouterr()
    assert rase("keys", "rotate", place) == 3
    assert "2 keys that have not begun" in capsys.readouterr().err


def test_a_key_that_was_not_published_in_time_is_made_again(folder: Path) -> None:
    """The key in use then lasts until the new one begins, as the shuffler demands."""
    place = folder / "fusion"
    published = read_keyset(place / "keyset.json")
    files = [place / "keys/opening-1.key"]
    late = rotate_opening_key(place, files, now_s=NOW_S, valid_s=DAY_S)
    assert late.keyset is not None
    later_s = NOW_S + published.cache_s + 1
    assert lead_mistakes(late.keyset, [(published, NOW_S)], now_s=later_s) != []
    again = rotate_opening_key(
        place, [*files, late.key_file], now_s=later_s, valid_s=DAY_S, replace_pending=True
    )
    assert again.keyset is not None
    assert again.retired == (late.key_file,)
    assert lead_mistakes(again.keyset, [(published, NOW_S)], now_s=later_s) == []
    held = [(one.id, one.not_after_s) for one in again.public.configs]
    assert held[0] == (1, again.added.not_before_s)
    assert [number for number, _ in held] == [1, again.added.id]


def test_another_signing_key_needs_consent(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two operators with halves of their own exchange public files, after a question each."""
    other = tmp_path / "other"
    assert rase("init", other, "--range", 0, 1, "--epsilon", 1) == 0
    before = (folder / "fusion/rase.toml").read_text()
    public = other / "shuffler/public.json"
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert rase("keys", "adopt", folder / "fusion", public) == 130
    assert (folder / "fusion/rase.toml").read_text() == before
    assert rase("keys", "adopt", folder / "fusion", public, "--yes") == 0
    assert rase("keys", "adopt", other / "shuffler", folder / "fusion/public.json", "--yes") == 0
    assert rase("keys", "adopt", folder / "device", public, "--yes") == 0
    capsys.readouterr()
    shutil.rmtree(folder / "shuffler")
    (other / "shuffler").rename(folder / "shuffler")

    def problems() -> list[Finding]:
        return [one for one in examine(folder, SystemClock()) if one.level == "problem"]

    # The registrar's folder is left, and its key where the other shuffler was.
    left = [one for one in problems() if one.check != "peer"]
    assert {(one.where, one.check) for one in left} == {(str(folder / "registrar"), "pinned key")}
    public = folder / "shuffler/public.json"
    assert rase("keys", "adopt", folder / "registrar", public, "--yes") == 0
    capsys.readouterr()
    assert rase("registrar", "keys", "--json", "--config", folder / "registrar/rase.toml") == 0
    registrar = tmp_path / "registrar.json"
    registrar.write_text(capsys.readouterr().out)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert rase("keys", "adopt", folder / "shuffler", registrar) == 130
    for name in ("shuffler", "fusion", "device"):
        assert rase("keys", "adopt", folder / name, registrar, "--yes") == 0
    assert "registrar signing" in capsys.readouterr().out
    assert {one.check for one in problems()} == {"peer"}
    assert rase("keys", "adopt", folder / "registrar", registrar) == 2
    assert "nothing to pin" in capsys.readouterr().err
    registrar.write_text('{"schema": "rase/token-keys/1", "registrar_key": "?"}')
    assert rase("keys", "adopt", folder / "shuffler", registrar) == 3
    assert "holds no public key of a registrar" in capsys.readouterr().err


def test_a_server_is_not_its_own_peer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server's own public keys are not pinned in its folder."""
    assert rase("keys", "adopt", folder / "fusion", folder / "fusion/public.json") == 2
    assert "nothing to pin" in capsys.readouterr().err


def test_files_that_are_not_as_they_were_made_are_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 and the file's name; a failed rotation changes nothing."""
    assert rase("keys", "show", tmp_path) == 3
    assert "public.json: No such file or directory; rase init makes it." in capsys.readouterr().err
    assert rase("keys", "rotate", folder / "fusion", "--valid", "long") == 2
    place = folder / "shuffler"
    settings = place / "rase.toml"
    text = settings.read_text()
    settings.write_text(text.replace("opening_key_files =", "opening_key_files  ="))
    before = (place / "public.json").read_bytes()
    capsys.readouterr()
    assert rase("keys", "rotate", place) == 3
    assert 'write there: opening_key_files = ["keys/opening-1.key"' in capsys.readouterr().err
    assert (place / "public.json").read_bytes() == before
    assert len(list((place / "keys").iterdir())) == 2
    settings.write_text("[shuffler]\n")
    assert rase("keys", "rotate", place) == 3
    assert "must set shuffler.opening_key_files" in capsys.readouterr().err
    settings.unlink()
    assert rase("keys", "rotate", place) == 3


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"schema": "other"}, "schema must be"),
        ({"signing_key": "00"}, "signing_key must be the 32 bytes"),
        ({"cache_s": 0}, "cache_s must be"),
        ({"configs": []}, "configs must hold keys"),
        ({"role": "shuffler"}, "keys of the shuffler only"),
        ({"cache_s": None}, "cache_s must be"),
    ],
)
def test_public_keys_are_checked(
    change: dict[str, object], text: str, folder: Path, tmp_path: Path
) -> None:
    """A file that holds something else than one server's public keys is refused by name."""
    document = json.loads((folder / "fusion/public.json").read_text())
    path = tmp_path / "public.json"
    path.write_text(json.dumps({**document, **change}))
    with pytest.raises(ConfigurationError, match=text):
        read_public_keys(path)


@pytest.mark.parametrize("data", [b"[]", b"{", b"\xff", b"{}"])
def test_documents_are_checked(data: bytes, tmp_path: Path) -> None:
    """Bytes that are no keyset are refused, never a traceback."""
    path = tmp_path / "keyset.json"
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match=r"keyset\.json"):
        read_keyset(path)


def test_public_keys_survive_the_way_through_a_file(folder: Path, tmp_path: Path) -> None:
    """What is written is read back the same, and its repr shows no key."""
    public = read_public_keys(folder / "fusion/public.json")
    (tmp_path / "public.json").write_text(public.to_text())
    again = read_public_keys(tmp_path / "public.json")
    assert isinstance(again, PublicKeys)
    assert again == public
    assert repr(public.signing_key) not in repr(public)
