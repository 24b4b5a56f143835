"""Reports count by tokens: a shuffler gains nothing by making, repeating or moving some."""

import pytest
from tests.fusion.conftest import (
    CAMPAIGN,
    KEYS,
    PINNED,
    ROUND,
    SHUFFLER_SIGNER,
    Centre,
    envelope,
    parcel,
)
from tests.registering import Registrar

from rase.errors import WireError
from rase.fusion.intake import Intake
from rase.fusion.opening import BatchOpener
from rase.fusion.token_keys import TokenKeys, TokenKeysUnknown
from rase.wire.messages import Content
from rase.wire.tokens import TokenKey

LAST = ROUND + 3


class Guarded:
    """A fusion centre that has a registrar, with one window of rounds."""

    def __init__(self, centre: Centre, shuffler_is_up: list[bool]) -> None:
        self.centre = centre
        self.registrar = Registrar(SHUFFLER_SIGNER, CAMPAIGN.id, CAMPAIGN.round_s)
        self.key = self.registrar.window(ROUND, LAST, reports=2)
        self.fetched = 0
        self._is_up = shuffler_is_up
        self.restart()

    def restart(self) -> None:
        """Begin as a process that remembers nothing."""
        keys = TokenKeys(self.centre.database, self.centre.clock, pinned=PINNED, fetch=self._fetch)
        self.intake = Intake(
            self.centre.database,
            self.centre.clock,
            pinned=PINNED,
            opener=BatchOpener(list(KEYS.values()), processes=0),
            token_keys=keys,
        )

    def _fetch(self) -> bytes:
        self.fetched += 1
        if not self._is_up[0]:
            raise WireError("no answer.", problem="unavailable")
        return self.registrar.published()

    def tokens(self, devices: int, key: TokenKey | None = None) -> list[bytes]:
        """Return the tokens of some devices."""
        window = key or self.key
        return [token for seed in range(devices) for token in self.registrar.tokens(window, seed)]

    def final_n(self, round: int = ROUND) -> tuple[int, bool]:
        """Make a round final; return how many reports it has, and whether it is withheld."""
        self.centre.clock.advance(600)
        (done,) = [one for one in self.centre.rounds.tick() if one.round == round]
        rows = _rows(self.centre, "SELECT n FROM answers WHERE round = ?", round)
        return (rows[0][0] if rows else 0), done.is_withheld


def _rows(centre: Centre, sql: str, *values: int) -> list[tuple[int, ...]]:
    with centre.database.snapshot() as transaction:
        return transaction.execute(sql, values)


def sealed(token: bytes, *, round: int = ROUND, place: int = 1000) -> bytes:
    """Return an inner envelope with a token."""
    return envelope(place, round=round, content=Content(round, place, token=token).to_bytes())


@pytest.fixture
def shuffler_is_up() -> list[bool]:
    """Whether the shuffler answers."""
    return [True]


@pytest.fixture
def guarded(centre: Centre, shuffler_is_up: list[bool]) -> Guarded:
    """A fusion centre with a registrar."""
    return Guarded(centre, shuffler_is_up)


def test_reports_with_tokens_count(guarded: Guarded) -> None:
    """Each once; the key is fetched once, and known after a restart."""
    batch = parcel([sealed(token) for token in guarded.tokens(3)])
    receipt = batch.deliver(guarded.intake)
    assert (receipt.refused, receipt.untokened) == (0, 0)
    guarded.restart()
    assert not batch.deliver(guarded.intake).is_new
    more = parcel(
        [sealed(token, round=ROUND + 1) for token in guarded.tokens(6)[6:]], round=ROUND + 1
    )
    guarded.centre.clock.advance(CAMPAIGN.round_s)
    assert more.deliver(guarded.intake).untokened == 0
    assert guarded.fetched == 1
    assert guarded.final_n() == (6, False)


def test_a_shuffler_cannot_make_reports_that_count(guarded: Guarded) -> None:
    """A signed batch of 500 invented reports is no estimate: none has a token that was signed."""
    made_up = parcel([sealed(bytes([1]) * 288, place=place) for place in range(500)])
    receipt = made_up.deliver(guarded.intake)
    assert (receipt.refused, receipt.untokened) == (500, 500)
    assert guarded.final_n() == (0, True)


