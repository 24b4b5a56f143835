"""What the shuffler hands over: a batch is checked, opened and kept in one transaction, once."""

import hmac
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from rase.campaign import Campaign
from rase.clock import Clock
from rase.errors import Malformed, WireError, WrongCampaign
from rase.fusion.campaigns import campaign_in_round, campaign_of_hash, current_keyset
from rase.fusion.mechanism import drawable
from rase.fusion.opening import BatchOpener, Opened
from rase.fusion.settings import FusionPolicy
from rase.fusion.token_keys import TokenKeys, spend_tokens
from rase.storage.interface import Database, Transaction
from rase.storage.retry import retry
from rase.wire.keys import Keyset, OpeningKey, Role
from rase.wire.messages import INNER_SIZES, Batch, BatchManifest, batch_id
from rase.wire.signed import PinnedKeys, SignedManifest, campaign_hash
from rase.wire.suites import KEM_NUMBERS
from rase.wire.tokens import TokenKey

__all__ = ["CheckedManifest", "Intake", "LateBatch", "Receipt"]

_BAD = "bad-batch"
# The largest envelope with its CBOR head, and all that a batch holds besides envelopes.
_ENVELOPE_BYTES: Final = max(INNER_SIZES.values()) + 3
_FRAME_BYTES: Final = 128
# What floats lose when a loss is computed in another order.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Receipt:
    """Say what became of a batch.

    Args:
        is_new: Whether it was taken in now; False if it is known already.
        campaign: The campaign's id.
        round: The round.
        refused: How many envelopes did not open or held what no device can draw.
        replayed: How many envelopes were in the round already.
        untokened: How many of the refused had no token, or one that was counted before.
        is_extra: Whether the round had a batch for every key already: an honest shuffler makes one
            for each, so its signing key was used by somebody else, or it is not honest.
    """

    is_new: bool
    campaign: str
    round: int
    refused: int = 0
    replayed: int = 0
    is_extra: bool = False
    untokened: int = 0


class LateBatch(WireError):
    """A batch came after its round was final; nothing of it is in the estimate.

    Args:
        campaign: The campaign's id.
        round: The round.
    """

    problem = "final-round"

    def __init__(self, campaign: str, round: int) -> None:
        super().__init__(f"round {round} is final.")
        self.campaign = campaign
        self.round = round


@dataclass(frozen=True, slots=True)
class CheckedManifest:
    """A manifest that the shuffler signed, checked once, ahead of its batch.

    Args:
        manifest: What it says.
        signed: The bytes with the signature, which are kept.
        max_bytes: How long its batch may be.
    """

    manifest: BatchManifest
    signed: bytes = field(repr=False)
    max_bytes: int


