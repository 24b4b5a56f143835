"""``rase conformance law`` and ``check``: a law as whole numbers, and draws compared with it."""

import csv
import json
from collections.abc import Callable
from functools import reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rase.errors import RaseError

if TYPE_CHECKING:
    from rase.domain import Domain
    from rase.laws.randomizer import Randomizer

__all__ = ["NotConforming", "check", "law", "law_fields", "law_options"]


def law_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that define a law; the command gets its randomizer."""

    @wraps(function)
    def with_randomizer(
        *,
        mechanism: str,
        epsilon: float,
        ends: tuple[float, float],
        categories: str | None,
        **rest: Any,
    ) -> None:
        from rase.domain import Categories, Range
        from rase.laws.registry import randomizer_named

        try:
            if categories is None:
                domain: Domain = Range(*ends)
            else:
                domain = Categories(tuple(name.strip() for name in categories.split(",")))
            randomizer = randomizer_named(mechanism, epsilon, domain=domain)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        function(randomizer=randomizer, **rest)

    options = (
        click.option("--mechanism", default="auto", show_default=True, help="Which law."),
        click.option("--epsilon", type=float, default=1.0, show_default=True, help="Budget."),
        click.option(
            "--range",
            "ends",
            nargs=2,
            type=float,
            default=(0.0, 1000.0),
            show_default=True,
            metavar="LOW HIGH",
            help="Public range of a reading.",
        ),
        click.option("--categories", help="States instead of a range, with commas between."),
    )
    return reduce(lambda made, option: option(made), reversed(options), with_randomizer)


@click.command("law")
@law_options
def law(randomizer: "Randomizer") -> None:
    """Print a law as whole numbers, as JSON: what a device needs to draw from it.

    Example: rase conformance law --mechanism optimal --epsilon 1 --range 0 3000
    """
    click.echo(json.dumps(law_fields(randomizer)))


def law_fields(randomizer: "Randomizer") -> dict[str, Any]:
    """Return the law of a randomizer as plain values.

    Raises:
        click.UsageError: If it has no table.
    """
    epsilon = randomizer.budgets[-1]
    try:
        fields = randomizer.law(epsilon).as_fields()
    except ValueError as error:
        raise click.UsageError(f"--mechanism: {error}") from None
    return {
        "schema": "rase/law/1",
        "mechanism": randomizer.name,
        "epsilon": epsilon,
        **_domain_fields(randomizer.domain),
        "law": fields,
    }


def _domain_fields(domain: "Domain") -> dict[str, Any]:
    from rase.domain import Categories

    if isinstance(domain, Categories):
        return {"categories": list(domain.names)}
    return {"low": domain.low, "high": domain.high, "steps": domain.steps}


@click.command("check")
@click.argument("draws", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@law_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def check(draws: Path, *, randomizer: "Randomizer", as_json: bool) -> None:
    """Compare places that a device drew with the law they should follow.

    DRAWS is a CSV file with the columns reading and place, many draws for each of a few readings; a
    state is its name. By the law of chi-square a right device is seldom called wrong.

    Example: rase conformance check draws.csv --mechanism duchi --epsilon 1 --range 0 3000
    """
    from rase.testing import compare_draws

    rows = compare_draws(randomizer, _read_draws(draws, randomizer.domain))
    is_right = all(row["verdict"] == "as the law" for row in rows)
    if as_json:
        click.echo(json.dumps({"schema": "rase/draws/1", "is_right": is_right, "readings": rows}))
    else:
        for row in rows:
            click.echo(f"{row['reading']}: {row['draws']} draws, {row['verdict']}")
    if not is_right:
        raise NotConforming("the places do not follow the law.")


class NotConforming(RaseError):
    """The device does not do what the specification says."""

    exit_code = 7


def _read_draws(file: Path, domain: "Domain") -> dict[Any, list[int]]:
    from rase.domain import Categories

    read = str if isinstance(domain, Categories) else float
    draws: dict[Any, list[int]] = {}
    try:
        with file.open(newline="", encoding="utf-8") as text:
            for row in csv.DictReader(text):
                draws.setdefault(read(row["reading"]), []).append(int(row["place"]))
        for reading in draws:
            domain.spot(reading)
    except (KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
        raise click.UsageError(
            f"{file.name} must be CSV with the columns reading and place: {error}."
        ) from None
    if not draws:
        raise click.UsageError(f"{file.name} must hold draws; it has none.")
    return draws
