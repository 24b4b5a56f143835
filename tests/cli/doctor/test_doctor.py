"""``rase doctor`` over a whole installation, without a network."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path

import pytest

from rase.campaign import Campaign
from rase.cli import main
from rase.clock import SystemClock
from rase.device.folder import DeviceFolder
from rase.device.quantities import add_quantity
from rase.device.state import DeviceState, StateFile
from rase.service import doctor
from rase.service.doctor import Fetched
from rase.service.key_settings import read_signing_key
from rase.service.keyring import public_text, read_keyset, with_setting
from rase.wire.keys import Keyset, OpeningKey, Role
from rase.wire.signed import (
    SignedCampaign,
    SignedKeyset,
    campaign_hash,
    signature_of,
    versions_bytes,
)

Fetch = Callable[[str], Fetched]


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An installation."""
    path = tmp_path / "installed"
    assert main(["init", str(path), "--range", "0", "1", "--epsilon", "1"]) == 0
    capsys.readouterr()
    return path


@pytest.fixture
def served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What a shuffler that is up answers, by path; both servers are well."""
    keys = {role: read_signing_key(folder / role / "keys/signing.key", role=role) for role in Role}
    keyset = read_keyset(folder / "fusion/keyset.json")
    campaign = _campaign(folder)
    pages = {
        "/healthz": b"ok\n",
        "/readyz": b"ready\n",
        "/v1/keyset": SignedKeyset(
            keyset,
            signature_of(keyset, keys[Role.FUSION]),
            signature_of(keyset, keys[Role.SHUFFLER]),
        ).to_bytes(),
        "/v1/campaigns/fleet/versions": versions_bytes([_signed(campaign, folder)]),
    }

    def fetch(url: str, path: str, *, tls: object = None) -> Fetched:
        date = formatdate(SystemClock().now_s(), usegmt=True)
        return Fetched(200 if path in pages else 404, pages.get(path, b""), date)

    monkeypatch.setattr(doctor, "fetch", fetch)
    return pages


def _signed(campaign: Campaign, folder: Path) -> bytes:
    keys = {role: read_signing_key(folder / role / "keys/signing.key", role=role) for role in Role}
    return SignedCampaign(
        campaign,
        signature_of(campaign, keys[Role.FUSION]),
        signature_of(campaign, keys[Role.SHUFFLER]),
    ).to_bytes()


def _campaign(folder: Path) -> Campaign:
    import tomllib

    text = (folder / "fusion/campaign.toml").read_text()
    return Campaign.from_fields(tomllib.loads(text)["campaign"])


def examined(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, str]]]:
    """Return the exit code and the checks that are not well."""
    code = main(["doctor", str(folder), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "rase/doctor/1"
    assert document["exit_code"] == code
    return code, [check for check in document["checks"] if check["level"] != "ok"]


def test_servers_that_are_away_are_a_network_problem(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything runs, only the peers are missing: exit code 4, one line a check.

    Each server asks one other, and a device both that it talks to.
    """

    def away(*_: object, **__: object) -> Fetched:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(doctor, "fetch", away)
    assert main(["doctor", str(folder)]) == 4
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert all(line.split()[0] in ("ok", "warning", "problem") for line in lines)
    amiss = [line.split(": ") for line in lines if line.startswith("problem")]
    assert sorted((Path(where).name, check) for where, check, *_ in amiss) == [
        *[("device", "peer")] * 2,
        *[(name, "peer") for name in ("fusion", "registrar", "shuffler")],
    ]
    assert "5 problems" in printed.err
    assert "shuffler: server: does not run at http://127.0.0.1:8701: rase shuffler" in printed.out


