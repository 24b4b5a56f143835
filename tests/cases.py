"""Run a test on many cases as one item, where each takes too little time to be one of its own."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

__all__ = ["each_case"]

_SHOWN = 5
_WIDTH = 80
# What a test reports a failure by: pytest's own, such as that of pytest.raises, is no Exception.
_FAILURES = (Exception, pytest.fail.Exception, BaseExceptionGroup)

Test = Callable[..., None]


def each_case(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test on all cases, as `pytest.mark.parametrize` does, but in one item.

    An item costs some milliseconds. All cases run, also after one has
    failed; the failure names its case. Fixtures are shared by the cases.

    Args:
        names: The arguments of the test that a case gives, as for `pytest.mark.parametrize`.
        cases: A value each for one name, else a tuple of as many values as names.

    Raises:
        ValueError: If there is no case: such a test could not fail.

    Example:
        >>> @each_case("number", [2, 3, 4])
        ... def test_odd(number):
        ...     assert number % 2
        >>> test_odd()
        Traceback (most recent call last):
        ...
        ExceptionGroup: 2 of 3 cases failed: number=2; number=4 (2 sub-exceptions)
    """
    arguments = [names] if isinstance(names, str) else list(names)
    rows = [(case,) if len(arguments) == 1 else tuple(case) for case in cases]
    if not rows:
        raise ValueError(f"cases must not be empty: nothing would test {', '.join(arguments)}.")
    given = [dict(zip(arguments, row, strict=True)) for row in rows]

    def decorate(test: Test) -> Test:
        def run(**fixtures: object) -> None:
            failed: list[tuple[str, BaseException]] = []
            for case in given:
                try:
                    test(**fixtures, **case)
                except _FAILURES as failure:
                    failure.add_note(f"in the case {_shown(case)}")
                    failed.append((_shown(case), failure))
            if len(failed) == 1:
                raise failed[0][1]
            if failed:
                words = f"{len(failed)} of {len(given)} cases failed: "
                words += "; ".join(name for name, _ in failed)
                raise BaseExceptionGroup(words, [failure for _, failure in failed[:_SHOWN]])

        # Its own marks, and no other attribute: hypothesis would take it for a test of its own.
        functools.update_wrapper(run, test, updated=())
        run.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in arguments]
        if len(left) != len(signature.parameters) - len(arguments):
            raise TypeError(f"{test.__name__} must take {', '.join(arguments)}.")
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _shown(case: dict[str, Any]) -> str:
    # A case may hold a whole message; its beginning is enough to find it.
    return ", ".join(f"{name}={repr(value)[:_WIDTH]}" for name, value in case.items())
