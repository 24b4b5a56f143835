"""Guarantees as values."""

import math
import re

import pytest
from tests.cases import each_case

from rase.privacy import CentralDP, LocalDP, PermutationPrivacy, rounded_down, rounded_up


def test_local_dp_bounds_what_an_observer_can_learn() -> None:
    """The posterior of a sure-as-a-coin observer is e^epsilon / (1 + e^epsilon)."""
    assert LocalDP(1.0).posterior() == pytest.approx(math.e / (1 + math.e))
    assert LocalDP(0.0).posterior(0.2) == pytest.approx(0.2)
    assert LocalDP(3.0).posterior(0.0) == 0.0
    assert LocalDP(3.0).posterior(1.0) == 1.0


def test_a_printed_epsilon_is_never_below_the_bound() -> None:
    """In three figures it is rounded up by less than one in the last; exact ones stay."""
    for bound in (0.049951, 0.18231, 1.0004, 9.995, 99.91, 0.5, 3.0):
        printed = float(str(CentralDP(bound, 1e-6, theorem="x")).split("(")[1].split(",")[0])
        assert printed == rounded_up(bound)
        assert bound <= printed < bound * 1.0101
    assert (rounded_up(0.5), rounded_up(3.0), rounded_up(9.995)) == (0.5, 3.0, 10.0)


def test_local_dp_prints_one_sentence() -> None:
    """The sentence tells odds, and says when they are worthless."""
    assert str(LocalDP(1.0)) == (
        "1-LDP per report: an observer who was 50 % sure of a reading becomes at most 73.2 % sure."
    )
    assert "may become 99.9 % sure; this is hardly any protection" in str(LocalDP(10.0))


@each_case("epsilon", [-1.0, math.nan, math.inf])
def test_what_is_no_loss_is_refused(epsilon: float) -> None:
    """A loss is finite and not negative."""
    with pytest.raises(ValueError, match="epsilon must be finite"):
        LocalDP(epsilon)
    with pytest.raises(ValueError, match="epsilon must be finite"):
        CentralDP(epsilon, 1e-6)


def test_a_bound_is_never_rounded_down() -> None:
    """What is printed as the most is at least what the budget allows, at every epsilon."""
    for epsilon in (0.01, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 4.5):
        printed = re.search(r"at most ([\d.]+) % sure", str(LocalDP(epsilon)))
        assert printed is not None
        assert 0 <= float(printed.group(1)) - 100 * LocalDP(epsilon).posterior() < 0.1 + 1e-9


@each_case("delta", [-1e-9, 1.0, math.nan])
def test_what_is_no_delta_is_refused(delta: float) -> None:
    """A delta of 1 promises nothing at all."""
    with pytest.raises(ValueError, match="delta must be at least 0 and below 1"):
        CentralDP(1.0, delta)


def test_a_prior_that_is_no_probability_is_refused() -> None:
    """A prior lies between 0 and 1."""
    for guarantee in (LocalDP(1.0), PermutationPrivacy(1, 1, 0.5, 0.5, exposed_success=0.5)):
        with pytest.raises(ValueError, match="prior must be between 0 and 1"):
            guarantee.posterior(1.5)
    with pytest.raises(ValueError, match="prior must be between 0 and 1"):
        CentralDP(1.0, 1e-6).guess(-0.1)


