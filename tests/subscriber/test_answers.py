"""Answers become values, and what is no answer is refused."""

import json
from typing import Any

import pytest

from rase.answer import Answer
from rase.errors import TooFew
from rase.subscriber.answers import (
    FusionRefused,
    FusionUnreachable,
    read_answer,
    read_answers,
    refusal_of,
)

ROW: dict[str, Any] = {
    "v": 2,
    "campaign": "street-power",
    "time": "2026-06-21T01:00:00Z",
    "until": "2026-06-21T02:00:00Z",
    "round": 495001,
    "status": "ok",
    "value": -12.5,
    "standard_error": 26.0,
    "low": -63.5,
    "high": 38.5,
    "n": 64,
    "local_epsilon": 1.0,
    "method": "unbiased_mean",
    "unit": "W",
}


def row(**changes: Any) -> Answer:
    """Return an answer with some fields changed."""
    return read_answer(json.dumps({**ROW, **changes}))


def test_answers_are_values() -> None:
    """Fields of later versions are left aside."""
    mean = row(colour="red")
    assert mean.require() == -12.5
    assert str(mean) == "-12 W ± 26 (95 %: -64 to 38, n = 64)"
    assert read_answers(json.dumps([ROW, ROW])) == [mean, mean]


def test_windows_say_what_they_rest_on() -> None:
    """An answer from some of the rounds says how many; one that refuses says it too."""
    some = row(rounds=23, of_rounds=24)
    assert str(some) == "-12 W ± 26 (95 %: -64 to 38, n = 64, 23 of 24 rounds)"
    unknown = row(rounds=23, of_rounds=24, standard_error=None, unit="")
    assert str(unknown) == "-12.5, error unknown (n = 64, 23 of 24 rounds)"
    few = row(status="too_few", value=None, rounds=15, of_rounds=24)
    with pytest.raises(TooFew, match="only 15 of them have an estimate"):
        few.require()


def test_an_unknown_error_is_said() -> None:
    """An estimate whose error the reports cannot tell is shown as such."""
    assert str(row(standard_error=None, unit="")) == "-12.5, error unknown (n = 64)"


@pytest.mark.parametrize(
    ("changes", "words", "shown"),
    [
        (
            {"status": "too_few"},
            "^2026-06-21T01:00:00Z: too few devices reported; nothing is released.$",
            "too few reports",
        ),
        (
            {"status": "gap"},
            "^2026-06-21T01:00:00Z: no estimate is there; a round is missing.$",
            "missing",
        ),
        (
            {"status": "new", "of_rounds": 3},
            "^the 3 rounds up to 2026-06-21T02:00:00Z: no estimate is there; only 1 of them",
            "new",
        ),
    ],
)
def test_what_has_no_mean_refuses(changes: dict[str, Any], words: str, shown: str) -> None:
    """Too few is a refusal for privacy, exit code 5."""
    mean = row(value=None, **changes)
    assert str(mean) == shown
    with pytest.raises(TooFew, match=words) as refused:
        mean.require()
    assert refused.value.exit_code == 5


@pytest.mark.parametrize(
    "body", ["", "[]", "7", "{}", '{"v": 2}', json.dumps({**ROW, "v": 1}), "<html>"]
)
def test_what_is_no_answer_is_refused(body: str) -> None:
    """A proxy's page or another version is not taken for a mean."""
    with pytest.raises(FusionUnreachable, match="no fusion centre"):
        read_answer(body)
    if body != "[]":
        with pytest.raises(FusionUnreachable, match="no fusion centre"):
            read_answers(body)


@pytest.mark.parametrize(
    ("body", "words", "problem"),
    [
        (b"", "HTTP status 400", ""),
        (b"[]", "HTTP status 400", ""),
        (b"{}", "HTTP status 400", ""),
        (b'{"title": "Bad"}', "refuses: Bad", ""),
        (
            b'{"type": "urn:rase:problem:bad-question", "detail": "No."}',
            "refuses: No.",
            "bad-question",
        ),
    ],
)
def test_refusals_carry_their_problem(body: bytes, words: str, problem: str) -> None:
    """The reason is told, by problem details where there are any."""
    refusal = refusal_of(400, body)
    assert isinstance(refusal, FusionRefused)
    assert words in str(refusal)
    assert (refusal.problem, refusal.status, refusal.exit_code) == (problem, 400, 4)
