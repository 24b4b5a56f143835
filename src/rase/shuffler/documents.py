"""What was agreed: campaigns and keysets, countersigned within the operator's policy.

New keys of the fusion centre must wait before they are used. The operator cannot set how long:
devices go by the same rule, see `rase.wire.key_schedule`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from rase.campaign import Campaign
from rase.clock import round_number
from rase.errors import Malformed, PrivacyRefused, UnknownKey, WireError
from rase.service.acts import record_act
from rase.shuffler.proposals import MAX_PROPOSAL_BYTES, split_proposal
from rase.shuffler.public_keys import check_own_keys
from rase.storage.interface import Database, Transaction
from rase.validation import CampaignInvalid
from rase.wire import cbor
from rase.wire.key_schedule import LEAD_CACHES, limit_mistakes, sudden_changes
from rase.wire.keys import Keyset, Role, SigningKey
from rase.wire.signed import (
    PinnedKeys,
    SignedCampaign,
    SignedKeyset,
    campaign_from_bytes,
    signature_of,
    versions_bytes,
)
from rase.wire.suites import KEM_NUMBERS

if TYPE_CHECKING:
    from rase.wire.tokens import SignedTokenKey

__all__ = [
    "Agreed",
    "AgreedKeyset",
    "Countersigner",
    "Documents",
    "OpenRound",
    "Policy",
    "PolicyRefused",
    "document_body",
    "lead_mistakes",
    "load_documents",
]


# Devices go by the newest few; a report with an older number is sealed again.
_MOST_KEYSETS: Final = 16


class PolicyRefused(WireError):
    """The operator of the shuffler does not agree to a document; every reason is given."""

    problem = "policy-refused"


@dataclass(frozen=True, slots=True)
class Policy:
    """What the shuffler's operator agrees to, on behalf of the owners of devices.

    Args:
        max_epsilon: The largest epsilon of a report.
        max_window_budget: The largest epsilon that a device may spend in a window.
        min_k_min: The least k_min.
        max_cache_s: The longest time that devices may keep a keyset.
        max_carry_rounds: The most rounds that the reports of a small round may wait here, besides
            the names of their senders; 0 agrees to dropping them alone.
        max_shuffled_epsilon: The largest epsilon of a promise towards the fusion centre; campaigns
            without such a promise are not asked for one. None for any.
        max_delta: The largest delta of such a promise.
    """

    max_epsilon: float
    max_window_budget: float
    min_k_min: int
    max_cache_s: int = 7 * 86400
    max_carry_rounds: int = 0
    max_shuffled_epsilon: float | None = None
    max_delta: float = 1e-5

    def check_campaign(self, campaign: Campaign) -> None:
        """Refuse a campaign that promises owners too little, or what does not hold.

        The promise towards the fusion centre is computed here again: this server is the one that
        keeps it, by releasing no round below k_min.

        Raises:
            PolicyRefused: With every reason.
        """
        largest = max(campaign.epsilon)
        most = math.inf if self.max_shuffled_epsilon is None else self.max_shuffled_epsilon
        shuffled, delta = campaign.shuffled_epsilon or 0.0, campaign.delta or 0.0
        _refuse(
            [
                (shuffled <= most, "shuffled_epsilon", most, shuffled),
                (delta <= self.max_delta, "delta", self.max_delta, delta),
                (largest <= self.max_epsilon, "epsilon", self.max_epsilon, largest),
                (
                    campaign.window_budget <= self.max_window_budget,
                    "window_budget",
                    self.max_window_budget,
                    campaign.window_budget,
                ),
                (campaign.k_min >= self.min_k_min, "k_min", self.min_k_min, campaign.k_min),
                (
                    campaign.carry_rounds <= self.max_carry_rounds,
                    "carry_rounds",
                    self.max_carry_rounds,
                    campaign.carry_rounds,
                ),
            ]
        )
        if campaign.delta is None:
            return
        # NumPy's transforms are for campaigns that promise something.
        from rase.accounting.campaign_claims import check_promise

        try:
            check_promise(campaign)
        except PrivacyRefused as error:
            raise PolicyRefused(str(error)) from None

    def check_keyset(self, keyset: Keyset) -> None:
        """Refuse a keyset that devices would keep too long.

        How soon and how often the fusion centre's keys may change is no setting: see
        `rase.wire.key_schedule`.

        Raises:
            PolicyRefused: With every reason.
        """
        is_met = keyset.cache_s <= self.max_cache_s
        _refuse([(is_met, "cache_s", self.max_cache_s, keyset.cache_s)])


@dataclass(frozen=True, slots=True)
class Agreed:
    """One version of a campaign that both servers signed.

    Args:
        hash: CH.
        campaign: What it says.
        signed: The bytes that devices fetch.
    """

    hash: bytes = field(repr=False)
    campaign: Campaign
    signed: bytes = field(repr=False)

    @property
    def tag(self) -> bytes:
        """The first eight bytes of CH, which stand in a report."""
        return self.hash[:8]


class AgreedKeyset(NamedTuple):
    """A keyset that both servers signed, and when the next one took its place."""

    keyset: Keyset
    signed: bytes
    replaced_s: int | None = None


class OpenRound(NamedTuple):
    """What one header stands for: a version, a round, and the time and size of its reports."""

    agreed: Agreed
    round: int
    begin_s: int
    end_s: int
    size: int


class Documents:
    """Look up what was agreed, without asking the database; replaced as a whole when it changes.

    Args:
        campaigns: All versions of all campaigns.
        keysets: The newest keysets, the newest first; none before the first.
    """

    def __init__(
        self, campaigns: Iterable[Agreed] = (), keysets: Sequence[AgreedKeyset] = ()
    ) -> None:
        self.keyset = keysets[0].keyset if keysets else None
        self.signed_keyset = keysets[0].signed if keysets else b""
        self._keysets = {one.keyset.version: one for one in keysets}
        # By header: nearly all reports of a round have the same, so it is looked into once.
        self.open_rounds: dict[bytes, OpenRound] = {}
        self._by_tag: dict[bytes, Agreed] = {}
        self._by_id: dict[str, list[Agreed]] = {}
        for agreed in sorted(campaigns, key=lambda item: item.campaign.version):
            self._by_tag[agreed.tag] = agreed
            self._by_id.setdefault(agreed.campaign.id, []).append(agreed)

    def of_tag(self, tag: bytes) -> Agreed | None:
        """Return the version that a report names."""
        return self._by_tag.get(tag)

    def of_round(self, campaign_id: str, round: int) -> Agreed | None:
        """Return the version that holds in a round: the newest that has begun by then."""
        for agreed in reversed(self._by_id.get(campaign_id, ())):
            if agreed.campaign.not_before <= round:
                return agreed if round <= agreed.campaign.not_after else None
        return None

    def has_keyset(self, number: int) -> bool:
        """Return whether a keyset of that number is among the newest that were agreed."""
        return number in self._keysets

    def fusion_key(self, number: int, campaign: Campaign, round: int) -> int | None:
        """Return which key reports of a round that name a keyset are sealed for; None for none.

        Two cache times after a keyset was replaced, every device that asks in time has the one that
        followed. Until then both choose the same key of the fusion centre, which was checked before
        the later one was signed. Whoever names another was shown other keys than the rest.
        """
        found, end_s = self._keysets.get(number), campaign.round_end_s(round)
        if found is None:
            return None
        keyset, replaced_s = found.keyset, found.replaced_s
        if replaced_s is not None and end_s >= replaced_s + LEAD_CACHES * keyset.cache_s:
            return None
        try:
            return keyset.active(Role.FUSION, end_s, kem=KEM_NUMBERS[campaign.kem]).id
        except UnknownKey:
            return None

    def newest(self, campaign_id: str) -> Agreed | None:
        """Return the last version of a campaign."""
        versions = self._by_id.get(campaign_id)
        return versions[-1] if versions else None

    def published_bytes(self, campaign_id: str, *, now_s: float) -> bytes | None:
        """Return what devices fetch: each version that holds in a round not closed, or later.

        A device that slept through a version so still learns by which one an open round goes. The
        newest is among them even if all its rounds are over.

        Returns:
            The versions as one document; None if there is no such campaign.
        """
        versions = self._by_id.get(campaign_id)
        if not versions:
            return None
        return versions_bytes(
            agreed.signed
            for agreed in versions
            if agreed is versions[-1] or now_s < agreed.campaign.closes_s(self.last_round(agreed))
        )

    def last_round(self, agreed: Agreed) -> int:
        """Return the last round in which a version holds, before the next one takes over."""
        later = [
            other.campaign.not_before - 1
            for other in self._by_id[agreed.campaign.id]
            if other.campaign.version > agreed.campaign.version
        ]
        return min([agreed.campaign.not_after, *later])

    def __iter__(self) -> Iterator[Agreed]:
        """Go through all versions of all campaigns."""
        return iter(self._by_tag.values())


def load_documents(database: Database, pinned: PinnedKeys) -> Documents:
    """Return what was agreed so far; signatures are checked again if they are not as they were.

    Raises:
        BadSignature: If the database was changed, or belongs to other keys.
    """
    with database.snapshot() as transaction:
        campaigns = transaction.execute("SELECT signed FROM campaign")
        rows = transaction.execute(
            "SELECT signed, agreed_s FROM keyset ORDER BY version DESC LIMIT ?", (_MOST_KEYSETS,)
        )
    agreed = [_verify_agreed(bytes(signed), pinned) for (signed,) in campaigns]
    # When a keyset of an early release was agreed is not known: long ago.
    replaced = [None, *(agreed_s or 0 for _, agreed_s in rows)]
    keysets = [
        AgreedKeyset(_keyset(bytes(signed), pinned), bytes(signed), replaced_s)
        for (signed, _), replaced_s in zip(rows, replaced, strict=False)
    ]
    return Documents(agreed, keysets)


# The closer asks every few seconds, and documents hardly ever change: the same bytes under the same
# keys are read once.
@lru_cache(maxsize=256)
def _verify_agreed(signed: bytes, pinned: PinnedKeys) -> Agreed:
    found = SignedCampaign.from_bytes(signed, pinned)
    return Agreed(found.hash, found.campaign, signed)


@lru_cache(maxsize=2 * _MOST_KEYSETS)
def _keyset(signed: bytes, pinned: PinnedKeys) -> Keyset:
    return SignedKeyset.from_bytes(signed, pinned).keyset


class Countersigner:
    """Sign what the fusion centre proposes, if the operator's policy allows it.

    What was signed once is answered with the same signature again.

    Args:
        database: The shuffler's.
        key: The shuffler's signing key.
        pinned: The public signing keys of both servers.
        policy: What the operator agrees to.
        by: Who signs, for the log of acts; the user of this process if empty.
    """

    def __init__(
        self,
        database: Database,
        *,
        key: SigningKey,
        pinned: PinnedKeys,
        policy: Policy,
        by: str = "",
    ) -> None:
        self._database = database
        self._key = key
        self._pinned = pinned
        self._policy = policy
        self._by = by

    def campaign(
        self, proposal: bytes, *, now_s: float, expected: tuple[str, int] | None = None
    ) -> tuple[SignedCampaign, bool]:
        """Countersign the CBOR array [campaign, fusion centre's signature].

        Args:
            proposal: The array.
            now_s: The time; a new version must be for later rounds.
            expected: The id and version it was announced with.

        Returns:
            The campaign with both signatures, and whether it is new.

        Raises:
            BadSignature: If the fusion centre did not sign it.
            PolicyRefused: If the operator does not agree, or it may not follow what was agreed.
            WireError: Named otherwise, if the bytes are not such as they must be.
        """
        body, signature = split_proposal(proposal)
        campaign = campaign_from_bytes(body)
        if expected not in (None, (campaign.id, campaign.version)):
            raise Malformed("the campaign must be of the id and version in its address.")
        signed = SignedCampaign(campaign, signature, signature_of(campaign, self._key))
        SignedCampaign.from_bytes(signed.to_bytes(), self._pinned)
        self._policy.check_campaign(campaign)
        present = round_number(int(now_s), campaign.round_s)
        with self._database.transaction() as transaction:
            known = transaction.execute(
                "SELECT hash, signed FROM campaign WHERE id = ? AND version = ?",
                (campaign.id, campaign.version),
            )
            if known:
                if bytes(known[0][0]) != signed.hash:
                    raise PolicyRefused(f"version {campaign.version} is agreed with other content.")
                return SignedCampaign.from_bytes(bytes(known[0][1]), self._pinned), False
            _check_tag(transaction, signed.hash)
            _check_follows(transaction, campaign, present=present)
            transaction.execute(
                "INSERT INTO campaign (hash, id, version, signed, next_round) "
                "VALUES (?, ?, ?, ?, ?)",
                (
                    signed.hash,
                    campaign.id,
                    campaign.version,
                    signed.to_bytes(),
                    max(campaign.not_before, present),
                ),
            )
            subject = f"{campaign.id} version {campaign.version}"
            record_act(transaction, "countersign campaign", subject, now_s=now_s, by=self._by)
        return signed, True

    def token_key(self, proposal: bytes, *, now_s: float) -> tuple["SignedTokenKey", bool]:
        """Countersign the CBOR array [token key, registrar's signature].

        Raises:
            WireError: As `rase.shuffler.token_keys.sign_token_key` does.
        """
        from rase.shuffler.token_keys import sign_token_key

        return sign_token_key(
            self._database, proposal, key=self._key, pinned=self._pinned, now_s=now_s
        )

    def keyset(self, proposal: bytes, *, now_s: float) -> tuple[SignedKeyset, bool]:
        """Countersign the CBOR array [keyset, fusion centre's signature].

        The first keyset may begin at once. Each later one leaves the fusion centre's key as it is
        for two cache times, so that no round is sealed for two keys.

        Args:
            proposal: The array.
            now_s: The time, from which the lead of new keys counts; keys of the shuffler that are
                long past use are not compared.

        Returns:
            The keyset with both signatures, and whether it is new.

        Raises:
            BadSignature: If the fusion centre did not sign it.
            PolicyRefused: If the operator does not agree, or a newer one was agreed.
            ForeignKey: If it names a key of the shuffler that the closer does not hold.
            WireError: Named otherwise, if the bytes are not such as they must be.
        """
        body, signature = split_proposal(proposal)
        keyset = Keyset.from_bytes(body)
        signed = SignedKeyset(keyset, signature, signature_of(keyset, self._key))
        SignedKeyset.from_bytes(signed.to_bytes(), self._pinned)
        self._policy.check_keyset(keyset)
        with self._database.transaction() as transaction:
            rows = transaction.execute(
                "SELECT version, signed, agreed_s FROM keyset ORDER BY version DESC"
            )
            if rows and bytes(rows[0][1]) == signed.to_bytes():
                return signed, False
            if rows and keyset.version <= rows[0][0]:
                raise PolicyRefused(
                    f"the keyset's version must be above {rows[0][0]}, which is agreed."
                )
            agreed = [(Keyset.from_bytes(document_body(bytes(row[1]))), row[2]) for row in rows]
            mistakes = lead_mistakes(keyset, agreed, now_s=now_s)
            if mistakes:
                raise PolicyRefused(" ".join(mistakes))
            check_own_keys(transaction, keyset, now_s=now_s)
            transaction.execute(
                "INSERT INTO keyset (version, signed, agreed_s) VALUES (?, ?, ?)",
                (keyset.version, signed.to_bytes(), int(now_s)),
            )
            subject = str(keyset.version)
            record_act(transaction, "countersign keyset", subject, now_s=now_s, by=self._by)
        return signed, True


def _check_tag(transaction: Transaction, hash: bytes) -> None:  # noqa: A002
    # Eight bytes stand in a report; who proposes campaigns could search for two that share them.
    tags = {bytes(other)[:8] for (other,) in transaction.execute("SELECT hash FROM campaign")}
    if hash[:8] in tags:
        raise PolicyRefused("the campaign's hash begins like that of another; change any field.")


def _check_follows(transaction: Transaction, campaign: Campaign, *, present: int) -> None:
    rows = transaction.execute(
        "SELECT signed FROM campaign WHERE id = ? ORDER BY version DESC LIMIT 1", (campaign.id,)
    )
    if not rows:
        if campaign.version != 1:
            raise PolicyRefused(f"version must be 1 at first, got {campaign.version}.")
        return
    previous = campaign_from_bytes(document_body(bytes(rows[0][0])))
    try:
        campaign.check_succeeds(previous, from_round=present + 1)
    except CampaignInvalid as error:
        raise PolicyRefused(" ".join(error.mistakes)) from None


def document_body(signed: bytes) -> bytes:
    """Return the document inside a signed one, whose signatures were checked before."""
    body: bytes = cbor.decode(signed, max_size=MAX_PROPOSAL_BYTES)[1]
    return body


def _refuse(rules: list[tuple[bool, str, float, float]]) -> None:
    broken = [
        f"{name} must be at {'least' if limit > value else 'most'} {limit:g} here, got {value:g}."
        for is_met, name, limit, value in rules
        if not is_met
    ]
    if broken:
        raise PolicyRefused(" ".join(broken))


def lead_mistakes(
    keyset: Keyset, agreed: Sequence[tuple[Keyset, int | None]], *, now_s: float
) -> list[str]:
    """Return how a keyset could split the reports of a round among two keys; none for the first.

    Args:
        keyset: What is to be countersigned.
        agreed: The keysets that were agreed and when, newest first; None if that was not noted.
        now_s: The time.
    """
    mistakes = limit_mistakes(keyset, now_s=now_s)
    if not agreed:
        return mistakes
    newest, _ = agreed[0]
    caches = [keyset.cache_s, newest.cache_s]
    # Devices that keep an earlier keyset for longer may not have heard of the newest one yet.
    caches += [
        older.cache_s
        for (older, _), (_, replaced_s) in zip(agreed[1:], agreed, strict=False)
        if replaced_s is None or now_s < replaced_s + older.cache_s
    ]
    lead_s = LEAD_CACHES * max(caches)
    changes = sudden_changes(keyset, newest, since_s=now_s - lead_s, until_s=now_s + lead_s)
    if changes:
        changes.append(
            f"A change must wait {lead_s} s, {LEAD_CACHES} cache times: make the key again by rase "
            "keys rotate --replace-pending, and publish it sooner."
        )
    return mistakes + changes