def test_central_dp_prints_what_follows_from_epsilon_and_delta() -> None:
    """Right guesses, a certainty with how often it is passed, and what the local epsilon keeps."""
    sentence = (
        "(0.0705, 1e-06)-DP of the release: an observer who finds two readings of a contributor "
        "equally likely guesses right at most 51.8 % of the time, and becomes more than 51.9 % "
        "sure with a probability of 0.001 at most"
    )
    assert str(CentralDP(0.0705, 1e-6)) == f"{sentence}."
    assert str(CentralDP(0.0705, 1e-6, epsilon_local=0.5)) == (
        f"{sentence}; even then the noise of its own reports, epsilon 0.5, keeps it at 62.3 % or "
        "less."
    )
    assert str(CentralDP(0.0705, 1e-6, epsilon_local=12)) == (
        f"{sentence}; even then the noise of its own reports, epsilon 12, still holds."
    )
    assert str(CentralDP(1.0, 0.0)).endswith("becomes at most 73.2 % sure.")
    assert str(CentralDP(5.0, 1e-6)).endswith(
        "guesses right at most 99.4 % of the time, which is hardly any protection."
    )
    # Of a delta this large nothing follows for single certainties.
    assert str(CentralDP(0.5, 0.1)).endswith("guesses right at most 66.1 % of the time.")


@each_case(
    ("delta", "chance"), [(1e-12, 1e-3), (1e-6, 1e-3), (1e-5, 0.01), (1e-4, 0.01), (0.01, 0.1)]
)
def test_the_stated_chance_leaves_the_certainty_to_epsilon(delta: float, chance: float) -> None:
    """The certainty stated is at most a twentieth above that of no delta."""
    promise = CentralDP(0.5, delta)
    assert promise.stated_chance == pytest.approx(chance)
    assert promise.certainty(chance) <= LocalDP(0.5).posterior() + 0.05


def test_certainties_and_their_chances_are_inverse() -> None:
    """Between what epsilon leaves open and what the local epsilon excludes."""
    promise = CentralDP(0.3, 1e-4, epsilon_local=2.0)
    for chance in (2e-4, 1e-3, 0.1, 1.0):
        assert promise.surer_chance(promise.certainty(chance)) == pytest.approx(chance)
    assert promise.surer_chance(LocalDP(0.3).posterior()) == 1.0
    assert promise.surer_chance(LocalDP(2.0).posterior()) == 0.0
    assert promise.certainty(1e-4) == LocalDP(2.0).posterior()
    assert CentralDP(0.3, 1e-4).certainty(1e-5) == 1.0
    assert CentralDP(0.3, 1e-4).surer_chance(1.0) == 0.0
    assert CentralDP(0.3, 0.0).surer_chance(0.9) == 0.0


@each_case("share", [-0.1, 0.4, 1.1, math.nan])
def test_what_is_no_certainty_or_chance_is_refused(share: float) -> None:
    """A certainty of the likelier reading is at least a half; a chance is a probability."""
    with pytest.raises(ValueError, match=r"certainty must be between 0\.5 and 1"):
        CentralDP(1.0, 1e-6).surer_chance(share)
    with pytest.raises(ValueError, match="chance must be above 0 and at most 1"):
        CentralDP(1.0, 1e-6).certainty(0.0 if share == 0.4 else share)


@each_case("local", [0.9, math.nan, math.inf])
def test_a_local_epsilon_below_the_central_one_is_refused(local: float) -> None:
    """Shuffling never takes away what the reports have by themselves."""
    with pytest.raises(ValueError, match="epsilon_local must be finite and at least epsilon"):
        CentralDP(1.0, 1e-6, epsilon_local=local)


def test_lower_bounds_are_rounded_down() -> None:
    """What is printed after "at least" is never above what was computed."""
    for bound in (0.13289, 9.999, 1.0, 0.001, 123456.0, 7e-5):
        shown = rounded_down(bound)
        assert 0.99 * bound <= shown <= bound
        assert float(f"{shown:.3g}") == shown
    assert rounded_down(0.0) == 0.0


def test_a_guess_is_no_better_than_the_local_epsilon_allows() -> None:
    """A large delta is held in check by the noise of the reports."""
    promise = CentralDP(0.9, 0.4, epsilon_local=1.0)
    assert promise.guess() == LocalDP(1.0).posterior()
    assert promise.guess(0.9) == 0.9
    assert promise.guess() < CentralDP(0.9, 0.4).guess()


