"""Readings from a Python function of the owner's."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rase.device.sources.interface import Reading, SourceFailed, reading_in

if TYPE_CHECKING:
    from rase.device.settings import SourceSettings
    from rase.transport.broker import Broker

__all__ = ["FunctionSource", "function_named"]


class FunctionSource:
    """Call a function each time; None says that there is no reading.

    Args:
        function: Takes nothing and returns a number or None.
        scale: What the number is multiplied by.
        states: The names of states by what is said, where it is states; None for numbers.
    """

    KIND = "python"

    def __init__(
        self,
        function: Callable[[], object],
        *,
        scale: float = 1.0,
        states: Mapping[str, str] | None = None,
    ) -> None:
        self._function = function
        self._scale = scale
        self._states = states

    @classmethod
    def from_settings(
        cls, settings: "SourceSettings", *, folder: Path, home: "Broker | None" = None
    ) -> "FunctionSource":
        """Make the source that the section [source] describes."""
        return cls(
            function_named(settings.function or ""), scale=settings.scale, states=settings.states
        )

    def read(self) -> list[Reading]:
        """Call the function.

        Raises:
            SourceFailed: If the function raises, or returns something else.
        """
        try:
            value = self._function()
        except Exception as error:  # noqa: BLE001 - the owner's code; may quote a reading
            raise SourceFailed(self.KIND, f"raised {type(error).__name__}.") from None
        return (
            []
            if value is None
            else [reading_in(self.KIND, value, scale=self._scale, states=self._states)]
        )

    def close(self) -> None:
        """Have nothing to let go of."""


def function_named(name: str) -> Callable[[], object]:
    """Import a function by ``module:function``.

    Raises:
        SourceFailed: If there is no such function.

    Example:
        >>> function_named("time:monotonic").__name__
        'monotonic'
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute, None) if module else None
    except ModuleNotFoundError as error:
        raise SourceFailed(
            FunctionSource.KIND, f"there is no module {error.name!r} for {name!r}."
        ) from None
    except Exception as error:  # noqa: BLE001 - the owner's code, which may do anything
        raise SourceFailed(
            FunctionSource.KIND, f"importing {name!r} raised {type(error).__name__}."
        ) from None
    if not callable(found):
        raise SourceFailed(FunctionSource.KIND, f"{name!r} must be module:function; it is not.")
    function: Callable[[], object] = found
    return function
