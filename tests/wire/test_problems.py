"""Problem types: stable, documented, and the same words on both sides."""

import json
from pathlib import Path

import pytest
from tests.cases import each_case

from rase import errors
from rase.errors import Malformed, UnknownKey, WireError
from rase.wire.problems import PROBLEM_TYPES, Problem, problem_of

PAGE = Path(__file__).parents[2] / "docs/reference/wire-format.md"


def test_the_names_and_statuses_are_pinned() -> None:
    """Names and statuses are part of the protocol."""
    assert {name: kind.status for name, kind in PROBLEM_TYPES.items()} == {
        "outdated-config": 409,
        "other-keyset": 409,
        "round-not-open": 409,
        "round-closed": 410,
        "unknown-campaign": 404,
        "bad-report": 400,
        "bad-batch": 400,
        "key-not-held": 409,
        "not-enrolled": 403,
        "not-a-member": 403,
        "tokens-issued": 409,
        "not-issuing": 409,
        "too-many": 429,
        "below-k": 422,
        "final-round": 409,
        "policy-refused": 403,
        "foreign-key": 409,
        "unsigned": 503,
        "unavailable": 503,
    }


def test_every_type_is_documented_as_it_is() -> None:
    """The page's table says status, meaning, remedy and whether it is final."""
    text = PAGE.read_text(encoding="utf-8")
    for kind in PROBLEM_TYPES.values():
        final = "yes" if kind.is_final else "no"
        assert f"| `{kind.name}` | {kind.status} | {final} | {kind.title} {kind.remedy} |" in text


def test_every_wire_error_has_a_known_type_and_exit_code() -> None:
    """Each refusal can be told to the other side."""
    kinds = [item for item in vars(errors).values() if isinstance(item, type)]
    refusals = [kind for kind in kinds if issubclass(kind, WireError)]
    assert len(refusals) == 10
    for kind in refusals:
        assert kind.problem in PROBLEM_TYPES
        assert kind.exit_code == 6
        assert kind.__name__ in (errors.__doc__ or "")


def test_a_problem_comes_back() -> None:
    """What one side writes the other reads."""
    problem = Problem(PROBLEM_TYPES["too-many"], "Ten in a second.", {"retry_after_s": 5})
    assert Problem.from_json(problem.to_json()) == problem
    document = json.loads(problem.to_json())
    assert document["type"] == "urn:rase:problem:too-many"
    assert document["status"] == 429
    assert document["retry_after_s"] == 5


def test_a_refusal_tells_its_problem() -> None:
    """An error becomes a problem with its own words."""
    problem = problem_of(UnknownKey("key 3 is expired."))
    assert (problem.type.name, problem.detail) == ("outdated-config", "key 3 is expired.")
    assert problem_of(Malformed("bad.", problem="bad-batch")).type.name == "bad-batch"


def test_extensions_cannot_replace_the_standard_members() -> None:
    """RFC 9457's names are taken."""
    with pytest.raises(ValueError, match="must not hold status"):
        Problem(PROBLEM_TYPES["below-k"], extensions={"status": 200})


@each_case(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"type": 5}',
        b'{"type": "about:blank"}',
        b'{"type": "urn:rase:problem:below-k", "detail": 5}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_other_answers_are_refused(data: bytes) -> None:
    """A proxy's error page is no problem of ours."""
    with pytest.raises(Malformed):
        Problem.from_json(data)
