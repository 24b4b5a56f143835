"""What was typed to what is meant: options of the commands checked and turned into objects."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rase.clock import parse_duration_s
from rase.engine.budgets import budgets_by_code, read_budgets
from rase.engine.ranging import RangeFeedback
from rase.errors import PrivacyRefused
from rase.estimate.ranges import TRACKED_ROUNDS
from rase.pipeline import Pipeline
from rase.randomize.protocol import Randomizer
from rase.randomize.registry import randomizer_named
from rase.shuffle.robust import Robust
from rase.shuffle.shufflers import Shuffler, Uniform
from rase.stream import Precision, ValueRange

if TYPE_CHECKING:
    from rase.engine.files import Files
    from rase.engine.in_order import FilesTable
    from rase.engine.job import Job

__all__ = ["RunOptions", "parse_size", "usage"]


@contextmanager
def usage() -> Iterator[None]:
    """Turn a wrong argument into a usage error: one line and exit code 2."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from error


def parse_size(text: str) -> int:
    """Return how many bytes a text such as 512MB, 4GB or 4GiB stands for.

    Raises:
        ValueError: If it does not look like one.

    Example:
        >>> parse_size("512MB"), parse_size("2GiB")
        (512000000, 2147483648)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)[bB]?\s*", text)
    if found is None:
        raise ValueError(f"a size must look like 512MB, 4GB or 4GiB, got {text!r}.")
    number, prefix, binary = found.groups()
    power = " KMGT".index(prefix.upper() or " ")
    return int(float(number) * (1024 if binary else 1000) ** power)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Hold what was asked of ``rase run``, as it was typed.

    Raises:
        click.UsageError: If options contradict each other.
        ValueError: If ``every`` is not a duration.
        PrivacyRefused: If readings would be randomized several times with noise that protects.
    """

    value_range: tuple[float, float]
    epsilon: float
    epsilons: Path | None
    steps: int
    mechanism: str
    beta: float | None
    rho: float | None
    alpha: float | None
    groups: int | None
    graph: Path | None
    estimator: tuple[str, ...]
    every: str | None
    window: str | None
    strict: bool
    truth: bool
    trials: int
    seed: int | None
    level: float
    feedback: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.mechanism != "budget-aware" and not (self.beta is None and self.rho is None):
            raise click.UsageError(
                "--beta and --rho belong to --mechanism budget-aware, which must be asked for; "
                f"got --mechanism {self.mechanism}."
            )
        if self.alpha is not None and self.groups is None:
            raise click.UsageError("--alpha needs --groups: how many groups it shall protect.")
        if self.groups is not None and self.alpha is None:
            raise click.UsageError("--groups needs --alpha: the loss allowed inside a group.")
        if self.graph is not None and self.alpha is None:
            raise click.UsageError("--graph needs --alpha and --groups.")
        if self.feedback and self.graph is not None:
            raise click.UsageError("--feedback and --graph cannot be used together.")
        if self.feedback and self.epsilons is not None:
            raise click.UsageError("--feedback and --epsilons cannot be used together.")
        if self.every is not None:
            parse_duration_s(self.every)
        if not 0 < self.level < 1:
            raise click.UsageError(f"--level must be between 0 and 1, got {self.level:g}.")
        if self.trials > 1 and self.seed is None:
            raise PrivacyRefused(
                f"--trials {self.trials} would draw {self.trials} noises for each reading and "
                f"spend its epsilon {self.trials} times; add --seed to mark the run as study."
            )

    @property
    def precision(self) -> Precision:
        """The (beta, rho) asked for; the paper's unless given."""
        return Precision(
            beta=0.5 if self.beta is None else self.beta, rho=0.9 if self.rho is None else self.rho
        )

    @property
    def window_rounds(self) -> int | None:
        """How many rounds a window holds; a duration counts the rounds of ``--every`` in it."""
        if self.window is None or self.window.strip().isdigit():
            rounds = None if self.window is None else int(self.window)
        elif self.every is None:
            raise click.UsageError(f"--window {self.window} needs --every; or give rounds.")
        else:
            rounds, rest = divmod(parse_duration_s(self.window), parse_duration_s(self.every))
            if rest:
                raise click.UsageError(
                    f"--window must hold whole rounds of {self.every}, got {self.window}."
                )
        if rounds is not None and rounds < 2:
            raise click.UsageError(f"--window must hold two rounds or more, got {self.window}.")
        return rounds

    def pipeline(self, budgets: tuple[float, ...] | None = None) -> Pipeline:
        """Build what the readings go through.

        Args:
            budgets: One for each device by its code, where they differ.

        Raises:
            ValueError: If a number is out of bounds or an estimator unknown.
        """
        names = [name.replace("-", "_") for name in self.estimator]
        return Pipeline(
            self._randomizer(self.epsilon if budgets is None else budgets), self._shuffler(), names
        )

    def personal_budgets(self, table: "FilesTable") -> tuple[float, ...] | None:
        """Return the budget of each device; None where all have one.

        The table is read once more, because devices have to be known before the first report.
        """
        if self.epsilons is None:
            return None
        allowed = read_budgets(self.epsilons)
        for _ in table.batches():
            continue
        return budgets_by_code(allowed, table.device_codes, epsilon=self.epsilon)

    def job(self, source: "Files", *, work: Path | None) -> "Job":
        """Return the job for a table.

        Args:
            source: The files of the table.
            work: Where to keep what an interrupted run needs to go on; None for nowhere.

        Raises:
            DataError: If the graph cannot be read.
        """
        from rase.engine.groups import read_edges
        from rase.engine.job import GraphSettings, Job

        graph = None
        if self.graph is not None and self.alpha is not None and self.groups is not None:
            graph = GraphSettings(tuple(read_edges(self.graph)), self.alpha, self.groups)
        pipeline = self.pipeline()
        return Job(
            source=source,
            randomizer=pipeline.randomizer,
            shuffler=pipeline.shuffler,
            estimators=tuple(pipeline.estimators),
            every=self.every,
            window=self.window_rounds,
            graph=graph,
            truth=self.truth,
            work=work,
        )

    def range_feedback(self) -> RangeFeedback:
        """Begin to learn a range, with the mechanism that was asked for between probing rounds."""
        averaged = TRACKED_ROUNDS if "auto" in self.estimator else 1
        return RangeFeedback(self.epsilon, self._public, make=self._made, averaged=averaged)

    @property
    def _public(self) -> ValueRange:
        low, high = self.value_range
        return ValueRange(low, high, self.steps)

    def _randomizer(self, epsilon: float | tuple[float, ...]) -> Randomizer:
        return self._made(epsilon, self._public)

    def _made(self, epsilon: float | tuple[float, ...], public: ValueRange) -> Randomizer:
        return randomizer_named(
            self.mechanism, epsilon, value_range=public, precision=self.precision
        )

    def _shuffler(self) -> Shuffler:
        if self.alpha is None or self.groups is None:
            return Uniform()
        return Robust(self.alpha, self.groups)
