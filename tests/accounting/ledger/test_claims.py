"""What reports give away to the fusion centre: by claims, over spans, and in ledgers of before."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.promising import claims_of
from tests.spending import spend

from rase.accounting.ledger import CampaignLimits, Ledger, LedgerUnusable, OwnerLimits
from rase.accounting.ledger import file as ledger_file
from rase.accounting.ledger.claims import ClaimTables, Given, first_room, most_given
from rase.accounting.ledger.file import create_ledger
from rase.accounting.ledger.limits import digest_of
from rase.errors import BudgetSpent

NANO = 10**9
TABLES = ClaimTables({1: claims_of(0.3, 0.4), 2: claims_of(0.2)}, most_delta=1e-6)
POWER = CampaignLimits("power", 3600, window=1, window_epsilon=1.0)
OWNER = OwnerLimits(
    report_epsilon=1,
    span_epsilon=100,
    total_epsilon=1000,
    shuffled_epsilon=0.35,
    span_shuffled_epsilon=0.4,
)
CLAIMS = claims_of(0.3, 0.4, 0.5)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An open ledger whose owner limits what reports give away."""
    path = tmp_path / "ledger.db"
    create_ledger(path)
    with Ledger(path, OWNER) as ledger:
        ledger.join(POWER)
        yield ledger