@each_case("delta", [0.0, 1e-6, 0.1])
@each_case("epsilon", [0.0, 0.5, 3.0])
@each_case("prior", [0.0, 0.1, 0.5, 0.9])
def test_a_guess_includes_delta(epsilon: float, delta: float, prior: float) -> None:
    """It is the most that the two inequalities of the definition leave, tried on a fine grid."""
    factor = math.exp(epsilon)
    best = 0.0
    for place in range(2001):
        no_if_other = place / 2000
        yes_if_other = 1 - no_if_other
        yes = min(1.0, factor * yes_if_other + delta, 1 - (no_if_other - delta) / factor)
        best = max(best, prior * yes + (1 - prior) * no_if_other)
    guess = CentralDP(epsilon, delta).guess(prior)
    assert best <= guess + 1e-12
    assert guess <= best + 2e-3
    assert CentralDP(epsilon, 0.0).guess(0.5) == pytest.approx(LocalDP(epsilon).posterior())


def test_guarantees_of_huge_losses_do_not_overflow() -> None:
    """A year of reports may add up to thousands."""
    assert CentralDP(5000.0, 1e-6).guess() == 1.0
    assert LocalDP(5000.0).posterior() == 1.0


def test_permutation_privacy_prints_what_alpha_means() -> None:
    """The sentence names both losses, the attacker's success and chance."""
    guarantee = PermutationPrivacy(
        30, 120, attacker_success=0.5, chance=1 / 64, exposed_success=0.6
    )
    assert str(guarantee) == (
        "30-d_σ privacy for the groups used (120 for the real groups): an observer of the order "
        "assigns 50 % of the slots rightly (the most exposed slot: 60 %), guessing 1.6 %."
    )
    assert guarantee.odds == (
        "an observer who was 50 % sure of the order of a real group may become 100 % sure; this is "
        "hardly any protection"
    )


def test_permutation_odds_are_those_of_the_real_groups() -> None:
    """Groups the shuffler invented do not help the contributors."""
    assert (
        PermutationPrivacy(0.1, 1.0, 0.1, 0.1, exposed_success=0.1).posterior()
        == LocalDP(1.0).posterior()
    )
    assert PermutationPrivacy(math.inf, math.inf, 1.0, 0.5, exposed_success=1.0).posterior() == 1.0
    assert "at most 50 % sure" in PermutationPrivacy(0.0, 0.0, 0.1, 0.1, exposed_success=0.1).odds


@each_case(
    ("numbers", "name"),
    [
        ((-1.0, 0.0, 0.5, 0.5), "alpha"),
        ((0.0, math.nan, 0.5, 0.5), "real_loss"),
        ((0.0, 0.0, 1.5, 0.5), "attacker_success"),
        ((0.0, 0.0, 0.5, -0.1), "chance"),
        ((0.0, 0.0, 0.5, 0.5, 1.5), "exposed_success"),
    ],
)
def test_permutation_privacy_refuses_what_is_no_loss_or_share(
    numbers: tuple[float, ...], name: str
) -> None:
    """Losses are not negative, shares lie between 0 and 1."""
    with pytest.raises(ValueError, match=f"^{name} must"):
        PermutationPrivacy(*numbers[:4], exposed_success=(*numbers, 0.5)[4])


@each_case(
    "guarantee",
    [LocalDP(1.0), CentralDP(1.0, 1e-6), PermutationPrivacy(1, 2, 0.5, 0.5, exposed_success=0.5)],
)
def test_every_guarantee_names_its_terms(
    guarantee: LocalDP | CentralDP | PermutationPrivacy,
) -> None:
    """Neighbours, assumption and theorem can be read from the value."""
    assert all((guarantee.neighbours, guarantee.assumption, guarantee.theorem, guarantee.odds))
    assert guarantee.odds in str(guarantee) or isinstance(guarantee, PermutationPrivacy)
