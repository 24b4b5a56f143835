"""From reports to estimates: a round becomes final once, and its reports go in the same moment."""

from dataclasses import dataclass, replace
from typing import Final

from rase.campaign import Campaign
from rase.clock import Clock
from rase.counts.estimate import Estimate
from rase.counts.fleet import of_fleet, of_reporters
from rase.counts.moments import moments_of
from rase.counts.registry import TRACKED, estimator_named
from rase.errors import StorageConflict, StorageError
from rase.fusion.answers import Settled, forget_tags, kept_methods, read_settled, write_settled
from rase.fusion.campaigns import campaign_of_version
from rase.fusion.mechanism import randomizer_of
from rase.fusion.parts import estimate_parts
from rase.fusion.probes import write_probes
from rase.fusion.settings import FusionPolicy
from rase.fusion.tracking import Followed, Tracking, is_early, last_tracked, write_tracked
from rase.kernels.words import Resampling
from rase.series.rounds import RoundEstimates, estimate_round
from rase.storage.interface import Database, Row, Transaction

__all__ = ["FailedRound", "FinalRound", "Rounds"]

# Rounds that are settled at once are few; after a long outage they are done piece by piece.
_AT_ONCE = 256
# When a round that could not be estimated is tried again, and how often the log is looked through.
_REST_S = 600.0


@dataclass(frozen=True, slots=True)
class FinalRound:
    """Say that a round is final.

    Args:
        campaign: The campaign's id.
        round: The round.
        is_withheld: Whether too few reports came, so that there is no estimate.
    """

    campaign: str
    round: int
    is_withheld: bool


@dataclass(frozen=True, slots=True)
class FailedRound:
    """Say that a round could not be estimated; its reports stay until it can.

    Args:
        campaign: The campaign's id.
        round: The round.
        error: The kind of error.
    """

    campaign: str
    round: int
    error: str