@pytest.mark.usefixtures("served")
def test_a_new_installation_that_runs_is_well(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With servers up there are only warnings of what is not there yet, and exit code 0."""
    code, found = examined(folder, capsys)
    assert code == 0
    assert {check["check"] for check in found} == {"database", "enrolment"}
    assert examined(folder / "fusion", capsys)[0] == 0
    assert examined(folder / "device", capsys)[0] == 0


def test_what_is_not_published_yet_is_a_warning(
    folder: Path, served: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """A shuffler without keyset and campaign is told to operator and owner."""
    del served["/v1/keyset"], served["/v1/campaigns/fleet/versions"], served["/readyz"]
    code, found = examined(folder, capsys)
    assert code == 0
    missing = {"database", "enrolment", "keyset", "campaign", "server"}
    assert {check["check"] for check in found} == missing


@pytest.mark.usefixtures("served")
def test_a_newer_keyset_waits_to_be_published(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a rotation the doctor says what is left to do."""
    assert main(["keys", "rotate", str(folder / "fusion")]) == 0
    capsys.readouterr()
    _, found = examined(folder / "fusion", capsys)
    assert any("keyset.json is 2: rase fusion publish-keys" in check["text"] for check in found)


def test_a_shuffler_that_lies_is_found(
    folder: Path, tmp_path: Path, served: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """A keyset or campaign of other keys is a problem for the fusion centre and the device."""
    # The last byte of an Ed25519 signature is often 0 already, so it is changed, not set.
    signed = served["/v1/keyset"]
    served["/v1/keyset"] = signed[:-1] + bytes([signed[-1] ^ 1])
    served["/v1/campaigns/fleet/versions"] = b"x"
    code, found = examined(folder, capsys)
    assert code == 3
    texts = " ".join(check["text"] for check in found)
    assert "another keyset than ours" in texts
    assert "wrong-signature" in texts
    assert "malformed" in texts


@pytest.mark.usefixtures("served")
def test_owners_rules_are_tried(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A device whose owner allows less than the campaign asks says so before it runs."""
    path = folder / "device/device.toml"
    path.write_text(path.read_text().replace("report_epsilon = 1.0", "report_epsilon = 0.5"))
    code, found = examined(folder / "device", capsys)
    assert code == 3
    assert any("epsilon-above-limit" in check["text"] for check in found)


def test_each_quantity_of_a_device_is_looked_at(
    folder: Path, served: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings, campaign and the owner's rules of every one, and what is wrong about all."""
    place = DeviceFolder(folder / "device")
    place.keep_enrolment("bearer")
    campaign = replace(_campaign(folder), id="heat", quantity="heat")
    file = add_quantity(place, "heat", value_range=(0.0, 1.0))
    where = str(file.parent)
    code, (missing,) = examined(place.path, capsys)
    assert (code, missing["where"], missing["check"]) == (0, where, "campaign")
    assert "the shuffler has no campaign heat yet" in missing["text"]
    served["/v1/campaigns/heat/versions"] = versions_bytes([_signed(campaign, folder)])
    assert examined(place.path, capsys) == (0, [])
    assert main(["doctor", str(place.path)]) == 0
    assert "quantities: 2 under one ledger, schedule" in capsys.readouterr().out
    text = file.read_text()
    file.write_text(text.replace("high = 1.0", "high = 0.5"))
    assert _amiss(place, capsys) == [(where, "campaign", "range-above-limit")]
    file.write_text(text.replace('"heat"', '"cold"', 1))
    assert (str(place.path), "quantities", "must be 'heat' as") in _amiss(place, capsys)
    file.write_text(text + "\nwrong = 1\n")
    assert _amiss(place, capsys) == [(where, "settings", "source.wrong")]


def _amiss(place: DeviceFolder, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, str]]:
    """Return folder, check and what is known of the text of all that is not well."""
    words = ("range-above-limit", "must be 'heat' as", "source.wrong")
    code, found = examined(place.path, capsys)
    assert code == 3
    return [
        (one["where"], one["check"], next((word for word in words if word in one["text"]), ""))
        for one in found
    ]


def test_a_campaign_that_went_on_is_no_problem_for_a_device(
    folder: Path, served: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """The hash that an owner was shown is that of the first version; the device knows it by now."""
    first = _campaign(folder)
    newer = replace(first, version=2, beta=0.1, not_before=first.not_before + 5)
    place = DeviceFolder(folder / "device")
    text = place.settings_file.read_text()
    shown = f'campaign_hash = "{campaign_hash(first).hex()}"\n\n[owner]'
    place.settings_file.write_text(text.replace("[owner]", shown))
    place.keep_enrolment("bearer")
    versions = [_signed(first, folder), _signed(newer, folder)]
    served["/v1/campaigns/fleet/versions"] = versions_bytes(versions)
    assert examined(place.path, capsys) == (0, [])
    # The first version is over; a device that has accepted it goes on.
    served["/v1/campaigns/fleet/versions"] = versions_bytes(versions[1:])
    assert any("wrong-hash" in check["text"] for check in examined(place.path, capsys)[1])
    StateFile(place.state_file).save(DeviceState(campaigns=(versions[0],)))
    assert examined(place.path, capsys) == (0, [])
    # Rules that got stricter since are tried on what was accepted.
    text = place.settings_file.read_text()
    place.settings_file.write_text(text.replace("least_k = ", "least_k = 1"))
    assert any("k-below-limit" in check["text"] for check in examined(place.path, capsys)[1])
    place.settings_file.write_text(text)
    place.state_file.write_text("{}")
    assert any("is damaged" in check["text"] for check in examined(place.path, capsys)[1])


def test_a_keyset_that_could_split_a_round_is_named(
    folder: Path, served: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """A key that is active at once, signed by both servers, is a problem of the device's check."""
    place = DeviceFolder(folder / "device")
    place.keep_enrolment("bearer")
    now_s = SystemClock().now_s()
    keys = [
        read_signing_key(folder / role / "keys/signing.key", role=role)
        for role in (Role.FUSION, Role.SHUFFLER)
    ]

    def publish(keyset: Keyset) -> bytes:
        signatures = [signature_of(keyset, key) for key in keys]
        served["/v1/keyset"] = SignedKeyset(keyset, *signatures).to_bytes()
        return served["/v1/keyset"]

    first = read_keyset(folder / "fusion/keyset.json")
    configs = tuple(replace(one, not_before_s=0) for one in first.configs)
    held = publish(replace(first, configs=configs))
    StateFile(place.state_file).save(DeviceState(keyset=held, keyset_seen_s=now_s - 60))
    assert examined(place.path, capsys) == (0, [])
    added = OpeningKey.generate(Role.FUSION, 9).config(
        not_before_s=int(now_s) - 5, not_after_s=int(now_s) + 10**6
    )
    publish(replace(first, version=2, configs=(*configs, added)))
    code, (found,) = examined(place.path, capsys)
    assert (code, found["check"]) == (3, "keyset")
    assert "this device refuses it: keys-too-soon" in found["text"]


def test_a_server_says_itself_what_is_not_well(
    folder: Path, served: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """What follows the word in the answer of ``/readyz`` is shown as it is."""
    served["/readyz"] = b"degraded\nno closer runs.\n"
    found = [one for one in examined(folder, capsys)[1] if one["check"] == "server"]
    assert {one["level"] for one in found} == {"warning"}
    assert all(one["text"].endswith("is ready, but: no closer runs.") for one in found)


@pytest.mark.usefixtures("served")
def test_all_mistakes_are_told_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Settings, keys, pins, campaign and modes: each wrong thing has a line of its own."""
    shuffler, fusion, device = (folder / name for name in ("shuffler", "fusion", "device"))
    text = (shuffler / "rase.toml").read_text()
    text = text.replace("port = 8701", "port = 99999").replace("lease_s", "x").replace("# x", "x")
    (shuffler / "rase.toml").write_text(text)
    (fusion / "keys/signing.key").chmod(0o644)
    (fusion / "public.json").write_text("{}")
    (fusion / "campaign.toml").write_text("[campaign]\nid = 'Bad One'\n")
    (device / "device.toml").chmod(0o644)
    (device / "device.toml").write_text("[device]\n")
    code, found = examined(folder, capsys)
    assert code == 3
    texts = " ".join(check["text"] for check in found)
    for part in (
        "shuffler.port",
        "shuffler.x is not a setting.",
        "chmod 600",
        "holds no public keys",
        "id must be",
        "device.shuffler is missing.",
        "must be for its owner only",
    ):
        assert part in texts


@pytest.mark.usefixtures("served")
def test_wrong_pins_are_found(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A peer's other key, the own key as the peer's, and a foreign public file are told."""
    other = tmp_path / "other"
    assert main(["init", str(other), "--range", "0", "1", "--epsilon", "1"]) == 0
    shuffler, fusion = folder / "shuffler", folder / "fusion"
    public = other / "fusion/public.json"
    assert main(["keys", "adopt", str(shuffler), str(public), "--yes"]) == 0
    (fusion / "public.json").write_bytes(public.read_bytes())
    capsys.readouterr()
    code, found = examined(folder, capsys)
    assert code == 3
    texts = " ".join(check["text"] for check in found)
    assert "names another signing key" in texts
    assert "not the private side" in texts
    own = public_text(
        read_signing_key(shuffler / "keys/signing.key", role=Role.SHUFFLER).public_bytes()
    )
    settings = with_setting(shuffler / "rase.toml", "fusion_key", f'"{own}"')
    (shuffler / "rase.toml").write_text(settings)
    code, found = examined(shuffler, capsys)
    assert code == 3
    assert any("this server's own key" in check["text"] for check in found)


@pytest.mark.usefixtures("served")
def test_files_that_are_missing_or_broken_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broken TOML, a missing keyset or campaign file, a peer without public keys."""
    (folder / "fusion/keyset.json").unlink()
    (folder / "fusion/campaign.toml").write_text("= nothing")
    (folder / "shuffler/public.json").unlink()
    (folder / "shuffler/rase.toml").write_text("[shuffler")
    code, found = examined(folder, capsys)
    assert code == 3
    texts = " ".join(check["text"] for check in found)
    assert "keyset.json: No such file or directory" in texts
    assert "campaign.toml is not TOML" in texts
    assert "rase.toml is not TOML" in texts
    (folder / "fusion/campaign.toml").unlink()
    assert examined(folder / "fusion", capsys)[0] == 3


@pytest.mark.usefixtures("served")
def test_an_enrolled_device_shows_its_ledger(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once enrolled, the ledger is checked like a database."""
    place = DeviceFolder(folder / "device")
    place.keep_enrolment("bearer")
    assert examined(place.path, capsys) == (0, [])
    with closing(sqlite3.connect(place.ledger_file)):
        place.ledger_file.write_bytes(b"no database, but long enough to be looked at" * 50)
    assert examined(place.path, capsys)[0] == 3


def test_an_empty_folder_is_no_installation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There must be something to look at."""
    (tmp_path / "rase.toml").write_text("[lab]\n")
    assert main(["doctor", str(tmp_path)]) == 3
    assert "must hold rase.toml or device.toml" in capsys.readouterr().err


def test_files_for_tls_are_tried(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A device whose authority or certificate cannot be used is told so, and nobody is asked."""
    path = folder / "device/device.toml"
    text = path.read_text().replace("http://127.0.0.1:8701", "https://127.0.0.1:8701")
    path.write_text(text.replace("[device]\n", '[device]\ntls_ca_file = "none.pem"\n'))
    status, findings = examined(folder / "device", capsys)
    assert status == 3
    (found,) = (one for one in findings if one["level"] == "problem")
    assert found["check"] == "TLS files"
    assert "none.pem: No such file" in found["text"]
