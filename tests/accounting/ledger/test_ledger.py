"""The ledger's face: spend once, refuse clearly, give nothing back."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cases import each_case
from tests.spending import spend

from rase.accounting.ledger import (
    CampaignLimits,
    Entry,
    Ledger,
    LedgerUnusable,
    OwnerLimits,
    create_ledger,
)
from rase.errors import BudgetSpent, PrivacyRefused

OWNER = OwnerLimits(report_epsilon=1, span_epsilon=5, total_epsilon=100)
POWER = CampaignLimits("power", 3600, window=3, window_epsilon=1.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An empty ledger that has joined one campaign."""
    path = tmp_path / "ledger.db"
    create_ledger(path)
    with Ledger(path, OWNER) as ledger:
        ledger.join(POWER)
    return path


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    """The same ledger, open."""
    with Ledger(path, OWNER) as ledger:
        yield ledger


def report(ledger: Ledger, round: int, *, epsilon: float, campaign: str = "power") -> bytes:
    """Spend on a report that says its round."""
    name = f"report of {campaign} in {round}".encode()
    return spend(ledger, campaign, round, epsilon=epsilon, draw=name).stored_report.envelope


def test_importing_the_ledger_loads_no_numpy() -> None:
    """The device agent can afford it."""
    code = "import sys; from rase.accounting import ledger, schedule; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_round_is_paid_and_drawn_once(ledger: Ledger) -> None:
    """A second request for a round returns the stored bytes, whatever it asks for."""
    first = spend(ledger, "power", 7, epsilon=0.6, seal=lambda report: b"sealed " + report)
    assert (first.stored_report.report, first.stored_report.envelope) == (b"noisy", b"sealed noisy")
    assert first.found is None

    def forbidden() -> bytes:
        raise AssertionError("noise must not be drawn twice")

    again = spend(ledger, "power", 7, epsilon=0.9, draw=forbidden)
    assert again.found == again.stored_report == first.stored_report
    assert again.stored_report.epsilon == 0.6
    assert ledger.status(7 * 3600).total_spent == 0.6


def test_a_window_refuses_with_spent_asked_limit_and_refresh(ledger: Ledger) -> None:
    """The refusal says all a user needs, in words and as attributes."""
    report(ledger, 7, epsilon=0.6)
    report(ledger, 8, epsilon=0.3)
    with pytest.raises(BudgetSpent) as caught:
        report(ledger, 9, epsilon=0.5)
    refusal = caught.value
    assert (refusal.spent, refusal.asked, refusal.limit) == (0.9, 0.5, 1.0)
    assert (refusal.refresh_round, refusal.refresh_s) == (10, 36000)
    assert refusal.exit_code == 5
    assert str(refusal) == (
        "the window of 3 rounds of campaign 'power' allows epsilon 1: spent 0.9, asked 0.5; "
        "refreshes in round 10, 1970-01-01 10:00:00 UTC."
    )
    assert report(ledger, 10, epsilon=0.5)


def test_sums_do_not_drift(path: Path) -> None:
    """Ten tenths make exactly one, and not a billionth more."""
    limits = CampaignLimits("tenths", 60, window=20, window_epsilon=1.0)
    with Ledger(path, OWNER) as ledger:
        ledger.join(limits)
        for round in range(10):
            report(ledger, round, epsilon=0.1, campaign="tenths")
        with pytest.raises(BudgetSpent, match=r"spent 1, asked 1e-09"):
            report(ledger, 11, epsilon=1e-12, campaign="tenths")


def test_a_clock_that_goes_back_opens_no_budget(ledger: Ledger) -> None:
    """Later rounds that have spent count in the windows of earlier ones."""
    report(ledger, 9, epsilon=0.8)
    with pytest.raises(BudgetSpent) as caught:
        report(ledger, 7, epsilon=0.5)
    assert caught.value.refresh_round == 12
    assert report(ledger, 6, epsilon=0.5)
    assert ledger.remaining("power", 7) == 0.2
    assert ledger.remaining("power", 8) == 0.2
    assert ledger.remaining("power", 3) == 1.0