# How long a round waits for the rest of a batch that came in parts: as long as the shuffler tries.
_PARTS_S: Final = 86400
# An honest shuffler cuts the reports of a round and key once.
_MISSING_PARTS: Final = (
    "SELECT fusion_key FROM batches WHERE campaign = ? AND round = ? AND parts > 1 "
    "GROUP BY fusion_key, parts HAVING COUNT(*) < parts"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _FollowedRound:
    """How far the tracker had come, whether the round was new to it, and what it is now."""

    last: int | None
    is_new: bool
    now: Followed
    spread: float | None
    members: int | None


class Rounds:
    """Make settled rounds final.

    Args:
        database: The fusion centre's.
        clock: Says which rounds are settled, and which kept reports are due for deletion.
        policy: What the operator decided.
    """

    def __init__(
        self, database: Database, clock: Clock, *, policy: FusionPolicy | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._policy = FusionPolicy() if policy is None else policy
        # A process that died may have left deleted reports in the database's log.
        self._is_clean = False
        self._resting: dict[tuple[str, int], float] = {}
        self._failed: list[FailedRound] = []
        self._prune_at_s = clock.monotonic_s()
        self._tracking = Tracking()

    def tick(self) -> list[FinalRound]:
        """Do all that is due: finalise, delete what was kept long enough, overwrite its traces.

        Returns:
            The rounds that became final.
        """
        done = self.finalise_due()
        if self.delete_due():
            self._is_clean = False
        if not self._is_clean:
            self._is_clean = self._database.scrub()
        return done

    def finalise_due(self) -> list[FinalRound]:
        """Make every settled round final, oldest first; none before its grace is over.

        Where rounds are followed through time, one waits for the one before it, but not for long. A
        round that cannot be estimated does not keep the others from it: `take_failed` reports it,
        and it is tried again later.

        Raises:
            StorageError: If the database cannot be used, and no round became final.
        """
        now, now_s = int(self._clock.now_s()), self._clock.monotonic_s()
        found: list[FinalRound] = []
        for campaign, round, version, settles_s in self._candidates(now):
            if self._resting.get((campaign, round), now_s) > now_s:
                continue
            try:
                with self._database.snapshot() as transaction:
                    held = campaign_of_version(transaction, campaign, version)
                    if not self._is_settled(held, round, settles_s=settles_s, now_s=now):
                        continue
                    if is_early(transaction, held, round, settles_s=settles_s, now_s=now):
                        continue
                    missing = transaction.execute(_MISSING_PARTS, (campaign, round))
                    if missing and now < held.closes_s(round) + _PARTS_S:
                        continue
                one = self._finalise(campaign, round)
            except StorageConflict as error:
                self._rest(campaign, round, error)
                continue
            except StorageError:
                # Not the round's fault: all wait until the database can be used again.
                if found:
                    break
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, it is of this round alone
                self._rest(campaign, round, error)
                continue
            self._resting.pop((campaign, round), None)
            found += [] if one is None else [one]
        return found

    def _candidates(self, now: int) -> list[Row]:
        columns, most = "campaign, round, version, settles_s", _AT_ONCE + len(self._resting)
        with self._database.snapshot() as transaction:
            rows = transaction.execute(
                f"SELECT {columns} FROM rounds WHERE state = 'open' AND settles_s <= ? "  # noqa: S608 - constants
                "ORDER BY round, campaign LIMIT ?",
                (now, most),
            )
            # Apart, so that rounds whose grace lasts do not fill the list: those that wait longer
            # than any second batch is waited for. Of them some were written by a wrong clock.
            rows += transaction.execute(
                f"SELECT {columns} FROM rounds WHERE state = 'open' AND settles_s > ? "  # noqa: S608 - constants
                "ORDER BY round, campaign LIMIT ?",
                (now + self._policy.settle_s, most),
            )
        return sorted(rows, key=lambda row: (row[1], row[0]))

    def _is_settled(self, campaign: Campaign, round: int, *, settles_s: int, now_s: int) -> bool:
        """Return whether a round may become final, whatever the clock was when it was written."""
        if now_s < campaign.closes_s(round):
            return False
        # A time further away than any can be by now was written by a clock that was wrong.
        return settles_s <= now_s or settles_s > now_s + self._policy.settle_s

    def _rest(self, campaign: str, round: int, error: Exception) -> None:
        """Leave a round alone for a while, and log it."""
        self._resting[campaign, round] = self._clock.monotonic_s() + _REST_S
        self._failed.append(FailedRound(campaign, round, type(error).__name__))

    def take_failed(self) -> list[FailedRound]:
        """Return the rounds that could not be estimated since this was last asked."""
        failed, self._failed = self._failed, []
        return failed

    def delete_due(self) -> int:
        """Delete reports that the operator's policy kept until now; return of how many rounds.

        Old lines of the access log go too.
        """
        now = int(self._clock.now_s())
        self._prune_access_log(now)
        with self._database.snapshot() as transaction:
            # What a wrong clock wrote must not keep reports longer than the policy says.
            due = transaction.execute(
                "SELECT campaign, round FROM rounds WHERE kept_until_s IS NOT NULL "
                "AND (kept_until_s <= ? OR kept_until_s > ?) ORDER BY round LIMIT ?",
                (now, now + self._policy.keep_values_s, _AT_ONCE),
            )
        if not due:
            return 0
        with self._database.transaction() as transaction:
            for campaign, round in due:
                transaction.execute(
                    "DELETE FROM opened WHERE campaign = ? AND round = ?", (campaign, round)
                )
                transaction.execute(
                    "UPDATE rounds SET kept_until_s = NULL WHERE campaign = ? AND round = ?",
                    (campaign, round),
                )
        return len(due)

    def _prune_access_log(self, now: int) -> None:
        # The log may be long, and looking through it every second would be felt.
        if self._clock.monotonic_s() < self._prune_at_s:
            return
        forgotten = now - self._policy.keep_access_log_s
        with self._database.snapshot() as transaction:
            ((oldest,),) = transaction.execute("SELECT MIN(time_s) FROM access_log")
        if oldest is not None and oldest < forgotten:
            with self._database.transaction() as transaction:
                transaction.execute("DELETE FROM access_log WHERE time_s < ?", (forgotten,))
        self._prune_at_s = self._clock.monotonic_s() + _REST_S

    def _finalise(self, campaign: str, round: int) -> FinalRound | None:
        with self._database.snapshot() as transaction:
            settled = read_settled(transaction, campaign, round)
        k_min = settled.campaign.k_min
        # A report shows its class, so it hides among its own class alone; small ones do not count.
        settled = replace(settled, counts=settled.counts.of_large_classes(k_min))
        # Estimating takes long; no other writer waits for it.
        is_withheld = settled.counts.n < k_min
        estimates, followed = ([], None) if is_withheld else self._estimate(settled)
        parts = {}
        if not is_withheld:
            parts = estimate_parts(settled.campaign, settled.counts, settled.by_label)
        # Alone: numbers then come without gap in the order of commits, however many processes.
        with self._database.transaction() as transaction:
            if not _is_as_read(transaction, settled, followed):
                return None  # another process was faster, or one more batch came: next time
            write_settled(transaction, settled, estimates, parts)
            if estimates and settled.campaign.probe_every:
                write_probes(transaction, settled.campaign, round, settled.counts)
            if followed is not None and followed.is_new:
                write_tracked(
                    transaction,
                    settled.campaign,
                    round,
                    spread=followed.spread,
                    members=followed.members,
                    followed=followed.now,
                    last=followed.last,
                )
            self._erase(transaction, settled)
        if followed is not None:
            self._tracking.keep(campaign, followed.now)
        self._is_clean = False
        return FinalRound(campaign, round, is_withheld)

    def _estimate(self, settled: Settled) -> tuple[list[Estimate], "_FollowedRound | None"]:
        """Return all estimates of a round, and how far its tracker has come."""
        campaign = settled.campaign
        if campaign.states is not None:
            return [], None
        randomizer = randomizer_of(campaign)
        found = estimate_round(
            settled.counts,
            randomizer,
            {name: estimator_named(name) for name in kept_methods(campaign)},
            # Decides the resamples of the bootstrap, so that a repeated step gives the same number;
            # resampling needs chance, not secrecy.
            rng=Resampling(b"".join(settled.batches)),
        )
        estimates = {
            name: _intended_estimate(one, settled, found) for name, one in found.estimates.items()
        }
        if TRACKED not in campaign.estimators:
            return list(estimates.values()), None
        alone = estimates[TRACKED]
        with self._database.snapshot() as transaction:
            now = self._tracking.take(transaction, campaign)
        last = now.last
        # A round that is late was not there when later ones were released; it stands by itself.
        is_new = last is None or settled.round > last
        members = settled.members if campaign.target == "fleet" else None
        mean = alone
        if is_new:
            mean = of_reporters(
                now.follow(campaign, settled.round, alone, spread=found.spread, members=members)
            )
        estimates[TRACKED] = replace(mean, method=TRACKED)
        # Where budgets differ the combined mean was followed, and is kept with the others.
        others = {one.method for one in estimates.values()}
        followed = _FollowedRound(last, is_new, now, found.spread, members)
        return [*estimates.values(), *([alone] if alone.method not in others else [])], followed

    def _erase(self, transaction: Transaction, settled: Settled) -> None:
        where = (settled.campaign.id, settled.round)
        # A final round takes no more envelopes.
        forget_tags(transaction, settled.campaign, settled.round)
        if not self._policy.keep_values_s:
            transaction.execute("DELETE FROM opened WHERE campaign = ? AND round = ?", where)
            return
        transaction.execute(
            "UPDATE rounds SET kept_until_s = ? WHERE campaign = ? AND round = ?",
            (int(self._clock.now_s()) + self._policy.keep_values_s, *where),
        )


def _intended_estimate(estimate: Estimate, settled: Settled, found: RoundEstimates) -> Estimate:
    """Return an estimate of the mean that the campaign means, the fleet's or the reporters'.

    What a shuffler does not count cannot be said of the fleet: the estimate is of the reporters
    then, and says so.
    """
    campaign = settled.campaign
    if campaign.target != "fleet" or settled.members is None:
        return of_reporters(estimate)
    spread = found.spread
    if spread is None:
        spreads = moments_of(settled.counts, randomizer_of(campaign)).spread
        spread = None if spreads is None else float(spreads[0])
    return of_fleet(estimate, members=settled.members, spread=spread, value_range=campaign.domain)


def _is_as_read(
    transaction: Transaction, settled: Settled, followed: _FollowedRound | None
) -> bool:
    campaign, round = settled.campaign.id, settled.round
    rows = transaction.execute(
        "SELECT state, batches FROM rounds WHERE campaign = ? AND round = ?", (campaign, round)
    )
    if rows[0] != ("open", len(settled.batches)):
        return False
    return followed is None or last_tracked(transaction, campaign) == followed.last
