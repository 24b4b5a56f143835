"""What an owner is told about tokens: how many are left, until when, and when there are more."""

import json
from pathlib import Path

from tests.device.conftest import CAMPAIGN
from tests.device.owning import owned

from rase.accounting.ledger.tokens import StoredWindow
from rase.device.quantities import status_text
from rase.device.token_stock import stock_of

ROUND_S = 3600
NOW_S = 495_000 * ROUND_S + 10.0


def window(first: int, *, left: int = 0, seed: bytes | None = None) -> StoredWindow:
    """Return a window of two rounds, counted from the present one."""
    return StoredWindow("homes", 495_000 + first, 495_001 + first, b"", seed, left)


def words(*windows: StoredWindow) -> str:
    """Return what the owner is told."""
    return stock_of(windows, "homes", round_s=ROUND_S, now_s=NOW_S).words


def test_each_state_has_its_words() -> None:
    """Tokens for now, for later, asked for, and none at all."""
    assert words(window(0, left=2), window(2, left=2)) == "2 left until 2026-06-21 02:00:00 UTC."
    later = "no report is made before 2026-06-21 02:00:00 UTC, when the next begin."
    assert words(window(0), window(2, left=2)) == f"none left: {later}"
    assert words(window(2, left=2)) == f"none yet: {later}"
    assert "the registrar is asked" in words(window(0), window(2, seed=bytes(32)))
    for none in (words(), words(window(-2, left=2)), words(window(0))):
        assert "no report is made before the registrar gives some" in none
    # Those of another campaign say nothing.
    other = StoredWindow("streets", 494_999, 495_003, b"", None, 9)
    assert words(other) == words()


def test_status_tells_it_and_so_does_the_page(quick_folder: Path) -> None:
    """A device without tokens says so in both; with tokens it counts them."""
    with owned(quick_folder / "device") as device:
        device.folder.switch(is_on=True)
        device.agent.step()
        (told,) = json.loads(status_text(device.folder, as_json=True))["quantities"]
        assert (told["campaign"], told["tokens"]["left"]) == (CAMPAIGN.id, 400)
        assert "  tokens: 400 left until" in status_text(device.folder)
        assert "400 left until" in device.get().text
        device.ledger.drop_tokens(CAMPAIGN.id, 2**33)
        assert "before the registrar gives some" in status_text(device.folder)
        assert "before the registrar gives some" in device.get().text