@pytest.mark.parametrize(
    ("held", "given"),
    [
        ({}, 0),
        ({None: (3, 3 * NANO)}, 3.0),
        ({1: (1, NANO)}, 0.3),
        ({1: (2, 2 * NANO)}, 0.4),
        # The noise of two reports promises more than the table does.
        ({1: (2, NANO // 5)}, 0.2),
        # More than the table is about.
        ({1: (3, 3 * NANO)}, 3.0),
        ({1: (0, 0), None: (1, NANO)}, 1.0),
        ({1: (1, NANO), None: (1, NANO)}, 1.3),
        # Two tables have twice the delta that is allowed.
        ({1: (1, NANO), 2: (1, NANO)}, 2.0),
    ],
)
def test_what_reports_give_away_together(
    held: dict[int | None, tuple[int, int]], given: float
) -> None:
    """By the row of their number, by their own noise beyond it, and as a sum over tables."""
    assert TABLES.give_away(held) == given * NANO


def test_windows_are_looked_at_on_both_sides() -> None:
    """A clock that went back finds later reports in its windows."""
    made = [Given(100, NANO, 1), Given(140, NANO, 1)]
    assert most_given(made, 120, length=50, tables=TABLES) == 0.4 * NANO
    assert most_given(made, 150, length=30, tables=TABLES) == 0.3 * NANO
    assert most_given([], 150, length=30, tables=TABLES) == 0
    one = Given(120, NANO, 1)
    assert first_room(made, one, length=50, limit=NANO, tables=TABLES) == 150
    assert first_room([], one, length=50, limit=NANO, tables=TABLES) == 120


def test_the_ledger_keeps_to_what_may_be_given_away(ledger: Ledger) -> None:
    """Two reports a day are within the limit by their claims, a third one is not."""
    for round in (0, 1):
        spend(ledger, "power", round, epsilon=1.0, claims=CLAIMS)
    with pytest.raises(BudgetSpent, match=r"86400 s towards the fusion centre allows") as caught:
        spend(ledger, "power", 2, epsilon=1.0, claims=CLAIMS)
    assert (caught.value.spent, caught.value.limit) == (0.4, 0.4)
    assert caught.value.asked == pytest.approx(0.1)
    assert caught.value.refresh_round == 24
    spend(ledger, "power", 24, epsilon=1.0, claims=CLAIMS)
    status = ledger.status(3600)
    assert (status.span_given, status.span_spent) == (0.4, 2.0)


def test_a_report_that_gives_away_too_much_by_itself_is_never_made(ledger: Ledger) -> None:
    """Without a promise its own noise is all there is; a claim above the limit is no better."""
    for claims in ((), claims_of(0.36)):
        with pytest.raises(BudgetSpent, match=r"one report towards the fusion .* not refresh"):
            spend(ledger, "power", 0, epsilon=1.0, claims=claims)
    assert spend(ledger, "power", 0, epsilon=0.2).stored_report.epsilon == 0.2


def test_a_span_that_is_smaller_than_a_report_never_refreshes(tmp_path: Path) -> None:
    """The refusal does not name a round in which nothing would change."""
    path = tmp_path / "ledger.db"
    create_ledger(path)
    owner = OwnerLimits(
        report_epsilon=1, span_epsilon=9, total_epsilon=9, span_shuffled_epsilon=0.2
    )
    with Ledger(path, owner) as ledger:
        ledger.join(POWER)
        with pytest.raises(BudgetSpent, match="this does not refresh"):
            spend(ledger, "power", 0, epsilon=1.0, claims=CLAIMS)


def test_tables_go_with_their_reports(ledger: Ledger) -> None:
    """What no entry was made under is forgotten when rounds are closed."""
    spend(ledger, "power", 0, epsilon=1.0, claims=CLAIMS)
    spend(ledger, "power", 48, epsilon=1.0, claims=claims_of(0.2))
    count = "SELECT count(*) FROM claim_table"
    assert ledger._file.rows(count) == [(2,)]
    ledger.close_rounds(30 * 3600)
    assert ledger._file.rows(count) == [(1,)]


def test_a_changed_table_is_noticed(ledger: Ledger) -> None:
    """Claims that a disk has garbled pay for nothing."""
    spend(ledger, "power", 0, epsilon=1.0, claims=CLAIMS)
    with closing(sqlite3.connect(ledger._file.path)) as connection, connection:
        connection.execute("UPDATE claim_table SET numbers = '[]'")
    with pytest.raises(LedgerUnusable, match="a table of claims changed"):
        spend(ledger, "power", 1, epsilon=1.0, claims=CLAIMS)


def test_a_ledger_of_the_first_version_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets its new columns once, whoever opens it, and has lost nothing."""
    path = tmp_path / "ledger.db"
    trigger = ledger_file._CLAIMS[ledger_file._CLAIMS.index("CREATE TRIGGER") :]
    with monkeypatch.context() as before:
        before.setattr(ledger_file, "_CLAIMS", trigger.replace(", tag, claims", ", tag"))
        before.setattr(ledger_file, "_TOKENS", "")
        before.setattr(ledger_file, "_SCHEMA_VERSION", 1)
        create_ledger(path)
    with closing(sqlite3.connect(path)) as old, old:
        old.execute(
            "INSERT INTO campaign (name, round_s, window, window_epsilon, digest) "
            "VALUES ('power', 3600, 1, 1.0, ?)",
            (digest_of("power", 3600, 1, 1.0, None),),
        )
        old.execute(
            "INSERT INTO entry (campaign, round, start_s, charged, spent, report, envelope) "
            "VALUES ('power', 0, 0, 300000000, 300000000, x'01', x'02')"
        )
        old.execute("UPDATE state SET reports = 1, charged = 300000000, spent = 300000000")
    with Ledger(path, OWNER) as first, Ledger(path, OWNER) as second:
        assert first._file.rows("PRAGMA user_version") == [(3,)]
        assert first.token_windows() == []
        assert second.status(0).total_spent == 0.3
        assert spend(first, "power", 0, epsilon=0.3).found is not None
        with pytest.raises(BudgetSpent, match="towards the fusion centre"):
            spend(second, "power", 1, epsilon=0.3)
        with pytest.raises(LedgerUnusable, match="an entry never changes"):
            second._file.rows("UPDATE entry SET claims = 1")


def test_whoever_comes_second_changes_nothing(
    tmp_path: Path,
) -> None:
    """Two processes that bring one ledger up to date do it once."""
    path = tmp_path / "ledger.db"
    create_ledger(path)
    with Ledger(path, OWNER) as ledger:
        ledger._file._bring_up_to_date()
        assert ledger._file.rows("PRAGMA user_version") == [(3,)]


def test_a_limit_for_one_report_alone_leaves_spans_open(tmp_path: Path) -> None:
    """Each report keeps it by itself, however many there are."""
    path = tmp_path / "ledger.db"
    create_ledger(path)
    owner = OwnerLimits(report_epsilon=1, span_epsilon=9, total_epsilon=9, shuffled_epsilon=0.3)
    with Ledger(path, owner) as ledger:
        ledger.join(POWER)
        for round in range(4):
            spend(ledger, "power", round, epsilon=1.0, claims=CLAIMS)
        assert ledger.status(0).reports == 4
