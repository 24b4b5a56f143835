"""How much the fusion centre's app takes: questions of a token, streams, batches on their way."""

from dataclasses import dataclass

from rase.clock import Clock
from rase.fusion.intake import FusionPolicy
from rase.service.limits import AtOnce, RateLimit

__all__ = ["AskLimits", "limits_of"]


@dataclass(frozen=True, slots=True)
class AskLimits:
    """Hold the limits of one app; all counts begin anew with it.

    Args:
        questions: How often a subscriber asks.
        streams: How many streams are open.
        batches: How many batches are being read.
    """

    questions: RateLimit
    streams: AtOnce
    batches: AtOnce


def limits_of(policy: FusionPolicy, clock: Clock) -> AskLimits:
    """Return the limits that the operator decided."""
    return AskLimits(
        questions=RateLimit(policy.questions_per_minute, clock),
        streams=AtOnce(policy.max_streams, of_one=policy.streams_per_token, retry_s=30),
        batches=AtOnce(policy.batches_at_once),
    )
