"""How near is opening a batch to bare decryption on the same cores?

Opening hands the envelopes to a pool of processes, checks what they hold and their tokens, and
makes the replay tags; the limit is `Suite.decrypt` alone, in as many processes, their inputs at
hand.
"""

from collections.abc import Iterator

from benchmarks.harness import Row, Target, versions
from benchmarks.loading.bare import Bare
from benchmarks.loading.cost import Cost, cost_of
from benchmarks.loading.setting import FIRST, Fleet, cores, pool, sealed
from rase.fusion.opening import BatchOpener
from rase.wire.keys import Role
from rase.wire.messages import Batch
from rase.wire.outer import OuterOpener


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure opening in a pool against bare decryption in as many processes."""
    count, repeats = (4096, 3) if quick else (20_000, 9)
    fleet = Fleet()
    with pool() as by:
        wires = sealed(fleet, count, FIRST, by=by)
    outer = OuterOpener(fleet.hash, [fleet.openers[Role.SHUFFLER]])
    key, modulus = fleet.openers[Role.FUSION], fleet.modulus
    batch = Batch(fleet.hash, FIRST, key.id, tuple(outer.open(wire).inner for wire in wires))
    with (
        Bare(fleet, wires, roles=[Role.FUSION]) as bare,
        BatchOpener([key], processes=cores()) as opener,
    ):
        # The first batch starts the processes.
        if opener.open(batch, class_count=1, modulus=modulus).refused_count:
            raise RuntimeError("an envelope did not open.")
        bare.run()
        ours = limit = Cost(float("inf"), float("inf"))
        for _ in range(repeats):
            ours = ours.least(cost_of(lambda: opener.open(batch, class_count=1, modulus=modulus)))
            limit = limit.least(cost_of(bare.run))
    for kind, ours_s, bare_s, target in (
        ("wall time", ours.wall_s, limit.wall_s, Target("at least", 0.85)),
        ("CPU time", ours.cpu_s, limit.cpu_s, None),
    ):
        yield Row(
            what=f"opening a batch, {kind}",
            against="bare Suite.decrypt",
            size=f"{count:,} reports, {cores()} cores",
            ratio=bare_s / ours_s,
            means="its time / our time",
            target=target,
            ours_s=ours_s,
            theirs_s=bare_s,
            repeats=repeats,
            packages=versions("cryptography"),
            note=f"{kind} of all processes; those that open have opened a batch before",
        )
