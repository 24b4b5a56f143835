"""HTML out of Python values: whatever is not `Markup` is escaped, so nothing can be forgotten."""

from collections.abc import Iterable
from typing import Final

__all__ = ["Child", "Markup", "document", "tag"]

_VOID: Final = frozenset({"br", "img", "input", "link", "meta"})
# What html.escape replaces, too; its module brings two thousand names of letters along.
_ESCAPES: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)


class Markup(str):
    """Text that is already HTML; only this module makes it."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """Return an element.

    Args:
        name: Its name.
        *children: What it holds; texts are escaped, None is left out, lists are joined.
        **attributes: ``class_`` is ``class``, ``aria_label`` is ``aria-label``; True has no value,
            None and False are left out.

    Example:
        >>> tag("p", "a < b", tag("b", 7), class_="soft", hidden=True)
        '<p class="soft" hidden>a &lt; b<b>7</b></p>'
        >>> tag("input", name='"', value=None)
        '<input name="&quot;">'
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        words.append(word if value is True else f'{word}="{_escape(value)}"')
    opening = f"<{' '.join(words)}>"
    if name in _VOID:
        return Markup(opening)
    return Markup(f"{opening}{''.join(_parts(children))}</{name}>")


def document(root: Markup) -> bytes:
    """Return a whole page."""
    return f"<!doctype html>\n{root}\n".encode()


def _parts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            yield str(child)
        elif isinstance(child, str | int | float):
            yield _escape(child)
        else:
            yield from _parts(child)


def _escape(value: object) -> str:
    return str(value).translate(_ESCAPES)
