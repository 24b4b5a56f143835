"""Where readings come from; no failure quotes what a source said."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.patience import PATIENCE_S

from rase.device.sources.csv import CsvSource
from rase.device.sources.exec import ExecSource
from rase.device.sources.function import FunctionSource, function_named
from rase.device.sources.http import HttpSource, found_at
from rase.device.sources.interface import Source, SourceFailed, number_in
from rase.device.sources.stdin import StdinSource
from rase.errors import ConfigurationError
from rase.transport.interface import Answer, Unreachable
from rase.transport.memory import MemoryTransport


def failure(source: Source) -> str:
    """Return what a source says when it fails; it never quotes the number 4321."""
    with pytest.raises(SourceFailed) as caught:
        source.read()
    assert "4321" not in str(caught.value)
    return str(caught.value)


def test_numbers_are_finite() -> None:
    """Texts, bytes and numbers are taken, nothing else."""
    assert [number_in("csv", value) for value in ("1.5", b" 2 ", 3, 4.5)] == [1.5, 2.0, 3.0, 4.5]
    bad: object
    for bad in ("nan", "inf", "x", None, True, [], float("nan")):
        with pytest.raises(SourceFailed, match="source csv: must give a finite number"):
            number_in("csv", bad)


def test_csv_gives_a_row_each_time_and_waits_for_more(tmp_path: Path) -> None:
    """Rows come one by one; a half-written last line is left until it is whole."""
    path = tmp_path / "power.csv"
    path.write_text("time,power_w\n1,100\n2,200\n3,3", encoding="utf-8")
    source = CsvSource(path, "power_w", scale=0.5)
    assert [source.read() for _ in range(4)] == [[50.0], [100.0], [], []]
    with path.open("a", encoding="utf-8") as file:
        file.write("00\n\nbad,x4321\n4\n5,500\n")
    assert source.read() == [150.0]
    assert source.read() == []
    assert "finite number" in failure(source)
    assert "too short" in failure(source)
    assert source.read() == [250.0]
    source.close()


def test_csv_needs_its_file_column_and_text(tmp_path: Path) -> None:
    """A missing file, a missing column and bytes that are no text are told."""
    with pytest.raises(SourceFailed, match="No such file"):
        CsvSource(tmp_path / "none.csv", "power")
    path = tmp_path / "power.csv"
    for content in (b"", b"a,b\n1,2\n"):
        path.write_bytes(content)
        with pytest.raises(SourceFailed, match="must have a column 'power'"):
            CsvSource(path, "power")
    path.write_bytes(b"power\n\xff\xfe4321\n")
    source = CsvSource(path, "power")
    assert "UTF-8" in failure(source)
    source.close()


def test_a_csv_file_that_is_taken_away_is_a_failure_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent notes it and asks again later; it does not end."""

    def gone() -> int:
        raise OSError(5, "Input/output error")

    path = tmp_path / "power.csv"
    path.write_bytes(b"power\n4321\n")
    source = CsvSource(path, "power")
    with monkeypatch.context() as patch:
        patch.setattr(source, "_file", SimpleNamespace(tell=gone))
        assert "cannot be read: Input/output error" in failure(source)
    assert source.read() == [4321.0]
    source.close()


def test_stdin_gives_whole_lines_without_waiting() -> None:
    """Lines come as they are written, half a line later, and the end is quiet."""
    reader, writer = os.pipe()
    source = StdinSource(reader, scale=2.0)
    assert source.read() == []
    os.write(writer, b"1\n2.5\n\n3")
    assert source.read() == [2.0, 5.0]
    os.write(writer, b"0\nx4321\n")
    assert "finite number" in failure(source)
    os.write(writer, b"7\n")
    os.close(writer)
    assert source.read() == [14.0]
    assert source.read() == []
    source.close()
    os.close(reader)
    assert "source stdin" in failure(source)


def test_stdin_does_not_take_endless_lines() -> None:
    """A stream without line ends is refused instead of filling the memory."""
    reader, writer = os.pipe()
    source = StdinSource(reader)
    os.write(writer, b"1" * 60_000)
    assert source.read() == []
    os.write(writer, b"1" * 60_000)
    assert "does not end" in failure(source)
    os.close(writer)
    os.close(reader)


