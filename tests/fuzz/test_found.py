"""What fuzzing found once, by name: each was an error of Python's, or a traceback."""

import base64
import gzip
import json
import sys
from pathlib import Path

import pytest

from rase.cli.attack import ConfigurationInvalid, read_configuration
from rase.cli.campaign import _read as read_campaign_file
from rase.device.enrolment import _read_agreement
from rase.device.settings import read_settings
from rase.device.sources.csv import CsvSource
from rase.device.sources.interface import SourceFailed, number_in
from rase.errors import ConfigurationError, DataError, Unsupported
from rase.fusion.settings import FusionSettings
from rase.lab.datasets import open_panel
from rase.lab.readers import RefitFiles
from rase.service.settings import load_settings
from rase.subscriber.answers import FusionUnreachable, document_of, refusal_of
from rase.subscriber.following import EventReader
from rase.tables.source import open_source
from rase.toml import parse_toml
from rase.transport.interface import Answer, Unreachable
from rase.wire import cbor
from rase.wire.frames import TAG_BYTES, read_answer
from rase.wire.keys import OpeningKey, Role

APPLIANCES = ",".join(f"Appliance{number}" for number in range(1, 10))
HOUSE = f"Time,Unix,Aggregate,{APPLIANCES}\nx,1381323977,1,1,1,1,1,1,1,1,1,1\n"
DEEP = "a = " + "[" * 3000
LONG = "a = " + "9" * 5000
HEX = "epsilon = 0x" + "f" * 9000


def saved(folder: Path, text: str | bytes) -> Path:
    """Write a file."""
    path = folder / "House_1.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("text", [DEEP, LONG, HEX, ".".join("a" * 3000) + " = 1"])
def test_toml_of_any_depth_and_length_is_refused_as_settings(tmp_path: Path, text: str) -> None:
    """Deep brackets and endless numbers are mistakes in a file, told so by all readers."""
    path = saved(tmp_path, text)
    with pytest.raises(ValueError, match=r"nested too deeply|64 bits|4300 digits"):
        parse_toml(text)
    with pytest.raises(ConfigurationError, match="must be TOML"):
        read_settings(path, {})
    with pytest.raises(ConfigurationError, match="is not TOML"):
        load_settings(FusionSettings, "fusion", path=path, environment={})
    with pytest.raises(ConfigurationError, match="is not TOML"):
        read_campaign_file(path)
    with pytest.raises(ConfigurationInvalid, match=r"House_1\.csv"):
        read_configuration(path)


def test_toml_keeps_numbers_of_64_bits() -> None:
    """The ends of the range are taken, one more is not, and the place is named."""
    assert parse_toml(f"a = [{-(2**63)}, {2**63 - 1}]") == {"a": [-(2**63), 2**63 - 1]}
    with pytest.raises(ValueError, match=r"^x\.y must be a whole number of 64 bits"):
        parse_toml(f"[x]\ny = [1, {2**63}]")


def test_a_campaign_that_is_no_table_is_refused(tmp_path: Path) -> None:
    """A single number under the table's name is a mistake like others."""
    with pytest.raises(ConfigurationError, match="campaign must be a table, got 3"):
        read_campaign_file(saved(tmp_path, "campaign = 3"))


def test_a_reading_of_400_digits_is_no_number() -> None:
    """A whole number that no float can hold is refused as infinity is."""
    with pytest.raises(SourceFailed, match="finite number"):
        number_in("mqtt", 10**400)


def test_a_carriage_return_within_a_csv_line_is_a_short_row(tmp_path: Path) -> None:
    """The row is refused, the one after it is read; in a header the column is missing."""
    source = CsvSource(saved(tmp_path, "time,power\n1\r2,2\n3,4\n"), "power")
    with pytest.raises(SourceFailed, match="too short"):
        source.read()
    assert source.read() == [4.0]
    source.close()
    with pytest.raises(SourceFailed, match="must have a column"):
        CsvSource(saved(tmp_path, "ti\rme,power\n1,2\n"), "power")


