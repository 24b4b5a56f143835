"""``rase attack FILE``: what a configuration reveals about your own data, before you use it."""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from rase.campaign import Campaign
from rase.cli.arguments import table_options, usage
from rase.cli.output import TextSink, check_not_read, check_out, file_sink, show_progress
from rase.domain import Precision, Range
from rase.laws.geometric import Laplace
from rase.laws.registry import CHOICES, randomizer_named
from rase.toml import parse_toml

if TYPE_CHECKING:
    from rase.lab.metrics import AttackResult
    from rase.lab.panel import Panel
    from rase.lab.schemes import Scheme
    from rase.tables.layouts import Columns

__all__ = ["Configuration", "command"]

# Which scheme of the lab has the same law of order.
_LAW_OF = {
    "none": "br",
    "uniform": "best",
    "mallows": "br-mallows",
    "robust": "rase",
    "paper": "rase-paper",
}
_USUAL = ("value", "profile", "bayes", "matching", "mallows_aware", "linkage", "averaging")
_KEYS = (
    *("low", "high", "steps", "epsilon", "mechanism", "beta", "rho"),
    *("shuffle", "alpha", "groups"),
)
# Keys of a campaign that change nothing for an attacker.
_IGNORED = frozenset(field.name for field in dataclasses.fields(Campaign)) - frozenset(_KEYS)