def run(code: str, **more: Any) -> ExecSource:
    """Return a source that runs Python code."""
    return ExecSource([sys.executable, "-S", "-c", code], timeout_s=PATIENCE_S, **more)


def test_exec_takes_the_last_line() -> None:
    """What a command prints last is the reading; nothing is none."""
    source = run("print('hello'); print(12.5)", scale=2.0)
    assert source.read() == [25.0]
    source.close()
    assert run("").read() == []


def test_exec_failures_are_told_by_kind() -> None:
    """Exit codes, slow commands, missing commands and other words fail."""
    assert "exit code 3" in failure(run("print(4321); raise SystemExit(3)"))
    assert "finite number" in failure(run("print('x4321')"))
    slow = run("import signal; print(4321); signal.pause()")
    slow._timeout_s = 0.2
    assert "took more than 0.2 s" in failure(slow)
    assert "No such file" in failure(ExecSource(["/nowhere/meter"]))
    assert "is no command" in failure(ExecSource(["a\0b"]))


def meter(answer: Answer | Unreachable, path: str = "apower") -> HttpSource:
    """Return a source whose meter answers this."""

    def handle(message: Any) -> Answer:
        assert message.path == "/rpc/Switch.GetStatus?id=0"
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    transport = MemoryTransport(handle)
    url = "http://192.168.1.20/rpc/Switch.GetStatus?id=0"
    return HttpSource(url, path, scale=0.1, transport=transport)


def test_http_finds_the_number_in_json() -> None:
    """A path leads to it; null is no reading."""
    source = meter(Answer(200, b'{"apower": 120}'))
    assert source.read() == [12.0]
    source.close()
    assert meter(Answer(200, b'{"apower": null}')).read() == []
    assert meter(Answer(200, b"7.5"), "").read() == [0.75]


def test_http_failures_are_told_by_kind() -> None:
    """Silence, statuses, and answers that are no JSON or no number fail."""
    assert "gone" in failure(meter(Unreachable("gone.")))
    assert "answers 404" in failure(meter(Answer(404, b"4321")))
    assert "must answer JSON" in failure(meter(Answer(200, b"<4321>")))
    assert "finite number" in failure(meter(Answer(200, b'{"apower": "x4321"}')))
    with pytest.raises(ConfigurationError, match=r"source.url must be an address"):
        HttpSource("http://[x")
    with pytest.raises(ConfigurationError, match="other letters as %C3%BC"):
        HttpSource("http://meter.local/rpc?name=küche")
    with pytest.raises(ConfigurationError, match="user or password") as refused:
        HttpSource("http://me:hush@meter.local/ü")
    assert "hush" not in str(refused.value)
    assert HttpSource("http://meter.local")._target == "/"


def test_paths_through_lists_and_tables() -> None:
    """Numbers lead into lists, names into tables, anything else to nothing."""
    document = {"meters": [{"power": 1}, {"power": 2}]}
    assert found_at(document, "meters.1.power") == 2
    assert found_at(document, "meters.2.power") is None
    assert found_at(document, "meters.x") is None
    assert found_at(document, "nothing.at.all") is None
    assert found_at(5, "") == 5


def test_functions_are_called() -> None:
    """None is no reading; what a function raises is told by its kind."""
    source = FunctionSource(lambda: 3, scale=2.0)
    assert source.read() == [6.0]
    source.close()
    assert FunctionSource(lambda: None).read() == []
    assert "finite number" in failure(FunctionSource(lambda: "x4321"))
    assert "raised ZeroDivisionError" in failure(FunctionSource(lambda: 4321 / 0))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere:read", "there is no module 'nowhere'"),
        ("time:nothing", "must be module:function"),
        ("time", "must be module:function"),
        (":", "must be module:function"),
        ("math:pi", "must be module:function"),
        (".x:y", "importing '.x:y' raised TypeError"),
        ("half_written:read", "importing 'half_written:read' raised SyntaxError"),
        ("hasty:read", "importing 'hasty:read' raised ZeroDivisionError"),
    ],
)
def test_functions_must_exist(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads to no function is refused, and so is a module that cannot be imported."""
    (tmp_path / "half_written.py").write_text("def read(:\n")
    (tmp_path / "hasty.py").write_text("4321 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SourceFailed, match=words) as refused:
        function_named(name)
    assert "4321" not in str(refused.value)
