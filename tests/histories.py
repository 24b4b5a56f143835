"""Histories of a state machine, tried the same way each time."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

__all__ = ["try_histories"]


def try_histories(machine: type[RuleBasedStateMachine], count: int, *, steps: int) -> None:
    """Try so many histories of so many steps; the same ones in every run."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=count,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