class ConfigurationInvalid(click.ClickException):
    """The file is not a valid configuration: exit code 3, with all errors."""

    exit_code = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The part of a configuration that matters to an attacker.

    Args:
        value_range: The public range.
        epsilon: The budget of a report; of several, the largest, which gives most away.
        mechanism: How devices randomize; ``auto`` for the best for a mean at this epsilon.
        precision: The (beta, rho) of the budget-aware randomizer.
        shuffle: "uniform", "robust", "mallows", "paper" (Algorithm 2 as printed) or "none".
        alpha: The loss allowed to a Mallows law.
        groups: The number of groups.
    """

    value_range: Range
    epsilon: float
    mechanism: str = "auto"
    precision: Precision = Precision(beta=0.5, rho=0.9)  # noqa: RUF009 - frozen
    shuffle: str = "uniform"
    alpha: float = 30.0
    groups: int = 1

    def scheme(self) -> "Scheme":
        """Return the configuration as a scheme of the lab."""
        from rase.lab.schemes import scheme_named

        ordered = scheme_named(
            _LAW_OF[self.shuffle],
            self.value_range,
            epsilon=self.epsilon,
            alpha=self.alpha,
            group_count=self.groups,
        )
        randomizer = randomizer_named(
            self.mechanism, self.epsilon, domain=self.value_range, precision=self.precision
        )
        return dataclasses.replace(ordered, name="configuration", randomizer=randomizer)


def read_configuration(path: Path) -> Configuration:
    """Read the table [campaign] of a TOML file.

    Raises:
        ConfigurationInvalid: With everything that is wrong with it.
    """
    try:
        document = parse_toml(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationInvalid(f"{path}: {str(reason).rstrip('.')}.") from error
    table = document.get("campaign")
    if not isinstance(table, dict):
        raise ConfigurationInvalid(f"{path}: there must be a table [campaign].")
    reader = _Reader(table)
    configuration = reader.configuration()
    if configuration is None:
        raise ConfigurationInvalid(f"{path}: {' '.join(reader.mistakes)}")
    return configuration


class _Reader:
    """Parse a table, and collect all errors instead of stopping at the first."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.mistakes: list[str] = []
        self._table = dict(table)
        # A campaign writes its shuffle as a table of method, alpha and groups.
        if isinstance(plan := table.get("shuffle"), dict):
            self._table |= {name: value for name, value in plan.items() if name != "method"}
            self._table["shuffle"] = plan.get("method", "uniform")
        if isinstance(names := self._table.get("groups"), list):
            self._table["groups"] = max(len(names), 1)
        if isinstance(budgets := self._table.get("epsilon"), list) and budgets:
            numbers = [budget for budget in budgets if _is_number(budget)]
            self._table["epsilon"] = max(numbers) if len(numbers) == len(budgets) else budgets

    def configuration(self) -> Configuration | None:
        for name in sorted(self._table.keys() - set(_KEYS) - _IGNORED):
            self.mistakes.append(f"{name} is no key of [campaign].")
        low, high = self._number("low"), self._number("high")
        epsilon = self._number("epsilon")
        mechanism = self._choice("mechanism", "auto", CHOICES)
        beta, rho = self._number("beta", 0.5), self._number("rho", 0.9)
        steps = self._whole("steps", 4096)
        shuffle = self._choice("shuffle", "uniform", tuple(_LAW_OF))
        alpha, groups = self._number("alpha", 30.0), self._whole("groups", 1)
        if shuffle in {"mallows", "robust", "paper"} and not {"alpha", "groups"} <= set(
            self._table
        ):
            self.mistakes.append(f"shuffle {shuffle} needs alpha and groups.")
        value_range = self._call_reader(lambda: Range(low, high, steps))
        precision = self._call_reader(lambda: Precision(beta=beta, rho=rho))
        # A budget is judged whatever the range is, so that all mistakes are reported at once.
        self._call_reader(lambda: Laplace(epsilon, Range(0, 1)))
        if self.mistakes or value_range is None or precision is None:
            return None
        made = Configuration(
            value_range=value_range,
            epsilon=epsilon,
            mechanism=mechanism,
            precision=precision,
            shuffle=shuffle,
            alpha=alpha,
            groups=groups,
        )
        # The mechanism and the law know their own bounds.
        self._call_reader(made.scheme)
        return None if self.mistakes else made

    def _number(self, name: str, usual: float | None = None) -> float:
        value = self._table.get(name)
        if value is None:
            if usual is None:
                self.mistakes.append(f"{name} is missing.")
            return float("nan") if usual is None else usual
        if not _is_number(value):
            self.mistakes.append(f"{name} must be a number, got {value!r}.")
            return float("nan")
        return float(value)

    def _whole(self, name: str, usual: int) -> int:
        value = self._table.get(name, usual)
        if isinstance(value, bool) or not isinstance(value, int):
            self.mistakes.append(f"{name} must be a whole number, got {value!r}.")
            return usual
        return value

    def _choice(self, name: str, usual: str, allowed: tuple[str, ...]) -> str:
        value = self._table.get(name, usual)
        if value not in allowed:
            self.mistakes.append(f"{name} must be one of {', '.join(allowed)}, got {value!r}.")
            return usual
        return str(value)

    def _call_reader(self, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except (ValueError, TypeError) as error:
            # A number that is missing or not a number was reported already.
            if "nan" not in str(error):
                self.mistakes.append(str(error))
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@click.command("attack", short_help="Attack a configuration on your own data.")
@click.argument("file", metavar="FILE")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    required=True,
    help="TOML file with a table [campaign].",
)
@click.option("--attack", "attacks", multiple=True, help="An attack; may be repeated; or all.")
@click.option(
    "--split",
    type=click.Choice(["random", "time"]),
    default="random",
    show_default=True,
    help="How a fifth is selected for the test.",
)
@click.option(
    "--arrival",
    type=click.Choice(["fixed", "random"]),
    default="fixed",
    show_default=True,
    help="Whether devices report in the same sequence every round.",
)
@click.option("--every", help="Length of a round, such as 1h; by default the data's interval.")
@click.option(
    "--devices", type=click.IntRange(min=2), help="Keep only those with the most readings."
)
@table_options("FILE")
@click.option("--seed", type=click.IntRange(0, 4_000_000), default=1, show_default=True,
              help="Seed of noise, order, split and attack.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write results to .csv, .parquet or .json."
)
def command(
    *,
    file: str,
    config: Path,
    attacks: tuple[str, ...],
    split: Literal["random", "time"],
    arrival: Literal["fixed", "random"],
    every: str | None,
    devices: int | None,
    columns: "Columns",
    dialect: dict[str, Any],
    seed: int,
    as_json: bool,
    out: Path | None,
) -> None:
    """Attack a configuration on your own data.

    FILE is a table of readings, or a name of rase lab data. The readings are randomized and
    shuffled as the configuration says, and attackers with different knowledge try to name the
    sender of each report. The result also shows what they achieve without any protection.
    """
    with _lab_packages():
        from rase.lab.attacks import ATTACK_NAMES, attack_named
        from rase.lab.datasets import Wanted, load
        from rase.tables.columns import Hints
    with usage():
        names = ATTACK_NAMES if "all" in attacks else attacks or _USUAL
        chosen = {name: attack_named(name) for name in dict.fromkeys(names)}
        if out is not None:
            check_out(out)
            check_not_read(out, [config, file])
    configuration = read_configuration(config)
    with usage():
        wanted = Wanted(every=every, devices=devices, columns=columns, hints=Hints(**dialect))
        loaded = load(file, wanted)
    panel = loaded.panel
    panel.check_attackable()
    how = {"split": split, "arrival": arrival, "seed": seed}
    rows = list(_rows(panel, configuration.scheme(), chosen, how))
    head = {
        "schema": "rase.attack/1",
        "data": panel.source,
        "devices": panel.n,
        "rounds": panel.rounds,
        "configuration": dataclasses.asdict(configuration),
        **how,
    }
    if out is not None:
        with file_sink(out, head) as sink:
            for row in rows:
                sink.add(row)
            sink.finish({})
    _print_rows(rows, head, as_json=as_json)
    for note in loaded.notes:
        click.echo(note, err=True)


