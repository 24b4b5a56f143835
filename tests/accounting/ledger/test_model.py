"""The ledger against a simple model, through crashes, clock jumps and two handles at once.

The model keeps every entry ever accepted in a dictionary and looks at every window one by one. It
knows nothing of SQLite, sweeps or pruning; so if both always agree, pruning changes no answer.
"""

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.promising import claims_of
from tests.spending import spend

from rase.accounting.ledger import (
    CampaignLimits,
    Ledger,
    OwnerLimits,
    Spending,
    StoredReport,
    create_ledger,
)
from rase.errors import BudgetSpent, PrivacyRefused

OWNER = OwnerLimits(
    report_epsilon=0.9,
    span_epsilon=1.5,
    total_epsilon=8,
    span_s=45,
    shuffled_epsilon=0.55,
    span_shuffled_epsilon=1.1,
    most_delta=1.5e-6,
)
CAMPAIGNS = {
    "fast": CampaignLimits("fast", 10, window=4, window_epsilon=1.0, total_epsilon=4),
    "slow": CampaignLimits("slow", 25, window=2, window_epsilon=0.7),
    "brief": CampaignLimits("brief", 5, window=2, window_epsilon=0.8),
}
TIGHT = {
    "fast": CampaignLimits("fast", 10, window=4, window_epsilon=0.6, total_epsilon=3),
    "slow": CampaignLimits("slow", 25, window=2, window_epsilon=0.4),
    "brief": CampaignLimits("brief", 5, window=2, window_epsilon=0.8, total_epsilon=2),
}
# What reports give away to the fusion centre; of "slow" nothing is promised. Two tables in one span
# have a larger delta than the owner allows, and the first one ends with its second row.
CLAIMS = {"fast": claims_of(0.35, 0.5), "slow": (), "brief": claims_of(0.3, 0.55, 0.8, 1.05)}
# In billionths, as a spending: rounded up.
EPSILONS = {1 / 3: 333_333_334, 0.5: 500_000_000, 0.6: 600_000_000, 1.0: 1_000_000_000}

# Thousands of commits are waited for here; durability has its own tests, on a real disk.
MEMORY = Path("/dev/shm")  # noqa: S108 - each history makes a folder of its own in it

names = st.sampled_from(sorted(CAMPAIGNS))
epsilons = st.sampled_from([1 / 3, 0.5, 0.5, 0.6, 0.6, 1.0])
handles = st.integers(0, 1)


@dataclass(frozen=True)
class Paid:
    """One entry of the model."""

    campaign: str
    round: int
    charged: int
    report: bytes

    @property
    def start_s(self) -> int:
        """The second at which its round begins."""
        return self.round * CAMPAIGNS[self.campaign].round_s


