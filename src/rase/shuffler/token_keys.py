"""The registrar's keys of token windows: signed once for the same rounds, never another.

What devices get is what both signed. So the registrar cannot give one device a key of its own, by
which its tokens could be told from others, nor more tokens than the campaign's budget pays for.
"""

from rase.campaign import Campaign
from rase.clock import round_start_s
from rase.errors import WireError
from rase.service.acts import AUTOMATIC, record_act
from rase.shuffler.documents import PolicyRefused, document_body
from rase.shuffler.proposals import split_proposal
from rase.storage.interface import Database, Transaction
from rase.wire.keys import SigningKey
from rase.wire.signed import PinnedKeys, campaign_from_bytes
from rase.wire.tokens import SignedTokenKey, TokenKey, check_registrar, token_keys_bytes

__all__ = ["proposed_token_key", "published_token_keys", "sign_token_key"]

# A registrar makes a few keys ahead.
_MOST_AHEAD = 64


def proposed_token_key(proposal: bytes, pinned: PinnedKeys) -> TokenKey:
    """Read the CBOR array [key, registrar's signature]; this needs no private key.

    Raises:
        BadSignature: If the registrar did not sign it.
        WireError: Named otherwise, if the bytes are not such as they must be.
    """
    body, signature = split_proposal(proposal)
    key = TokenKey.from_bytes(body)
    check_registrar(key, signature, pinned)
    return key


def sign_token_key(
    database: Database, proposal: bytes, *, key: SigningKey, pinned: PinnedKeys, now_s: float
) -> tuple[SignedTokenKey, bool]:
    """Countersign the key of a token window.

    Args:
        database: The shuffler's.
        proposal: The CBOR array [key, registrar's signature].
        key: The shuffler's signing key.
        pinned: The public signing keys, the registrar's among them.
        now_s: The time: issuing ends before a window begins, and must not be over.

    Returns:
        The key with both signatures, and whether it is new.

    Raises:
        BadSignature: If the registrar did not sign it.
        PolicyRefused: If another key was signed for one of its rounds, or it allows too much.
        WireError: Named otherwise, if the bytes are not such as they must be.
    """
    proposed = proposed_token_key(proposal, pinned)
    _, signature = split_proposal(proposal)
    signed = SignedTokenKey(proposed, signature, key.sign(proposed.signing_input("shuffler")))
    with database.transaction() as transaction:
        known = transaction.execute(
            "SELECT signed FROM token_key WHERE campaign = ? AND first_round <= ? "
            "AND last_round >= ?",
            (proposed.campaign, proposed.last_round, proposed.first_round),
        )
        if known:
            found = SignedTokenKey.from_bytes(bytes(known[0][0]), pinned)
            if found.key != proposed:
                raise PolicyRefused(
                    f"another key was signed for round {found.key.first_round} of the campaign; "
                    "one stays for all devices."
                )
            return found, False
        _check_allowance(transaction, proposed, now_s=now_s)
        transaction.execute(
            "INSERT INTO token_key (campaign, first_round, last_round, signed) VALUES (?, ?, ?, ?)",
            (proposed.campaign, proposed.first_round, proposed.last_round, signed.to_bytes()),
        )
        record_act(
            transaction,
            "countersign token key",
            f"{proposed.campaign} rounds {proposed.first_round} to {proposed.last_round}",
            now_s=now_s,
            by=AUTOMATIC,
        )
    return signed, True


def published_token_keys(database: Database, *, now_s: float, keep_s: float = 86_400) -> bytes:
    """Return the document of all keys whose window is not long over.

    Args:
        database: The shuffler's.
        now_s: The time.
        keep_s: How long after its window a key is still published.
    """
    with database.snapshot() as transaction:
        rows = transaction.execute(
            "SELECT campaign, last_round, signed FROM token_key ORDER BY campaign, first_round"
        )
        campaigns = {name: _newest(transaction, name) for name in {row[0] for row in rows}}
    return token_keys_bytes(
        bytes(signed)
        for name, last_round, signed in rows
        if (found := campaigns[name]) is None or now_s < found.closes_s(last_round) + keep_s
    )


def _check_allowance(transaction: Transaction, key: TokenKey, *, now_s: float) -> None:
    campaign = _newest(transaction, key.campaign)
    if campaign is None:
        raise WireError("no such campaign is agreed here.", problem="unknown-campaign")
    rounds = key.last_round - key.first_round + 1
    most = campaign.most_reports(rounds)
    begins_s = round_start_s(key.first_round, campaign.round_s)
    block = campaign.carry_rounds + 1
    for is_met, reason in (
        (key.reports <= most, f"reports must be at most {most}, which the budget pays for"),
        (key.issue_until_s <= begins_s, "issuing must end before the window begins"),
        (now_s < key.issue_until_s, "issuing must not be over"),
        (
            not key.first_round % block and not (key.last_round + 1) % block,
            f"a window must hold whole blocks of {block} rounds",
        ),
    ):
        if not is_met:
            raise PolicyRefused(f"{reason}; the token key of round {key.first_round} is refused.")
    ((waiting,),) = transaction.execute(
        "SELECT count(*) FROM token_key WHERE campaign = ? AND first_round > ?",
        (key.campaign, int(now_s) // campaign.round_s),
    )
    if waiting >= _MOST_AHEAD:
        raise PolicyRefused(f"at most {_MOST_AHEAD} windows may be ahead.")


def _newest(transaction: Transaction, campaign: str) -> Campaign | None:
    rows = transaction.execute(
        "SELECT signed FROM campaign WHERE id = ? ORDER BY version DESC LIMIT 1", (campaign,)
    )
    return campaign_from_bytes(document_body(bytes(rows[0][0]))) if rows else None