class _AlreadyKept(Exception):
    """Another process took the same batch in meanwhile."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__()
        self.receipt = receipt


class Intake:
    """Take batches in.

    Args:
        database: The fusion centre's.
        clock: Says whether a round can be over.
        pinned: The public signing keys of both servers.
        opener: Opens the envelopes.
        token_keys: The registrar's keys of token windows.
        policy: What the operator decided.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        pinned: PinnedKeys,
        opener: BatchOpener,
        token_keys: TokenKeys,
        policy: FusionPolicy | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._pinned = pinned
        self._opener = opener
        self._policy = FusionPolicy() if policy is None else policy
        self._token_keys = token_keys

    def check_manifest(self, claimed_id: bytes, signed: bytes) -> "CheckedManifest":
        """Return the manifest of a batch that is to come, if the shuffler signed it.

        Args:
            claimed_id: The id that the batch is sent under.
            signed: The signed manifest.

        Raises:
            WireError: If the manifest is not the shuffler's, or of another batch.
        """
        said = SignedManifest.from_bytes(signed, self._pinned).manifest
        if not hmac.compare_digest(said.batch_id, claimed_id):
            raise Malformed("the manifest is of another batch.", problem=_BAD)
        most = min(said.n * _ENVELOPE_BYTES + _FRAME_BYTES, self._policy.limits.max_batch_bytes)
        return CheckedManifest(said, signed, most)

    @property
    def keys(self) -> tuple[OpeningKey, ...]:
        """The private keys that batches are opened with now."""
        return self._opener.keys

    def renew_keys(self) -> None:
        """Take the keys that the settings name now."""
        self._opener.renew()

    def receive(self, checked: "CheckedManifest", body: bytes) -> Receipt:
        """Take in a batch; the same bytes again change nothing and are answered the same way.

        Args:
            checked: Its manifest, as `check_manifest` returned it: nothing of a batch is looked
                into before its manifest is known to be the shuffler's.
            body: The batch.

        Raises:
            LateBatch: If the round is final.
            WireError: With the problem the shuffler is sent; then nothing has changed.
        """
        manifest, name = checked.manifest, checked.manifest.batch_id
        if len(body) > checked.max_bytes:
            raise Malformed("the batch is longer than its manifest allows.", problem=_BAD)
        if not hmac.compare_digest(batch_id(body), name):
            raise Malformed("the batch's id must be the SHA-256 of its body.", problem=_BAD)
        batch = Batch.from_bytes(body)
        with self._database.snapshot() as transaction:
            campaign = _campaign_of(transaction, batch)
            known = _find_receipt(transaction, name)
            if known is not None:
                return known
            _refuse_final(transaction, campaign, batch.round)
            keyset = current_keyset(transaction)
        if self._clock.now_s() < campaign.round_end_s(batch.round):
            raise WireError(
                f"round {batch.round} has not ended by this clock.", problem="round-not-open"
            )
        _check_manifest(manifest, batch, campaign)
        # Opening takes long and changes nothing, so it happens before the transaction begins.
        opened = self._open(batch, campaign) if batch.inner else None
        keys = _keys_in_use(campaign, batch.round, None if keyset is None else keyset.keyset)
        settles_s = self._settles_s(campaign, batch.round, keys)

        # Two rounds of a block must not take the same envelope in at the same time.
        database = self._database
        writing = database.transaction if campaign.carry_rounds else database.share

        def keep() -> Receipt:
            with writing() as transaction:
                # First of all: it locks the round, so that what is seen below stays so.
                batches = _open_round(transaction, campaign, batch.round, settles_s)
                known = _find_receipt(transaction, name)
                if known is not None:
                    raise _AlreadyKept(known)
                _refuse_final(transaction, campaign, batch.round)
                return _keep(
                    transaction,
                    campaign,
                    batch,
                    id=name,
                    manifest=checked.signed,
                    opened=opened,
                    is_extra=batches > max(keys, 1) * (manifest.parts or 1),
                    parts=manifest.parts or 1,
                )

        try:
            return retry(keep)
        except _AlreadyKept as error:
            return error.receipt

    def _open(self, batch: Batch, campaign: Campaign) -> tuple[Opened, TokenKey]:
        """Return what the envelopes hold, and the window whose tokens they must show."""
        named = campaign.block_start(batch.round)
        window = self._token_keys.of_round(campaign.id, named)
        opened = self._opener.open(
            batch,
            class_count=len(campaign.epsilon),
            modulus=window.modulus,
            block_start=named,
        )
        return opened, window

    def _settles_s(self, campaign: Campaign, round: int, keys: int) -> int:
        """Return when a round of which this is the first batch may become final.

        Never before its grace is over, when an honest shuffler closes it. A batch that comes
        earlier may be forged: the round then waits as long after the grace as the batch came
        before its end, so that the true batch still finds it open.
        """
        now, closes_s = int(self._clock.now_s()), campaign.closes_s(round)
        most = self._policy.settle_s
        return max(now, closes_s) + (most if keys > 1 else min(max(0, closes_s - now), most))


def _keys_in_use(campaign: Campaign, round: int, keyset: Keyset | None) -> int:
    """Return for how many keys of the fusion centre devices may have sealed in a round."""
    if keyset is None:
        return 0
    begin, end = campaign.round_end_s(campaign.block_start(round)), campaign.closes_s(round)
    return sum(
        (config.role, config.kem) == (Role.FUSION, KEM_NUMBERS[campaign.kem])
        and config.not_before_s < end
        and begin < config.not_after_s + 2 * keyset.cache_s
        for config in keyset.configs
    )


def _check_manifest(manifest: BatchManifest, batch: Batch, campaign: Campaign) -> None:
    """Refuse a batch whose manifest does not keep what the campaign promises to owners.

    Raises:
        WireError: With problem ``bad-batch``, or ``below-k`` if too few reports are together.
    """
    if manifest.n != len(batch.inner):
        raise Malformed("the manifest counts other reports than the batch holds.", problem=_BAD)
    if manifest.k_min < campaign.k_min:
        raise Malformed(
            f"the manifest's k_min must be at least the campaign's, {campaign.k_min}.", problem=_BAD
        )
    if manifest.method == "withheld":
        return
    # It is shown to subscribers; one that is not finite would keep the round from becoming final.
    if manifest.attacker_success > 1 + _ROUNDING:
        raise Malformed("the manifest's attacker_success must be at most 1.", problem=_BAD)
    _check_counts(batch, campaign.k_min)
    if (manifest.shuffled_epsilon, manifest.delta) != (campaign.shuffled_epsilon, campaign.delta):
        raise Malformed("the manifest promises something else than the campaign.", problem=_BAD)
    plan = campaign.shuffle
    # A uniform order hides more than any other; a round whose groups bound nothing is given one.
    if manifest.method != "uniform" and plan.method not in ("robust", manifest.method):
        raise Malformed(f"the campaign asks for the {plan.method} shuffle.", problem=_BAD)
    if manifest.alpha > plan.alpha * (1 + _ROUNDING):
        raise Malformed(f"the manifest's alpha must be at most {plan.alpha:g}.", problem=_BAD)


