"""The one schema of answers: every interface has its field names, and adds few of its own."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

from rase import Range, RunPlan, SeededRandom, auto, run_table
from rase.answer import FIELDS, Answer, Difference
from rase.cli import main
from rase.fusion.formats import as_csv, as_influx, as_json
from rase.storage.migrate import migrations_of

ROOT = Path(__file__).parents[1]
# What a run of a table adds: which trial and estimator, and what the order gives away.
OF_A_RUN = (
    *("trial", "estimator", "shuffle", "alpha", "real_loss"),
    *("attacker_success", "exposed_slot_success", "chance"),
)
# With what the truth adds in studies, and how well a stored error is known.
OF_A_STUDY = ("truth", "error")
STORED = ("degrees_of_freedom",)
TABLE = {
    "time": [3600 * hour for hour in range(3) for _ in range(4)],
    "device": ["a", "b", "c", "d"] * 3,
    "value": [float(value) for value in range(12)],
}


def rows_of_a_run(folder: Path, ending: str) -> tuple[str, ...]:
    """Return the names of the fields that ``rase run --out`` writes."""
    table, out = folder / "table.csv", folder / f"out{ending}"
    lines = zip(*TABLE.values(), strict=True)
    table.write_text("time,device,value\n" + "".join(f"{t},{d},{v}\n" for t, d, v in lines))
    asked = ["--range", "0", "12", "--epsilon", "2", "--every", "1h", "--seed", "1", "--truth"]
    assert main(["run", str(table), *asked, "--out", str(out)]) == 0
    if ending == ".json":
        return tuple(json.loads(out.read_text())["results"][0])
    read = pyarrow.csv.read_csv if ending == ".csv" else pyarrow.parquet.read_table
    return tuple(read(out).column_names)


@pytest.mark.parametrize("ending", [".json", ".csv", ".parquet"])
def test_a_run_has_the_fields_of_an_answer(ending: str, tmp_path: Path) -> None:
    """JSON, CSV and Parquet hold all of them in their order, and then what a run adds."""
    found = rows_of_a_run(tmp_path, ending)
    # One name has two meanings: how a shuffler described itself, and the law of a table's order.
    assert [name for name in found if name in FIELDS] == list(FIELDS)
    assert set(found) == {*FIELDS, *OF_A_RUN, *OF_A_STUDY}


def test_http_mqtt_and_csv_have_the_fields_of_an_answer() -> None:
    """Questions, windows, the stream of events and MQTT are answered by these two."""
    answer = Answer(campaign="street", time="2026-06-21T01:00:00Z", value=1.5, n=7)
    assert tuple(json.loads(as_json(answer))) == FIELDS
    assert tuple(json.loads(as_json([answer]))[0]) == FIELDS
    assert as_csv([answer]).decode().splitlines()[0] == ",".join(FIELDS)


def test_influx_names_no_other_fields() -> None:
    """Tags and fields of the line protocol are fields of an answer."""
    answer = Answer(campaign="street", time="2026-06-21T01:00:00Z", value=1.5, low=1.0, n=7)
    names = re.findall(r"[ ,](\w+)=", as_influx([answer]).decode())
    assert {"campaign", "value", "low", "n"} <= set(names) <= set(FIELDS)


def columns_in(statement: str) -> list[str]:
    """Return the names of a list of columns, without quotes and types."""
    return [re.split(r"\s", part.strip())[0].strip('"') for part in statement.split(",")]


def test_sql_names_no_other_fields() -> None:
    """The table of answers and the views for dashboards have their columns from the schema."""
    (made,) = re.findall(
        r"CREATE TABLE answers \((.*?),\s*PRIMARY KEY", migrations_text(), flags=re.DOTALL
    )
    view = (ROOT / "deploy/postgresql/reader.sql").read_text(encoding="utf-8")
    views = re.findall(r"AS\nSELECT (.*?)\nFROM", view, flags=re.DOTALL)
    for columns in (columns_in(made), *(columns_in(shown) for shown in views)):
        assert {"time", "value", "standard_error", "local_epsilon"} <= set(columns)
        assert set(columns) <= {*FIELDS, *STORED}


def migrations_text() -> str:
    """Return all that the fusion centre's database is made by."""
    return "\n".join(line for one in migrations_of("fusion") for line in one.statements)


def test_frames_name_no_other_fields() -> None:
    """A data frame of rounds has the names of an answer, and the truth in studies."""
    plan = RunPlan(randomizer=auto(2.0, Range(0, 12)), every="1h", truth=True)
    frame: Any = run_table(TABLE, plan, rng=SeededRandom(1)).to_frame()
    assert set(frame.columns) <= {*FIELDS, *OF_A_STUDY}


def test_a_difference_says_what_is_known_of_it() -> None:
    """With its error and the chance; without an error, or why there is none."""
    one, other = Answer(value=3.0, status="ok"), Answer(status="too_few")
    known = Difference(
        value=-1.25,
        standard_error=0.5,
        low=-2.23,
        high=-0.27,
        above_zero=0.006,
        unit="W",
        local_epsilon=1.0,
        first=one,
        second=one,
    )
    assert str(known) == "-1.25 W ± 0.50 (95 %: -2.23 to -0.27; above zero with 0.6 %)"
    unknown = replace(known, standard_error=None, low=None, high=None, above_zero=None)
    assert str(unknown) == "-1.25 W, error unknown"
    assert str(replace(unknown, value=None, second=other)) == "no difference: too few reports"
    assert str(replace(unknown, value=None, first=other)) == "no difference: too few reports"


def test_fields_are_those_of_the_dataclass() -> None:
    """A row holds every field once, in the order of the schema, as plain values."""
    answer = Answer(campaign="power", value=2.5, n=7, verdict="moves")
    assert answer.as_fields() == asdict(answer)
    assert tuple(answer.as_fields()) == FIELDS
    assert all(
        isinstance(value, bool | int | float | str | None) for value in answer.as_fields().values()
    )