def test_a_clock_that_leaps_ahead_costs_only_what_it_spent(ledger: Ledger) -> None:
    """A report in the far future leaves today's windows alone but stays in the total."""
    report(ledger, 7, epsilon=0.5)
    report(ledger, 1_000_000, epsilon=1.0)
    assert ledger.remaining("power", 8) == 0.5
    assert ledger.status(8 * 3600).total_spent == 1.5


def test_the_owner_bounds_one_report(ledger: Ledger) -> None:
    """No report may spend more than the owner allows to one, ever."""
    with pytest.raises(BudgetSpent, match=r"limit for one report allows epsilon 1: .* not refresh"):
        report(ledger, 7, epsilon=1.5)


def test_the_owner_bounds_a_span_over_all_campaigns(path: Path) -> None:
    """Campaigns with rounds of any length share the owner's day."""
    owner = OwnerLimits(report_epsilon=1, span_epsilon=1.5, total_epsilon=100)
    with Ledger(path, owner) as ledger:
        ledger.join(CampaignLimits("heat", 7200, window=1, window_epsilon=1.0))
        report(ledger, 10, epsilon=0.9)
        report(ledger, 6, epsilon=0.6, campaign="heat")
        with pytest.raises(BudgetSpent, match="owner's limit for 86400 s") as caught:
            report(ledger, 13, epsilon=0.5)
        assert caught.value.spent == 1.5
        # The first report leaves the span a day after its round began, at hour 34.
        assert caught.value.refresh_round == 34
        assert report(ledger, 34, epsilon=0.5)


def test_the_refresh_waits_for_window_and_span(path: Path) -> None:
    """Where both limits block, the round named is the first that both allow."""
    owner = OwnerLimits(report_epsilon=1, span_epsilon=1.0, total_epsilon=100, span_s=5 * 3600)
    with Ledger(path, owner) as ledger:
        report(ledger, 10, epsilon=0.7)
        with pytest.raises(BudgetSpent, match="window") as caught:
            report(ledger, 11, epsilon=0.5)
        assert caught.value.refresh_round == 15
    narrow = OwnerLimits(report_epsilon=1, span_epsilon=0.4, total_epsilon=100)
    with Ledger(path, narrow) as ledger:
        with pytest.raises(BudgetSpent, match="window") as caught:
            report(ledger, 11, epsilon=0.5)
        assert caught.value.refresh_round is None


def test_totals_never_refresh(path: Path) -> None:
    """A spent total refuses for ever, the campaign's and the owner's."""
    owner = OwnerLimits(report_epsilon=1, span_epsilon=5, total_epsilon=2)
    with Ledger(path, owner) as ledger:
        ledger.join(CampaignLimits("few", 3600, window=1, window_epsilon=1, total_epsilon=1.2))
        report(ledger, 0, epsilon=1, campaign="few")
        assert ledger.remaining("few", 500) == 0.2
        with pytest.raises(BudgetSpent, match="total of campaign 'few'") as caught:
            report(ledger, 500, epsilon=1, campaign="few")
        assert (caught.value.refresh_round, caught.value.refresh_s) == (None, None)
        report(ledger, 0, epsilon=1)
        with pytest.raises(BudgetSpent, match="owner's total allows epsilon 2: spent 2"):
            report(ledger, 500, epsilon=1)


@pytest.mark.parametrize("stage", ["draw", "seal"])
def test_a_report_that_cannot_be_made_costs_nothing(ledger: Ledger, stage: str) -> None:
    """If drawing or sealing raises, nothing is spent and nothing stored."""

    def fail(report: bytes = b"") -> bytes:
        raise OSError("no entropy today")

    with pytest.raises(OSError, match="no entropy"):
        spend(
            ledger,
            "power",
            7,
            epsilon=1,
            draw=fail if stage == "draw" else lambda: b"",
            seal=fail,
        )
    assert ledger.remaining("power", 7) == 1.0
    assert ledger.unsent() == []
    made = spend(ledger, "power", 7, epsilon=1, draw=b"fresh")
    assert made.stored_report.report == b"fresh"


