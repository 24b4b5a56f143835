"""A new mechanism and a new aggregate: the files they touch are enough for every command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import measure_house
from scripts.house.additions import AGGREGATE, LAW, Addition

# Each command must know what was added, without a word of it anywhere else.
NEW_LAW = """
import sys
from rase import Range, SeededRandom, amplify, run_round
from rase.cli import main
from rase.kernels.entropy import SeededEntropy
from rase.lab.audit.catalogue import randomizers
from rase.laws.registry import randomizer_named
from rase.testing import check_randomizer

public = Range(0, 100, steps=20)
response = randomizer_named("grid-response", 2.0, domain=public)
check_randomizer(response)
assert response.certificate().effective_epsilon <= 2
entropy = SeededEntropy("a device")
drawn = [response.draw_one(30.0, entropy) for _ in range(4000)]
chances = response.law(2.0).weights(6)
assert abs(drawn.count(6) / 4000 - chances[6] / sum(chances.values())) < 0.05
assert amplify(response, n=10_000, delta=1e-6).epsilon < 1
found = run_round([40.0, 60.0] * 2000, randomizer=response, rng=SeededRandom(1)).estimate
assert abs(found.value - 50) < 5 * found.standard_error
assert "grid-response" in randomizers(1.0)
table = sys.argv[1]
asked = ["--range", "0", "100", "--mechanism", "grid-response"]
assert main(["run", table, *asked, "--epsilon", "2", "--every", "1h", "--seed", "1"]) == 0
assert main(["plan", *asked, "--epsilon", "2", "--devices", "500", "--json"]) == 0
assert main(["init", sys.argv[2], *asked, "--epsilon", "2"]) == 0
"""
NEW_AGGREGATE = """
import sys, tomllib
from rase import Optimal, Range, SeededRandom, run_round
from rase.cli import main
from rase.counts.counts import Counts
from rase.counts.registry import estimator_named
from rase.fusion.mechanism import campaign_of
from rase.series.answers import answer_of

readings = [20.0, 80.0] * 5000
optimal = Optimal(2.0, Range(0, 100))
found = run_round(readings, randomizer=optimal, estimator="deviation", rng=SeededRandom(1)).estimate
assert abs(found.value - 30) < 4 * found.standard_error < 4
assert answer_of(found).target == "reporters"
counts = Counts.of(optimal.draw_many(readings, rng=SeededRandom(1)))
assert estimator_named("deviation")(counts, randomizer=optimal) == found
asked = ["--range", "0", "100", "--epsilon", "2"]
run = ["run", sys.argv[1], *asked, "--every", "1h", "--seed", "1"]
assert main([*run, "--estimator", "deviation", "--estimator", "tracked"]) == 0
assert main(["plan", *asked, "--devices", "500", "--json"]) == 0
assert main(["init", sys.argv[2], *asked]) == 0
with open(f"{sys.argv[2]}/fusion/campaign.toml", "rb") as file:
    fields = tomllib.load(file)["campaign"]
assert campaign_of({**fields, "estimators": ["tracked", "deviation"]}).estimators[1] == "deviation"
"""


@pytest.mark.parametrize(
    ("addition", "script", "shown"),
    [(LAW, NEW_LAW, "grid-response"), (AGGREGATE, NEW_AGGREGATE, "deviation")],
    ids=["law", "aggregate"],
)
def test_few_files_are_enough(tmp_path: Path, addition: Addition, script: str, shown: str) -> None:
    """In a copy with those files alone, library, commands, audit and set-up know what is new."""
    copy = tmp_path / "copy/rase"
    shutil.copytree(measure_house.SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    addition.apply(copy)
    table = tmp_path / "table.csv"
    rows = [f"{3600 * hour},d{one},{(7 * one) % 100}" for hour in range(3) for one in range(40)]
    table.write_text("time,device,value\n" + "\n".join(rows) + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", script, str(table), str(tmp_path / "installed")],
        env={**os.environ, "PYTHONPATH": str(copy.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout + done.stderr


def test_an_edit_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """A sample that the source has outgrown is noticed, not skipped."""
    (tmp_path / "file.py").write_text("once = 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="once"):
        Addition({}, {"file.py": ("twice", "thrice")}).apply(tmp_path)
