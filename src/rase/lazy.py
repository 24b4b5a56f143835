"""NumPy, imported when it is first used.

The device agent draws from the same laws as the servers, and must run where NumPy is absent.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["numpy"]

if TYPE_CHECKING:
    import numpy  # noqa: ICN001 - users of this module rename it
else:

    class _LazyModule:
        """Import a module at the first use of one of its names, and keep the names used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module(self._name), name)
            setattr(self, name, value)
            return value

    numpy = _LazyModule("numpy")
