"""Which campaign and keys a device goes by: signed, never going back, within its owner's rules.

Every reason to refuse a campaign or a keyset has a name.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from rase.accounting.ledger.limits import MOST_DELTA
from rase.campaign import Campaign
from rase.device.consent import Consent, is_weaker
from rase.domain import OTHER
from rase.errors import BadSignature, ConfigurationError, PrivacyRefused, UnknownKey, WireError
from rase.validation import CampaignInvalid
from rase.wire.key_schedule import LEAD_CACHES, limit_mistakes, sudden_changes
from rase.wire.keys import KeyConfig, Keyset, Role
from rase.wire.signed import PinnedKeys, SignedCampaign, SignedKeyset, versions_from_bytes
from rase.wire.suites import KEM_NUMBERS

__all__ = ["REASONS", "OwnerRules", "SealingKeys", "Terms", "TermsRefused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRules:
    """What the owner demands of a campaign; the ledger holds what may be spent.

    Args:
        report_epsilon: The most one report may spend.
        low: The lowest end of a range; None for any.
        high: The highest end of a range; None for any.
        least_k: The fewest reports that may be released together.
        epsilon_may_rise: Whether a new version may make reports cost more, up to the limit.
        most_alpha: The most that the order of released reports may reveal, 0 for the uniform
            shuffle alone; None for no more than the first campaign that was accepted.
        shuffled_epsilon: The most one report may give away to the fusion centre, which sees it
            shuffled. Where a campaign promises nothing there, it is the epsilon of the report. None
            for no such limit.
        span_shuffled_epsilon: The same for all reports of the ledger's span.
        most_delta: The largest delta of a promise towards the fusion centre.
        demands_cover: Whether a campaign without cover reports is refused.
        label: The public kind of this device that its owner agreed to report; None for none.

    Raises:
        ConfigurationError: If the rules contradict each other.
    """

    report_epsilon: float
    low: float | None = None
    high: float | None = None
    least_k: int = 2
    epsilon_may_rise: bool = False
    most_alpha: float | None = None
    shuffled_epsilon: float | None = None
    span_shuffled_epsilon: float | None = None
    most_delta: float = MOST_DELTA
    demands_cover: bool = False
    label: str | None = None

    def __post_init__(self) -> None:
        """Check range and order once; the ledger checks the budget."""
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ConfigurationError([f"owner.low must be below owner.high, got {self.low}."])
        # Not "below 0": that would let a NaN pass.
        if self.most_alpha is not None and not self.most_alpha >= 0:
            raise ConfigurationError(
                [f"owner.most_alpha must be 0 or greater, got {self.most_alpha}."]
            )

    def epsilon_limit(self, consent: Consent | None) -> float:
        """Return the most one report may spend, given what was agreed to before."""
        if consent is None or self.epsilon_may_rise or self.report_epsilon > consent.limit:
            return self.report_epsilon
        return min(self.report_epsilon, consent.epsilon)

    def epsilon_class(self, campaign: Campaign, consent: Consent | None = None) -> int | None:
        """Return the place of the largest budget the owner allows; None if there is none."""
        limit = self.epsilon_limit(consent)
        if campaign.shuffled_epsilon is None:
            # Nothing hides a report from the fusion centre but its own noise.
            limit = min([limit, *self.shuffled_limits])
        allowed = [place for place, value in enumerate(campaign.epsilon) if value <= limit]
        return allowed[-1] if allowed else None

    @property
    def shuffled_limits(self) -> list[float]:
        """What one report may give away to the fusion centre at most, as far as the owner says."""
        limits = (self.shuffled_epsilon, self.span_shuffled_epsilon)
        return [limit for limit in limits if limit is not None]


class SealingKeys(NamedTuple):
    """The keys of both servers that a report is sealed for, and the number of their keyset."""

    shuffler: KeyConfig
    fusion: KeyConfig
    keyset: int


class Terms:
    """The accepted campaign, all its versions that may still matter, and the keyset.

    Args:
        campaign_id: The campaign the device was enrolled for.
        pinned: The keys of both servers, given at enrolment.
        rules: The owner's.
        first_hash: CH of the first campaign to accept, if the owner was shown it.
    """

    def __init__(
        self,
        campaign_id: str,
        *,
        pinned: PinnedKeys,
        rules: OwnerRules,
        first_hash: bytes | None = None,
    ) -> None:
        self.campaign_id = campaign_id
        self.rules = rules
        self._pinned = pinned
        self._first_hash = first_hash
        self._campaigns: tuple[SignedCampaign, ...] = ()
        self._keyset: SignedKeyset | None = None
        # First round by version, of those that were signed but not admitted.
        self._refused: dict[int, int] = {}
        self.consent: Consent | None = None
        self.keyset_seen_s: float | None = None

    @property
    def accepted_terms(self) -> tuple[tuple[SignedCampaign, ...], SignedKeyset | None]:
        """The accepted versions of the campaign, ascending, and the accepted keyset."""
        return self._campaigns, self._keyset

    @accepted_terms.setter
    def accepted_terms(self, value: tuple[tuple[SignedCampaign, ...], SignedKeyset | None]) -> None:
        self._campaigns, self._keyset = value

    @property
    def latest(self) -> SignedCampaign | None:
        """The highest version that was accepted."""
        return self._campaigns[-1] if self._campaigns else None

    def restore(
        self,
        campaigns: Iterable[bytes],
        keyset: bytes | None,
        *,
        consent: Consent | None = None,
        keyset_seen_s: float | None = None,
    ) -> None:
        """Take back what was accepted before, from the device's own state.

        Signatures are checked again, so that terms do not outlive the keys that were pinned.

        Args:
            campaigns: The accepted versions, ascending.
            keyset: The accepted keyset.
            consent: What was agreed to; None if that was not kept: then it is the first version.
            keyset_seen_s: When the keyset was last the one to go by; None if that was not kept.

        Raises:
            TermsRefused: If something is no longer admitted.
        """
        for data in campaigns:
            self._campaigns += (self._read_campaign(data),)
        if keyset is not None:
            self._keyset = self._read_keyset(keyset)
        self.consent = consent
        self.keyset_seen_s = keyset_seen_s
        if consent is None and self._campaigns:
            self._agree_to(self._campaigns[0].campaign)

    def new_versions(self, data: bytes) -> tuple[bytes, ...]:
        """Return those of the published versions that `offer_campaign` has not seen, ascending.

        Earlier ones must be as they were accepted. One that is earlier and not held was forgotten
        with its rounds, and is passed over.

        Args:
            data: What the shuffler published: several versions in one document.

        Raises:
            TermsRefused: If one was not signed, was changed, or the last is behind what is held.
        """
        try:
            offered = [(self._read_campaign(item), item) for item in versions_from_bytes(data)]
        except WireError as error:
            raise TermsRefused("malformed", str(error)) from None
        numbers = [signed.campaign.version for signed, _ in offered]
        if numbers != sorted(set(numbers)):
            raise TermsRefused("malformed", "Its versions do not ascend.")
        if self.latest is None:
            return self._from_first(offered)
        latest = self.latest.campaign.version
        if numbers[-1] < latest:
            raise TermsRefused("went-back", f"Got {numbers[-1]} after {latest}.")
        held = {signed.campaign.version: signed.hash for signed in self._campaigns}
        for signed, _ in offered:
            if held.get(signed.campaign.version, signed.hash) != signed.hash:
                raise TermsRefused("changed", f"Version {signed.campaign.version}.")
        return tuple(item for signed, item in offered if signed.campaign.version > latest)

    def offer_campaign(self, data: bytes) -> SignedCampaign | None:
        """Accept a campaign, or refuse it.

        Args:
            data: What the shuffler published.

        Returns:
            The campaign if it is a new version, else None.

        Raises:
            TermsRefused: If the campaign is not admitted; what was accepted before stays.
        """
        offered = self._read_campaign(data)
        campaign, latest = offered.campaign, self.latest
        if latest is None:
            if self._first_hash not in (None, offered.hash):
                raise TermsRefused("wrong-hash")
        elif campaign.version < latest.campaign.version:
            raise TermsRefused(
                "went-back", f"Got {campaign.version} after {latest.campaign.version}."
            )
        elif campaign.version == latest.campaign.version:
            if offered.hash != latest.hash:
                raise TermsRefused("changed", f"Version {campaign.version}.")
            return None
        else:
            # A device may have missed versions, so only the order of numbers counts here.
            following = replace(campaign, version=latest.campaign.version + 1)
            try:
                following.check_succeeds(latest.campaign, from_round=0)
            except CampaignInvalid as error:
                raise TermsRefused("not-a-successor", " ".join(error.mistakes)) from None
        self.admit(campaign)
        self._agree_to(campaign)
        self._campaigns += (offered,)
        return offered

    def pass_over(self, data: bytes) -> None:
        """Take no part in the rounds of a version that was refused: no earlier one holds in them.

        Args:
            data: A signed version, as `new_versions` returns it.
        """
        campaign = self._read_campaign(data).campaign
        self._refused[campaign.version] = campaign.not_before

    def offer_keyset(self, data: bytes, *, now_s: float) -> SignedKeyset | None:
        """Accept a keyset, or refuse it.

        Args:
            data: What the shuffler published.
            now_s: The time. A keyset is judged by the one before it unless that was last seen so
                long ago that others may have changed keys meanwhile.

        Returns:
            The keyset if it is a new version, else None.

        Raises:
            TermsRefused: If the keyset is not admitted; the one accepted before stays.
        """
        offered = self._read_keyset(data)
        if self._keyset is None:
            self._check_keys(offered.keyset, None, now_s=now_s)
        else:
            version, known = offered.keyset.version, self._keyset.keyset.version
            if version < known:
                raise TermsRefused("went-back", f"Got keyset {version} after {known}.")
            if version == known:
                if offered.keyset != self._keyset.keyset:
                    raise TermsRefused("changed", f"Keyset {version}.")
                self.keyset_seen_s = now_s
                return None
            self._check_keys(offered.keyset, self._keyset.keyset, now_s=now_s)
        self._keyset = offered
        self.keyset_seen_s = now_s
        return offered

    def campaign_for(self, round: int) -> SignedCampaign | None:
        """Return the version that holds in a round: the highest accepted that has begun by then.

        None if that was followed by one that was refused: the shuffler takes no reports by it.
        """
        begun = [signed for signed in self._campaigns if signed.campaign.not_before <= round]
        if not begun or not begun[-1].campaign.holds_in(round):
            return None
        version = begun[-1].campaign.version
        is_over = any(later > version and at <= round for later, at in self._refused.items())
        return None if is_over else begun[-1]

    def epsilon_class(self, campaign: Campaign) -> int | None:
        """Return the place of the largest budget that rules and consent allow; None for none."""
        return self.rules.epsilon_class(campaign, self.consent)

    def campaign_by_tag(self, tag: bytes) -> SignedCampaign | None:
        """Return the accepted version whose hash begins with a tag."""
        return next((item for item in self._campaigns if item.hash.startswith(tag)), None)

    def keys_for(
        self, signed: SignedCampaign, now_s: float, *, round: int, is_outdated: bool = False
    ) -> SealingKeys:
        """Return the keys to seal with: the shuffler's and the fusion centre's.

        The fusion centre's follows from the round and the keyset alone: reports of one round that
        were sealed for two keys would be released apart.

        Args:
            signed: The campaign.
            now_s: The time.
            round: The round.
            is_outdated: Whether the shuffler did not take its key of the round's end any more; then
                it is the one of now, as it is when that key is long past its time.

        Raises:
            UnknownKey: If one of them has no such key.
            LookupError: If no keyset was accepted yet.
        """
        if self._keyset is None:
            raise LookupError("there is no keyset yet.")
        keyset = self._keyset.keyset
        end_s = float(signed.campaign.round_end_s(round))
        fusion = keyset.active(Role.FUSION, end_s, kem=KEM_NUMBERS[signed.campaign.kem])
        if not is_outdated:
            with suppress(UnknownKey):
                shuffler = keyset.active(Role.SHUFFLER, min(now_s, end_s))
                accepted = keyset.accepted_key(Role.SHUFFLER, shuffler.id, now_s=now_s)
                return SealingKeys(accepted, fusion, keyset.version)
        return SealingKeys(keyset.active(Role.SHUFFLER, now_s), fusion, keyset.version)

    def forget_before(self, round: int) -> None:
        """Drop versions that neither hold in a round or later nor are the latest."""
        self._campaigns = tuple(
            signed
            for signed, following in zip(self._campaigns, (*self._campaigns[1:], None), strict=True)
            if following is None or following.campaign.not_before > round
        )

    def _from_first(self, offered: list[tuple[SignedCampaign, bytes]]) -> tuple[bytes, ...]:
        """Return the versions from the one on whose hash the owner was shown."""
        for place, (signed, _) in enumerate(offered):
            if self._first_hash in (None, signed.hash):
                return tuple(item for _, item in offered[place:])
        raise TermsRefused("wrong-hash")

    def admit(self, campaign: Campaign) -> int:
        """Check a campaign by the owner's rules of now, which may be stricter than they were.

        Returns:
            The place of the largest budget that rules and consent allow.

        Raises:
            TermsRefused: If it breaks one of them.
        """
        rules = self.rules
        self._check_promise(campaign)
        if rules.epsilon_class(campaign) is None:
            raise TermsRefused(
                "epsilon-above-limit",
                f"Least {campaign.epsilon[0]:g}, limit {rules.report_epsilon:g}.",
            )
        allowed = self.epsilon_class(campaign)
        if allowed is None:
            raise TermsRefused(
                "epsilon-above-consent",
                f"Least {campaign.epsilon[0]:g}, agreed {rules.epsilon_limit(self.consent):g}.",
            )
        self._check_shuffle(campaign)
        if rules.label is not None and campaign.labels:
            known = (*campaign.labels, OTHER)
            if rules.label not in known:
                raise TermsRefused("undeclared-label", f"It has {', '.join(known)}.")
        if campaign.states is None and (
            (rules.low is not None and campaign.low < rules.low)
            or (rules.high is not None and campaign.high > rules.high)
        ):
            raise TermsRefused("range-above-limit", f"From {campaign.low:g} to {campaign.high:g}.")
        if campaign.k_min < rules.least_k:
            raise TermsRefused("k-below-limit", f"Got {campaign.k_min}, least {rules.least_k}.")
        return allowed

    def _check_promise(self, campaign: Campaign) -> None:
        """Refuse a campaign whose reports give more away to the fusion centre than is allowed."""
        rules = self.rules
        given = campaign.epsilon[0]
        if campaign.shuffled_epsilon is not None:
            given = min(given, campaign.shuffled_epsilon)
        if any(given > limit for limit in rules.shuffled_limits):
            raise TermsRefused(
                "shuffled-epsilon-above-limit",
                f"Least {given:g}, limit {min(rules.shuffled_limits):g}.",
            )
        if campaign.delta is not None and campaign.delta > rules.most_delta:
            raise TermsRefused(
                "delta-above-limit", f"Got {campaign.delta:g}, most {rules.most_delta:g}."
            )
        if rules.demands_cover and not campaign.cover:
            raise TermsRefused("cover-off")

    def _check_shuffle(self, campaign: Campaign) -> None:
        plan, most = campaign.shuffle, self.rules.most_alpha
        if most is not None:
            if plan.alpha > most:
                raise TermsRefused("alpha-above-limit", f"Got {plan.alpha:g}, most {most:g}.")
        elif self.consent is not None and is_weaker(plan, self.consent.shuffle):
            agreed = self.consent.shuffle
            raise TermsRefused(
                "shuffle-weaker",
                f"Got {plan.method} with alpha {plan.alpha:g}, "
                f"agreed {agreed.method} with alpha {agreed.alpha:g}.",
            )

    def _agree_to(self, campaign: Campaign) -> None:
        """Note down what was agreed to, which the owner's rules have admitted."""
        place, limit = self.epsilon_class(campaign), self.rules.report_epsilon
        # Without a budget nothing is reported, so there is nothing to agree to.
        epsilon = campaign.epsilon[0] if place is None else campaign.epsilon[place]
        if self.consent is None:
            self.consent = Consent.to(campaign, min(epsilon, limit), limit=limit)
        else:
            self.consent = self.consent.widen(campaign, epsilon, limit=limit)

    def _check_keys(self, keyset: Keyset, held: Keyset | None, *, now_s: float) -> None:
        """Refuse keys of the fusion centre that could tell reports of one round apart.

        The shuffler agrees to a change two cache times ahead. When the keyset that is held was last
        seen to be the newest, no change was agreed yet; what such a document says may be a cache
        time old, so one cache time from then on must be as it was. A device that did not ask for
        long has nothing to compare with, as others may have changed keys rightly meanwhile.
        """
        # Clocks may differ: only what is pending for certain is counted as pending.
        mistakes = limit_mistakes(keyset, now_s=now_s + keyset.cache_s)
        if mistakes:
            raise TermsRefused("too-many-keys", " ".join(mistakes))
        if held is None or self.keyset_seen_s is None:
            return
        changes = sudden_changes(
            keyset,
            held,
            since_s=now_s - LEAD_CACHES * held.cache_s,
            until_s=min(self.keyset_seen_s, now_s) + held.cache_s,
        )
        if changes:
            raise TermsRefused("keys-too-soon", " ".join(changes))

    def _read_campaign(self, data: bytes) -> SignedCampaign:
        try:
            signed = SignedCampaign.from_bytes(data, self._pinned)
        except BadSignature as error:
            raise TermsRefused("wrong-signature", str(error)) from None
        except WireError as error:
            raise TermsRefused("malformed", str(error)) from None
        if signed.campaign.id != self.campaign_id:
            raise TermsRefused("other-campaign", f"Expected {self.campaign_id}.")
        return signed

    def _read_keyset(self, data: bytes) -> SignedKeyset:
        try:
            return SignedKeyset.from_bytes(data, self._pinned)
        except BadSignature as error:
            raise TermsRefused("wrong-signature", str(error)) from None
        except WireError as error:
            raise TermsRefused("malformed", str(error)) from None


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
        "Every budget it offers is above what a report cost when you agreed. To agree again, set "
        "owner.epsilon_may_rise = true and owner.report_epsilon to the most that you allow."
    ),
    "shuffle-weaker": (
        "Its shuffle hides senders less than the one you agreed to, or among others. To agree "
        "again, set owner.most_alpha to the most that the order may reveal."
    ),
    "alpha-above-limit": "The order of its reports may reveal more than owner.most_alpha allows.",
    "shuffled-epsilon-above-limit": (
        "Its reports give away more to the fusion centre than owner.shuffled_epsilon or "
        "owner.span_shuffled_epsilon allows."
    ),
    "delta-above-limit": "The delta of its promise is above owner.most_delta.",
    "cover-off": (
        "It goes without cover reports, so the shuffler sees in which rounds a device reports. To "
        "agree, remove device.cover = true."
    ),
    "undeclared-label": (
        "It has other labels than device.label. Write one of its labels there, or remove it."
    ),
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