@pytest.mark.parametrize(
    "members",
    [
        {"report": [], "status": 401, "problem": "not-enrolled"},
        {"report": "a", "status": "401", "problem": "not-enrolled"},
        {"report": "a", "status": True, "problem": "not-enrolled"},
        {"report": "a", "status": 401, "problem": "not-enrolled", "retry_after_s": "soon"},
    ],
)
def test_a_brokers_untagged_answer_has_the_types_of_one(members: dict[str, object]) -> None:
    """What anybody may send, that a device is not enrolled, is not believed in other types."""
    frame = json.dumps(members).encode() + bytes(TAG_BYTES)
    assert read_answer(frame, "3f2a90c1d45b6e78", bytes(32)) is None


def test_answers_nested_too_deeply_are_none() -> None:
    """A subscriber is told that this is no fusion centre."""
    with pytest.raises(FusionUnreachable):
        document_of("[" * 100_000)
    assert refusal_of(500, b"[" * 100_000).status == 500


@pytest.mark.parametrize("digits", [400, 5000])
def test_an_endless_pause_of_a_stream_is_not_taken(digits: int) -> None:
    """A pause beyond eleven days, or beyond numbers, leaves the usual one."""
    reader = EventReader()
    for line in (f"retry: {'9' * digits}", ""):
        assert reader.feed(line) is None
    assert reader.retry_s == 2.0


def test_one_damaged_time_of_refit_does_not_fill_the_memory(tmp_path: Path) -> None:
    """A time far from the others would ask for all rounds between: petabytes."""
    for time_s in (2**63 - 1, -1, 1381323977 + 10**10):
        house = saved(tmp_path, HOUSE + f"x,{time_s},1,1,1,1,1,1,1,1,1,1\n")
        files = RefitFiles(houses=((1, house),), interval_s=3600)
        with pytest.raises(DataError, match="seconds since 1970 within twenty years"):
            list(files.batches())


def test_a_short_row_that_is_no_text_shows_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader underneath printed one, with the row; the row's number alone is told."""
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    with pytest.raises(DataError, match="row 1 of"):
        list(open_source(saved(tmp_path, b"time,device,value\n\xff\n")).batches())
    with pytest.raises(DataError, match="row 1 of"):
        open_panel(str(saved(tmp_path, b"time,a,b\n\xff\n")))
    files = RefitFiles(houses=((1, saved(tmp_path, HOUSE.encode() + b"\xff\n")),), interval_s=60)
    with pytest.raises(DataError, match="row 2 of"):
        list(files.batches())
    assert printed == []


def test_a_header_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """By its bytes; a carriage return within the line ends it."""
    with pytest.raises(DataError, match="cannot be read as CSV"):
        open_source(saved(tmp_path, b"time,device,val\xff\n1,a,1\n"))
    with pytest.raises(DataError, match="no column besides the times"):
        open_panel(str(saved(tmp_path, b"ti\rme,a\n1,2\n")))


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    """Cut short, with a wrong checksum or wrong codes: one line, and no error of zlib's."""
    whole = gzip.compress(b"time;a\n" + b"2024-01-01;1,5\n" * 50, mtime=0)
    wrong_codes = b"\x1f\x8b\x080\xd556\xc3}\xb4\xb020\x00\xedE@\x00\x00S{"
    for data in (whole[:-20], whole[:-8] + bytes(8), wrong_codes):
        with pytest.raises(DataError, match=r"cannot be read|is cut off"):
            open_panel(str(saved(tmp_path, data)))


def test_a_key_of_an_unknown_suite_is_unsupported() -> None:
    """A key file of another suite is told as such, and its secret is not."""
    key = OpeningKey.generate(Role.FUSION, 7)
    fields = {"format": 1, "kind": "opening", "role": "fusion", "id": 7, "aead": 3}
    body = cbor.encode({**fields, "kem": 0xB0, "secret": key.secret})
    with pytest.raises(Unsupported, match="HPKE KEM 0x00b0") as refused:
        OpeningKey.from_text(base64.b64encode(body).decode())
    assert key.secret.hex() not in str(refused.value)


@pytest.mark.parametrize("device", ["", "\\ud800", "\\u001b[2J", "a b", "é"])
def test_a_shuffler_writes_nothing_strange_to_the_terminal(device: str) -> None:
    """The name that an enrolment gives is shown: no escape sequence, no half a character."""
    body = f'{{"device":"{device}","server_key":"x","proof":"y"}}'.encode()
    with pytest.raises(Unreachable, match="cannot be read"):
        _read_agreement(Answer(201, body))
