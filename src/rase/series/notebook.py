"""What results need to show themselves in a notebook: tables in HTML, data frames, axes.

pandas and matplotlib are imported by name when somebody asks for a frame or a picture, never
before: the mathematics works without either (tests/series/test_notebook.py).
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from rase.errors import DataError

__all__ = ["axes_for", "frame_of", "table_html"]

_PANDAS: Final = "a data frame needs pandas; install it with: pip install pandas."
_MATPLOTLIB: Final = (
    'a picture needs matplotlib; install it with: pip install "rase-iot[plot]", or give axes.'
)


def table_html(header: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str) -> str:
    """Return a table as a notebook shows it; every text is escaped.

    Args:
        header: The names of the columns.
        rows: The cells.
        caption: What stands above.

    Example:
        >>> table_html(["n"], [["64"]], caption="a < b").partition("<thead>")[0]
        '<table><caption>a &lt; b</caption>'
    """
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def frame_of(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return columns as a pandas data frame.

    Raises:
        DataError: If pandas is not installed.
    """
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError as error:
        raise DataError(_PANDAS) from error
    return pandas.DataFrame(dict(columns))


def axes_for(ax: Any = None) -> Any:
    """Return the axes given, or those of a new matplotlib figure.

    Raises:
        DataError: If there are none and matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        pyplot = import_module("matplotlib.pyplot")
    except ModuleNotFoundError as error:
        raise DataError(_MATPLOTLIB) from error
    return pyplot.subplots(layout="constrained")[1]
