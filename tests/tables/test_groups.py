"""Real groups from a graph in a file."""

from pathlib import Path

import numpy as np
import pytest

from rase.errors import DataError
from rase.kernels.keyed import public_numbers
from rase.tables.groups import GraphGroups, read_edges

NUMBERS = dict(zip("abcd", public_numbers(["a", "b", "c", "d"]), strict=True))
DEVICES = np.sort(np.array(list(NUMBERS.values())))


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
    groups = GraphGroups(edges, DEVICES, alpha=1.0, group_count=2)

    def of(names: str) -> set[frozenset[str]]:
        """Return the groups, by name, of a round in which these devices report."""
        numbers = np.sort(np.array([NUMBERS[name] for name in names]))
        partition = groups(numbers).partition
        assert partition is not None
        by_number = {number: name for name, number in NUMBERS.items()}
        return {
            frozenset(by_number[numbers[place]] for place in group) for group in partition.groups
        }

    assert of("abcd") == {frozenset("ab"), frozenset("cd")}
    assert groups(DEVICES) is groups(DEVICES)
    assert of("bcd") == {frozenset("b"), frozenset("cd")}
    assert groups(DEVICES[:1]).group_count == 1


def test_graph_that_does_not_fit() -> None:
    """Devices that are not in the table, and too few groups, are refused."""
    with pytest.raises(DataError, match="names 2 devices that are not in the table, such as 'x'"):
        GraphGroups([("a", "x"), ("b", "y")], DEVICES, alpha=1.0, group_count=2)
    with pytest.raises(DataError, match="the graph does not fit --groups 2: "):
        GraphGroups([("a", "b")], DEVICES, alpha=1.0, group_count=2)
