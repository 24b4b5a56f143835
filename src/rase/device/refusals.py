"""Why a device does not admit a campaign or keyset, by name."""

from typing import Final

from rase.errors import PrivacyRefused

__all__ = ["REASONS", "TermsRefused"]

REASONS: Final = {
    "malformed": "The bytes are not such as the protocol allows, or of an unknown format.",
    "wrong-signature": "A signature is missing or not by the key that was pinned at enrolment.",
    "other-campaign": "It is another campaign than the one the device was enrolled for.",
    "wrong-hash": "The first campaign is not the one whose hash the owner was shown.",
    "went-back": "Its version is lower than one that was accepted before.",
    "changed": "It differs from the accepted one, but has the same version.",
    "not-a-successor": "The new version changes what must stay, or promises owners less.",
    "epsilon-above-limit": "Every budget it offers is above the owner's limit for one report.",
    "epsilon-above-consent": (
        "Every budget it offers is above what a report cost when you agreed. To agree anew, set "
        "owner.epsilon_may_rise = true and owner.report_epsilon to the most that you allow."
    ),
    "shuffle-weaker": (
        "Its shuffle hides senders less than the one you agreed to, or among others. To agree "
        "anew, set owner.most_alpha to the most that the order may tell."
    ),
    "alpha-above-limit": "The order of its reports may tell more than owner.most_alpha allows.",
    "range-above-limit": "Its range reaches beyond the one the owner allows.",
    "k-below-limit": "It releases fewer reports together than the owner demands.",
    "ledger": "The ledger cannot keep its window or round length.",
    "keys-too-soon": (
        "It changes the fusion centre's key sooner than every device can know of it, so that "
        "reports of one round could be separated. The keyset accepted before stays in use."
    ),
    "too-many-keys": "It holds more keys of the fusion centre, or closer together, than allowed.",
}


class TermsRefused(PrivacyRefused):
    """A campaign or keyset is not admitted; ``reason`` is its name in `REASONS`.

    Args:
        reason: The name.
        detail: One sentence on this case.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        if reason == "wrong-signature":
            self.exit_code = 6
        super().__init__(f"{reason}: {REASONS[reason]}{' ' + detail if detail else ''}")
