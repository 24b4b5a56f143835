"""The attack process: it reads a job from its folder, reports steps on stdout, writes files.

Apart from the server, so that a long attack cannot slow it, a crash cannot end it, and the lab's
packages are never loaded there. Run as ``python -m rase.studio.attack_worker FOLDER``.
"""

import json
import resource
import sys
import warnings
from pathlib import Path
from typing import Any, Final

__all__ = ["CSV_FILE", "JOB_FILE", "REPORT_FILE", "RESULT_FILE", "main"]

JOB_FILE: Final = "job.json"
RESULT_FILE: Final = "result.json"
REPORT_FILE: Final = "report.html"
CSV_FILE: Final = "devices.csv"
# A file may say that it is small and unpack to anything.
_MOST_MEMORY: Final = 4 << 30
_MOST_CELLS: Final = 20_000_000


def main(folder: Path) -> int:
    """Run the job of a folder; return 0, or 1 after printing what was wrong."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _MOST_MEMORY if hard == resource.RLIM_INFINITY else min(_MOST_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    job = json.loads((folder / JOB_FILE).read_text("utf-8"))
    try:
        _attack(folder, job)
    except MemoryError:
        return _report_failure(
            "The data needs too much memory. Take fewer devices or longer rounds."
        )
    except ModuleNotFoundError as error:
        return _report_failure(f'Attacks need {error.name}: pip install "rase-iot[lab]".')
    except (ValueError, _data_error()) as error:
        # People know their file by their name for it, and our folders are nobody's business.
        text = str(error).replace(str(folder / str(job["file"])), job["label"])
        # The page has no options of a command line.
        text = text.replace(str(folder), "the folder").partition(" A table of time, device")[0]
        return _report_failure(text[:1].upper() + text[1:])
    return 0


def _attack(folder: Path, job: dict[str, Any]) -> None:
    # The paper's own shuffle warns that it promises nothing; here that is the point.
    warnings.simplefilter("ignore")
    from rase.errors import DataError
    from rase.lab.attack_report import attack_csv, attack_report
    from rase.lab.attack_study import AttackPlan, attack_study
    from rase.lab.datasets import open_panel
    from rase.version import __version__

    # JSON has lists where the plan has tuples.
    chosen = {name: tuple(job["plan"][name]) for name in ("attacks", "schemes")}
    plan = AttackPlan(**{**job["plan"], **chosen})
    _print_step({"done": 0, "total": 1, "doing": "reading the data"})
    source = job["source"] if job["file"] is None else str(folder / job["file"])
    panel = open_panel(source, every=job["every"], devices=job["devices"])
    if panel.values.size > _MOST_CELLS:
        raise DataError(
            f"rounds times devices must be at most {_MOST_CELLS}, got {panel.rounds} times "
            f"{panel.n}. Take longer rounds or fewer devices."
        )
    study = attack_study(
        panel,
        plan,
        on_step=lambda done, total, doing: _print_step(
            {"done": done, "total": total, "doing": doing}
        ),
    )
    study["data"] = job["label"]
    (folder / CSV_FILE).write_text(attack_csv(study), "utf-8")
    _print_step(
        {"done": len(study["results"]), "total": len(study["results"]), "doing": "the report"}
    )
    (folder / REPORT_FILE).write_text(attack_report(study, code=__version__), "utf-8")
    (folder / RESULT_FILE).write_text(json.dumps(study, allow_nan=False), "utf-8")


def _data_error() -> type[Exception]:
    from rase.errors import RaseError

    return RaseError


def _report_failure(sentence: str) -> int:
    _print_step({"error": sentence})
    return 1


def _print_step(step: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(step) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