def test_a_refused_report_is_never_drawn(ledger: Ledger) -> None:
    """Noise is drawn only after every limit was checked."""
    report(ledger, 7, epsilon=1)
    drawn: list[bytes] = []

    def draw() -> bytes:
        drawn.append(b"noise")
        return drawn[-1]

    with pytest.raises(BudgetSpent):
        spend(ledger, "power", 8, epsilon=1, draw=draw)
    assert drawn == []
    assert [stored.round for stored in ledger.unsent()] == [7]


def test_a_reading_that_stays_the_same_spends_in_every_round(ledger: Ledger) -> None:
    """No report is free: the window promises a bound for streams that differ in any way."""
    spend(ledger, "power", 0, epsilon=0.6, draw=b"place 12")
    with pytest.raises(BudgetSpent):
        spend(ledger, "power", 1, epsilon=0.6, draw=b"place 12")


def test_reports_that_an_earlier_version_repeated_count_in_full(ledger: Ledger, path: Path) -> None:
    """A file may hold reports that were given again for nothing: no budget comes from them."""
    spend(ledger, "power", 0, epsilon=0.4, draw=b"place 12")
    ledger.close()
    with sqlite3.connect(path) as file:
        file.execute("INSERT INTO memo VALUES ('power', X'12', 400000000, X'34')")
        file.execute(
            "INSERT INTO entry (campaign, round, start_s, charged, spent, tag, report, envelope) "
            "VALUES ('power', 1, 3600, 400000000, 0, X'12', X'34', X'34')"
        )
        file.execute("UPDATE state SET reports = reports + 1, charged = charged + 400000000")
    file.close()
    with Ledger(path, OWNER) as opened:
        status = opened.status(3600)
        assert (status.reports, status.total_spent, status.span_spent) == (2, 0.8, 0.8)
        assert (status.campaigns[0].window_spent, status.campaigns[0].total_spent) == (0.8, 0.8)
        with pytest.raises(BudgetSpent):
            spend(opened, "power", 2, epsilon=0.4, draw=b"place 12")


def test_resealing_keeps_the_report(ledger: Ledger) -> None:
    """New keys get the same noisy value in a new envelope, which is then what a retry sends."""
    spend(ledger, "power", 7, epsilon=1, seal=lambda report: b"old " + report)
    ledger.mark_sent("power", 7)
    assert ledger.unsent() == []
    new = ledger.reseal("power", 7, envelope=b"new noisy")
    assert (new.report, new.envelope, new.epsilon) == (b"noisy", b"new noisy", 1.0)
    assert ledger.unsent() == [new]
    assert report(ledger, 7, epsilon=1) == b"new noisy"
    assert ledger.status(0).total_spent == 1.0
    with pytest.raises(PrivacyRefused, match="round 8 of campaign 'power' has no report"):
        ledger.reseal("power", 8, envelope=b"new")
    assert ledger.stored_report("power", 7) == new
    with pytest.raises(PrivacyRefused, match="round 8 of campaign 'power' has no report"):
        ledger.stored_report("power", 8)


def test_stored_reports_show_no_value(ledger: Ledger) -> None:
    """Neither report nor envelope enters a repr."""
    made = spend(ledger, "power", 7, epsilon=1, seal=lambda _: b"sealed").stored_report
    assert "noisy" not in repr(made)
    assert "sealed" not in repr(made)


def test_a_campaign_must_be_joined(ledger: Ledger) -> None:
    """Unknown campaigns get nothing."""
    with pytest.raises(PrivacyRefused, match="'gas' must be joined"):
        report(ledger, 7, epsilon=1, campaign="gas")
    with pytest.raises(PrivacyRefused, match="'gas' must be joined"):
        ledger.remaining("gas", 7)


@pytest.mark.parametrize(
    "looser",
    [
        CampaignLimits("power", 3600, window=2, window_epsilon=1.0, total_epsilon=8),
        CampaignLimits("power", 3600, window=3, window_epsilon=1.1, total_epsilon=8),
        CampaignLimits("power", 3600, window=3, window_epsilon=1.0, total_epsilon=9),
        CampaignLimits("power", 3600, window=3, window_epsilon=1.0),
    ],
)
def test_limits_are_loosened_only_on_request(ledger: Ledger, looser: CampaignLimits) -> None:
    """Tighter limits are taken over, looser ones only if the caller says so."""
    ledger.join(CampaignLimits("power", 3600, window=3, window_epsilon=1.0, total_epsilon=8))
    with pytest.raises(PrivacyRefused, match="looser limits"):
        ledger.join(looser)
    ledger.join(looser, loosen=True)
    assert ledger.status(0).campaigns[0].limits == looser


