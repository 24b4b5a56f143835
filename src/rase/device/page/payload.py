"""The bytes that would leave the device now, taken apart, before anything has left."""

from dataclasses import dataclass, field

from rase.campaign import Campaign
from rase.device.reporter import randomizer_of
from rase.device.states import drawn_number, reported
from rase.device.terms import SealingKeys, Terms
from rase.errors import UnknownKey
from rase.kernels.entropy import Entropy, checked_entropy
from rase.wire.messages import CONTENT_SIZE, HEADER_SIZE, Content
from rase.wire.suites import TAG_SIZE, X25519, enc_size

__all__ = ["Payload", "PayloadPart", "example_payload", "parts_of"]


@dataclass(frozen=True, slots=True)
class PayloadPart:
    """Some bytes of a report, and who can read them."""

    name: str
    data: bytes = field(repr=False)
    words: str


@dataclass(frozen=True, slots=True)
class Payload:
    """A report as it would be sent.

    Args:
        measured: The reading it was made from.
        is_made_up: Whether that is no reading but the middle of the range.
        sent: The noisy value in it.
        content: The 320 bytes that only the fusion centre can open.
        envelope: All bytes, as they would travel.
        epsilon: What it would spend.
    """

    measured: float = field(repr=False)
    is_made_up: bool
    sent: float = field(repr=False)
    content: bytes = field(repr=False)
    envelope: bytes = field(repr=False)
    epsilon: float


def example_payload(
    terms: Terms, round: int, *, mean: float | None, now_s: float, entropy: Entropy
) -> Payload | None:
    """Make a report for the owner's eyes: never stored, never sent, and so for nothing.

    A report that is sent later has noise of its own, drawn when its round ends.

    Args:
        terms: What the device goes by.
        round: The present round.
        mean: The mean reading so far; the middle of the range stands in for it if None.
        now_s: Decides which keys are active.
        entropy: Where the noise comes from: the operating system.

    Returns:
        The report; None if terms or keys are still missing.

    Raises:
        TypeError: If the entropy is not the operating system's.
    """
    from rase.wire.seal import seal_report

    entropy = checked_entropy(entropy, study=False)
    signed = terms.campaign_for(round)
    if signed is None:
        return None
    campaign = signed.campaign
    epsilon_class = terms.epsilon_class(campaign)
    keys = _keys(terms, now_s, round)
    if epsilon_class is None or keys is None:
        return None
    measured = _middle(campaign) if mean is None else mean
    place = randomizer_of(campaign.reported_in(round), epsilon_class).draw_one(
        reported(campaign, measured), entropy
    )
    content = Content(campaign.block_start(round), place, epsilon_class)
    return Payload(
        measured,
        mean is None,
        sent=drawn_number(campaign, place),
        content=content.to_bytes(),
        envelope=seal_report(
            content,
            campaign_hash=signed.hash,
            **keys._asdict(),
            round=round,
            label=campaign.label_number(terms.rules.label),
        ),
        epsilon=campaign.epsilon[epsilon_class],
    )


def parts_of(envelope: bytes) -> list[PayloadPart]:
    """Take the bytes of a report apart, as docs/reference/wire-format.md has them."""
    key_end = HEADER_SIZE + enc_size(X25519)
    return [
        PayloadPart(
            "header",
            envelope[:HEADER_SIZE],
            "in the clear: format, shuffler's key, campaign, round and keyset, each by its number",
        ),
        PayloadPart(
            "key", envelope[HEADER_SIZE:key_end], "of the outer envelope; new for every report"
        ),
        PayloadPart(
            "sealed",
            envelope[key_end:],
            (
                "the shuffler opens it and finds whether it is a cover report, and another sealed "
                f"envelope, which only the fusion centre opens: {CONTENT_SIZE} bytes with the "
                f"noisy value. {TAG_SIZE} bytes are a seal against changes"
            ),
        ),
    ]


def _keys(terms: Terms, now_s: float, round: int) -> SealingKeys | None:
    signed = terms.campaign_for(round)
    try:
        return None if signed is None else terms.keys_for(signed, now_s, round=round)
    except (UnknownKey, LookupError):
        return None


def _middle(campaign: Campaign) -> float:
    return (
        float(int(campaign.low / 2 + campaign.high / 2))
        if campaign.states
        else (campaign.low / 2 + campaign.high / 2)
    )
