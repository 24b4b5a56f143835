"""The device's privacy ledger: spends budget together with the report it pays for, or refuses.

One transaction checks every limit, has the report made, and stores both; only then may it be sent.
Whatever happens in between, budget is spent once, noise is drawn once, and a retry repeats the same
bytes. Rounds come from the device's clock, which may jump: entries stand by round number, and a
window is checked on both sides, so going back never opens budget again.

Pure Python without NumPy, because the device agent imports it.

The owner of a device sees what was spent, what is left and when it refreshes; never a value.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from rase.accounting.ledger.claims import most_given
from rase.accounting.ledger.file import LedgerFile, LedgerUnusable, create_ledger
from rase.accounting.ledger.limits import (
    Book,
    CampaignLimits,
    Cost,
    OwnerLimits,
    checked_round,
    digest_of,
)
from rase.accounting.ledger.nano import nano_from_spending, nano_to_epsilon
from rase.accounting.ledger.tokens import StoredWindow, TokenStock
from rase.accounting.ledger.window import first_free, fullest
from rase.errors import PrivacyRefused
from rase.promise import Claim

__all__ = [
    "CampaignLimits",
    "CampaignStatus",
    "Entry",
    "Ledger",
    "LedgerStatus",
    "LedgerUnusable",
    "OwnerLimits",
    "Spending",
    "StoredReport",
    "create_ledger",
    "status_of",
]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger's history.

    Args:
        campaign: Whose report it was.
        round: The round it belongs to.
        epsilon: What it counts in its window.
    """

    campaign: str
    round: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """How one campaign stands in its present round.

    Args:
        limits: The campaign's limits.
        round: The present round.
        reports: How many reports were made.
        window_spent: The most that any window containing the round has spent.
        window_left: What the campaign's window and total still allow in this round.
        total_spent: What all reports of the campaign spent.
        refresh_round: The first round with more left in its windows; None if nothing is spent.
        refresh_s: The second at which it begins.
    """

    limits: CampaignLimits
    round: int
    reports: int
    window_spent: float
    window_left: float
    total_spent: float
    refresh_round: int | None
    refresh_s: int | None


@dataclass(frozen=True, slots=True)
class LedgerStatus:
    """How the whole ledger stands.

    Args:
        time_s: The present second.
        owner: The owner's limits.
        reports: How many reports were made.
        span_spent: The most that any span containing the second has spent.
        span_left: What the owner's span still allows.
        total_spent: What all reports spent.
        total_left: What the owner's total still allows.
        refresh_s: The first second with more left in its spans; None if nothing is spent.
        campaigns: The campaigns, by name.
        span_given: The most that the reports of any span containing the second give away to the
            fusion centre, by the claims they were made under.
    """

    time_s: int
    owner: OwnerLimits
    reports: int
    span_spent: float
    span_left: float
    total_spent: float
    total_left: float
    refresh_s: int | None
    campaigns: tuple[CampaignStatus, ...]
    span_given: float = 0.0


def status_of(book: Book, time_s: int) -> LedgerStatus:
    """Return how the books stand at a second since 1970."""
    owner = book.owner
    charges = book.span_charges(time_s)
    in_span = fullest(charges, time_s, length=owner.span_s)
    reports, spent = book.total()
    return LedgerStatus(
        time_s,
        owner,
        reports=reports,
        span_spent=nano_to_epsilon(in_span),
        span_left=nano_to_epsilon(max(owner.span_nano - in_span, 0)),
        total_spent=nano_to_epsilon(spent),
        total_left=nano_to_epsilon(max(owner.total_nano - spent, 0)),
        # More is left where every span holds less than the fullest one does now.
        refresh_s=(
            first_free(charges, time_s, length=owner.span_s, room=in_span - 1) if in_span else None
        ),
        campaigns=tuple(_campaign_status(book, limits, time_s) for limits in book.campaigns()),
        span_given=nano_to_epsilon(
            most_given(
                book.reports_given(time_s), time_s, length=owner.span_s, tables=book.claim_tables()
            )
        ),
    )


