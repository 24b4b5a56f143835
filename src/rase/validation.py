"""Check a described campaign: every value is checked, and all mistakes are reported at once.

Pure Python without NumPy, because the device agent imports it with the campaign.
"""

import re
from collections.abc import Iterable, Sequence

__all__ = ["CampaignInvalid", "Mistakes", "quote_value"]

# Part of addresses and MQTT topics, so nothing in it may need escaping.
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class CampaignInvalid(ValueError):
    """A campaign cannot be as it is described; ``mistakes`` lists everything that is wrong.

    Args:
        mistakes: One sentence for each.
    """

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(self.mistakes))


class Mistakes:
    """Collect mistakes; each check adds a sentence to ``found`` where a value cannot be.

    Example:
        >>> mistakes = Mistakes()
        >>> mistakes.whole("k_min", 1, low=2, high=1000)
        >>> mistakes.choice("kem", "rsa", ("x25519", "x-wing"))
        >>> mistakes.found
        ['k_min must be a whole number from 2 to 1000, got 1.',
         "kem must be one of x25519, x-wing, got 'rsa'."]
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.found: list[str] = []

    def add(self, name: str, condition: str, value: object) -> None:
        """Add that a value does not meet a condition."""
        self.found.append(f"{name} must be {condition}, got {quote_value(value)}.")

    def raise_if_any(self) -> None:
        """Refuse, if there is a mistake.

        Raises:
            CampaignInvalid: With all that were found.
        """
        if self.found:
            raise CampaignInvalid(self.found)

    def whole(self, name: str, value: object, *, low: int, high: int) -> None:
        """Check a whole number between two ends."""
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.add(name, f"a whole number from {low} to {high}", value)

    def number(self, name: str, value: object, *, low: float, high: float) -> None:
        """Check a number between two ends."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:  # type: ignore[operator]
            self.add(name, f"a number from {low:g} to {high:g}", value)

    def budgets(self, name: str, value: object, *, most: int, low: float, high: float) -> None:
        """Check a short list of budgets, each between two ends."""
        if not isinstance(value, tuple | list) or not 1 <= len(value) <= most:
            self.add(name, f"one to {most} budgets", value)
            return
        for budget in value:
            self.number(name, budget, low=low, high=high)

    def identifier(self, name: str, value: object) -> None:
        """Check a name that may stand in an address or a topic."""
        if not isinstance(value, str) or not _ID.fullmatch(value):
            self.add(name, "1 to 63 lower-case letters, digits or hyphens", value)

    def text(self, name: str, value: object, *, least: int) -> None:
        """Check a short text that people read."""
        is_text = isinstance(value, str) and value.isprintable() and value == value.strip()
        if not is_text or not least <= len(value) <= 64:  # type: ignore[arg-type]
            self.add(name, f"{least} to 64 printable characters, none of them blank ends", value)

    def choice(self, name: str, value: object, known: Sequence[str]) -> None:
        """Check one of several words."""
        if not isinstance(value, str) or value not in known:
            self.add(name, f"one of {', '.join(known)}", value)

    def names(self, name: str, value: object, *, least: int = 0, most: int) -> bool:
        """Check a list of different short names; return whether it is one."""
        is_list = isinstance(value, tuple | list) and all(
            isinstance(item, str) and item.isprintable() and 1 <= len(item) <= 64 for item in value
        )
        if is_list and least <= len(value) <= most and len(set(value)) == len(value):  # type: ignore[arg-type, call-overload]
            return True
        self.add(name, f"{least} to {most} different names of 1 to 64 characters", value)
        return False


def quote_value(value: object) -> str:
    """Return a value as it is quoted in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