def test_a_shuffler_cannot_fill_a_victims_round(guarded: Guarded) -> None:
    """k_min is counted by tokens: one true report among invented ones is never shown."""
    (victim, *_) = guarded.tokens(1)
    filled = [sealed(victim)] + [sealed(b"") for _ in range(CAMPAIGN.k_min + 5)]
    receipt = parcel(filled).deliver(guarded.intake)
    assert receipt.untokened == CAMPAIGN.k_min + 5
    assert guarded.final_n() == (0, True)


def test_a_token_counts_once(guarded: Guarded) -> None:
    """In one batch, in another of its round and in a later round: a clone gains nothing."""
    tokens = guarded.tokens(4)
    twice = [sealed(token) for token in tokens] + [sealed(tokens[0], place=2000)]
    assert parcel(twice).deliver(guarded.intake).untokened == 1
    again = parcel([sealed(token, place=3) for token in tokens])
    assert again.deliver(guarded.intake).untokened == len(tokens)
    guarded.centre.clock.advance(CAMPAIGN.round_s)
    later = [sealed(token, round=ROUND + 1) for token in tokens]
    assert parcel(later, round=ROUND + 1).deliver(guarded.intake).untokened == len(tokens)
    assert guarded.centre.count("spent") == len(tokens)


def test_a_token_of_another_window_is_none(guarded: Guarded) -> None:
    """Nor one of another campaign."""
    following = guarded.registrar.window(LAST + 1, LAST + 8, reports=2, number=1)
    guarded.centre.clock.advance((LAST + 1 - ROUND) * CAMPAIGN.round_s)
    old = parcel([sealed(one, round=LAST + 1) for one in guarded.tokens(3)], round=LAST + 1)
    assert old.deliver(guarded.intake).untokened == 6
    tokens = [guarded.registrar.tokens(following, seed, number=1) for seed in range(3)]
    fresh = [sealed(one, round=LAST + 1) for pair in tokens for one in pair]
    assert parcel(fresh, round=LAST + 1).deliver(guarded.intake).untokened == 0


def test_without_a_key_no_batch_is_taken(guarded: Guarded, shuffler_is_up: list[bool]) -> None:
    """While the shuffler does not answer the batch must come again; where there is none, never."""
    batch = parcel([sealed(token) for token in guarded.tokens(2)])
    shuffler_is_up[0] = False
    with pytest.raises(TokenKeysUnknown):
        batch.deliver(guarded.intake)
    shuffler_is_up[0] = True
    assert batch.deliver(guarded.intake).is_new
    guarded.centre.clock.advance(20 * CAMPAIGN.round_s)
    with pytest.raises(WireError, match="no token of the registrar counts in round"):
        parcel([sealed(b"", round=ROUND + 9)] * 4, round=ROUND + 9).deliver(guarded.intake)


def test_withheld_rounds_need_no_key(guarded: Guarded) -> None:
    """There is nothing to count in them."""
    assert parcel([]).deliver(guarded.intake).is_new
    assert guarded.fetched == 0


def test_what_was_spent_is_forgotten_long_after_its_window(guarded: Guarded) -> None:
    """With its key: nothing of the window can count any more."""
    parcel([sealed(token) for token in guarded.tokens(2)]).deliver(guarded.intake)
    assert guarded.centre.count("spent") == 4
    guarded.centre.clock.advance(40 * 86_400)
    guarded.registrar.windows.clear()
    now = int(guarded.centre.clock.now_s()) // CAMPAIGN.round_s
    guarded.registrar.window(now, now + 3, number=1)
    guarded.restart()
    with pytest.raises(WireError):
        parcel([sealed(b"", round=now - 5)] * 4, round=now - 5).deliver(guarded.intake)
    assert guarded.centre.count("spent") == 0


def test_the_first_key_of_a_window_stays(guarded: Guarded) -> None:
    """A later document cannot put another in its place."""
    tokens = guarded.tokens(3)
    parcel([sealed(token) for token in tokens[:4]]).deliver(guarded.intake)
    guarded.registrar.windows.clear()
    guarded.registrar.window(ROUND, LAST, reports=2, number=1)
    guarded.registrar.window(LAST + 1, LAST + 2, number=1)
    guarded.restart()
    guarded.centre.clock.advance((LAST + 1 - ROUND) * CAMPAIGN.round_s)
    parcel([sealed(b"", round=LAST + 1)] * 4, round=LAST + 1).deliver(guarded.intake)
    forged = guarded.registrar.tokens(guarded.registrar.windows[0].key, 9, number=1)
    late = parcel([sealed(one, round=LAST) for one in (*forged, *tokens[4:])], round=LAST)
    assert late.deliver(guarded.intake).untokened == len(forged)