@dataclass
class Model:
    """What was accepted, and a plain answer to whether more may be."""

    paid: dict[tuple[str, int], Paid] = field(default_factory=dict)
    closed_s: int = 0

    def load(self, entries: list[Paid]) -> int:
        """Add up entries that share a window."""
        return sum(each.charged for each in entries)

    def window_loads(self, campaign: str, around: range) -> list[int]:
        """Return the loads of all windows of a campaign that begin in a range."""
        return [
            self.load(
                [
                    each
                    for each in self.paid.values()
                    if each.campaign == campaign
                    and begin <= each.round < begin + CAMPAIGNS[campaign].window
                ]
            )
            for begin in around
        ]

    def span_loads(self, around: range) -> list[int]:
        """Return the loads of the owner's spans that begin in a range of seconds."""
        return [
            self.load([each for each in self.paid.values() if s <= each.start_s < s + OWNER.span_s])
            for s in around
        ]

    def given(self, entries: list[Paid]) -> int:
        """Return what entries give away to the fusion centre, by claims or by their own noise."""
        spent, given, tables = self.load(entries), 0, 0
        for name, claims in CLAIMS.items():
            own = [each for each in entries if each.campaign == name]
            if 0 < len(own) <= len(claims):
                tables += 1
                given += min(self.load(own), round(claims[len(own) - 1].epsilon * 10**9))
            else:
                given += self.load(own)
        return given if tables < 2 else spent

    def given_in_spans(self, around: range) -> list[int]:
        """Return what spans give away that begin in a range of seconds."""
        return [
            self.given(
                [each for each in self.paid.values() if s <= each.start_s < s + OWNER.span_s]
            )
            for s in around
        ]

    def allows(self, asked: Paid, limits: CampaignLimits, *, is_given_counted: bool = True) -> bool:
        """Tell whether every limit would hold with one more entry."""
        if asked.start_s < self.closed_s:
            return False
        # Beside what its round may hold already: a refresh is where there is room for one more.
        more = Model({**self.paid, ("asked", 0): asked})
        spent = [each for each in more.paid.values() if each.campaign == asked.campaign]
        windows = range(asked.round - limits.window + 1, asked.round + 1)
        # Loads change only where a start enters or leaves, all at multiples of 5.
        spans = range(asked.start_s - OWNER.span_s + 5, asked.start_s + 1, 5)
        return (
            asked.charged <= OWNER.report_nano
            and self.load(list(more.paid.values())) <= OWNER.total_nano
            and (limits.total_nano is None or self.load(spent) <= limits.total_nano)
            and max(more.window_loads(asked.campaign, windows)) <= limits.window_nano
            and max(more.span_loads(spans)) <= OWNER.span_nano
            and not (
                is_given_counted
                and (
                    self.given([asked]) > (OWNER.shuffled_nano or 0)
                    or max(more.given_in_spans(spans)) > (OWNER.span_shuffled_nano or 0)
                )
            )
        )


