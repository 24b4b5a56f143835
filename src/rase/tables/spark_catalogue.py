"""Tables that a cluster knows by name: their files, which tasks then read as any others.

Only tables whose files hold their rows and nothing else are taken: of views, and of formats with a
log of their own, files say too much.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

from rase.errors import DataError
from rase.tables.files import Files, find_files
from rase.tables.layouts import Columns

__all__ = ["CATALOGUE", "files_of_table"]

# What the name of such a table begins with, in place of a path.
CATALOGUE = "table:"
_NAME = re.compile(r"\w+(\.\w+){0,2}")


def files_of_table(
    session: Any, name: str, *, columns: Columns | None = None, skips_bad: bool = False
) -> Files:
    """Return the files of a table by its name in the catalogue.

    Args:
        session: A session of the cluster.
        name: The name, as ``table:meters.readings``.
        columns: How the columns are called.
        skips_bad: Whether files that are no tables are left out and counted.

    Raises:
        DataError: If there is no such table, or its files are not its rows.
    """
    from pyspark.errors import AnalysisException

    known = name.removeprefix(CATALOGUE)
    if not _NAME.fullmatch(known):
        raise DataError(f"{name} must be {CATALOGUE} and a name such as meters.readings.")
    try:
        is_view = session.catalog.getTable(known).tableType in ("VIEW", "TEMPORARY")
        described = session.sql(f"DESCRIBE TABLE EXTENDED {known}").collect()
        paths = [] if is_view else sorted(session.read.table(known).inputFiles())
    except AnalysisException as error:
        raise DataError(
            f"Spark's catalogue has no table {known} that can be read; SHOW TABLES lists them."
        ) from error
    about = {row["col_name"]: row["data_type"] for row in described}
    kind = "a view" if is_view else f"of {about.get('Provider', 'an unknown format')}"
    if kind != "of parquet":
        raise DataError(
            f"the table {known} is {kind}, and only files of parquet are its rows as they are; "
            "give the folder of a Delta table instead, or write its rows as a table of parquet."
        )
    if not paths:
        raise DataError(f"the table {known} holds no rows; give one with at least one reading.")
    return find_files(
        _address(about["Location"]),
        columns=columns,
        skips_bad=skips_bad,
        paths=[_address(path) for path in paths],
    )


def _address(address: str) -> str:
    """Return where a file of Spark's is for pyarrow."""
    place = urlsplit(address)
    if place.scheme in ("", "file"):
        return unquote(place.path)
    return address.replace("s3a://", "s3://", 1)