def test_a_round_keeps_its_length(ledger: Ledger) -> None:
    """Rounds of another length are another campaign."""
    with pytest.raises(PrivacyRefused, match="must stay 3600, got 60"):
        ledger.join(CampaignLimits("power", 60, window=3, window_epsilon=1.0), loosen=True)


@each_case("epsilon", [0, -1, float("nan"), float("inf"), 1e7])
def test_epsilons_that_are_none_are_refused(ledger: Ledger, epsilon: float) -> None:
    """Only a positive number can be spent."""
    with pytest.raises(ValueError, match="epsilon must be greater than 0 and at most 1000000"):
        report(ledger, 7, epsilon=epsilon)


@each_case("round", [-1, 10**9])
def test_rounds_no_clock_shows_are_refused(ledger: Ledger, round: int) -> None:
    """Rounds before 1970 or after the year 8307 are mistakes."""
    with pytest.raises(ValueError, match="round must be between 0 and 55555555, got"):
        report(ledger, round, epsilon=1)
    with pytest.raises(ValueError, match="round must be between"):
        ledger.remaining("power", round)


def test_the_ledger_cannot_be_used_from_inside_itself(ledger: Ledger) -> None:
    """A report cannot be paid for while another is being made."""
    with pytest.raises(RuntimeError, match="must end one transaction before"):
        spend(ledger, "power", 7, epsilon=0.1, draw=lambda: report(ledger, 8, epsilon=0.1))
    assert ledger.history() == []


def test_a_report_is_kept_once(ledger: Ledger) -> None:
    """A transaction takes one report, a round that has one takes none, an ended one neither."""
    with ledger.report("power", 7, epsilon=0.1) as made:
        made.keep(b"first", envelope=b"first")
        with pytest.raises(RuntimeError, match="round 7 must be reported once"):
            made.keep(b"second", envelope=b"second")
    with pytest.raises(RuntimeError, match="round 7 must be reported once"):
        made.keep(b"late", envelope=b"late")
    with (
        pytest.raises(RuntimeError, match="round 7 must be reported once"),
        ledger.report("power", 7, epsilon=0.1) as again,
    ):
        again.keep(b"second", envelope=b"second")
    assert ledger.stored_report("power", 7) == made.stored_report
    assert made.stored_report.report == b"first"


def test_nothing_can_be_sent_before_it_is_stored(ledger: Ledger) -> None:
    """A report is handed out after its transaction, and only if there is one."""
    with ledger.report("power", 7, epsilon=0.1) as spending:
        spending.keep(b"noisy", envelope=b"sealed")
        with pytest.raises(RuntimeError, match="must be stored before it is sent"):
            _ = spending.stored_report
    assert spending.stored_report.envelope == b"sealed"
    with ledger.report("power", 8, epsilon=0.1) as empty:
        pass
    with pytest.raises(RuntimeError, match="must be stored before it is sent"):
        _ = empty.stored_report
    assert [entry.round for entry in ledger.history()] == [7]


def test_closed_rounds_are_erased_and_stay_closed(ledger: Ledger) -> None:
    """Nothing is handed out or made for a closed round; its epsilon stays spent."""
    for round in (0, 1, 30, 40):
        report(ledger, round, epsilon=0.5)
    assert ledger.close_rounds(31 * 3600) == 2
    assert ledger.close_rounds(5) == 0
    assert [entry.round for entry in ledger.history()] == [40, 30]
    assert [stored.round for stored in ledger.unsent()] == [40]
    assert ledger.remaining("power", 29) == 0.0
    for round in (0, 2, 30):
        with pytest.raises(PrivacyRefused, match=r"is closed: .* before 31"):
            report(ledger, round, epsilon=0.1)
    with pytest.raises(PrivacyRefused, match="has no report"):
        ledger.reseal("power", 30, envelope=b"new")
    # Round 30 is closed but still counts in the windows of round 31.
    assert ledger.remaining("power", 31) == 0.5
    status = ledger.status(31 * 3600)
    assert (status.total_spent, status.reports) == (2.0, 4)
    assert (status.campaigns[0].total_spent, status.campaigns[0].reports) == (2.0, 4)


