"""Ask a public service whether locked packages have known weaknesses: pip-audit on every lock.

pip-audit is fetched into a scratch environment, so that it is no dependency itself. Exit code 0:
none is known; 1: some are, and they are listed; 4: the service could not be asked, which is no
answer and never passes for one.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

__all__ = ["verdict"]

ROOT = Path(__file__).resolve().parent.parent
PROFILES = ("demo", "dev", "bench", "fuzz", "spark")
FOUND, NOT_ASKED = 1, 4


def main() -> int:
    """Audit all profiles; arguments go to pip-audit, e.g. ``--vulnerability-service osv``."""
    worst = 0
    with tempfile.TemporaryDirectory() as scratch:
        venv.create(scratch, with_pip=True)
        fetched = subprocess.run(
            [f"{scratch}/bin/pip", "install", "--quiet", "pip-audit"], check=False
        )
        if fetched.returncode:
            print("pip-audit cannot be fetched; nothing was checked.", file=sys.stderr)
            return NOT_ASKED
        for profile in PROFILES:
            lock = ROOT / "requirements" / f"{profile}.txt"
            done = subprocess.run(
                [
                    *(f"{scratch}/bin/pip-audit", "--requirement", str(lock)),
                    *("--require-hashes", "--disable-pip", "--progress-spinner", "off"),
                    *sys.argv[1:],
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            worst = max(worst, verdict(profile, done.returncode, done.stdout + done.stderr))
    return worst


def verdict(profile: str, code: int, says: str) -> int:
    """Tell what became of a profile, and return its exit code."""
    # A package that the service does not know was not checked, whatever the exit code says.
    if code == 0 and "could not be audited" not in says:
        print(f"{profile}: no known vulnerability.")
        return 0
    if "known vulnerabilit" in says:
        print(f"{profile}:\n{says}")
        return FOUND
    print(f"{profile}: the service could not be asked; nothing was checked.", file=sys.stderr)
    print(says[-500:], file=sys.stderr)
    return NOT_ASKED


if __name__ == "__main__":
    sys.exit(main())