class LedgerMachine(RuleBasedStateMachine):
    """Drive two handles of one ledger and the model side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.path = Path(self.folder.name) / "0" / "ledger.db"
        self.path.parent.mkdir()
        self.lives = 0
        self.ledgers: list[Ledger] = []
        self.model = Model()
        self.limits = dict(CAMPAIGNS)
        self.now_s = 100
        self.drawn = 0
        self.most_spent = 0.0

    @initialize()
    def begin(self) -> None:
        """Make the ledger and open it twice."""
        create_ledger(self.path)
        self.open_both()
        for limits in CAMPAIGNS.values():
            self.ledgers[0].join(limits)

    def teardown(self) -> None:
        """Ask for every accepted report once more, then clean up."""
        if self.ledgers:
            self.reopen()
            for paid in self.model.paid.values():
                self.ask_again(paid)
        for ledger in self.ledgers:
            ledger.close()
        self.folder.cleanup()

    @rule(jump_s=st.sampled_from([-60, -25, -10, 40, 100]))
    def clock_jumps(self, jump_s: int) -> None:
        """Move the device's clock either way."""
        self.now_s = max(self.now_s + jump_s, 0)

    @rule(handle=handles, name=names, epsilon=epsilons, pass_s=st.integers(3, 12))
    def report(self, handle: int, name: str, epsilon: float, pass_s: int) -> None:
        """Let a little time pass and report; ledger and model must agree on everything."""
        self.now_s += pass_s
        asked = self.asked(name, epsilon)
        known = self.model.paid.get((name, asked.round))
        is_open = asked.start_s >= self.model.closed_s
        try:
            spending = self.spend(handle, asked, epsilon)
        except BudgetSpent as refusal:
            assert is_open
            assert known is None
            assert not self.model.allows(asked, self.limits[name])
            self.check_refresh(asked, refusal)
        except PrivacyRefused:
            assert not is_open
        else:
            assert is_open
            stored = spending.stored_report
            if known is None:
                assert self.model.allows(asked, self.limits[name])
                assert spending.found is None
                self.remember(asked, stored)
            else:
                assert spending.found == stored
                assert stored.report == known.report
                assert stored.envelope == b"sealed " + known.report

    @rule(handle=handles, name=names, epsilon=epsilons)
    def drawing_fails(self, handle: int, name: str, epsilon: float) -> None:
        """A report that cannot be sealed changes nothing."""
        asked = self.asked(name, epsilon)

        def fail(report: bytes) -> bytes:
            raise InterruptedError

        try:
            spend(
                self.ledgers[handle],
                name,
                asked.round,
                epsilon=epsilon,
                draw=self.draw,
                seal=fail,
                claims=CLAIMS[name],
            )
        except (InterruptedError, PrivacyRefused):
            pass
        else:
            assert (name, asked.round) in self.model.paid

    @rule(handle=handles, name=names, epsilon=epsilons, point=st.integers(0, 12))
    def killed(self, handle: int, name: str, epsilon: float, point: int) -> None:
        """Die before the point-th statement of a report: go on from the files as they were."""
        asked = self.asked(name, epsilon)
        self.lives += 1
        grave = Path(self.folder.name) / str(self.lives)
        seen = 0

        def copy_files(statement: str) -> None:
            nonlocal seen
            if seen == point:
                shutil.copytree(self.path.parent, grave)
            seen += 1

        connection = self.ledgers[handle]._file._connection
        connection.set_trace_callback(copy_files)
        accepted: Spending | None = None
        try:
            accepted = self.spend(handle, asked, epsilon)
        except PrivacyRefused:
            pass
        finally:
            connection.set_trace_callback(None)
        if grave.exists():
            # Nothing before COMMIT counts, and nothing was sent: this future never happened.
            self.path = grave / self.path.name
        elif accepted is not None and accepted.found is None:
            self.remember(asked, accepted.stored_report)
        self.reopen()

    @rule()
    def reopen(self) -> None:
        """Close both handles and open them again."""
        for ledger in self.ledgers:
            ledger.close()
        self.open_both()

    @rule(name=names, is_tight=st.booleans(), handle=handles)
    def limits_change(self, name: str, is_tight: bool, handle: int) -> None:
        """Tighten the limits of a campaign, or bring the first ones back."""
        self.limits[name] = (TIGHT if is_tight else CAMPAIGNS)[name]
        self.ledgers[handle].join(self.limits[name], loosen=True)

    @precondition(lambda self: self.model.paid)
    @rule(back_s=st.sampled_from([0, 5, 40, 80]), handle=handles)
    def rounds_close(self, back_s: int, handle: int) -> None:
        """Close old rounds, which prunes what cannot matter any more."""
        before_s = max(self.now_s - back_s, 0)
        self.ledgers[handle].close_rounds(before_s)
        self.model.closed_s = max(self.model.closed_s, before_s)

    @precondition(lambda self: self.model.paid)
    @rule(data=st.data(), handle=handles)
    def ask_for_an_old_round(self, data: st.DataObject, handle: int) -> None:
        """An accepted report is returned identically, unless its round was closed."""
        key = data.draw(st.sampled_from(sorted(self.model.paid)))
        self.ask_again(self.model.paid[key], handle=handle)

    @invariant()
    def no_window_exceeds_its_budget(self) -> None:
        """Look at every window and span that holds anything."""
        for name, limits in CAMPAIGNS.items():
            rounds = [each.round for each in self.model.paid.values() if each.campaign == name]
            if rounds:
                begins = range(min(rounds) - limits.window, max(rounds) + 1)
                assert max(self.model.window_loads(name, begins)) <= limits.window_nano
        starts = [each.start_s for each in self.model.paid.values()]
        if starts:
            begins = range(min(starts) - OWNER.span_s, max(starts) + 5, 5)
            assert max(self.model.span_loads(begins)) <= OWNER.span_nano
            assert max(self.model.given_in_spans(begins)) <= (OWNER.span_shuffled_nano or 0)

    @invariant()
    def the_books_agree(self) -> None:
        """Both handles show the model's sums, which never fall."""
        spent = self.model.load(list(self.model.paid.values()))
        for ledger in self.ledgers:
            status = ledger.status(self.now_s)
            assert status.reports == len(self.model.paid)
            spans = range(self.now_s - OWNER.span_s + 1, self.now_s + 1)
            open_s = self.model.closed_s + OWNER.span_s
            if self.now_s >= open_s:
                assert status.span_given == max(self.model.given_in_spans(spans)) / 10**9
            assert status.total_spent == spent / 10**9
        assert spent / 10**9 >= self.most_spent
        self.most_spent = spent / 10**9

    @invariant()
    def only_accepted_reports_wait_to_be_sent(self) -> None:
        """The outbox holds the open rounds of the model, nothing else."""
        if self.ledgers:
            waiting = {
                (each.campaign, each.round): each.report for each in self.ledgers[1].unsent()
            }
            assert waiting == {
                key: paid.report
                for key, paid in self.model.paid.items()
                if paid.start_s >= self.model.closed_s
            }

    @invariant()
    def what_remains_can_be_spent_and_no_more(self) -> None:
        """The ledger's remainder is the largest amount that the model allows to be spent."""
        for ledger in self.ledgers[:1]:
            for name in CAMPAIGNS:
                asked = self.asked(name, 0.5)
                left = round(ledger.remaining(name, asked.round) * 10**9)
                if (name, asked.round) in self.model.paid:
                    assert left == 0
                    continue
                most = Paid(name, asked.round, left, b"")
                more = Paid(name, asked.round, left + 1, b"")
                assert left == 0 or self.model.allows(
                    most, self.limits[name], is_given_counted=False
                )
                assert not self.model.allows(more, self.limits[name], is_given_counted=False)

    def asked(self, name: str, epsilon: float) -> Paid:
        """Return the entry that a report of the present round would make."""
        return Paid(name, self.now_s // CAMPAIGNS[name].round_s, EPSILONS[epsilon], b"")

    def remember(self, asked: Paid, stored: StoredReport) -> None:
        """Put an accepted report into the model."""
        self.model.paid[asked.campaign, asked.round] = replace(asked, report=stored.report)

    def ask_again(self, paid: Paid, *, handle: int = 0) -> None:
        """Ask for a report that was accepted once."""
        try:
            spending = spend(
                self.ledgers[handle], paid.campaign, paid.round, epsilon=0.1, draw=self.draw
            )
        except BudgetSpent:
            raise AssertionError("an accepted report must not be refused") from None
        except PrivacyRefused:
            assert paid.start_s < self.model.closed_s
        else:
            assert spending.found == spending.stored_report
            assert spending.stored_report.report == paid.report
            assert spending.stored_report.epsilon == paid.charged / 10**9

    def check_refresh(self, asked: Paid, refusal: BudgetSpent) -> None:
        """The round a refusal names is the first later one that the model allows."""
        limits = self.limits[asked.campaign]
        latest = max((each.start_s for each in self.model.paid.values()), default=0)
        end = (max(latest, asked.start_s) + 2 * OWNER.span_s) // limits.round_s + limits.window
        first = next(
            (
                later
                for later in range(asked.round + 1, end)
                if self.model.allows(replace(asked, round=later), limits)
            ),
            None,
        )
        assert refusal.refresh_round == first
        assert refusal.refresh_s == (None if first is None else first * limits.round_s)

    def spend(self, handle: int, asked: Paid, epsilon: float) -> Spending:
        """Send a report through one handle."""
        return spend(
            self.ledgers[handle],
            asked.campaign,
            asked.round,
            epsilon=epsilon,
            draw=self.draw,
            seal=lambda report: b"sealed " + report,
            claims=CLAIMS[asked.campaign],
        )

    def draw(self) -> bytes:
        """Return noise that no other draw gives."""
        self.drawn += 1
        return b"noise %d" % self.drawn

    def open_both(self) -> None:
        """Open the ledger twice."""
        self.ledgers = [Ledger(self.path, OWNER) for _ in range(2)]


def test_no_history_exceeds_a_budget() -> None:
    """In random histories with kills, jumps and two handles, ledger and model always agree."""
    run_state_machine_as_test(
        LedgerMachine, settings=settings(max_examples=36, stateful_step_count=40, deadline=None)
    )


@pytest.mark.slow
def test_no_long_history_exceeds_a_budget() -> None:
    """The same in many more and longer histories."""
    run_state_machine_as_test(
        LedgerMachine, settings=settings(max_examples=600, stateful_step_count=60, deadline=None)
    )
