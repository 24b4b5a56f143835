"""Pack the one-file device as a Debian package, ``dist/rase-device_VERSION_all.deb``.

    python scripts/pack_debian.py [FOLDER]

The file itself, the hardened unit of ``deploy/systemd`` with the file as its command, a user of its
own and one file of options. The same sources give the same bytes: every time is that of the last
commit (or SOURCE_DATE_EPOCH), every owner is root, and one thread compresses. Needs ``dpkg-deb``.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.pack_device import ROOT, pack_device

from rase.version import __version__

__all__ = ["NAME", "device_unit", "main", "pack_debian"]

NAME = "rase-device"
PROGRAM = f"/usr/bin/{NAME}.pyz"
STATE = f"/var/lib/{NAME}"
OPTIONS = f"/etc/default/{NAME}"
UNIT = f"/usr/lib/systemd/system/{NAME}.service"
DOC = f"/usr/share/doc/{NAME}"
_PACKAGED = "ExecStart=/opt/rase/bin/rase device run --folder /var/lib/rase-device\n"
_INSTALLED = f"""\
EnvironmentFile=-{OPTIONS}
ExecStart={PROGRAM} run --folder {STATE} $RASE_DEVICE_OPTIONS
# A file has no folder for bytecode, and needs none.
Environment=PYTHONDONTWRITEBYTECODE=1
"""
_WAITS = (
    f"# Before it is enrolled there is nothing to run.\nConditionPathExists={STATE}/credential\n"
)
_OPTIONS = f"""\
# Options of `{NAME}.pyz run`, for the service {NAME}; `{NAME}.pyz run --help` lists them.
# Example: RASE_DEVICE_OPTIONS="--page 8750" serves the owner's page on this machine.
RASE_DEVICE_OPTIONS=""
"""
_COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: rase-iot

Files: *
Copyright: the authors of RASE
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.

Files: usr/bin/rase-device.pyz/paho/*
Copyright: the authors of Eclipse Paho
License: EPL-2.0 or BSD-3-Clause
 Both texts are inside the file: unzip -p /usr/bin/rase-device.pyz 'paho_mqtt*/licenses/*'
"""
_SCRIPTS = {
    "postinst": f"""\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
  if ! getent passwd {NAME} >/dev/null; then
    useradd --system --user-group --no-create-home --home-dir {STATE} \\
      --shell /usr/sbin/nologin {NAME}
  fi
  install -d -m 700 -o {NAME} -g {NAME} {STATE}
  deb-systemd-helper unmask {NAME}.service >/dev/null
  if deb-systemd-helper --quiet was-enabled {NAME}.service; then
    deb-systemd-helper enable {NAME}.service >/dev/null
  else
    deb-systemd-helper update-state {NAME}.service >/dev/null
  fi
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    deb-systemd-invoke restart {NAME}.service
  fi
  if [ ! -e {STATE}/credential ]; then
    echo "{NAME}: not enrolled yet; see {DOC}/README."
  fi
fi
""",
    "prerm": f"""\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  deb-systemd-invoke stop {NAME}.service
fi
""",
    # What was spent of a budget stays spent: the ledger is the owner's to delete, not a package's.
    "postrm": f"""\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
if [ "$1" = purge ]; then
  if command -v deb-systemd-helper >/dev/null; then
    deb-systemd-helper purge {NAME}.service >/dev/null
    deb-systemd-helper unmask {NAME}.service >/dev/null
  fi
  if ! rmdir {STATE} 2>/dev/null && [ -d {STATE} ]; then
    echo "{NAME}: {STATE} is kept: it counts what this device has spent of its budget."
  fi
fi
""",
}
_README = f"""\
The device of RASE, as the service {NAME}.

It starts once the device is enrolled, as its own user:

    runuser -u {NAME} -- {NAME}.pyz enrol --folder {STATE} --token-file - ...
    systemctl start {NAME}

Set [source] in {STATE}/device.toml to say where readings come from.
Options of the service are in {OPTIONS}. What was spent of the budget:

    runuser -u {NAME} -- {NAME}.pyz budget --folder {STATE}

Removing the package, or purging it, keeps {STATE}: the ledger in it
counts what the device has spent.
"""


