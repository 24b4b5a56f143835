"""The pure sealer, unchanged, under MicroPython.

Needs node and ``npm ci --prefix tests/wire/micropython``. Skipped elsewhere, which continuous
integration counts as a failure.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S
from tests.programs import program

from rase.wire import pure
from rase.wire.inner import InnerOpener
from rase.wire.keys import KeyConfig, OpeningKey
from rase.wire.messages import Content
from rase.wire.outer import OuterOpener

HERE = Path(__file__).parent
pytestmark = pytest.mark.needs("node", "micropython")


def micropython(script: str) -> str:
    """Run a script with the pure sealer beside it; return what it prints."""
    folder = HERE / "micropython"
    command = [program("node"), str(folder / "run.mjs"), str(folder), pure.__file__]
    done = subprocess.run(
        command, input=script, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return done.stdout.strip()


SEAL = """
from pure import seal_report
given = {given!r}
print(seal_report({round}, {place}, **given).hex())
"""


def arguments(report: dict[str, Any], ch: bytes, configs: dict[str, KeyConfig]) -> dict[str, Any]:
    """Return the arguments of a report from the file of vectors."""
    return {
        "epsilon_class": report["epsilon_class"],
        "is_cover": report["is_cover"],
        "campaign_hash": ch,
        "shuffler_id": 7,
        "shuffler_key": configs["shuffler"].public_key,
        "fusion_id": 9,
        "fusion_key": configs["fusion"].public_key,
        "keyset": 5,
        "entropy": bytes.fromhex(report["entropy"]),
        "label": report["label"],
    }


@pytest.mark.uncovered
def test_the_vectors_are_sealed_on_micropython(ch: bytes, configs: dict[str, KeyConfig]) -> None:
    """The same entropy gives the same bytes as on CPython."""
    document = json.loads((HERE / "vectors/report.json").read_text(encoding="utf-8"))
    for report in document["reports"][:7:3]:
        given = arguments(report, ch, configs)
        script = SEAL.format(given=given, round=report["round"], place=report["place"])
        assert micropython(script) == report["report"]


def test_a_fresh_report_from_micropython_opens(
    ch: bytes, configs: dict[str, KeyConfig], openers: dict[str, OpeningKey]
) -> None:
    """Entropy of the host, sealed on MicroPython, opened by cryptography."""
    report = {"epsilon_class": 2, "is_cover": False, "label": 3, "entropy": os.urandom(64).hex()}
    given = arguments(report, ch, configs)
    sealed = bytes.fromhex(micropython(SEAL.format(given=given, round=495123, place=-77)))
    outer = OuterOpener(ch, [openers["shuffler"]]).open(sealed)
    fusion = InnerOpener(ch, [openers["fusion"]], class_count=4)
    content = fusion.open(outer.inner, key_id=outer.mark.fusion_key_id, round=outer.round)
    assert content == Content(495123, -77, 2)


def test_without_entropy_micropython_is_refused_where_it_has_none() -> None:
    """This build has no os.urandom: it must not seal with anything weaker."""
    script = """
from pure import random_bytes
try:
    print(len(random_bytes(32)))
except RuntimeError as error:
    print(error)
"""
    assert micropython(script) == "this system has no os.urandom: pass entropy."
