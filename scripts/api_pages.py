"""Write the API reference of the site from signatures and docstrings: a page for each part.

Nothing of it is kept in the repository, so it cannot differ from the code: the site is built from
a copy of the pages, to which these are added. Sources are read, not imported.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import griffe

__all__ = ["FOLDER", "PARTS", "navigation", "write_pages"]

FOLDER = Path("docs/reference/api")
# Title, and what it holds: public names of `rase` by the room they come from, and others by path.
PARTS = {
    "Tables and rounds": ("tables", "series"),
    "Ranges and randomness": ("domain", "kernels"),
    "Randomizers": ("laws",),
    "Shufflers": ("shuffle",),
    "Estimates": ("counts",),
    "Guarantees and planning": ("privacy", "accounting"),
    "Answers and subscribers": (),
    "Errors": ("errors",),
    "Testing": (),
}
_MORE = {
    "Tables and rounds": ("tables.columns.Hints", "tables.layouts.Columns", "tables.run.run"),
    "Estimates": ("counts.mean.combined_mean", "counts.shares.simultaneous"),
    "Guarantees and planning": ("accounting.ledger.Ledger",),
    "Answers and subscribers": ("answer.Answer", "subscriber.client.Subscriber"),
    "Errors": ("errors.TooFew",),
    "Testing": (
        "testing.check_randomizer",
        "testing.check_shuffler",
        "testing.check_estimator",
    ),
}
_HEAD = "Generated from the docstrings by `make docs`. [All names at a glance](../python.md).\n"
_WIDTH = 90


def write_pages(root: Path, target: Path) -> list[Path]:
    """Write all pages, and return where they are.

    Args:
        root: The sources.
        target: The folder that holds ``docs``.
    """
    folder = target / FOLDER
    folder.mkdir(parents=True)
    package = griffe.load("rase", search_paths=[root / "src"], docstring_parser="google")
    homes = _homes(root)
    pages = []
    titles = list(PARTS)
    for place, (title, rooms) in enumerate(PARTS.items()):
        paths = [
            (f"rase.{name}", f"{module.removeprefix('rase.')}.{name}")
            for name, module in sorted(homes.items(), key=lambda item: item[0].lower())
            if module.split(".")[1] in rooms
        ]
        paths += [(f"rase.{path}", path) for path in _MORE.get(title, ())]
        text = f"# {title}\n\n{_HEAD}"
        for shown, path in paths:
            found = _found(package, path)
            text += "" if found is None else f"\n{''.join(_object(found, shown, homes))}"
        after = titles[place + 1] if place + 1 < len(titles) else None
        text += (
            f"\nNext: [{after}]({_name(after)}).\n"
            if after
            else "\nNext: [the HTTP API](../http-api.md).\n"
        )
        page = folder / _name(title)
        page.write_text(text, encoding="utf-8")
        pages.append(page)
    return pages


def navigation(settings: str) -> str:
    """Return the settings of the site with the pages in its navigation."""
    line = "      - Python names: reference/python.md\n"
    if line not in settings:
        raise ValueError("mkdocs.yml must list the page of Python names.")
    added = "".join(f"          - {title}: reference/api/{_name(title)}\n" for title in PARTS)
    return settings.replace(line, f"{line}      - API:\n{added}")


def _name(title: str) -> str:
    return f"{title.lower().replace(' ', '-')}.md"


def _homes(root: Path) -> dict[str, str]:
    """Return the module of each public name, as the package's own table says."""
    tree = ast.parse((root / "src/rase/__init__.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOMES":
            table = ast.literal_eval(node.value)
            return {name: module for module, names in table.items() for name in names.split()}
    raise ValueError("rase/__init__.py must have a table _HOMES.")


def _found(package: Any, path: str) -> Any:
    try:
        found = package[path]
    except KeyError:
        # The site of an older version lacks what is newer.
        return None
    return found.final_target if isinstance(found, griffe.Alias) else found


def _object(found: Any, shown: str, homes: dict[str, str]) -> Iterator[str]:
    """Describe a class or function, and of a class what it does not share with a public base."""
    kind = "class" if found.is_class else "function"
    short = shown.rpartition(".")[2]
    yield f"## {kind} `{shown}` {{#{shown}}}\n\n{_signature(found, short)}"
    yield from _docstring(found)
    shared: dict[str, list[str]] = {}
    for name, member in _members(found):
        owner = member.parent.name if member.parent else short
        if owner != found.name and owner in homes:
            shared.setdefault(owner, []).append(f"`.{name}`")
            continue
        yield f"### `{short}.{name}` {{#{shown}.{name}}}\n\n"
        if member.is_function:
            yield _signature(member, name)
        elif member.annotation is not None:
            yield f"```python\n{name}: {member.annotation}\n```\n\n"
        yield from _docstring(member)
    for owner, names in sorted(shared.items()):
        yield f"From `{owner}`: {', '.join(names)}.\n\n"


def _members(found: Any) -> Iterator[tuple[str, Any]]:
    """Yield public methods and properties that say what they do, inherited ones too."""
    for name, member in sorted(found.all_members.items() if found.is_class else ()):
        target = member.final_target if isinstance(member, griffe.Alias) else member
        if not name.startswith("_") and target.docstring is not None:
            yield name, target


def _signature(found: Any, name: str) -> str:
    """Return how something is called; what has no parameters, such as an error, has none."""
    parameters = [
        one for one in getattr(found, "parameters", ()) if one.name not in ("self", "cls")
    ]
    if not parameters and found.is_class:
        return ""
    shown, marked = [], False
    for one in parameters:
        if one.kind is griffe.ParameterKind.keyword_only and not marked:
            marked = True
            shown.append("*")
        marked = marked or one.kind is griffe.ParameterKind.var_positional
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(
            one.kind.value if one.kind else "", ""
        )
        note = f": {one.annotation}" if one.annotation is not None else ""
        has_default = one.default is not None and not stars
        default = f" = {one.default}" if has_default else ""
        shown.append(f"{stars}{one.name}{note}{default}")
    returns = getattr(found, "returns", None)
    result = f" -> {returns}" if returns is not None and not found.is_class else ""
    line = f"{name}({', '.join(shown)}){result}"
    if len(line) > _WIDTH:
        line = f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){result}"
    return f"```python\n{line}\n```\n\n"


def _docstring(found: Any) -> Iterator[str]:
    if found.docstring is None:
        return
    for section in found.docstring.parse("google", warnings=False):
        value = section.value
        match section.kind:
            case griffe.DocstringSectionKind.text:
                yield f"{_plain(value)}\n\n"
            case griffe.DocstringSectionKind.examples:
                yield "**Example**\n\n"
                for kind, text in value:
                    is_code = kind is griffe.DocstringSectionKind.examples
                    yield f"```pycon\n{text}\n```\n\n" if is_code else f"{_plain(text)}\n\n"
            case griffe.DocstringSectionKind.admonition if ">>>" in value.contents:
                words, mark, code = value.contents.partition(">>>")
                yield f"**Example**\n\n{_plain(words)}\n\n```pycon\n{mark}{code}\n```\n\n"
            case griffe.DocstringSectionKind.admonition:
                yield f"**{section.title or value.kind.title()}**: {_plain(value.contents)}\n\n"
            case _:
                yield from _list(section.kind.value.title(), value)


def _list(title: str, items: Iterable[griffe.DocstringElement]) -> Iterator[str]:
    yield f"**{title}**\n\n"
    for one in items:
        named = getattr(one, "name", "") or ""
        if title == "Raises":
            named = str(one.annotation)
        name = f"`{named}`: " if named else ""
        yield f"- {name}{' '.join(_plain(one.description).split())}\n"
    yield "\n"


def _plain(text: str) -> str:
    """Return a docstring's text as Markdown: its pages of docs as links, literal blocks as code."""
    text = re.sub(
        r"\(?docs/((?:explain|guides|reference|start)/[\w-]+)\.md\)?",
        lambda found: f"([{found[1].rpartition('/')[2]}](../../{found[1]}.md))",
        text,
    )
    return re.sub(r"::\n\n((?:    .*\n?|\n)+)", lambda found: f":\n\n{found[1]}\n", text)