def main() -> int:
    """Write the package into the folder that is named, or dist; print its size and digest."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist"
    if shutil.which("dpkg-deb") is None:
        print("pack_debian: error: dpkg-deb must be installed (Debian's dpkg).", file=sys.stderr)
        return 1
    path = pack_debian(folder)
    content = path.read_bytes()
    print(f"{path}: {len(content):,} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}")
    return 0


def pack_debian(folder: Path) -> Path:
    """Build the package into a folder and return its path.

    Args:
        folder: Where to; made if absent.
    """
    files = {
        PROGRAM: pack_device(),
        UNIT: device_unit().encode(),
        OPTIONS: _OPTIONS.encode(),
        f"{DOC}/README": _README.encode(),
        f"{DOC}/copyright": _COPYRIGHT.encode(),
    }
    size = sum(map(len, files.values()))
    sums = "".join(
        f"{hashlib.md5(content, usedforsecurity=False).hexdigest()}  {name[1:]}\n"
        for name, content in sorted(files.items())
        if name != OPTIONS
    )
    control = {
        "control": _control(size),
        "conffiles": f"{OPTIONS}\n",
        "md5sums": sums,
        **_SCRIPTS,
    }
    files |= {f"/DEBIAN/{name}": text.encode() for name, text in control.items()}
    folder.mkdir(parents=True, exist_ok=True)
    target = folder.resolve() / f"{NAME}_{__version__}_all.deb"
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _time_of_commit()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        for name, content in files.items():
            path = root / name[1:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755 if name == PROGRAM or path.name in _SCRIPTS else 0o644)
        for path in (root, *root.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
            os.utime(path, (int(epoch), int(epoch)))
        words = ["--root-owner-group", "-Zxz", "--threads-max=1", "--build", str(root), str(target)]
        subprocess.run(
            ["dpkg-deb", *words],  # noqa: S607 - Debian's, wherever it lies
            env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
            stdout=subprocess.DEVNULL,
            check=True,
        )
    return target


def device_unit() -> str:
    """Return the unit of an installed package with the one file as its command."""
    text = (ROOT / "deploy/systemd/rase-device.service").read_text("utf-8")
    for old, new in ((_PACKAGED, _INSTALLED), ("[Service]\n", f"{_WAITS}\n[Service]\n")):
        if text.count(old) != 1:
            raise SystemExit(f"pack_debian: error: the unit must hold {old.strip()!r} once.")
        text = text.replace(old, new)
    return text.replace("\n\n# Before", "\n# Before")


def _control(size: int) -> str:
    """Return the fields of the package; addresses are those of whoever publishes it."""
    homepage = os.environ.get("RASE_REPOSITORY_URL", "").rstrip("/")
    return (
        f"Package: {NAME}\n"
        f"Version: {__version__}\n"
        "Architecture: all\n"
        f"Maintainer: {os.environ.get('RASE_MAINTAINER', 'RASE <root@localhost>')}\n"
        f"Installed-Size: {-(-size // 1024)}\n"
        "Depends: python3 (>= 3.11), init-system-helpers, passwd\n"
        "Section: net\n"
        "Priority: optional\n"
        + (f"Homepage: {homepage}\n" if homepage else "")
        + "Description: device of RASE: private averages of a fleet\n"
        " Reads a sensor or meter, adds noise within the owner's budget, and sends the\n"
        " sealed report to a shuffler. One file, which needs Debian's Python and no\n"
        " package of Python.\n"
    )


def _time_of_commit() -> str:
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],  # noqa: S607 - the git of whoever packs
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
