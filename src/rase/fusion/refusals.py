"""How the fusion centre refuses a subscriber: problem types besides those of the protocol."""

from typing import Final

from rase.errors import RaseError
from rase.wire.problems import Problem, ProblemType

__all__ = [
    "BAD_QUESTION",
    "NOT_ALLOWED",
    "NOT_SIGNED",
    "NO_ESTIMATE",
    "NO_TOKEN",
    "REFUSALS",
    "Refused",
]

BAD_QUESTION: Final = ProblemType(
    "bad-question",
    400,
    "The question cannot be understood.",
    "Correct what the detail names.",
    is_final=True,
)
NO_TOKEN: Final = ProblemType(
    "no-token",
    401,
    "The token is missing, unknown, expired or revoked.",
    "Ask the operator for a token.",
    is_final=False,
)
NOT_ALLOWED: Final = ProblemType(
    "not-allowed",
    403,
    "The token does not allow this.",
    "Ask the operator for a token with the scope that the detail names.",
    is_final=False,
)
NO_ESTIMATE: Final = ProblemType(
    "no-estimate",
    404,
    "There is no estimate yet.",
    "Ask again after the first round is final.",
    is_final=False,
)
NOT_SIGNED: Final = ProblemType(
    "not-countersigned",
    502,
    "The shuffler did not countersign.",
    "Nothing is published; fix what the detail names and try again.",
    is_final=False,
)
REFUSALS: Final = (BAD_QUESTION, NO_TOKEN, NOT_ALLOWED, NO_ESTIMATE, NOT_SIGNED)


class Refused(RaseError):
    """A question is not answered.

    Args:
        kind: The problem type.
        detail: One sentence about this case.
    """

    exit_code = 2

    def __init__(self, kind: ProblemType, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(kind, detail)