def test_a_longer_window_never_reaches_what_was_pruned(path: Path) -> None:
    """Where a longer window or span would need pruned entries, the rounds count as closed."""
    owner = OwnerLimits(report_epsilon=1, span_epsilon=5, total_epsilon=100, span_s=1)
    with Ledger(path, owner) as ledger:
        report(ledger, 10, epsilon=0.5)
        assert ledger.close_rounds(12 * 3600) == 0
        assert ledger.remaining("power", 12) == 0.5
        assert ledger.close_rounds(13 * 3600) == 1
        assert ledger.remaining("power", 13) == 1.0
        ledger.join(CampaignLimits("power", 3600, window=10, window_epsilon=1.0))
        assert ledger.remaining("power", 19) == 0.0
        assert ledger.remaining("power", 20) == 1.0
    with Ledger(path, OWNER) as ledger:
        assert ledger.remaining("power", 33) == 0.0
        assert ledger.remaining("power", 34) == 1.0


def test_history_is_newest_first_and_without_values(ledger: Ledger) -> None:
    """Entries are listed in the order they were made."""
    report(ledger, 7, epsilon=0.5)
    report(ledger, 3, epsilon=0.25)
    assert ledger.history() == [Entry("power", 3, 0.25), Entry("power", 7, 0.5)]
    assert ledger.history(1) == [Entry("power", 3, 0.25)]


def test_status_says_spent_left_and_next_refresh(path: Path) -> None:
    """The owner sees windows, spans and totals, and when more is left."""
    with Ledger(path, OWNER) as ledger:
        ledger.join(CampaignLimits("heat", 7200, window=4, window_epsilon=2.0, total_epsilon=0.75))
        empty = ledger.status(0)
        assert (empty.refresh_s, empty.span_left, empty.total_left) == (None, 5.0, 100.0)
        assert [(each.refresh_round, each.refresh_s) for each in empty.campaigns] == [
            (None, None),
            (None, None),
        ]
        report(ledger, 7, epsilon=0.5)
        report(ledger, 8, epsilon=0.25)
        report(ledger, 4, epsilon=0.5, campaign="heat")
        status = ledger.status(8 * 3600 + 5)
    heat, power = status.campaigns
    assert (heat.limits.campaign, heat.round, heat.refresh_round) == ("heat", 4, 8)
    assert (heat.window_spent, heat.window_left, heat.total_spent) == (0.5, 0.25, 0.5)
    assert (power.window_spent, power.window_left, power.reports) == (0.75, 0.25, 2)
    assert (power.refresh_round, power.refresh_s) == (10, 36000)
    assert (status.span_spent, status.span_left) == (1.25, 3.75)
    assert (status.total_spent, status.total_left) == (1.25, 98.75)
    assert status.refresh_s == 7 * 3600 + 86_400


def test_lowered_limits_leave_nothing_rather_than_less(path: Path) -> None:
    """Where more was spent than a new limit allows, nothing is left, not a negative amount."""
    with Ledger(path, OWNER) as ledger:
        report(ledger, 7, epsilon=1)
    owner = OwnerLimits(report_epsilon=1, span_epsilon=0.5, total_epsilon=0.5)
    with Ledger(path, owner) as ledger:
        status = ledger.status(7 * 3600)
        assert (status.span_left, status.total_left) == (0.0, 0.0)
        assert ledger.remaining("power", 100) == 0.0


def test_unusable_is_a_privacy_refusal() -> None:
    """Whoever handles refusals handles a broken ledger too."""
    assert issubclass(LedgerUnusable, PrivacyRefused)
    assert issubclass(BudgetSpent, PrivacyRefused)
