"""Readings from anything: a function without arguments that returns a number, or None for none.

Put this into device.toml, beside a copy of this file that Python can import:

    [source]
    kind = "python"
    function = "custom_source:load_average"
    every_s = 60

The agent calls it once a minute and reports the mean of a round, with noise. Whatever the function
raises is noted as a failure of the source, never with its message: that might quote a reading.
"""

from pathlib import Path


def load_average() -> float | None:
    """Return how busy this machine was over the last minute."""
    try:
        return float(Path("/proc/loadavg").read_text(encoding="ascii").split()[0])
    except OSError:
        return None  # no reading: the round goes by with a cover report


if __name__ == "__main__":
    from rase.device.sources.function import FunctionSource

    print("one reading as the agent would take it:", FunctionSource(load_average).read())
