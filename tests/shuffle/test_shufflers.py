import math

import numpy as np
import pytest
from tests.cases import each_case

from rase.kernels.words import SeededRandom
from rase.privacy import PermutationPrivacy
from rase.shuffle.partition import Partition
from rase.shuffle.release import Release
from rase.shuffle.robust import Robust
from rase.shuffle.shufflers import Cyclic, MallowsShuffle, UnsafeShuffleWarning
from rase.shuffle.uniform import Uniform

Single = Uniform | Cyclic | MallowsShuffle | Robust


@pytest.fixture(params=["uniform", "cyclic", "mallows", "robust", "robust near", "paper"])
def shuffler(request: pytest.FixtureRequest) -> Single:
    """Build each shuffler in turn."""
    if request.param == "cyclic":
        with pytest.warns(UnsafeShuffleWarning, match="Cyclic has an infinite privacy loss"):
            return Cyclic()
    if request.param == "paper":
        with pytest.warns(UnsafeShuffleWarning, match="no privacy guarantee"):
            return Robust(alpha=30, group_count=2, mode="paper")
    built: dict[str, Single] = {
        "uniform": Uniform(),
        "mallows": MallowsShuffle(0.2),
        "robust": Robust(alpha=30, group_count=4),
        "robust near": Robust(alpha=30, group_count=2, attacker_cap=math.inf),
    }
    return built[request.param]


@each_case("n", [0, 1, 2, 3, 24])
def test_a_release_holds_every_report_once(shuffler: Single, n: int) -> None:
    """Reports are permuted, never lost or changed, and the input stays as it was."""
    values = np.linspace(0, 1, n)
    release = shuffler.shuffle(values, rng=SeededRandom(2026))
    assert sorted(release.values.tolist()) == values.tolist()
    assert values.tolist() == np.linspace(0, 1, n).tolist()
    assert release.manifest == shuffler.manifest_for(n)
    assert release.manifest.n == n
    assert release.manifest.chance == (1 / n if n else 0)
    assert 0 <= release.manifest.stay_share <= 1


@each_case("n", [0, 1, 24])
def test_the_order_is_told_only_by_a_name_that_warns(shuffler: Single, n: int) -> None:
    """The order explains the release; the release itself does not hold it."""
    values = np.arange(100, 100 + n)
    release, order = shuffler.insecure_shuffle_with_order(values, rng=SeededRandom(2026))
    assert values[order].tolist() == release.values.tolist()
    again = shuffler.shuffle(values, rng=SeededRandom(2026))
    assert again.values.tolist() == release.values.tolist()
    assert again.manifest == release.manifest
    assert Release.__slots__ == ("values", "manifest")


def test_rows_travel_together(shuffler: Single) -> None:
    """A table's rows stay whole."""
    table = np.column_stack([np.arange(24), 10 * np.arange(24)])
    released = shuffler.shuffle(table).values
    assert (released[:, 1] == 10 * released[:, 0]).all()
    assert sorted(released[:, 0].tolist()) == list(range(24))


def test_other_shapes_are_refused(shuffler: Single) -> None:
    """A single number and a cube are no reports."""
    for wrong in (3.0, np.zeros((2, 2, 2))):
        with pytest.raises(ValueError, match="values must have one or two dimensions"):
            shuffler.shuffle(wrong)


def test_uniform_loses_nothing() -> None:
    """Its manifest says alpha 0 for all groups and success by chance."""
    manifest = Uniform().shuffle(range(8)).manifest
    assert (manifest.method, manifest.alpha, manifest.real_loss) == ("uniform", 0, 0)
    assert manifest.attacker_success == manifest.stay_share == manifest.chance == 1 / 8
    assert manifest.theta is manifest.sensitivity is None
    assert manifest.guarantee == PermutationPrivacy(0.0, 0.0, 1 / 8, 1 / 8, exposed_success=1 / 8)


def test_no_reports_leave_nothing_to_guess() -> None:
    """An empty round has shares of 0, a single report shares of 1."""
    empty, single = Uniform().shuffle([]).manifest, Uniform().shuffle([7.0]).manifest
    assert empty.attacker_success == empty.stay_share == empty.chance == 0
    assert single.attacker_success == single.stay_share == single.chance == 1


def test_cyclic_says_that_it_protects_nothing() -> None:
    """Its manifest tells an infinite loss, success 1/(n-1), and that nothing stays."""
    with pytest.warns(UnsafeShuffleWarning):
        cyclic = Cyclic()
    manifest = cyclic.shuffle(range(8)).manifest
    assert manifest.alpha == manifest.real_loss == math.inf
    assert (manifest.attacker_success, manifest.stay_share) == (1 / 7, 0)
    assert cyclic.shuffle([5.0]).manifest.alpha == 0
    assert cyclic.shuffle([1, 2]).values.tolist() == [2, 1]


def test_mallows_takes_theta_from_alpha_and_groups() -> None:
    """Theta is alpha over the exact sensitivity of the groups of places."""
    partition = Partition([0, 0, 0, 1, 1, 1])
    manifest = MallowsShuffle(alpha=1.5, partition=partition).shuffle(range(6)).manifest
    assert (manifest.theta, manifest.sensitivity, manifest.alpha) == (0.5, 3, 1.5)
    assert manifest.real_loss == 1.5


def test_mallows_without_groups_tells_the_worst_case() -> None:
    """With theta alone the loss is that of one group of all."""
    assert MallowsShuffle(0.5).shuffle(range(5)).manifest.alpha == 5.0
    assert MallowsShuffle(0.5, partition=Partition(range(5))).shuffle(range(5)).manifest.alpha == 0


def test_mallows_arguments_that_do_not_fit_are_refused() -> None:
    """Theta or alpha with groups, not both, and groups that match the reports."""
    for both in (None, 1.0):
        with pytest.raises(ValueError, match="theta or alpha must be given, and not both"):
            MallowsShuffle(both, alpha=both)
    with pytest.raises(ValueError, match="theta must be above 0 and finite"):
        MallowsShuffle(math.inf)
    for partition in (None, Partition([0, 1, 2])):
        with pytest.raises(ValueError, match="partition must have a group of two or more"):
            MallowsShuffle(alpha=1.0, partition=partition)
    with pytest.raises(ValueError, match="partition must group all 3 reports, got 2"):
        MallowsShuffle(1.0, partition=Partition([0, 0])).shuffle(range(3))
