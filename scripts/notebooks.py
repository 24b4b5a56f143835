"""Run the notebooks of the gallery and store what comes out; or make pages of what is stored.

    python -m scripts.notebooks

runs every notebook of `examples/` from top to bottom and writes its outputs into it, so that a
viewer of the repository shows them. The site turns the same files into pages. Nothing of Jupyter is
needed: cells are run as they stand, and show what their last line is.
"""

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["NOTEBOOKS", "navigation", "outputs_of", "page_of", "text_of", "write_pages"]

ROOT = Path(__file__).resolve().parent.parent
# In the order of the gallery.
NOTEBOOKS = (
    "mean_of_a_table",
    "privacy_against_error",
    "plan_a_campaign",
    "what_a_report_gives_away",
    "small_fleets",
)
_DPI = 80
# A table says more than the text of what it shows.
_LONGEST = 400


def main() -> int:
    """Run all notebooks and store their outputs."""
    for name in NOTEBOOKS:
        path = ROOT / "examples" / f"{name}.ipynb"
        book = json.loads(path.read_text("utf-8"))
        for cell, found in zip(_code(book), outputs_of(book), strict=True):
            cell["outputs"] = found
        path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")
    return 0


def outputs_of(book: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Run a notebook's cells in order, and yield the outputs of each."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names: dict[str, Any] = {}
    for number, cell in enumerate(_code(book), 1):
        tree = ast.parse("".join(cell["source"]))
        ends = tree.body and isinstance(tree.body[-1], ast.Expr) and not _is_muted(cell)
        last = tree.body.pop() if ends else None
        printed = io.StringIO()
        shown = None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102 - our own
            if isinstance(last, ast.Expr):
                code = compile(ast.Expression(last.value), f"cell {number}", "eval")
                shown = eval(code, names)  # noqa: S307 - our own
        found: list[dict[str, Any]] = []
        if printed.getvalue():
            text = printed.getvalue().splitlines(keepends=True)
            found.append({"name": "stdout", "output_type": "stream", "text": text})
        if shown is not None:
            found.append(_displayed(shown))
        for figure in map(plt.figure, plt.get_fignums()):
            content = io.BytesIO()
            figure.savefig(content, dpi=_DPI, bbox_inches="tight", metadata={"Software": None})
            picture = base64.b64encode(content.getvalue()).decode()
            data = {"image/png": picture, "text/plain": ["<Figure>"]}
            found.append({"data": data, "metadata": {}, "output_type": "display_data"})
        plt.close("all")
        yield found


def _code(book: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in book["cells"] if cell["cell_type"] == "code"]


def _is_muted(cell: dict[str, Any]) -> bool:
    return "".join(cell["source"]).rstrip().endswith(";")


def _displayed(shown: Any) -> dict[str, Any]:
    """Return the output of a cell's last line, as text and, where it has one, as a table."""
    text, table = repr(shown), getattr(shown, "_repr_html_", None)
    if table is not None and len(text) > _LONGEST:
        text = f"<{type(shown).__name__}>"
    data: dict[str, Any] = {"text/plain": text.splitlines(keepends=True)}
    if table is not None:
        data["text/html"] = table().splitlines(keepends=True)
    return {"data": data, "metadata": {}, "output_type": "display_data"}


def text_of(outputs: list[dict[str, Any]]) -> str:
    """Return what outputs say in words; pictures are a line."""
    return "".join(
        "".join(one["text"] if "text" in one else one["data"]["text/plain"]) for one in outputs
    )


def page_of(book: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as a page of Markdown, and its pictures by the names of their files."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in book["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            # Links count from examples/ there, and from docs/gallery/ here.
            source = re.sub(r"\]\(\.\./docs/", "](../", source)
            parts.append(re.sub(r"\]\((\w+)\.ipynb\)", r"](\1.md)", source))
            continue
        parts.append(f"```python\n{source}\n```")
        for one in cell["outputs"]:
            data = one.get("data", {"text/plain": one.get("text")})
            if "image/png" in data:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(data["image/png"])
                parts.append(f"![What the cell draws]({file})")
            elif "text/html" in data:
                parts.append(f'<div markdown="0">{"".join(data["text/html"])}</div>')
            else:
                parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures


def write_pages(root: Path, target: Path) -> None:
    """Write the pages of the gallery.

    Args:
        root: The sources.
        target: The folder that holds ``docs``.
    """
    folder = target / "docs/gallery"
    folder.mkdir()
    for name in NOTEBOOKS:
        path = root / f"examples/{name}.ipynb"
        if path.is_file():
            text, pictures = page_of(json.loads(path.read_text("utf-8")), name)
            (folder / f"{name}.md").write_text(text, encoding="utf-8")
            for file, content in pictures.items():
                (folder / file).write_bytes(content)


def navigation(settings: str, root: Path) -> str:
    """Return the settings of the site with the gallery in its navigation."""
    lines = ["  - Gallery:\n"]
    for name in NOTEBOOKS:
        path = root / f"examples/{name}.ipynb"
        if path.is_file():
            title = json.loads(path.read_text("utf-8"))["cells"][0]["source"][0]
            lines.append(f"      - {title.strip().lstrip('# ')}: gallery/{name}.md\n")
    return settings.replace("  - Guides:\n", f"{''.join(lines)}  - Guides:\n")


if __name__ == "__main__":
    os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
    sys.exit(main())
