"""Make .venv and install a locked profile and the project into it.

Called as bootstrap.py demo|dev|bench|fuzz|release|spark.

Only the standard library is used, and the file stays readable to Python 3.6, so that an old
interpreter can say what it lacks. A second call with nothing changed returns at once. `dev` holds
all of `demo`, and `spark` all of `dev`: an environment made for more serves less, too. `bench`
holds `dev` and the peers it is measured against, in an environment of its own, .venv-bench; so does
`fuzz`, with the fuzzer, in .venv-fuzz. `release` holds builders and linters, in .venv-release.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OLDEST = (3, 11)
NEWER = ["python3.14", "python3.13", "python3.12", "python3.11"]
ROOT = Path(__file__).resolve().parent.parent
OWN = {"bench": ".venv-bench", "fuzz": ".venv-fuzz", "release": ".venv-release"}
GROWING = ["demo", "dev", "spark"]
VENV = ROOT / OWN.get("".join(sys.argv[1:]), ".venv")
PYTHON = VENV / "bin" / "python"
SCRIPT = VENV / "bin" / "rase"
# Modules are compiled when they are first imported: most of them never are.
QUIET = ["--no-compile", "--retries=2", "--progress-bar=off"]
STAMP = VENV / "bootstrap.stamp"
LOG = VENV / "bootstrap.log"
# What pip says, and what it means to the person who waits.
REASONS = {
    "No space left on device": "no space left on the disk: free about 1 GB, then run it again",
    "DO NOT MATCH THE HASHES": (
        "a downloaded file differs from the lock: run it again, and if it stays so, check the"
        " mirror or proxy in between"
    ),
    "CERTIFICATE_VERIFY_FAILED": "the index's certificate is not trusted: set PIP_CERT",
    (
        "NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError"
        "|Connection (refused|reset|aborted|broken)|name resolution|unreachable|timed out"
        "|Failed to establish"
    ): (
        "the package index cannot be reached: check the network, or name a mirror or proxy with"
        " PIP_INDEX_URL or HTTPS_PROXY"
    ),
    "Permission denied": "no permission to write to .venv: remove it, then run it again",
    r"No matching distribution found for (?P<what>\S+)": (
        "no file of {what} for this Python and machine was offered: check pip's settings"
        " (PIP_NO_INDEX, PIP_INDEX_URL), or use CPython 3.11 to 3.13"
    ),
}


class SetupError(Exception):
    """Setup cannot go on; the text is one line that says what to do."""


def main() -> int:
    """Bring .venv to the profile named on the command line."""
    if len(sys.argv) != 2 or sys.argv[1] not in (*GROWING, *OWN):
        print("usage: bootstrap.py demo|dev|bench|fuzz|release|spark", file=sys.stderr)
        return 2
    try:
        use_new_python()
        prepare(sys.argv[1])
    except SetupError as failure:
        print(f"Setup failed: {failure}.", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Setup failed: {explain(str(error)) or error}.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nSetup interrupted; the next run goes on.", file=sys.stderr)
        return 130
    return 0


def use_new_python() -> None:
    """Hand over to a newer interpreter on PATH when this one is too old."""
    if sys.version_info >= OLDEST:
        return
    for name in NEWER:
        found = shutil.which(name)
        # Some names on PATH are only shims, so each has to prove itself.
        if found and run([found, "-c", "import ssl"])[0] == 0:
            sys.stdout.flush()
            os.execv(found, [found, *sys.argv])  # noqa: S606
    raise SetupError(
        "Python 3.11 or newer must be on PATH, got {}.{}: install one, or name it with"
        " make PYTHON=/path/to/python3".format(*sys.version_info)
    )


def prepare(profile: str) -> None:
    """Install what the stamp does not already vouch for."""
    stamp = read_stamp()
    if profile in GROWING and stamp.get("profile") in GROWING:
        # Never shrink an environment: demo and test may alternate.
        profile = max(profile, stamp["profile"], key=GROWING.index)
    lock = digest([ROOT / "requirements" / f"{profile}.txt"])
    project = digest(project_files())
    wanted = {"profile": profile, "lock": lock, "project": project, "place": str(VENV)}
    usable = PYTHON.exists() and SCRIPT.exists()
    if usable and stamp == wanted:
        return
    start = time.monotonic()
    same_lock = usable and (stamp.get("profile"), stamp.get("lock")) == (profile, lock)
    if STAMP.exists():
        STAMP.unlink()
    moved = stamp.get("place", str(VENV)) != str(VENV)  # its scripts still name the old place
    if moved or not works():
        same_lock = False
        say("Making {} with Python {}.{}.{} ...".format(VENV.name, *sys.version_info))
        make_venv()
    if not same_lock:
        say(f"To download: about {download_mb(profile):.0f} MB, less what pip has kept.")
        if profile == "spark":
            install_lock("dev")  # with what Spark is built by
        install_lock(profile)
    say("Installing the project ...")
    # Editable, built by the locked setuptools: nothing is fetched here.
    offline = ["--no-index", "--no-deps", "--no-build-isolation"]
    with alone():
        pip([*offline, "--editable", "."], total=0)
    STAMP.write_text("".join(f"{k} {v}\n" for k, v in wanted.items()), encoding="utf-8")
    say(f"Ready in {time.monotonic() - start:.0f} s.")


@contextmanager
def alone() -> "Iterator[None]":
    """Wait for other calls of this program here: all build the kernels into the same folder."""
    with (ROOT / "setup.py").open() as file:
        with suppress(ImportError):  # only POSIX has it
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read_stamp() -> "dict[str, str]":
    """Return what was installed last, empty when nothing was or it was cut short."""
    if not STAMP.exists():
        return {}
    lines = STAMP.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)


def project_files() -> "list[Path]":
    """List the files from which the project itself is built."""
    sources = sorted((ROOT / "src").rglob("*.[ch]"))
    return [ROOT / "pyproject.toml", ROOT / "setup.py", *sources]


def digest(files: "list[Path]") -> str:
    """Hash the names and contents of those files that exist."""
    total = hashlib.sha256()
    for file in files:
        if file.exists():
            total.update(f"\0{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return total.hexdigest()


def works() -> bool:
    """Tell whether .venv has a new enough Python with pip."""
    test = f"import sys, pip; sys.exit(sys.version_info < {OLDEST})"
    return PYTHON.exists() and run([str(PYTHON), "-c", test])[0] == 0


def make_venv() -> None:
    """Make .venv by the first way that works here."""
    base = str(getattr(sys, "_base_executable", None) or sys.executable)
    for command in ways(base):
        remove_venv()
        code, says = run(command)
        if code == 0 and works():
            return
        if "No space left" in says:
            raise SetupError(explain(says))
    remove_venv()
    package = "python{}.{}-venv".format(*sys.version_info)
    apt = shutil.which("apt-get")
    if apt and os.geteuid() == 0:
        say(f"This Python has no venv: installing the system package {package} ...")
        install = [apt, "install", "--yes", "--no-install-recommends", package]
        if run(install)[0] != 0 and run([apt, "update"])[0] == 0:
            run(install)
        if run([base, "-m", "venv", str(VENV)])[0] == 0 and works():
            return
        remove_venv()
    if apt:
        raise SetupError(f"this Python cannot make .venv; type: sudo apt-get install {package}")
    raise SetupError("this Python has no working venv module: install it, or virtualenv, or uv")


def ways(base: str) -> "list[list[str]]":
    """List the commands that could make .venv, best first."""
    commands = [[base, "-m", "venv", str(VENV)], [base, "-m", "virtualenv", str(VENV)]]
    virtualenv, uv = shutil.which("virtualenv"), shutil.which("uv")
    if virtualenv:
        commands.append([virtualenv, "--python", base, str(VENV)])
    if uv:
        commands.append([uv, "venv", "--no-project", "--seed", "--python", base, str(VENV)])
    return commands


def remove_venv() -> None:
    """Remove .venv, whether folder, file or link."""
    if VENV.is_symlink() or VENV.is_file():
        VENV.unlink()
    elif VENV.exists():
        shutil.rmtree(str(VENV))


def download_mb(profile: str) -> float:
    """Sum up the locked packages of a profile that .venv does not hold yet.

    The sizes are those that lock.py found (CPython 3.11, Linux on x86-64); elsewhere files of about
    the same size are downloaded.
    """
    folder = ROOT / "requirements"
    sizes = json.loads((folder / "sizes.json").read_text(encoding="utf-8"))
    locks = (folder / f"{name}.txt" for name in ("installer", profile))
    text = "".join(lock.read_text(encoding="utf-8") for lock in locks)
    locked = re.findall(r"^([\w.-]+==[\w.]+)", text, re.MULTILINE)
    held = set()
    for path in VENV.glob("lib/python*/site-packages/*.dist-info"):
        name, _, version = path.name[: -len(".dist-info")].partition("-")
        held.add("{}=={}".format(re.sub(r"[-_.]+", "-", name).lower(), version))
    # Other systems and versions of Python have lines of their own; those were not measured.
    return sum(int(sizes.get(one, 0)) for one in set(locked) - held) / 1e6


def install_lock(profile: str) -> None:
    """Install a locked profile, from wheels but for Spark, each checked against its hash."""
    lock = f"requirements/{profile}.txt"
    names = re.findall(r"^([\w.-]+)==", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE)
    total = len(set(names))
    say(f"Installing up to {total} locked packages ({profile}) ...")
    source = ["--no-binary=pyspark", "--no-build-isolation"] if profile == "spark" else []
    # The lock names all of it: what packages ask for is not looked up again, where an extra of a
    # locked package could bring a newer release that the lock does not know.
    complete = ["--no-deps", "--require-hashes", "--only-binary=:all:"]
    arguments = [*complete, *source, "--requirement", lock]
    if not installed_by_uv(arguments):
        pip(arguments, total=total)


def installed_by_uv(arguments: "list[str]") -> bool:
    """Install with uv, in a tenth of pip's time; return False where pip must do it.

    uv is itself locked and installed by pip. Whatever goes wrong, pip tries again and explains.
    """
    index = os.environ.get("PIP_INDEX_URL")
    if os.environ.get("PIP_NO_INDEX"):
        return False
    locked = ["--no-deps", "--require-hashes", "--only-binary=:all:"]
    fetch = [*locked, "--quiet", "--requirement", "requirements/installer.txt"]
    if run([str(PYTHON), "-m", "pip", "install", *QUIET, *fetch])[0] != 0:
        return False
    environment = clean_environment()
    if index:
        environment.setdefault("UV_DEFAULT_INDEX", index)
    command = [str(PYTHON), "-m", "uv", "pip", "install", "--no-config", *arguments]
    output = None if sys.stdout.isatty() else subprocess.DEVNULL  # it shows its own progress
    called = subprocess.run(
        command, cwd=str(ROOT), env=environment, stdout=output, stderr=output, check=False
    )
    return called.returncode == 0


def pip(arguments: "list[str]", total: int) -> None:
    """Run pip install, keep what it says in a log, and show a counter on a terminal."""
    command = [str(PYTHON), "-m", "pip", "install", *QUIET, *arguments]
    counter = total > 0 and sys.stdout.isatty()
    lines = []
    process = subprocess.Popen(
        command,
        cwd=str(ROOT),
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        errors="replace",
    )
    with process, LOG.open("w", encoding="utf-8") as log:
        done = 0
        for line in process.stdout or []:
            lines.append(line)
            log.write(line)
            if counter and line.startswith(("Collecting ", "Requirement already")):
                done += 1
                sys.stdout.write(f"\r  {done}/{total} ")
                sys.stdout.flush()
    if counter:
        sys.stdout.write("\r" + " " * 20 + "\r")
    if process.returncode:
        says = "".join(lines)
        errors = [line.strip() for line in lines if line.startswith("ERROR:")]
        last = (errors or [line.strip() for line in lines] or ["pip ended early"])[-1].rstrip(".")
        raise SetupError(explain(says) or f"{last} (all of it: {LOG.relative_to(ROOT)})")


def explain(says: str) -> str:
    """Find the reason behind a tool's output, or nothing."""
    for pattern, reason in REASONS.items():
        match = re.search(pattern, says)
        if match:
            return reason.format(**match.groupdict())
    return ""


def run(command: "list[str]") -> "tuple[int, str]":
    """Run a command quietly; return its exit code and everything it said."""
    try:
        process = subprocess.run(
            command,
            cwd=str(ROOT),
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,  # noqa: UP021 -- Python 3.6 knows no other name
            errors="replace",
            check=False,
        )
    except OSError as error:
        return 127, str(error)
    return process.returncode, process.stdout


def clean_environment() -> "dict[str, str]":
    """Return the environment without what would send packages elsewhere than .venv."""
    strange = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(strange)}
    pip_settings = {"PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    return {"UV_SYSTEM_CERTS": "1", **kept, **pip_settings, **quiet}


def say(text: str) -> None:
    """Show one line of progress at once."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
