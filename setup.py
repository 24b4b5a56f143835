"""Build the compiled kernels, and the page that a package index shows; the rest is pyproject.toml.

Without a compiler the extension is left out, and the NumPy kernels serve.
"""

import hashlib
import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup

SOURCES = ["module", "draws", "places", "orders", "series", "filters", "bank"]
# No contraction: every float must be the one that NumPy computes. MSVC does not contract by itself.
FLAGS = {"win32": ["/std:c11", "/O2"]}
OTHER_FLAGS = ["-std=c11", "-O3", "-ffp-contract=off", "-Wall"]
# Where the repository is on the web, such as https://host/owner/name; no address is written down
# in the sources, whoever publishes names theirs.
ADDRESS = os.environ.get("RASE_REPOSITORY_URL", "").rstrip("/")
VERSION = re.findall(r'^version = "(.+)"$', Path("pyproject.toml").read_text("utf-8"), re.MULTILINE)
_PICTURE = re.compile(r"!\[[^]]*\]\((?!https?:)[^)]*\)")
_LINK = re.compile(r"(!?)\[((?:!\[[^]]*\]\([^)]*\)|[^]])*)\]\((?!https?:|#)([^)]*)\)")


def index_page() -> str:
    """Return the README with links that work away from the repository.

    They lead to the repository's address where one is named; else pictures are left out, and of
    links the text remains.
    """
    text = Path("README.md").read_text("utf-8")
    if not ADDRESS:
        return _LINK.sub(r"\2", _PICTURE.sub("", text))
    pictures = rf"![\g<1>]({ADDRESS}/raw/v{VERSION[0]}/\2)"
    text = re.sub(r"!\[([^]]*)\]\((?!https?:)([^)]*)\)", pictures, text)
    return _LINK.sub(rf"[\2]({ADDRESS}/blob/v{VERSION[0]}/\3)", text)


def stamp() -> int:
    """Return a number of the kernels' sources, by which rase.kernels.backend knows old builds."""
    files = sorted(Path("src/rase/kernels").glob("native*.[ch]"))
    contents = b"".join(one.read_bytes() for one in files)
    return int.from_bytes(hashlib.sha256(contents).digest()[:8], "big")


setup(
    long_description=index_page(),
    long_description_content_type="text/markdown",
    project_urls={
        name: f"{ADDRESS}{path}"
        for name, path in {
            "Source": "",
            "Changelog": f"/blob/v{VERSION[0]}/CHANGELOG.md",
            "Documentation": f"/blob/v{VERSION[0]}/docs/index.md",
            "Issues": "/issues",
        }.items()
        if ADDRESS
    },
    ext_modules=[
        Extension(
            "rase.kernels._native",
            sources=[f"src/rase/kernels/native_{name}.c" for name in SOURCES],
            depends=[str(one) for one in sorted(Path("src/rase/kernels").glob("native*.h"))],
            extra_compile_args=FLAGS.get(sys.platform, OTHER_FLAGS),
            define_macros=[("Py_LIMITED_API", "0x030b0000"), ("RASE_STAMP", f"{stamp()}ULL")],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
