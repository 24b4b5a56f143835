"""Names of mechanisms become randomizers in one place, and every list of names is derived."""

import click
import pytest

from rase import Categories, Precision, Range
from rase.cli.init import command as init
from rase.cli.plan import command as plan
from rase.cli.run import command as run
from rase.kernels.entropy import SecureEntropy
from rase.lab.audit.catalogue import randomizers
from rase.laws.registry import (
    CHOICES,
    FOR_MEANS,
    MEAN_CHOICES,
    MECHANISMS,
    PROBE,
    auto,
    mechanisms_of,
    randomizer_named,
)

UNIT, ASKED = Range(0, 1), Precision(0.5, 0.9)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_name_is_a_randomizer_and_a_device_law(name: str) -> None:
    """What a campaign may name is drawn by NumPy and by devices, of the same epsilon."""
    randomizer = randomizer_named(name, 1.0, domain=UNIT, precision=ASKED)
    assert randomizer.effective_epsilon <= 1.0
    assert isinstance(randomizer.draw_one(0.5, SecureEntropy()), int)
    assert len(randomizer.draw_many([0.5] * 3)) == 3
    assert randomizer.summary
    assert (randomizer.name, randomizer.domain_kind) == (name, Range)


def test_auto_is_the_best_for_a_mean() -> None:
    """The name ``auto`` is `auto`, also for several budgets."""
    for epsilon in (0.5, 1.0, (0.5, 2.0)):
        found = randomizer_named("auto", epsilon, domain=UNIT, precision=ASKED)
        assert found == auto(epsilon, UNIT)


def test_an_unknown_name_lists_the_others() -> None:
    """The error names every choice."""
    with pytest.raises(ValueError, match=r"must be one of auto, budget-aware, .*, got 'gauss'"):
        randomizer_named("gauss", 1.0, domain=UNIT, precision=ASKED)


def test_lists_are_derived() -> None:
    """Commands, the planner and the audit offer the registry's names."""
    of_categories = mechanisms_of(Categories)
    for command, choices in (
        (run, (*CHOICES, *of_categories)),
        (init, (*CHOICES, *of_categories)),
        (plan, MEAN_CHOICES),
    ):
        (option,) = (one for one in command.params if one.name == "mechanism")
        assert isinstance(option.type, click.Choice)
        assert tuple(option.type.choices) == choices
    assert (*FOR_MEANS, PROBE) == MECHANISMS
    assert {name.split()[0] for name in randomizers(1.0)} == set(MECHANISMS)