def _check_counts(batch: Batch, k_min: int) -> None:
    if len(batch.inner) < k_min:
        raise WireError(f"a batch must hold at least {k_min} reports.", problem="below-k")
    if any(one.reports < k_min for one in batch.labels):
        raise WireError(
            f"a batch must hold at least {k_min} reports of each label.", problem="below-k"
        )


def _campaign_of(transaction: Transaction, batch: Batch) -> Campaign:
    campaign = campaign_of_hash(transaction, batch.campaign_hash)
    if campaign is None:
        raise WrongCampaign("the batch is of no campaign that is known here.")
    holding = campaign_in_round(transaction, campaign.id, batch.round)
    if holding is None or campaign_hash(holding.campaign) != batch.campaign_hash:
        raise WrongCampaign(
            f"version {campaign.version} of the campaign does not hold in round {batch.round}.",
            problem=_BAD,
        )
    return campaign


def _find_receipt(transaction: Transaction, batch: bytes) -> Receipt | None:
    rows = transaction.execute("SELECT campaign, round FROM batches WHERE batch = ?", (batch,))
    return Receipt(False, rows[0][0], rows[0][1]) if rows else None


def _refuse_final(transaction: Transaction, campaign: Campaign, round: int) -> None:
    rows = transaction.execute(
        "SELECT state FROM rounds WHERE campaign = ? AND round = ?", (campaign.id, round)
    )
    if rows and rows[0][0] != "open":
        raise LateBatch(campaign.id, round)


def _open_round(transaction: Transaction, campaign: Campaign, round: int, settles_s: int) -> int:
    # The update locks the round's row, so two servers cannot both think their batch is the first.
    ((batches,),) = transaction.execute(
        "INSERT INTO rounds (campaign, round, version, state, batches, settles_s) "
        "VALUES (?, ?, ?, 'open', 1, ?) "
        "ON CONFLICT (campaign, round) DO UPDATE SET batches = rounds.batches + 1 "
        "RETURNING batches",
        (campaign.id, round, campaign.version, settles_s),
    )
    return int(batches)


def _keep(
    transaction: Transaction,
    campaign: Campaign,
    batch: Batch,
    *,
    id: bytes,  # noqa: A002 - the protocol's word
    manifest: bytes,
    opened: tuple[Opened, TokenKey] | None,
    is_extra: bool,
    parts: int,
) -> Receipt:
    replayed = refused = untokened = 0
    if opened is not None:
        found, window = opened
        is_fresh = _fresh(transaction, campaign, batch.round, found.tags)
        kept = found.is_report & is_fresh
        places, classes = found.places[kept], found.classes[kept]
        is_drawn = drawable(campaign.reported_in(batch.round), places, classes)
        untokened = found.untokened
        tokens = [found.tokens[place] for place in np.flatnonzero(kept)[is_drawn]]
        is_new = spend_tokens(transaction, window, tokens)
        untokened += len(tokens) - sum(is_new)
        is_drawn[is_drawn] = is_new
        labels = np.repeat(
            np.array([label for label, _ in batch.labels], np.uint8),
            [count for _, count in batch.labels],
        )[kept][is_drawn]
        places, classes = places[is_drawn], classes[is_drawn]
        order = np.lexsort((classes, places, labels))
        transaction.execute(
            "INSERT INTO opened (batch, campaign, round, places, classes, labels) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (
                id,
                campaign.id,
                batch.round,
                places[order].astype("<i8").tobytes(),
                classes[order].tobytes(),
                labels[order].tobytes(),
            ),
        )
        replayed = int((~is_fresh).sum())
        refused = len(found.tags) - replayed - len(places)
    transaction.execute(
        "INSERT INTO batches (batch, campaign, round, manifest, opened, replayed, refused, "
        "fusion_key, parts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            id,
            campaign.id,
            batch.round,
            manifest,
            len(batch.inner) - replayed - refused,
            replayed,
            refused,
            batch.key_id,
            parts,
        ),
    )
    return Receipt(True, campaign.id, batch.round, refused, replayed, is_extra, untokened)


def _fresh(
    transaction: Transaction, campaign: Campaign, round: int, tags: tuple[bytes, ...]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Say which envelopes are new in the round's block; a second copy in one batch is not."""
    # Sorted: nothing shows in which order they came, and two servers cannot wait for each other.
    order = sorted(range(len(tags)), key=tags.__getitem__)
    block = campaign.block_start(round)
    rows = [(campaign.id, block, tags[place]) for place in order]
    columns = ("campaign", "block", "tag")
    is_fresh = np.zeros(len(tags), dtype=np.bool_)
    is_fresh[order] = transaction.insert_new("envelope_tag", columns, rows, key=3)
    return is_fresh
