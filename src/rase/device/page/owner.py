"""What the owner's page is about: the device as it stands when a view is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from rase.accounting.ledger import Entry, LedgerStatus
from rase.campaign import Campaign
from rase.clock import Clock
from rase.device.comparison import Comparison, Now, RoundSeen, Trouble
from rase.device.fleet import Against, FleetEstimates, compare
from rase.device.folder import DeviceFolder
from rase.device.page.outlook import Outlook, outlook_of
from rase.device.page.payload import Payload, example_payload
from rase.device.settings import DeviceSettings
from rase.device.terms import Terms
from rase.device.token_stock import TokenStock, stock_of
from rase.kernels.entropy import SecureEntropy

__all__ = ["Moment", "Owner", "Sharing"]

_MOST_ENTRIES = 50


class Sharing(Enum):
    """Say what leaves the device."""

    OFF = "Off"
    PAUSED = "Paused"
    ON = "Sharing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The device as it stands.

    Args:
        now_s: The present second.
        campaign: The newest terms; None before any was accepted.
        epsilon: What a report of this device spends; None if no budget is within its rules.
        limit: What a report may spend without another word of the owner.
        most_alpha: The most that the order of reports may reveal; None for what was agreed to.
        sharing: What leaves it.
        now: The readings of the present round.
        rounds: The last rounds, newest first.
        troubles: What does not work.
        status: What is spent.
        entries: The last entries of the ledger.
        outlook: What is left of the week.
        label: The public kind of the device that its owner agreed to report; None for none.
        against: The device compared with the fleet; None if the owner named no broker for it.
    """

    now_s: float
    campaign: Campaign | None
    epsilon: float | None
    limit: float
    most_alpha: float | None
    sharing: Sharing
    now: Now | None
    rounds: list[RoundSeen]
    troubles: list[Trouble]
    status: LedgerStatus
    entries: list[Entry]
    outlook: Outlook | None
    tokens: TokenStock | None = None
    label: str | None = None
    against: list[Against] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Where the page finds everything.

    Args:
        folder: The device's folder.
        settings: What the owner wrote down.
        terms: What the device goes by.
        comparison: What it measured and sent.
        clock: The time.
        entropy: For the example of a report.
        has_turn: The device's schedule.
        estimates: What is public about the fleet; None if the owner named no broker for it.
    """

    folder: DeviceFolder
    settings: DeviceSettings
    terms: Terms
    comparison: Comparison
    clock: Clock
    entropy: SecureEntropy
    has_turn: Callable[[Campaign, int], bool]
    estimates: FleetEstimates | None = None

    @property
    def sharing(self) -> Sharing:
        """What leaves the device."""
        if self.folder.is_off:
            return Sharing.OFF
        return Sharing.PAUSED if self.folder.is_paused else Sharing.ON

    def moment(self) -> Moment:
        """Return the device as it stands.

        Raises:
            LedgerUnusable: If the ledger cannot be read.
        """
        now_s = self.clock.now_s()
        latest = self.terms.latest
        campaign = None if latest is None else latest.campaign
        epsilon = None
        if campaign is not None:
            place = self.terms.epsilon_class(campaign)
            epsilon = None if place is None else campaign.epsilon[place]
        # A handle of its own: one belongs to one thread, and the agent has its own.
        with self.folder.ledger(self.settings) as ledger:
            status = ledger.status(int(now_s))
            entries = ledger.history(-1)
            windows = ledger.token_windows()
        outlook = tokens = None
        if campaign is not None:
            tokens = stock_of(windows, campaign.id, round_s=campaign.round_s, now_s=now_s)
        if campaign is not None and epsilon is not None:
            outlook = outlook_of(
                status, entries, campaign=campaign, epsilon=epsilon, has_turn=self.has_turn
            )
        return Moment(
            now_s=now_s,
            campaign=campaign,
            epsilon=epsilon,
            limit=self.terms.rules.epsilon_limit(self.terms.consent),
            most_alpha=self.terms.rules.most_alpha,
            sharing=self.sharing,
            now=self.comparison.now,
            rounds=self.comparison.rounds,
            troubles=self.comparison.troubles,
            status=status,
            entries=entries[:_MOST_ENTRIES],
            outlook=outlook,
            tokens=tokens,
            label=self.terms.rules.label,
            against=self._against(campaign),
        )

    def _against(self, campaign: Campaign | None) -> list[Against] | None:
        if self.estimates is None or campaign is None:
            return None
        return compare(self.comparison.rounds, self.estimates, campaign)

    def entries(self) -> tuple[LedgerStatus, list[Entry]]:
        """Return the whole ledger.

        Raises:
            LedgerUnusable: If the ledger cannot be read.
        """
        with self.folder.ledger(self.settings) as ledger:
            return ledger.status(int(self.clock.now_s())), ledger.history(-1)

    def example(self) -> Payload | None:
        """Return what would be sent now; None if terms or keys are still missing."""
        latest = self.terms.latest
        if latest is None:
            return None
        now_s = self.clock.now_s()
        now = self.comparison.now
        return example_payload(
            self.terms,
            int(now_s // latest.campaign.round_s),
            mean=None if now is None else now.mean,
            now_s=now_s,
            entropy=self.entropy,
        )
