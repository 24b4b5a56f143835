"""Faults at random from a seed against the real programs: a short run of what `make chaos` does."""

import json
from pathlib import Path

import pytest
from chaos.__main__ import main, table
from chaos.faults import Chance, left_out
from chaos.kinds import KINDS
from chaos.run import Outcome, Plan, run
from click.testing import CliRunner


def test_a_short_run_loses_nothing() -> None:
    """Kills, stops and a harmed network: every accepted report counts once, estimates are right."""
    told: list[str] = []
    plan = Plan(5.0, seed=2026, kinds=("kill", "stop", "network"), agents=1, probes=4)
    outcome = run(plan, tell=told.append)
    assert outcome.violations == [], told
    verdict = outcome.verdict
    assert (verdict.lost, verdict.doubled, verdict.wrong, verdict.repaid) == (0, 0, 0, 0)
    assert verdict.accepted > 0
    assert verdict.rounds > 0
    assert outcome.told > 0
    assert outcome.faults.total() >= 1


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_run_of_all_kinds_loses_nothing(store: str) -> None:
    """Two minutes of every kind that can be tried here."""
    told: list[str] = []
    outcome = run(Plan(120.0, seed=1, store=store), tell=told.append)
    assert outcome.violations == [], told
    assert outcome.verdict.rounds > 0


def test_a_seed_decides_what_happens() -> None:
    """Equal seeds give equal faults, others give others."""
    first, again, other = Chance(1), Chance(1), Chance(2)
    kinds = [first.one_of(tuple(KINDS)) for _ in range(20)]
    assert kinds == [again.one_of(tuple(KINDS)) for _ in range(20)]
    assert kinds != [other.one_of(tuple(KINDS)) for _ in range(20)]
    assert 1.0 <= first.seconds(1, 2) <= 2.0


def test_what_cannot_be_tried_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root, libfaketime or another store those kinds are left out, with the reason."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("chaos.faults.faketime", lambda: None)
    monkeypatch.setattr("chaos.faults.compiler", lambda: None)
    found = left_out(tuple(KINDS), store="sqlite")
    assert found["full"] == found["readonly"] == "only root may mount a disk"
    assert found["clock"] == "libfaketime is not installed"
    assert found["slow"] == "there is no C compiler"
    assert found["database"] == "the store is SQLite"
    assert "database" not in left_out(tuple(KINDS), store="postgresql")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kinds": ("flood",)}, "kinds must be of"),
        ({"store": "duckdb"}, "store must be sqlite or postgresql"),
        ({"seconds": 0.0}, "seconds must be positive"),
    ],
)
def test_a_plan_checks_itself(change: dict[str, object], words: str) -> None:
    """A mistake is named before anything is started."""
    with pytest.raises(ValueError, match=words):
        Plan(**{"seconds": 1.0, **change})  # type: ignore[arg-type]


def test_violations_end_with_code_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has the counts, the file everything, and the exit code tells."""
    outcome = Outcome(left_out={"clock": "libfaketime is not installed"})
    outcome.faults["kill"] = 3
    outcome.verdict.lost = 2
    outcome.violations.append("round 7 has no estimate.")
    monkeypatch.setattr("chaos.__main__.run", lambda *_, **__: outcome)
    file = tmp_path / "chaos.json"
    done = CliRunner().invoke(main, ["--seconds", "1", "--json", str(file)])
    assert done.exit_code == 1
    assert "lost              2" in done.output
    assert "left out: libfaketime is not installed" in done.output
    document = json.loads(file.read_text())
    assert document["command"].startswith("python -m chaos --seconds 1 --seed 2026")
    assert (document["lost"], document["violations"]) == (2, ["round 7 has no estimate."])
    assert len(document["code"]) == 16
    assert CliRunner().invoke(main, ["--kinds", "flood"]).exit_code == 2
    assert table(outcome)[0].startswith("kill")
