"""Telemetry: lines of safe fields only, and counters by Prometheus names."""

import errno
import io

import pytest

from rase.service.telemetry import Telemetry


def test_lines_hold_only_safe_fields() -> None:
    """Known fields are written; a device, a value or an address cannot be."""
    stream = io.StringIO()
    telemetry = Telemetry("fusion", stream=stream)
    telemetry.event("put", round=3, error="two words", state="", method="a\nb")
    assert stream.getvalue() == 'fusion put round=3 error="two words" state="" method="a\\nb"\n'
    for name in ("device", "value", "address", "credential", "wire"):
        with pytest.raises(ValueError, match=name):
            telemetry.event("put", **{name: 1})


def test_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a stream of its own a server logs to standard error."""
    Telemetry("fusion").event("listening")
    assert capsys.readouterr() == ("", "fusion listening\n")


def test_a_line_that_cannot_be_written_is_lost() -> None:
    """A full disk under the log does not make the server fail."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    Telemetry("fusion", stream=Full()).event("listening")


def test_counters_are_named_and_sorted() -> None:
    """Counters have the server's prefix and the suffix of counters."""
    telemetry = Telemetry("fusion")
    telemetry.count("puts")
    telemetry.count("batches", 2)
    assert telemetry.counters() == {"rase_fusion_batches_total": 2, "rase_fusion_puts_total": 1}
