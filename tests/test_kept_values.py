"""What the mathematics computes once and keeps is still what it would compute again."""

import functools
import inspect
import pickle
import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tests.cases import each_case

_ROOMS = ("kernels", "laws", "shuffle", "counts", "series", "accounting", "wire")
# Libraries of the system: there is nothing to compute again.
_HANDLES = ("_libcrypto",)


def kept() -> list[tuple[str, Callable[[], Any]]]:
    """Return every function of the mathematics without arguments that keeps its value."""
    found = {}
    for room in _ROOMS:
        package = import_module(f"rase.{room}")
        for one in pkgutil.walk_packages(package.__path__, f"rase.{room}."):
            for function in vars(import_module(one.name)).values():
                is_kept = isinstance(function, functools._lru_cache_wrapper)
                if getattr(function, "__name__", "") in _HANDLES:
                    continue
                if is_kept and not inspect.signature(function.__wrapped__).parameters:
                    found[f"{function.__module__}.{function.__qualname__}"] = function
    return sorted(found.items())


@each_case(("name", "function"), kept())
def test_nobody_changed_what_is_kept(name: str, function: Any) -> None:
    """A fresh value has the same bytes as the one that every caller shares."""
    assert pickle.dumps(function.__wrapped__()) == pickle.dumps(function()), name


def test_some_values_are_kept() -> None:
    """The search finds the ones it is for."""
    assert "rase.series.models.prior" in dict(kept())
