"""Real groups from a graph in a file."""

from pathlib import Path

import numpy as np
import pytest

from rase.engine.groups import GraphGroups, read_edges
from rase.errors import DataError

CODES = {"a": 0, "b": 1, "c": 2, "d": 3}


def test_edges(tmp_path: Path) -> None:
    """Each line holds two devices; blank lines and blanks do not matter."""
    path = tmp_path / "graph.csv"
    path.write_text("\ufeffa, b\n\n c,d\n", encoding="utf-8")
    assert read_edges(path) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\na\n", "line 2 of .* must hold two different devices"),
        (b"a,a\n", "line 1 of "),
        (b"a,\n", "line 1 of "),
        (b"a,b,c\n", "line 1 of "),
        (b"\n\n", "holds no edges"),
        (b"\xff\xff,b\n", "cannot be read as CSV with two columns"),
    ],
)
def test_refused_edges(tmp_path: Path, content: bytes, message: str) -> None:
    """A file that is no list of pairs is refused."""
    path = tmp_path / "graph.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_edges(path)


def test_no_such_graph(tmp_path: Path) -> None:
    """A graph that is not there, or a folder, is refused."""
    with pytest.raises(DataError, match="there is no file"):
        read_edges(tmp_path / "graph.csv")
    with pytest.raises(DataError, match="cannot be read"):
        read_edges(tmp_path)


@pytest.mark.parametrize("header", [[], [("from", "to")]])
def test_groups_of_those_who_report(header: list[tuple[str, str]]) -> None:
    """A round gets the real groups of its contributors; a header line is no edge."""
    edges = [*header, ("a", "b"), ("c", "d")]
    groups = GraphGroups(edges, lambda: CODES, alpha=1.0, group_count=2)
    everybody = groups(np.array([0, 1, 2, 3]))
    assert everybody.partition is not None
    assert everybody.partition.groups == ((0, 1), (2, 3))
    assert groups(np.array([0, 1, 2, 3])) is everybody
    some = groups(np.array([1, 2, 3]))
    assert some.partition is not None
    assert some.partition.groups == ((0,), (1, 2))
    assert groups(np.array([3])).group_count == 1


def test_graph_that_does_not_fit() -> None:
    """Devices that are not in the table, and too few groups, are refused."""
    groups = GraphGroups([("a", "x"), ("b", "y")], lambda: CODES, alpha=1.0, group_count=2)
    with pytest.raises(DataError, match="names 2 devices that are not in the table, such as 'x'"):
        groups(np.array([0]))
    groups = GraphGroups([("a", "b")], lambda: CODES, alpha=1.0, group_count=2)
    with pytest.raises(DataError, match="the graph does not fit --groups 2: "):
        groups(np.array([0]))