def _campaign_status(book: Book, limits: CampaignLimits, time_s: int) -> CampaignStatus:
    round = time_s // limits.round_s
    charges = book.window_charges(limits, round)
    in_window = fullest(charges, round, length=limits.window)
    reports, spent = book.campaign_total(limits.campaign)
    left = limits.window_nano - in_window
    if limits.total_nano is not None:
        left = min(left, limits.total_nano - spent)
    refresh = (
        first_free(charges, round, length=limits.window, room=in_window - 1) if in_window else None
    )
    return CampaignStatus(
        limits,
        round,
        reports=reports,
        window_spent=nano_to_epsilon(in_window),
        window_left=nano_to_epsilon(max(left, 0)),
        total_spent=nano_to_epsilon(spent),
        refresh_round=refresh,
        refresh_s=None if refresh is None else limits.start_s(refresh),
    )


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report that was paid for and stored, ready to be sent any number of times.

    Args:
        campaign: Whose report it is.
        round: The round it belongs to.
        epsilon: What it was charged with.
        report: The noisy reading as it was drawn.
        envelope: What is sent: the report, sealed.
    """

    campaign: str
    round: int
    epsilon: float
    report: bytes = field(repr=False)
    envelope: bytes = field(repr=False)


class Spending:
    """One report while it is made, inside the transaction that pays for it.

    Draw and seal only if `found` is None, and hand both to `keep`. Send only `stored_report`, which
    there is once the transaction has ended.

    Args:
        campaign: Whose report it is.
        round: The round it belongs to.
        epsilon: What it is charged with.
        found: The report that the round has already, paid for earlier.
        stock: The registrar's tokens.
    """

    def __init__(
        self,
        campaign: str,
        round: int,
        epsilon: float,
        *,
        found: StoredReport | None,
        stock: TokenStock | None = None,
    ) -> None:
        self._campaign = campaign
        self._round = round
        self._epsilon = epsilon
        self.found = found
        self.made: StoredReport | None = None
        self.is_committed = False
        self._stock = stock

    def take_token(self, round: int) -> bytes | None:
        """Return a token of a round's window, gone from the ledger if the block ends well.

        Args:
            round: The round that the report names.
        """
        return None if self._stock is None else self._stock.take(self._campaign, round)

    def keep(self, report: bytes, *, envelope: bytes) -> None:
        """Give the report that is to be stored when the block ends.

        Args:
            report: The noisy reading as it was drawn.
            envelope: What is sent: the report, sealed.

        Raises:
            RuntimeError: If the round has a report already, or the transaction has ended.
        """
        if self.found is not None or self.made is not None or self.is_committed:
            raise RuntimeError(f"round {self._round} must be reported once, got a second report.")
        self.made = StoredReport(
            self._campaign,
            self._round,
            self._epsilon,
            report=bytes(report),
            envelope=bytes(envelope),
        )

    @property
    def stored_report(self) -> StoredReport:
        """The report as it is on the disk.

        Raises:
            RuntimeError: If the transaction has not ended, or nothing was kept.
        """
        stored = self.found or self.made
        if stored is None or not self.is_committed:
            raise RuntimeError("a report must be stored before it is sent, got none that is.")
        return stored


class Ledger:
    """Keep the privacy budget of one device, durably.

    Guarantee: for every campaign, any ``window`` consecutive rounds spend at most its window budget
    (w-event privacy), and all campaigns together keep the owner's limits per report, span and in
    total, on what reports spend and on what they give away to the fusion centre. Assumes that every
    report passes through `report`, and that the file is neither deleted nor replaced by an older
    copy. Tested with crashes, kills, two processes and clock jumps in
    tests/accounting/ledger/test_model.py and test_kill.py.

    Sums are exact: epsilon is kept in whole billionths, rounded up for spending and down for
    limits. Nothing gives budget back, and a limit is loosened only by asking for it.

    Args:
        path: A file made by `create_ledger`.
        owner: The limits of the device's owner.
        busy_s: How long to wait for another process that writes.

    Raises:
        LedgerUnusable: If the file is missing, damaged or of another version.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "ledger.db"
        >>> create_ledger(path)
        >>> owner = OwnerLimits(report_epsilon=1, span_epsilon=2, total_epsilon=100)
        >>> with Ledger(path, owner) as ledger:
        ...     ledger.join(CampaignLimits("power", 3600, window=24, window_epsilon=1.0))
        ...     with ledger.report("power", 7, epsilon=0.6) as spending:
        ...         spending.keep(b"noisy", envelope=b"sealed")
        ...     with ledger.report("power", 7, epsilon=0.6) as again:
        ...         assert again.found == spending.stored_report
        ...     (again.stored_report.envelope, ledger.remaining("power", 8))
        (b'sealed', 0.4)
    """

    def __init__(self, path: Path, owner: OwnerLimits, *, busy_s: float = 30.0) -> None:
        self._file = LedgerFile(path, busy_s=busy_s)
        self._book = Book(self._file, owner)
        self._stock = TokenStock(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def join(self, limits: CampaignLimits, *, loosen: bool = False) -> None:
        """Take part in a campaign, or take over the limits of its new version.

        Args:
            limits: The campaign's limits.
            loosen: Whether limits may allow more than those stored. Set it only for a new version
                of the campaign that the owner's rules admit.

        Raises:
            PrivacyRefused: If the limits are looser than the stored ones and ``loosen`` is not
                set, or the rounds have another length: numbers would then mean other times.
        """
        with self._file.writing():
            stored = self._book.campaign(limits.campaign)
            if stored is not None and limits.round_s != stored.round_s:
                raise PrivacyRefused(
                    f"round_s of campaign {limits.campaign!r} must stay {stored.round_s}, got "
                    f"{limits.round_s}. Rounds of another length need another campaign."
                )
            if stored is not None and limits.is_looser_than(stored) and not loosen:
                raise PrivacyRefused(
                    f"campaign {limits.campaign!r} asks for looser limits than it was joined "
                    f"with: {limits}, joined with {stored}."
                )
            total = None if limits.total_epsilon is None else float(limits.total_epsilon)
            values = (
                limits.campaign,
                limits.round_s,
                limits.window,
                float(limits.window_epsilon),
                total,
            )
            self._file.rows(
                "INSERT INTO campaign (name, round_s, window, window_epsilon, total_epsilon, "
                "digest) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                "window = excluded.window, window_epsilon = excluded.window_epsilon, "
                "total_epsilon = excluded.total_epsilon, digest = excluded.digest",
                *values,
                digest_of(*values),
            )

    @contextmanager
    def report(
        self, campaign: str, round: int, *, epsilon: float, claims: tuple[Claim, ...] = ()
    ) -> Iterator[Spending]:
        """Open the transaction that pays for the report of a round.

        All limits are checked before the block begins. The block draws and seals the report and
        gives it to `Spending.keep`; at its end the report is stored and paid for, durably. If the
        block raises, or keeps nothing, nothing is spent and nothing stored.

        Args:
            campaign: A campaign that was joined.
            round: The round by the device's clock.
            epsilon: The budget of the report.
            claims: What 1, 2, … reports like it give away to the fusion centre, as both servers
                signed it; empty if nothing is promised there.

        Yields:
            The transaction; `Spending.found` is the report that the round has already.

        Raises:
            BudgetSpent: If a limit would be exceeded.
            PrivacyRefused: If the campaign was not joined or the round is closed.
            LedgerUnusable: If the file cannot be read or written.
            ValueError: If ``epsilon`` or ``round`` is out of bounds.
        """
        charged = nano_from_spending("epsilon", epsilon)
        with self._file.writing():
            limits = self._joined_limits(campaign)
            start_s = limits.start_s(checked_round(round, limits))
            found = self._stored_report(campaign, round)
            if found is None:
                self._book.check(limits, Cost(round, charged, claims))
            spending = Spending(
                campaign, round, nano_to_epsilon(charged), found=found, stock=self._stock
            )
            yield spending
            made = spending.made
            if made is not None:
                number = self._book.number_of(claims)
                self._file.rows(
                    "INSERT INTO entry (campaign, round, start_s, charged, spent, claims, report, "
                    "envelope) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    *(campaign, round, start_s, charged, charged, number),
                    *(made.report, made.envelope),
                )
                self._file.rows(
                    "UPDATE state SET reports = reports + 1, charged = charged + ?, "
                    "spent = spent + ?",
                    charged,
                    charged,
                )
        spending.is_committed = True

    def stored_report(self, campaign: str, round: int) -> StoredReport:
        """Return the report of a round.

        Raises:
            PrivacyRefused: If the round has no report that may still be sent.
        """
        with self._file.reading():
            return self._find_report(campaign, round)

    def reseal(self, campaign: str, round: int, *, envelope: bytes) -> StoredReport:
        """Put the same report into a new envelope, for keys that changed; spends nothing.

        Raises:
            PrivacyRefused: If the round has no report that may still be sent.
        """
        with self._file.writing():
            stored = self._find_report(campaign, round)
            self._file.rows(
                "UPDATE entry SET envelope = ?, is_sent = 0 WHERE campaign = ? AND round = ?",
                envelope,
                campaign,
                round,
            )
        return replace(stored, envelope=envelope)

    def unsent(self) -> list[StoredReport]:
        """Return the stored reports that were not marked as sent, oldest first."""
        with self._file.reading():
            rows = self._file.rows(
                "SELECT campaign, round, charged, report, envelope FROM entry "
                "WHERE is_sent = 0 AND envelope IS NOT NULL ORDER BY id"
            )
        return [_stored_report(*row) for row in rows]

    def mark_sent(self, campaign: str, round: int) -> None:
        """Note that the shuffler acknowledged the report of a round; it stays stored."""
        with self._file.writing():
            self._file.rows(
                "UPDATE entry SET is_sent = 1 WHERE campaign = ? AND round = ?", campaign, round
            )

    def remaining(self, campaign: str, round: int) -> float:
        """Return the largest epsilon that a new report of a round could spend, under all limits.

        Raises:
            PrivacyRefused: If the campaign was not joined.
        """
        with self._file.reading():
            limits = self._joined_limits(campaign)
            checked_round(round, limits)
            if self._file.rows(
                "SELECT 1 FROM entry WHERE campaign = ? AND round = ?", campaign, round
            ):
                return 0.0
            return nano_to_epsilon(self._book.remaining_nano(limits, round))

    def token_windows(self) -> list[StoredWindow]:
        """Return the windows whose tokens were asked for, and what is left of each."""
        return self._stock.windows()

    def begin_tokens(
        self, campaign: str, rounds: tuple[int, int], *, key: bytes, seed: bytes
    ) -> None:
        """Store the seed of a window's tokens, before the registrar is asked for them."""
        self._stock.begin(campaign, rounds, key=key, seed=seed)

    def keep_tokens(self, campaign: str, first_round: int, tokens: list[bytes]) -> None:
        """Store the tokens of a window, and erase their seed."""
        self._stock.keep(campaign, first_round, tokens)

    def drop_tokens(self, campaign: str, before: int) -> None:
        """Erase the tokens of windows that ended before a round."""
        self._stock.drop(campaign, before)

    def status(self, time_s: int) -> LedgerStatus:
        """Return what is spent, what is left and when it refreshes, for the owner.

        Args:
            time_s: The present second since 1970, by the device's clock.
        """
        with self._file.reading():
            return status_of(self._book, time_s)

    def history(self, count: int = 100) -> list[Entry]:
        """Return the latest entries, newest first, without what was reported.

        Entries that were pruned are in the totals of `status` only.
        """
        with self._file.reading():
            rows = self._file.rows(
                "SELECT campaign, round, charged FROM entry ORDER BY id DESC LIMIT ?", count
            )
        return [
            Entry(campaign, round, nano_to_epsilon(charged)) for campaign, round, charged in rows
        ]

    def close_rounds(self, before_s: int) -> int:
        """Close all rounds that begin before a second, for ever, and prune what cannot matter.

        Nothing is reported or handed out for a closed round again; its report is erased. An entry
        is pruned once no open round shares a window or a span with it, and stays in the totals, so
        pruning never changes an answer. Closing cannot be undone: pass a time that the shuffler
        has confirmed as over, never the device's own clock, which may be years ahead.

        Args:
            before_s: The second since 1970; an earlier one than before changes nothing.

        Returns:
            How many entries were pruned.
        """
        pruned = 0
        with self._file.writing():
            self._file.rows("UPDATE state SET closed_before_s = max(closed_before_s, ?)", before_s)
            closed_s = self._file.rows("SELECT closed_before_s FROM state")[0][0]
            self._file.rows(
                "UPDATE entry SET report = NULL, envelope = NULL "
                "WHERE start_s < ? AND report IS NOT NULL",
                closed_s,
            )
            for limits in self._book.campaigns():
                pruned += self._prune(limits, closed_s)
            self._file.rows(
                "DELETE FROM claim_table WHERE id NOT IN "
                "(SELECT claims FROM entry WHERE claims IS NOT NULL)"
            )
        return pruned

    def _prune(self, limits: CampaignLimits, closed_s: int) -> int:
        """Remove the entries of a campaign that no open round can meet; return how many."""
        # The last round that shares no window with the first open one.
        reach = limits.first_round_from(closed_s) - limits.window
        values = (limits.campaign, reach, closed_s - self._book.owner.span_s)
        count, charged, spent, last_round, last_s = self._file.rows(
            "SELECT count(*), sum(charged), sum(spent), max(round), max(start_s) FROM entry "
            "WHERE campaign = ? AND round <= ? AND start_s <= ?",
            *values,
        )[0]
        if count:
            self._file.rows(
                "UPDATE campaign SET pruned_reports = pruned_reports + ?, "
                "pruned_spent = pruned_spent + ?, "
                "pruned_round = max(coalesce(pruned_round, 0), ?) WHERE name = ?",
                *(count, spent, last_round, limits.campaign),
            )
            self._file.rows(
                "UPDATE state SET pruned_charged = pruned_charged + ?, "
                "pruned_start_s = max(coalesce(pruned_start_s, 0), ?)",
                charged,
                last_s,
            )
            self._file.rows(
                "DELETE FROM entry WHERE campaign = ? AND round <= ? AND start_s <= ?", *values
            )
        return int(count)

    def _joined_limits(self, campaign: str) -> CampaignLimits:
        limits = self._book.campaign(campaign)
        if limits is None:
            raise PrivacyRefused(f"campaign {campaign!r} must be joined before it is paid for.")
        return limits

    def _find_report(self, campaign: str, round: int) -> StoredReport:
        stored = self._stored_report(campaign, round)
        if stored is None:
            raise PrivacyRefused(f"round {round} of campaign {campaign!r} has no report.")
        return stored

    def _stored_report(self, campaign: str, round: int) -> StoredReport | None:
        """Return the report of a round if it may still be sent."""
        rows = self._file.rows(
            "SELECT campaign, round, charged, report, envelope FROM entry "
            "WHERE campaign = ? AND round = ? AND envelope IS NOT NULL",
            campaign,
            round,
        )
        return _stored_report(*rows[0]) if rows else None


def _stored_report(
    campaign: str, round: int, charged: int, report: bytes, envelope: bytes
) -> StoredReport:
    return StoredReport(campaign, round, nano_to_epsilon(charged), report=report, envelope=envelope)
