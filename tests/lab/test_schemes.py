import numpy as np
import pytest

from rase.domain import Range
from rase.errors import DataError
from rase.kernels.words import SeededRandom
from rase.lab.panel import Panel
from rase.lab.schemes import SCHEME_NAMES, Arrival, scheme_named
from rase.shuffle.paper import Line9
from rase.shuffle.partition import Partition

WATTS = Range(0, 100)


def panel_of(rounds: int, n: int, *, gaps: bool = False) -> Panel:
    """Return readings that differ everywhere, with gaps on request."""
    values = np.linspace(0.25, 99.75, rounds * n).reshape(rounds, n)
    if gaps:
        generator = np.random.default_rng(2026)
        values[generator.random(values.shape) < 0.3] = np.nan
    return Panel(np.arange(rounds) * 1000, [f"d{i}" for i in range(n)], values)


BLOCK = Partition.contiguous(12, 1)
# Every scheme, the paper's in both branches and all readings of line 9.
SCHEMES = {name: scheme_named(name, WATTS) for name in SCHEME_NAMES} | {
    f"{line9.name}-{alpha:g}": scheme_named(
        "rase-paper", WATTS, alpha=alpha, group_count=4, partition=BLOCK, line9=line9
    )
    for line9 in Line9
    for alpha in (30.0, 100.0)
}


@pytest.mark.parametrize("arrival", ["fixed", "random"])
@pytest.mark.parametrize("gaps", [False, True])
def test_every_reading_is_released_once(gaps: bool, arrival: Arrival) -> None:
    """In each round the senders are those who have a reading, each once, in the first slots."""
    panel = panel_of(9, 12, gaps=gaps)
    for name, scheme in SCHEMES.items():
        release, secret = scheme.release(panel, arrival=arrival, rng=SeededRandom(1))
        for readings, values, senders, come in zip(
            panel.values, release.values, secret.senders, secret.arrival, strict=True
        ):
            reporting = np.flatnonzero(~np.isnan(readings))
            assert sorted(senders[: reporting.size]) == reporting.tolist(), name
            assert sorted(come[: reporting.size]) == reporting.tolist(), name
            assert (senders[reporting.size :] == -1).all(), name
            assert (come[reporting.size :] == -1).all(), name
            assert np.isnan(values).tolist() == (senders < 0).tolist(), name
        assert len(release.laws) == panel.rounds, name


def test_the_release_is_the_senders_reports() -> None:
    """With hardly any noise, slot values are the readings of the senders named with them."""
    panel = panel_of(40, 8, gaps=True)
    for name in SCHEME_NAMES:
        scheme = scheme_named(name, WATTS, epsilon=30.0)
        release, secret = scheme.release(panel, arrival="random", rng=SeededRandom(3))
        true = np.take_along_axis(panel.values, np.maximum(secret.senders, 0), axis=1)
        gap = np.abs(release.values - true)[secret.senders >= 0]
        assert np.median(gap) < 5, name
        if name == "raw":
            assert gap.max() == 0


def test_fixed_arrival_without_a_shuffle_keeps_devices_in_their_slots() -> None:
    """The paper's set-up: slot i is device i unless somebody shuffles."""
    panel = panel_of(5, 6)
    for name in ("raw", "br"):
        _, fixed = scheme_named(name, WATTS).release(panel, rng=SeededRandom(1))
        assert (fixed.senders == np.arange(6)).all()
        _, moved = scheme_named(name, WATTS).release(panel, arrival="random", rng=SeededRandom(1))
        assert (moved.senders == moved.arrival).all()
        assert (moved.senders != np.arange(6)).any()


def test_each_scheme_draws_from_the_law_it_names() -> None:
    """Orders are kept, uniform, cyclic or Mallows as the table of schemes says."""
    come = np.arange(64)

    def law(name: str, **options: object) -> tuple[str, float | None]:
        found = scheme_named(name, WATTS, **options).law_for(come)  # type: ignore[arg-type]
        return found.method, found.theta

    assert law("raw") == law("br") == ("kept", None)
    assert law("laplace-fisher") == law("best") == ("uniform", None)
    # Blocks of 8 places have sensitivity 28.
    assert law("br-mallows") == ("mallows", 30 / 28)
    assert law("br-mallows", group_count=64) == ("mallows", np.inf)
    # One group of all 64: far outside [alpha, 10 alpha].
    assert law("rase-paper") == ("cyclic", None)
    four = Partition.contiguous(64, 4)
    assert law("rase-paper", partition=four) == ("mallows", 30 / 28)
    assert law("rase") == ("uniform", None)
    assert law("rase", alpha=40.0, group_count=1)[0] == "mallows"


def test_paper_mode_decides_for_those_who_report() -> None:
    """Groups are restricted to the reporting devices, wherever they arrived."""
    mixed = scheme_named("rase-paper", WATTS, partition=Partition([0, 1] * 20), group_count=2)
    law = mixed.law_for(np.array([7, 39, 1, 15, 21, 33, 3, 9, 11, 13]))
    alone = scheme_named("rase-paper", WATTS, group_count=2)
    assert law == alone.law_for(np.array([2, 9, 0, 6, 7, 8, 1, 3, 4, 5]))
    # One group of ten has the bound 45, inside [alpha, 10 alpha].
    assert law.method == "mallows"


def test_estimators_and_noise_differ_between_paper_and_ours() -> None:
    """The printed schemes average clamped reports, ours decode them."""
    assert scheme_named("rase-paper", WATTS).estimator == "sample_mean"
    assert scheme_named("best", WATTS).estimator == "unbiased_mean"
    assert scheme_named("raw", WATTS).randomizer is None


def test_the_same_seed_gives_the_same_release() -> None:
    """A release is a function of panel, scheme and seed."""
    panel = panel_of(5, 6)
    one, other = (
        scheme_named("rase", WATTS).release(panel, rng=SeededRandom(4))[0] for _ in range(2)
    )
    assert np.array_equal(one.values, other.values)


def test_rounds_without_any_reading_stay_empty() -> None:
    """An outage of the whole fleet releases nothing."""
    panel = Panel([0, 1], ["a", "b"], np.array([[np.nan, np.nan], [1, 2]]))
    release, secret = scheme_named("best", WATTS).release(panel, rng=SeededRandom(1))
    assert np.isnan(release.values[0]).all()
    assert (secret.senders[0] == -1).all()


def test_wrong_arguments_are_refused() -> None:
    """Unknown names and arrivals, and panels without a reading, are refused."""
    with pytest.raises(ValueError, match="name must be one of raw"):
        scheme_named("rot13", WATTS)
    with pytest.raises(ValueError, match="alpha must be"):
        scheme_named("br-mallows", WATTS, alpha=-1.0)
    with pytest.raises(ValueError, match="arrival must be"):
        scheme_named("raw", WATTS).release(panel_of(2, 2), arrival="late")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="at least one reading"):
        scheme_named("raw", WATTS).release(Panel([0], ["a", "b"], [[np.nan, np.nan]]))
