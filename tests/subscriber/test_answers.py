"""Answers become values, and what is no answer is refused."""

import json
from typing import Any

import pytest

from rase.subscriber.answers import (
    FusionRefused,
    FusionUnreachable,
    Mean,
    TooFew,
    mean_of,
    means_of,
    refusal_of,
)

ROW: dict[str, Any] = {
    "v": 1,
    "campaign": "street-power",
    "time": "2026-06-21T01:00:00Z",
    "round": 495001,
    "status": "ok",
    "mean": -12.5,
    "standard_error": 26.0,
    "ci_low": -63.5,
    "ci_high": 38.5,
    "n": 64,
    "epsilon": 1.0,
    "method": "unbiased_mean",
    "unit": "W",
}


def row(**changes: Any) -> Mean:
    """Return an answer with some fields changed."""
    return mean_of(json.dumps({**ROW, **changes}))


def test_answers_are_values() -> None:
    """Fields of later versions are left aside."""
    mean = row(colour="red")
    assert mean.require() == -12.5
    assert str(mean) == "-12 W ± 26 (95 %: -64 to 38, n = 64)"
    assert means_of(json.dumps([ROW, ROW])) == [mean, mean]


def test_windows_say_what_they_rest_on() -> None:
    """An answer from some of the rounds says how many; one that refuses says it too."""
    some = row(w=24, rounds=23, of_rounds=24)
    assert str(some) == "-12 W ± 26 (95 %: -64 to 38, n = 64, 23 of 24 rounds)"
    unknown = row(w=24, rounds=23, of_rounds=24, standard_error=None, unit="")
    assert str(unknown) == "-12.5, error unknown (n = 64, 23 of 24 rounds)"
    few = row(status="too_few", mean=None, w=24, rounds=15, of_rounds=24)
    with pytest.raises(TooFew, match="only 15 of them have an estimate"):
        few.require()


def test_an_unknown_error_is_said() -> None:
    """An estimate whose error the reports cannot tell is shown as such."""
    assert str(row(standard_error=None, unit="")) == "-12.5, error unknown (n = 64)"


@pytest.mark.parametrize(
    ("changes", "words", "shown"),
    [
        ({"status": "too_few", "mean": None}, "round 495001: too few", "too few reports"),
        ({"status": "gap", "mean": None}, "round 495001: no estimate", "missing"),
        ({"status": "new", "mean": None, "w": 3}, "the 3 rounds up to 495001: no", "new"),
    ],
)
def test_what_has_no_mean_refuses(changes: dict[str, Any], words: str, shown: str) -> None:
    """Too few is a refusal for privacy, exit code 5."""
    mean = row(**changes)
    assert str(mean) == shown
    with pytest.raises(TooFew, match=words) as refused:
        mean.require()
    assert refused.value.exit_code == 5


@pytest.mark.parametrize("body", ["", "[]", "7", "{}", '{"v": 2}', '{"v": 1}', "<html>"])
def test_what_is_no_answer_is_refused(body: str) -> None:
    """A proxy's page or another version is not taken for a mean."""
    with pytest.raises(FusionUnreachable, match="no fusion centre"):
        mean_of(body)
    if body != "[]":
        with pytest.raises(FusionUnreachable, match="no fusion centre"):
            means_of(body)


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
