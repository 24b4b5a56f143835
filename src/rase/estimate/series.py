"""The rounds of a table one after another, as a notebook shows them: table, frame, picture."""

from datetime import UTC, datetime
from typing import Any, Final, Protocol, SupportsIndex, TypeVar, overload

from rase.estimate.estimate import Estimate, rounded_alike
from rase.estimate.notebook import axes_for, frame_of, table_html

__all__ = ["EstimatedRound", "Rounds"]

# A notebook shows so many rows of a long table: some of the first, some of the last.
_SHOWN: Final = 10


class EstimatedRound(Protocol):
    """What is known of a round at the end; `rase.RoundResult` is one."""

    @property
    def n(self) -> int:
        """How many contributors reported."""
        ...

    @property
    def start_ms(self) -> int | None:
        """When it began, in milliseconds since 1970; None for readings without a time."""
        ...

    @property
    def truth(self) -> float | None:
        """The mean of the readings themselves; only in studies of data one holds anyway."""
        ...

    @property
    def estimate(self) -> Estimate:
        """The first estimator's answer."""
        ...


R = TypeVar("R", bound=EstimatedRound)


class Rounds(list[R]):
    """Hold rounds in the order of time: a list that can show itself.

    `rase.Pipeline.run` returns one.

    Example:
        >>> from rase import BudgetAware, Pipeline, Precision, SeededRandom, ValueRange
        >>> br = BudgetAware(2.0, ValueRange(0, 40), Precision(beta=0.5, rho=0.9))
        >>> table = {"time": [0, 0, 60, 60], "device": ["a", "b"] * 2, "value": [18, 20, 19, 21]}
        >>> rounds = Pipeline(br).run(table, rng=SeededRandom(1))
        >>> rounds
        Rounds(2 rounds, 1970-01-01 00:00 to 1970-01-01 00:01 UTC)
        >>> list(rounds.to_frame().columns)
        ['time', 'value', 'standard_error', 'ci_low', 'ci_high', 'n', 'method']
    """

    __slots__ = ()

    @overload
    def __getitem__(self, place: SupportsIndex) -> R: ...

    @overload
    def __getitem__(self, place: slice) -> "Rounds[R]": ...

    def __getitem__(self, place: SupportsIndex | slice) -> "R | Rounds[R]":
        if isinstance(place, slice):
            return Rounds(super().__getitem__(place))
        return super().__getitem__(place)

    def __repr__(self) -> str:
        if not self or self[0].start_ms is None:
            return f"Rounds({self._count})"
        return f"Rounds({self._count}, {_when(self[0])} to {_when(self[-1])} UTC)"

    def to_frame(self) -> Any:
        """Return a pandas data frame, one round a row; ``truth`` only where it is known.

        Raises:
            DataError: If pandas is not installed.
        """
        ends = [result.estimate.interval() for result in self]
        columns: dict[str, list[Any]] = {
            "time": self._times(),
            "value": [result.estimate.value for result in self],
            "standard_error": [result.estimate.standard_error for result in self],
            "ci_low": [low for low, _ in ends],
            "ci_high": [high for _, high in ends],
            "n": [result.n for result in self],
            "method": [result.estimate.method for result in self],
        }
        if any(result.truth is not None for result in self):
            columns["truth"] = [result.truth for result in self]
        return frame_of(columns)

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimates with their 95 % intervals, and the truth where it is known.

        Args:
            ax: Where to draw; None makes a figure.

        Returns:
            The axes.

        Raises:
            DataError: If a figure is wanted and matplotlib is not installed.
        """
        axes = axes_for(ax)
        times = self._times()
        ends = [result.estimate.interval() for result in self]
        lows, highs = [low for low, _ in ends], [high for _, high in ends]
        axes.fill_between(times, lows, highs, alpha=0.2, linewidth=0, label="95 % interval")
        axes.plot(times, [result.estimate.value for result in self], label="estimate")
        if any(result.truth is not None for result in self):
            axes.plot(times, [result.truth for result in self], "k:", label="truth")
        axes.set_xlabel("round" if self and self[0].start_ms is None else "start of the round, UTC")
        axes.legend()
        return axes

    @property
    def _count(self) -> str:
        return f"{len(self):,} round{'' if len(self) == 1 else 's'}"

    def _times(self) -> list[Any]:
        return [
            place if result.start_ms is None else _time(result.start_ms)
            for place, result in enumerate(self)
        ]

    def _repr_html_(self) -> str:
        shown = list(self)
        if len(self) > _SHOWN:
            shown = [*self[: _SHOWN // 2], *self[-_SHOWN // 2 :]]
        rows = [[_when(one), *_cells(one.estimate), f"{one.n:,}"] for one in shown]
        if len(self) > _SHOWN:
            rows.insert(_SHOWN // 2, ["…"] * 5)
        method = self[0].estimate.method if self else "no estimate"
        return table_html(
            ["round (UTC)", "estimate", "± error", "95 % interval", "n"],
            rows,
            caption=f"{self._count}, {method}",
        )


def _cells(estimate: Estimate) -> list[str]:
    error = estimate.standard_error
    if error == float("inf"):
        return [f"{estimate.value:.4g}", "unknown", "unknown"]
    value, shown, low, high = rounded_alike(
        estimate.value, error, *estimate.interval(), error=error
    )
    return [value, shown, f"{low} to {high}"]


def _when(result: EstimatedRound) -> str:
    return "" if result.start_ms is None else f"{_time(result.start_ms):%Y-%m-%d %H:%M}"


def _time(start_ms: int) -> datetime:
    return datetime.fromtimestamp(start_ms / 1000, tz=UTC)
