"""Every shuffler keeps the public contract."""

import warnings

import pytest
from tests.cases import each_case

from rase import Cyclic, MallowsShuffle, Partition, Robust, Shuffler, Uniform
from rase.shuffle.robust import Line9
from rase.shuffle.shufflers import UnsafeShuffleWarning
from rase.testing import check_shuffler


def unsafe(make: type[Cyclic] | type[Robust], **arguments: object) -> Shuffler:
    """Build a shuffler that warns about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsafeShuffleWarning)
        return make(**arguments)  # type: ignore[arg-type]


SHUFFLERS = {
    "uniform": Uniform(),
    "cyclic": unsafe(Cyclic),
    "mallows by theta": MallowsShuffle(theta=0.3),
    "mallows that hardly moves": MallowsShuffle(theta=8.0),
    "robust that takes mallows": Robust(alpha=1.0, group_count=2, attacker_cap=11.9),
    "robust that takes uniform": Robust(alpha=30.0, group_count=4),
    **{
        line9.value: unsafe(Robust, alpha=10.0, group_count=3, mode="paper", line9=line9)
        for line9 in Line9
    },
}


@each_case("name", SHUFFLERS)
def test_shufflers_keep_the_contract(name: str) -> None:
    """All implementations pass the public contract checks."""
    check_shuffler(SHUFFLERS[name])


def test_robust_takes_the_branches_named_above() -> None:
    """The two robust shufflers of this file really differ in their branch."""
    taken = [SHUFFLERS[f"robust that takes {law}"] for law in ("mallows", "uniform")]
    assert [s.shuffle(range(12)).manifest.method for s in taken] == ["mallows", "uniform"]


def test_shufflers_with_groups_keep_the_contract_for_their_number() -> None:
    """A partition fits one number of reports; for that number the contract holds."""
    groups = Partition.contiguous(12, 2)
    release = MallowsShuffle(alpha=5.0, partition=groups).shuffle(range(12))
    assert release.manifest.alpha == pytest.approx(5.0)
