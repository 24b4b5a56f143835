"""``rase doctor``: what a server's database says of its work, whether the server runs or not."""

from typing import TYPE_CHECKING, Any

from rase.clock import Clock
from rase.errors import StorageError, WireError

if TYPE_CHECKING:
    from rase.service.doctor import Finding
    from rase.storage.face import Transaction
    from rase.wire.keys import Role

__all__ = ["examine_work"]


def examine_work(where: str, role: "Role", settings: Any, clock: Clock) -> "list[Finding]":
    """Look into the database of a server for work that is not done, and keys that are not held.

    Nothing is said of a database that is not there, not of this release, or cannot be read: another
    check does so.

    Args:
        where: The folder.
        role: The server.
        settings: Its settings.
        clock: The time.
    """
    from rase.storage.opening import looked_into
    from rase.wire.keys import Role

    try:
        with looked_into(settings.database, role=role) as transaction:
            if transaction is None:
                return []
            if role is Role.SHUFFLER:
                return _shuffler(where, transaction, now_s=clock.now_s())
            return _fusion(where, transaction, settings, now_s=clock.now_s())
    except (StorageError, WireError, ModuleNotFoundError):
        return []


def _shuffler(where: str, transaction: "Transaction", *, now_s: float) -> "list[Finding]":
    from rase.service.doctor import Finding, Level
    from rase.shuffler.health import backlog_of, trouble_in

    backlog = backlog_of(transaction, now_s=now_s)
    waiting = backlog.rounds_due + backlog.batches_waiting + backlog.batches_stuck
    # Before the first round there is nothing to close.
    level = Level.PROBLEM if waiting else Level.WARNING
    trouble = trouble_in(backlog)
    if trouble:
        return [Finding(where, "backlog", level, text) for text in trouble]
    text = (
        f"closers that run: {backlog.closers}; rounds to close: {backlog.rounds_due}; batches "
        f"on their way: {backlog.batches_waiting}."
    )
    return [Finding(where, "backlog", Level.OK, text)]


def _fusion(
    where: str, transaction: "Transaction", settings: Any, *, now_s: float
) -> "list[Finding]":
    from rase.fusion.campaigns import current_keyset
    from rase.fusion.health import LATE_ROUNDS, rounds_behind
    from rase.fusion.key_check import missing_keys
    from rase.service.doctor import Finding, Level
    from rase.service.heartbeat import running

    findings = []
    keyset = current_keyset(transaction)
    processes = running(transaction, now_s=now_s, part="fusion")
    if keyset is not None and processes:
        lacks = [missing_keys(keyset.keyset, one.keys, now_s=now_s) for one in processes]
        findings += [
            Finding(
                where,
                "held keys",
                Level.PROBLEM,
                f"key {number} is published, but a running fusion centre does not hold it: add "
                "its file to opening_key_files, and see in the log that it was read.",
            )
            for number in sorted({number for numbers in lacks for number in numbers})
        ]
        if not findings:
            text = f"all {len(processes)} that run hold every published key."
            findings.append(Finding(where, "held keys", Level.OK, text))
    behind = rounds_behind(transaction, now_s=now_s, settle_s=settings.settle_s)
    for name, count in behind.items():
        if count >= LATE_ROUNDS:
            text = f"campaign {name} is {count} rounds behind: look at the shuffler's backlog."
            findings.append(Finding(where, "rounds", Level.PROBLEM, text))
    return findings