@contextmanager
def _lab_packages() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f'attacks need {error.name}; pip install "rase-iot[lab]".'
        ) from error


def _rows(
    panel: "Panel", scheme: "Scheme", chosen: Mapping[str, Any], how: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    from rase.lab.attacks.runner import attack_scheme
    from rase.lab.schemes import scheme_named

    raw = scheme_named("raw", Range(0, 1))
    with show_progress() as show:
        for number, (name, attack) in enumerate(chosen.items()):
            show(f"attack {name}", number / len(chosen))
            bare = attack_scheme(panel, raw, attacks=[attack], **how)[0]
            yield _row(attack_scheme(panel, scheme, attacks=[attack], **how)[0], bare)


def _row(result: "AttackResult", bare: "AttackResult") -> dict[str, Any]:
    return {
        "attack": result.attack,
        "recall": result.macro_recall.value,
        "low": result.macro_recall.low,
        "high": result.macro_recall.high,
        "precision": result.macro_precision.value,
        "chance": result.chance,
        "unprotected": bare.macro_recall.value,
        "records": result.records,
        "confident": result.confident,
        "confident_right": result.confident_right,
    }


def _print_rows(rows: list[dict[str, Any]], head: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**head, "results": rows}, indent=2))
    else:
        shares = dict.fromkeys(("recall", "low", "high", "precision", "chance", "unprotected"), 11)
        widths = {"attack": 13, **shares, "confident": 9}
        sink = TextSink(sys.stdout, widths, decimals=4)
        for row in rows:
            sink.add(row)
        sink.finish({})
    above = [row for row in rows if row["low"] > row["chance"]]
    if not above:
        click.echo("no attack names senders better than blind guessing does.", err=True)
    for row in above:
        click.echo(
            f"{row['attack']} names the right sender of {100 * row['recall']:.1f} % of a device's "
            f"reports, {row['recall'] / row['chance']:.1f} times chance; unprotected it would be "
            f"{100 * row['unprotected']:.1f} %.",
            err=True,
        )
    click.echo("seeded noise: for study only, protects nobody.", err=True)
