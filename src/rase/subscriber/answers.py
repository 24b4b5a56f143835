"""What a fusion centre answers, as values: estimates with their error, or why there is none."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from rase.errors import PrivacyRefused, RaseError
from rase.estimate.estimate import rounded_alike
from rase.service.answer import Answer

__all__ = [
    "FusionRefused",
    "FusionUnreachable",
    "Mean",
    "TooFew",
    "document_of",
    "mean_of",
    "means_of",
    "refusal_of",
]

_NO_ANSWER = "what answers is no fusion centre of this version; check the address."


class FusionUnreachable(RaseError):
    """The fusion centre does not answer, or what answers is no fusion centre."""

    exit_code = 4


class FusionRefused(RaseError):
    """The fusion centre refuses to answer.

    Args:
        detail: Its reason.
        problem: The name of its problem type; empty if it told none.
        status: The HTTP status.
    """

    exit_code = 4

    def __init__(self, detail: str, *, problem: str = "", status: int = 0) -> None:
        super().__init__(detail)
        self.problem = problem
        self.status = status


class TooFew(PrivacyRefused):
    """Fewer devices reported than are ever told together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(Answer):
    """Hold the mean of a round or window with all that belongs to it, as `Answer` lists it.

    Args:
        unit: The unit.
        guarantee: What is promised to devices.
        shuffle: What the shuffler says it did.
    """

    # Words may be missing in an answer that was written by hand; numbers may not.
    unit: str = ""
    guarantee: str = ""
    shuffle: str = ""

    def require(self) -> float:
        """Return the mean, or refuse.

        Raises:
            TooFew: If a round was withheld, or there is none of that time.
        """
        what = f"round {self.round}" if self.w == 1 else f"the {self.w} rounds up to {self.round}"
        has = f"only {self.rounds} of them have an estimate" if self.w > 1 else "it is not released"
        if self.status == "too_few":
            raise TooFew(f"{what}: too few devices reported; {has}.")
        if self.mean is None:
            raise TooFew(
                f"{what}: no estimate is there; {has if self.w > 1 else 'a round is missing'}."
            )
        return self.mean

    def __str__(self) -> str:
        """Return the mean with its error, or why there is none."""
        if self.mean is None:
            return {"too_few": "too few reports", "gap": "missing"}.get(self.status, self.status)
        unit = f" {self.unit}" if self.unit else ""
        count = f"n = {self.n}"
        if self.rounds < self.of_rounds:
            count = f"{count}, {self.rounds} of {self.of_rounds} rounds"
        if self.standard_error is None or self.ci_low is None or self.ci_high is None:
            return f"{self.mean:.6g}{unit}, error unknown ({count})"
        mean, error, low, high = rounded_alike(
            self.mean, self.standard_error, self.ci_low, self.ci_high, error=self.standard_error
        )
        return f"{mean}{unit} ± {error} (95 %: {low} to {high}, {count})"


def mean_of(body: bytes | str) -> Mean:
    """Read one answer.

    Raises:
        FusionUnreachable: If it is none.
    """
    return _mean(document_of(body))


def means_of(body: bytes | str) -> list[Mean]:
    """Read an array of answers.

    Raises:
        FusionUnreachable: If it is none.
    """
    document = document_of(body)
    if not isinstance(document, list):
        raise FusionUnreachable(_NO_ANSWER)
    return [_mean(item) for item in document]


def refusal_of(status: int, body: bytes) -> FusionRefused:
    """Return a refusal as an error, by its problem details if it has them."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, Mapping):
        return FusionRefused(f"the fusion centre answers with HTTP status {status}.", status=status)
    kind = str(document.get("type", "")).removeprefix("urn:rase:problem:")
    detail = document.get("detail") or document.get("title") or f"HTTP status {status}."
    return FusionRefused(f"the fusion centre refuses: {detail}", problem=kind, status=status)


_KNOWN = frozenset(item.name for item in fields(Mean))
_REQUIRED = [item.name for item in fields(Mean) if item.default is MISSING]


def document_of(body: bytes | str) -> Any:
    """Read any answer.

    Raises:
        FusionUnreachable: If it is no JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise FusionUnreachable(_NO_ANSWER) from None


def _mean(document: Any) -> Mean:
    # Later versions may add members; a change of meaning changes v.
    if not isinstance(document, Mapping) or document.get("v") != 1:
        raise FusionUnreachable(_NO_ANSWER)
    if any(name not in document for name in _REQUIRED):
        raise FusionUnreachable(_NO_ANSWER)
    return Mean(**{name: value for name, value in document.items() if name in _KNOWN})
