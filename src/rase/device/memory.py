"""Terms and cover reports as the agent holds them, always saved before they are gone by."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from rase.campaign import Campaign
from rase.device.state import Cover, DeviceState, StateStore
from rase.device.terms import Terms, TermsRefused
from rase.wire.keys import Keyset

__all__ = ["Memory"]

# As many as rounds can be open at once. A shuffler that never confirms one must not fill the disk.
_MOST_COVERS = 1024
_KEY_REASONS = ("keys-too-soon", "too-many-keys")


class Memory:
    """Keep what is held in memory and what is saved the same; if saving fails, nothing changes.

    Args:
        terms: Terms that are still empty.
        store: Where the state is kept.

    Raises:
        StateUnusable: If the state cannot be read.
        TermsRefused: If what was accepted before is no longer admitted.
    """

    def __init__(self, terms: Terms, store: StateStore) -> None:
        state = store.load()
        terms.restore(
            state.campaigns,
            state.keyset,
            consent=state.consent,
            keyset_seen_s=state.keyset_seen_s,
        )
        self.terms = terms
        self._store = store
        self._covers = dict(state.covers)

    @property
    def covers(self) -> Mapping[int, Cover]:
        """Cover reports by round."""
        return MappingProxyType(self._covers)

    def offer_versions(self, data: bytes, join: Callable[[Campaign], None]) -> Iterator[Campaign]:
        """Accept one published version of the campaign after the other, each for its own rounds.

        A refused version does not undo those before it, and those after it are judged by
        themselves; in its own rounds the device has no part.

        Args:
            data: What the shuffler published.
            join: As in `offer_campaign`.

        Yields:
            Each version that is new and was accepted and saved.

        Raises:
            TermsRefused: If the document is not admitted; and, in the end, for the first version
                that is not.
            StateUnusable: If a version cannot be saved; then it is not accepted.
        """
        refusal: TermsRefused | None = None
        for version in self.terms.new_versions(data):
            try:
                accepted = self.offer_campaign(version, join)
            except TermsRefused as error:
                self.terms.pass_over(version)
                refusal = refusal or error
                continue
            if accepted is not None:
                yield accepted
        if refusal is not None:
            raise refusal

    def offer_campaign(self, data: bytes, join: Callable[[Campaign], None]) -> Campaign | None:
        """Accept a campaign, join it and save it.

        Args:
            data: What the shuffler published.
            join: Has the ledger keep the campaign's limits; called before anything is saved.

        Returns:
            The campaign if it is a new version, else None.

        Raises:
            TermsRefused: If it is not admitted.
            StateUnusable: If it cannot be saved; then it is not accepted.
        """
        with self._all_or_nothing():
            offered = self.terms.offer_campaign(data)
            if offered is None:
                return None
            join(offered.campaign)
            self._save(self._covers)
        return offered.campaign

    def offer_keyset(self, data: bytes, *, now_s: float) -> Keyset | None:
        """Accept a keyset and save it; note when the one that is held was last the one to go by.

        Args:
            data: What the shuffler published.
            now_s: The time.

        Returns:
            The keyset if it is a new version, else None.

        Raises:
            TermsRefused: If it is not admitted.
            StateUnusable: If it cannot be saved; then it is not accepted.
        """
        try:
            with self._all_or_nothing():
                offered = self.terms.offer_keyset(data, now_s=now_s)
                self._save(self._covers)
        except TermsRefused as error:
            # Refused today, it must not be taken later for news of a time the device slept through.
            if error.reason in _KEY_REASONS:
                self.keep_keyset(now_s=now_s)
            raise
        return None if offered is None else offered.keyset

    def keep_keyset(self, *, now_s: float) -> None:
        """Note that the keyset that is held is the one to go by at a time.

        Raises:
            StateUnusable: If that cannot be saved.
        """
        if self.terms.accepted_terms[1] is not None:
            self.terms.keyset_seen_s = now_s
            self._save(self._covers)

    def keep_cover(self, round: int, cover: Cover) -> None:
        """Save a cover report; of too many, the first one kept is forgotten.

        Raises:
            StateUnusable: If it cannot be saved; then it must not be sent.
        """
        covers = {**self._covers, round: cover}
        while len(covers) > _MOST_COVERS:
            del covers[next(iter(covers))]
        self._save(covers)

    def drop_covers(self, before: int) -> None:
        """Forget the cover reports of earlier rounds.

        Raises:
            StateUnusable: If that cannot be saved.
        """
        left = {round: cover for round, cover in self._covers.items() if round >= before}
        if left != self._covers:
            self._save(left)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        before, consent = self.terms.accepted_terms, self.terms.consent
        seen_s = self.terms.keyset_seen_s
        try:
            yield
        except BaseException:
            # A version that is not remembered could be taken back behind the device's back.
            self.terms.accepted_terms, self.terms.consent = before, consent
            self.terms.keyset_seen_s = seen_s
            raise

    def _save(self, covers: dict[int, Cover]) -> None:
        campaigns, keyset = self.terms.accepted_terms
        self._store.save(
            DeviceState(
                campaigns=tuple(signed.to_bytes() for signed in campaigns),
                keyset=None if keyset is None else keyset.to_bytes(),
                covers=covers,
                consent=self.terms.consent,
                keyset_seen_s=self.terms.keyset_seen_s,
            )
        )
        self._covers = covers
