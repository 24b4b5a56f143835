"""``rase plan``: what it prints, draws and refuses."""

import functools
import json
import math
import sys
from pathlib import Path

import pytest
from tests.cases import each_case

from rase.accounting.forecast import Forecast
from rase.accounting.synthetic_forecast import forecast_movement
from rase.cli import main
from rase.cli.plan.forecast import Outlook, forecast_lines

ASKED = ("--range", "0", "3000", "--epsilon", "1", "--devices", "1000")


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    """A table of 10 devices over 3 hours, two readings an hour, one of them outside the range."""
    path = tmp_path / "readings.csv"
    lines = ["time,device,watt"]
    lines += [
        f"2024-05-01T{half // 2:02}:{30 * (half % 2):02}:00Z,d{device},{100 * device + half}"
        for device in range(10)
        for half in range(6)
    ]
    lines[-1] = lines[-1].rsplit(",", 1)[0] + ",9000"
    path.write_text("\n".join(lines) + "\n")
    return path


def ran(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Run a command that must succeed; return what it printed and said."""
    capsys.readouterr()
    exit_code = main(["plan", *map(str, arguments)])
    shown = capsys.readouterr()
    assert exit_code == 0, shown.err
    return shown.out, shown.err


def test_text_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan stands on stdout in labelled lines and an aligned table; stderr stays silent."""
    out, err = ran(*ASKED, "--every", "1h", "--window", "1d", "--error", 50, capsys=capsys)
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == (
        "plan      readings from 0 to 3000, epsilon 1 a report, 1000 devices, windows of 24 rounds"
    )
    assert lines[1] == "noise     optimal, chosen as the best at this epsilon"
    assert lines[2] == "certified epsilon 1 per report, verified exactly from the noise table"
    table = lines[4:13]
    assert table[0].split()[:5] == ["estimator", "readings", "bias", "noise", "error"]
    assert len({len(line) for line in table}) == 1
    assert not any("-0" in line for line in table)
    for start in (
        "precision a report within 50 % with probability 0.9: met by 0 % of readings spread evenly",
        "privacy   one report: epsilon 1, an observer",
        "          a day of 24 reports: epsilon 24",
        "          a month of 720 reports: epsilon 720",
        "shuffle   uniform",
        "wish      error 50, worst case: met, expected 19.34.",
        "          150 devices suffice for an error of 50.",
        "advice    optimal: best for a mean",
        "warning   A day of reports",
        "helps     Let each device report once in 24 rounds",
    ):
        assert any(line.startswith(start) for line in lines), start


def test_remedies_are_not_said_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """What stands under the wish is not repeated under what helps."""
    out, _ = ran(*ASKED, "--error", 5, capsys=capsys)
    assert "wish      error 5, worst case: missed" in out
    assert out.count("devices suffice for an error of 5") == 1
    assert "helps     A range" in out


def test_mallows_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """The robust shuffler's branch, theta, loss and limits are told, amplification is refused."""
    out, _ = ran(
        *("--range", 0, 100, "--epsilon", 1, "--devices", 64, "--mechanism", "budget-aware"),
        *("--alpha", 0.3, "--groups", 4, "--attacker-cap", 2),
        capsys=capsys,
    )
    assert "central: refused, a Mallows shuffle keeps reports near their places" in out
    assert "shuffle   mallows: Theta 0.0025" in out
    assert "the first and the last sender in 1.69 % of rounds, below the cap of 2/64" in out
    assert (
        "observer of the order assigns 1.62 % of them rightly (the most exposed one: 1.69 %)" in out
    )
    assert "below 2 times chance in every slot." in out
    assert "theta 0.0025; loss 0.3 for the groups used, 5.04 for the real groups." in out
    assert "With 4 groups alpha may be up to 3.052." in out
    assert "Alpha 0.3 allows up to 12 groups." in out
    assert "epsilon* is 4.605; below it reports are clamped." in out
    met, _ = ran(*ASKED, "--epsilon", 5, "--mechanism", "budget-aware", capsys=capsys)
    assert "epsilon* is 4.605; nothing is clamped." in met


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """One document with a schema and all that was asked."""
    out, _ = ran(*ASKED, "--json", "--every", "15min", "--window", 4, capsys=capsys)
    document = json.loads(out)
    assert document["schema"] == "rase.plan/1"
    assert document["parameters"]["range"] == [0.0, 3000.0]
    assert document["parameters"]["interval_s"] == 900
    assert document["parameters"]["window"] == 4
    assert [one["reports"] for one in document["guarantees"]] == [1, 4, 96, 2880]


def test_own_data(readings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table adds errors on its readings, counts its devices, and is called private."""
    asked = ("--range", 0, 3000, "--epsilon", 1, "--data", readings, "--value-column", "watt")
    out, err = ran(*asked, "--json", capsys=capsys)
    document = json.loads(out)
    assert document["parameters"]["devices"] == 10
    assert document["sample"]["count"] == 60
    assert document["sample"]["clipped_share"] == pytest.approx(1 / 60)
    assert {row["readings"] for row in document["errors"]} == {"worst", "uniform", "yours"}
    assert "computed from readings without noise; keep it to yourself" in err
    out, _ = ran(*asked, "--every", "1h", "--devices", 500, "--json", capsys=capsys)
    document = json.loads(out)
    assert document["sample"]["count"] == 30
    assert document["parameters"]["devices"] == 500
    out, _ = ran(*asked, capsys=capsys)
    assert "your readings" in out


def test_few_rounds_say_nothing_of_other_days(
    readings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six rounds leave the interval open: null in JSON, and words instead of an endless number."""
    asked = ("--range", 0, 3000, "--epsilon", 1, "--data", readings, "--value-column", "watt")
    out, _ = ran(*asked, "--json", capsys=capsys)
    told = json.loads(out)["forecast"]
    assert (told["rounds"], told["other_low"], told["other_high"]) == (6, 0.0, None)
    assert told["error_low"] < told["tracked"] < told["error_high"]
    out, _ = ran(*asked, capsys=capsys)
    assert "these are too few rounds to say how far off it would be on others." in out
    assert "inf" not in out


def test_own_data_in_a_folder(
    readings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of tables is planned for as one table is."""
    asked = ("--range", 0, 3000, "--epsilon", 1, "--value-column", "watt", "--json", "--data")
    alone, _ = ran(*asked, readings, capsys=capsys)
    (tmp_path / "days").mkdir()
    readings.rename(tmp_path / "days" / "one.csv")
    assert ran(*asked, tmp_path / "days", capsys=capsys)[0] == alone


def test_schedules(capsys: pytest.CaptureFixture[str]) -> None:
    """A budget of a window is split or rotated: per report, per window, and what it costs."""
    asked = ("--range", 0, 16, "--devices", 537, "--every", "1h", "--window", "1d")
    budget = (*asked, "--window-budget", 1, "--schedule")
    out, _ = ran(*budget, "rotate", capsys=capsys)
    for line in (
        "schedule  rotate: a device reports once in any 24 rounds, epsilon 1 each; any window",
        "          about 22.4 of 537 devices report in a round; the error of not asking the others",
        "          a month of 30 reports: epsilon 30",
    ):
        assert line in out
    assert "(rotate)" not in out
    split, _ = ran(*budget, "split", capsys=capsys)
    assert "24 times in any 24 rounds, epsilon 0.0416667 each" in split
    assert "With schedule rotate a round errs by" in split
    assert "          a day of 24 reports: epsilon 1," in split
    errors = "error of a round for the same budget of a window: split "
    assert errors in out
    assert errors in split
    capped, _ = ran(*asked, "--epsilon", 0.5, "--window-budget", 2.2, capsys=capsys)
    assert "every: a device reports 4 times in any 24 rounds, epsilon 0.5 each" in capped
    assert "83 % of the rounds have no report" in capped
    document, _ = ran(*budget, "rotate", "--json", capsys=capsys)
    schedule = json.loads(document)["schedule"]
    assert schedule["epsilon"] == schedule["window_budget"] == 1
    assert schedule["reports_per_window"] == 1
    assert schedule["round_errors"]["split"] > 3 * schedule["round_errors"]["rotate"]


@pytest.mark.uncovered
def test_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A picture is drawn where asked, in the format of its name."""
    for name, start in (("plan.png", b"\x89PNG"), ("plan.svg", b"<?xml")):
        path = tmp_path / name
        _, err = ran(*ASKED, "--plot", path, "--error", 50, capsys=capsys)
        assert f"picture   {path}" in err
        assert path.read_bytes().startswith(start)


def test_without_matplotlib(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where matplotlib is missing the plan is told all the same, and how to get the picture."""
    monkeypatch.setitem(sys.modules, "rase.lab.plan_figure", None)
    out, err = ran(*ASKED, "--plot", tmp_path / "plan.png", capsys=capsys)
    assert out.startswith("plan ")
    assert 'pip install "rase-iot[plot]"' in err
    assert not (tmp_path / "plan.png").exists()


RANGE = ("--range", "0", "10")
TURNS = (*RANGE, "--devices", "500", "--window", "24")
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "epsilon 0": ((*RANGE, "--epsilon", "0", "--devices", "5"), "epsilon must be greater than 0"),
    "epsilon -1": ((*RANGE, "--epsilon", "-1", "--devices", "5"), "epsilon must be greater"),
    "epsilon nan": ((*RANGE, "--epsilon", "nan", "--devices", "5"), "epsilon must be greater"),
    "epsilon 0 plot": (
        (*RANGE, "--epsilon", "0", "--devices", "5", "--plot", "x.png"),
        "epsilon must be greater than 0",
    ),
    "no epsilon": (
        (*RANGE, "--devices", "5", "--every", "1h"),
        "--epsilon must be given; or --window-budget",
    ),
    "no budget": ((*TURNS, "--schedule", "rotate"), "takes --epsilon or --window-budget, got n"),
    "two budgets": (
        (*TURNS, "--schedule", "split", "--epsilon", "1", "--window-budget", "1"),
        "takes --epsilon or --window-budget, got both.",
    ),
    "budget 0": (
        (*TURNS, "--schedule", "rotate", "--window-budget", "0"),
        "window_budget must be greater than 0",
    ),
    "budget nan": (
        (*TURNS, "--schedule", "split", "--window-budget", "nan", "--plot", "x.png"),
        "window_budget must be greater than 0",
    ),
    "budget small": (
        (*TURNS, "--epsilon", "1", "--window-budget", "0.5"),
        "window_budget must be at least one report's epsilon, 1, got 0.5.",
    ),
    "budget split to nothing": (
        (*TURNS, "--schedule", "split", "--window-budget", "0.001"),
        "epsilon must be between",
    ),
    "no window": (
        (*RANGE, "--devices", "5", "--schedule", "rotate", "--epsilon", "1"),
        "--window must be at least 2 rounds with --schedule rotate, got 1.",
    ),
    "schedule": ((*ASKED, "--schedule", "daily"), "'daily' is not one of"),
    "no range": (
        ("--epsilon", "1", "--devices", "5"),
        "rase plan takes --range or --range-from, got neither.",
    ),
    "no devices": ((*RANGE, "--epsilon", "1"), "--devices must be given; or --data"),
    "n 0": ((*RANGE, "--epsilon", "1", "--devices", "0"), "devices must be between 2 and"),
    "n too large": (
        (*RANGE, "--epsilon", "1", "--devices", "10000000000"),
        "devices must be between 2 and 1000000000, got 10000000000.",
    ),
    "n 1": ((*RANGE, "--epsilon", "1", "--devices", "1"), "got 1; one device alone"),
    "range": (("--range", "5", "5", "--epsilon", "1", "--devices", "5"), "low must be below high"),
    "delta 1": ((*ASKED, "--delta", "1"), "delta must be between"),
    "delta nan": ((*ASKED, "--delta", "nan"), "delta must be between"),
    "window 0": ((*ASKED, "--window", "0"), "window must be between 1 and"),
    "window -3": ((*ASKED, "--window", "-3"), "window must be between 1 and"),
    "window text": ((*ASKED, "--every", "1h", "--window", "long"), "a duration must look like"),
    "window alone": ((*ASKED, "--window", "1d"), "--window 1d needs --every; or give rounds."),
    "window part": ((*ASKED, "--every", "7h", "--window", "1d"), "must hold whole rounds"),
    "every": ((*ASKED, "--every", "soon"), "a duration must look like"),
    "error 0": ((*ASKED, "--error", "0"), "error must be greater than 0"),
    "error nan": ((*ASKED, "--error", "nan"), "error must be greater than 0"),
    "mechanism": ((*ASKED, "--mechanism", "magic"), "'magic' is not one of"),
    "beta": ((*ASKED, "--beta", "2"), "beta must be between 0 and 1"),
    "alpha alone": ((*ASKED, "--alpha", "2"), "--groups must be given with --alpha."),
    "groups alone": ((*ASKED, "--groups", "2"), "--alpha must be given with --groups."),
    "cap": ((*ASKED, "--attacker-cap", "0.5"), "attacker_cap must be at least 1"),
    "cap of certainty": ((*ASKED, "--attacker-cap", "1000"), "attacker_cap must be below the 1000"),
    "plot ending": ((*ASKED, "--plot", "plan.gif"), "--plot must end in .png or .svg"),
    "plot folder": ((*ASKED, "--plot", "none/plan.png"), "a file in a folder that exists"),
    "no data": ((*ASKED, "--data", "none.csv"), "there is no file none.csv"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad input ends in one line on stderr and exit code 2, with nothing printed or written."""
    monkeypatch.chdir(tmp_path)
    arguments, message = REFUSED[case]
    assert main(["plan", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert message in shown.err
    assert list(tmp_path.iterdir()) == []


def test_data_of_one_device_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table of one device is no fleet."""
    path = tmp_path / "one.csv"
    path.write_text("time,device,value\n1,a,1\n2,a,2\n")
    assert main(["plan", *RANGE, "--epsilon", "1", "--data", str(path)]) == 2
    assert "must hold readings of two devices or more" in capsys.readouterr().err


def test_a_budget_between_rungs_is_drawn_and_one_above_them_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Between rungs the budget itself is certified; above the ladder the highest one is drawn."""
    asked = ("--range", "0", "3000", "--devices", "1000", "--mechanism", "optimal")
    out, _ = ran(*asked, "--epsilon", "1.02", "--json", capsys=capsys)
    certificate = json.loads(out)["certificate"]
    assert (certificate["epsilon"], certificate["drawn_epsilon"]) == (1.02, 1.02)
    numerator, denominator = (int(part) for part in certificate["ratio"])
    assert 2.773 < numerator / denominator < 2.77320
    out, _ = ran(*asked, "--epsilon", "9", capsys=capsys)
    assert "Channels are shipped for budgets up to 8.5 only" in out
    out, _ = ran(*ASKED, "--mechanism", "optimal", capsys=capsys)
    assert "Channels are shipped" not in out


def wave(path: Path, *, swing: float, devices: int = 8) -> Path:
    """Write two days of hours of some devices that share a daily wave."""
    lines = ["time,device,value"]
    lines += [
        f"{3600 * hour},d{device},{500 + swing * math.sin(math.pi * hour / 12) + device:.3f}"
        for device in range(devices)
        for hour in range(48)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.uncovered
def test_own_data_foretells_what_tracked_achieves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a strong signal tracked beats the constant; with a weak one the plan says what would.

    Sixteen trials show it.
    """
    monkeypatch.setattr("rase.accounting.forecast._NEAR_ENOUGH", 2.0)
    strong = wave(tmp_path / "strong.csv", swing=400)
    asked = ("--range", 0, 1000, "--data", strong, "--every", "1h")
    out, _ = ran(*asked, "--epsilon", 8, capsys=capsys)
    words = "forecast  on 48 rounds of your readings with trial noise, 8 devices: tracked RMSE "
    assert words in out
    assert "worth more than repeating a constant" in out
    assert "for the days of these readings; one run on as many other rounds:" in out
    out, _ = ran(*asked, "--epsilon", 8, "--devices", 20, "--json", capsys=capsys)
    told = json.loads(out)["forecast"]
    assert told["devices"] == 16
    assert told["beats_constant"]
    assert told["skill"] == pytest.approx(told["history"] / told["tracked"])
    weak = ("--range", 0, 40_000, "--data", strong, "--every", "1h", "--epsilon", 0.5)
    out, _ = ran(*weak, capsys=capsys)
    assert "it does not clearly beat repeating a constant" in out
    assert "a range of width 8" in out


def test_where_nothing_helps_the_plan_says_so() -> None:
    """A constant that nothing tried could beat leads to a window, not to a promise."""
    lines = list(forecast_lines(Outlook(Forecast(96, 2.0, 9.0, 1.0, 0.95, 0.4), 8, ())))
    told = "          skill 0.50, at least 0.40: it does not clearly beat repeating a constant."
    assert lines[1] == told
    assert "nor would 16 times the devices" in lines[2]


def test_a_part_of_a_fleet_foretells_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For fewer devices than the data has, or other schedules, no forecast is made."""
    asked = ("--range", 0, 1000, "--data", wave(tmp_path / "a.csv", swing=9), "--every", "1h")
    out, _ = ran(*asked, "--epsilon", 1, "--devices", 3, "--json", capsys=capsys)
    assert json.loads(out)["forecast"] is None
    rotate = ("--window", 24, "--schedule", "rotate")
    out, _ = ran(*asked, "--epsilon", 1, *rotate, capsys=capsys)
    assert "forecast" not in out


MOVES = ("--range", 0, 3000, "--devices", 60, "--every", "1h", "--fleet-mean", 400)


@pytest.mark.uncovered
def test_a_stated_motion_foretells_without_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fleet that moves much is worth following; for a quiet one the plan says what would help.

    Five days and six trials show it.
    """
    short = functools.partial(forecast_movement, rounds=120, seeds=range(1, 7))
    monkeypatch.setattr("rase.cli.plan.forecast.forecast_movement", short)
    monkeypatch.setattr("rase.accounting.synthetic_forecast._TRIED_ROUNDS", 120)
    out, _ = ran(*MOVES, "--epsilon", 4, "--fleet-sd", 100, "--day-sd", 200, capsys=capsys)
    assert "of a made-up fleet that moves as stated with trial noise, 60 devices" in out
    assert "days of these readings" not in out
    assert "worth more than repeating a constant" in out
    out, _ = ran(*MOVES, "--epsilon", 0.5, "--day-sd", 40, "--json", capsys=capsys)
    told = json.loads(out)["forecast"]
    assert not told["beats_constant"]
    helps = {one["what"]: one["value"] for one in told["helps"]}
    assert helps["epsilon"] in (1.0, 2.0, 4.0, 8.0)
    # Six deviations to both sides of the stated mean.
    assert helps["range"] == 480.0
    rotate = ("--window", 24, "--schedule", "rotate", "--epsilon", 1, "--fleet-sd", 9)
    out, _ = ran(*MOVES, *rotate, capsys=capsys)
    assert "forecast" not in out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--fleet-mean", 5), "--fleet-mean must come with --fleet-sd or --day-sd"),
        (("--fleet-sd", 5), "--every must be given with --fleet-sd"),
        (("--fleet-sd", -5, "--every", "1h"), "fleet_sd must be finite and 0 or more"),
        (("--day-sd", 5, "--every", "1h", "--fleet-mean", 9), "--fleet-mean must lie in the range"),
        (("--day-sd", 5, "--data", "x.csv"), "must not come with --data"),
    ],
)
def test_motions_that_say_too_little_are_refused(
    more: tuple[object, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing or cannot be is told in one line."""
    asked = ("plan", "--range", 10, 20, "--epsilon", 1, "--devices", 9, *more)
    assert main([str(item) for item in asked]) == 2
    assert message in capsys.readouterr().err


def test_both_promises_are_planned_from_either_wish(capsys: pytest.CaptureFixture[str]) -> None:
    """The wish towards the fusion centre gives the local epsilon, and the other way round."""
    asked = ("--range", "0", "1", "--devices", "1000", "--json")
    out, _ = ran(*asked, "--shuffled-epsilon", "1", capsys=capsys)
    document = json.loads(out)
    made = document["promises"]
    assert (made["k_min"], made["colluding"], made["delta"]) == (800, 0, 1e-6)
    assert document["parameters"]["epsilon"] == made["local_epsilon"] < 3.5
    assert made["standard_error"] <= 0.0083
    assert [span["span"] for span in made["spans"]] == ["report", "day", "month"]
    out, _ = ran(*asked, "--epsilon", str(made["local_epsilon"]), "--k-min", "800", capsys=capsys)
    assert json.loads(out)["promises"]["spans"] == made["spans"]


def test_promises_in_words_have_the_price_next_to_them(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines say what holds towards the fusion centre and what if both servers work together."""
    out, _ = ran(
        *("--range", "0", "1", "--devices", "1000", "--shuffled-epsilon", "1", "--k-min", "1000"),
        *("--max-local-epsilon", "3", "--colluding", "100", "--every", "1d", "--reports", "1"),
        capsys=capsys,
    )
    assert "promise   A report of optimal noise, released among at least 1000 reports, of" in out
    assert "if both servers work together: epsilon 3." in out
    assert "guesses which of two values yours was at most" in out
    assert "month of 30 reports: Somebody" in out
    assert "privacy   " not in out
    assert "one mean a round" not in out


def test_a_promise_is_planned_without_a_range(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors are shares of a range of any width then, and that is said."""
    asked = ("--shuffled-epsilon", "1", "--devices", "1000", "--max-local-epsilon", "6", "--json")
    assert main(["plan", *asked]) == 0
    shown = capsys.readouterr()
    promises = json.loads(shown.out)["promises"]
    assert promises["standard_error"] == promises["standard_error_share"] <= 0.0083
    assert "range     none was given: errors are for 0 to 1, shares of yours." in shown.err


def test_a_published_mean_is_stated_to_whom_it_applies(capsys: pytest.CaptureFixture[str]) -> None:
    """Only if it is asked for, with its conditions, in words and as numbers."""
    asked = ("--range", "0", "1", "--devices", "40", "--epsilon", "1", "--published-mean")
    out, _ = ran(*asked, capsys=capsys)
    assert "Whoever sees one mean a round and nothing else, every report rounded at random" in out
    out, _ = ran(*asked, "--json", capsys=capsys)
    promises = json.loads(out)["promises"]
    assert promises["published_mean"]["epsilon"] < promises["shuffled_epsilon"]
    assert main(["plan", "--range", "0", "1", "--devices", "100", "--published-mean"]) == 2
    assert "--shuffled-epsilon or --epsilon must be given" in capsys.readouterr().err


def test_advice_judges_by_both_promises(capsys: pytest.CaptureFixture[str]) -> None:
    """What hardly protects from both servers may protect from one, and each warning says both."""
    wish = ("--range", "0", "1", "--shuffled-epsilon", "1", "--json")
    out, _ = ran(*wish, "--devices", "10000", "--every", "1h", capsys=capsys)
    advice = json.loads(out)["recommendation"]
    assert advice["warnings"] == [
        (
            "One report protects towards the fusion centre alone: (1, 1e-06)-DP; if both servers "
            "work together, epsilon 5.27 hardly protects."
        ),
        (
            "A month of 720 reports hardly protects: towards the fusion centre: (44.4, 1e-06)-DP; "
            "if both servers work together: epsilon 3800."
        ),
    ]
    assert advice["remedies"][-1] == (
        "Let each device report once in 24 rounds (rotate): epsilon 5.27 a day if both servers "
        "work together, and 4.9 times the noise in a round. Towards the fusion centre turns gain "
        "little: plan again with --devices and --k-min of one turn."
    )
    few = ("--max-local-epsilon", "0.1", "--every", "30d")
    out, _ = ran(*wish, "--devices", "1000", *few, capsys=capsys)
    assert not any("protects" in line for line in json.loads(out)["recommendation"]["warnings"])
    given = ("--range", "0", "1", "--epsilon", "9", "--k-min", "2", "--json")
    out, _ = ran(*given, "--devices", "3", "--every", "30d", capsys=capsys)
    (warning,) = json.loads(out)["recommendation"]["warnings"]
    assert warning.startswith(
        "One report hardly protects: towards the fusion centre: (8.51, 1e-06)"
    )


@each_case(
    ("more", "words"),
    [
        (("--epsilon", "1"), "--shuffled-epsilon or --epsilon must be given, got both"),
        (("--alpha", "1", "--groups", "2"), "--alpha must not come with promises"),
        (("--schedule", "rotate", "--window", "4"), "--schedule and --window-budget must not"),
        (("--k-min", "1001"), "k_min must be between 2 and the 1000 devices"),
    ],
)
def test_wishes_that_do_not_fit_are_refused(
    more: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says what is wrong, and nothing is planned."""
    asked = ("--range", "0", "1", "--devices", "1000", "--shuffled-epsilon", "1")
    assert main(["plan", *asked, *more]) == 2
    assert words in capsys.readouterr().err
