"""The pages of the dashboard, in the order of its navigation."""

from importlib import import_module
from typing import Final

from rase.dashboard.page import Page

__all__ = ["PAGES", "load_pages"]

# Modules of this room, each with a PAGE. Their heavy imports belong inside their functions.
PAGES: Final = (
    "live",
    "rounds",
    "campaign",
    "ask",
    "subscribers",
    "health",
    "explorer",
    "attack_lab",
)


def load_pages() -> tuple[Page, ...]:
    """Return all pages."""
    return tuple(import_module(f"rase.dashboard.{name}").PAGE for name in PAGES)
