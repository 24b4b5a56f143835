"""Programs that tests run: where each is found, and how to get it where it is absent.

A test names what it runs by ``@pytest.mark.needs("nginx")``, or asks for a fixture of `NEEDED_BY`,
and is skipped with the reason where that is absent; with CI set a skip is a failure. `program`
returns the path. No other module of the tests looks for a program: tests/test_programs.py.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

__all__ = ["ABSENT", "NEEDED_BY", "PROGRAMS", "absence", "commands_in", "find", "program"]

# Set to names, or to "all": these count as absent, as on a machine without them.
ABSENT = "RASE_TESTS_WITHOUT"
_HERE = Path(__file__).parent
# Debian keeps servers outside of the PATH of ordinary users.
_SERVERS = "/usr/sbin"


@dataclass(frozen=True, slots=True)
class Program:
    """Describe something that tests run and the project does not install.

    Args:
        get: The command that gets it, on Debian.
        places: Where it is looked for beside the PATH; patterns of files.
        on_path: Whether it is a command; a package of node is not.
    """

    get: str
    places: tuple[str, ...] = ()
    on_path: bool = True


def _debian(package: str, *places: str) -> Program:
    return Program(f"apt-get install {package}", places)


PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        "buildah": _debian("buildah"),
        "caddy": _debian("caddy"),
        "cc": _debian("gcc libc6-dev"),
        "chromium-headless-shell": _debian("chromium-headless-shell"),
        "chroot": _debian("coreutils"),
        "debootstrap": _debian("debootstrap"),
        "dpkg-deb": _debian("dpkg"),
        "git": _debian("git"),
        "initdb": _debian("postgresql", "/usr/lib/postgresql/*/bin/initdb"),
        "java": _debian("openjdk-17-jre-headless"),
        "make": _debian("make"),
        "mosquitto": _debian("mosquitto"),
        "mosquitto_pub": _debian("mosquitto-clients"),
        "nginx": _debian("nginx-light"),
        "node": _debian("nodejs"),
        "pg_dump": _debian("postgresql-client", "/usr/lib/postgresql/*/bin/pg_dump"),
        "promtool": _debian("prometheus"),
        "ssh-keygen": _debian("openssh-client"),
        "systemd-analyze": _debian("systemd"),
        "axe": Program(
            "npm ci --prefix tests/browser",
            (f"{_HERE}/browser/node_modules/axe-core/axe.min.js",),
            on_path=False,
        ),
        "harper": Program(
            "npm ci --prefix scripts/grammar",
            (f"{_HERE.parent}/scripts/grammar/node_modules/harper.js/dist/index.js",),
            on_path=False,
        ),
        "micropython": Program(
            "npm ci --prefix tests/wire/micropython",
            (f"{_HERE}/wire/micropython/node_modules/@micropython/*-webassembly-pyscript",),
            on_path=False,
        ),
    }
)
# Fixtures that start a program, and its name.
NEEDED_BY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "debian_root": ("debootstrap", "chroot"),
        "browser": ("chromium-headless-shell", "axe"),
        "durable_postgres": ("initdb",),
        "mosquitto": ("mosquitto",),
        "postgres": ("initdb",),
    }
)


def find(name: str) -> str | None:
    """Return where a program of `PROGRAMS` is, or None where it is absent."""
    hidden = os.environ.get(ABSENT, "").split()
    if name in hidden or "all" in hidden:
        return None
    known = PROGRAMS[name]
    path = os.pathsep.join((os.environ.get("PATH", ""), _SERVERS))
    if known.on_path and (found := shutil.which(name, path=path)):
        return found
    places = (place for pattern in known.places for place in sorted(_matching(pattern)))
    return next(map(str, places), None)


def absence(name: str) -> str | None:
    """Return why a program cannot be run and how to get it, or None where it can."""
    return None if find(name) else f"{name} is not installed: {PROGRAMS[name].get}"


def program(name: str) -> str:
    """Return where a program is; skip the running test where it is absent."""
    if reason := absence(name):
        pytest.skip(reason)
    return str(find(name))


def commands_in(script: str) -> tuple[str, ...]:
    """Return which programs of `PROGRAMS` the lines of a shell script begin with."""
    first = {line.split()[0] for line in script.splitlines() if line.strip()}
    return tuple(sorted(first & set(PROGRAMS)))


def _matching(pattern: str) -> list[Path]:
    return list(Path("/").glob(pattern.lstrip("/")))
