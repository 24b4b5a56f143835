"""Estimates over time: what earlier rounds tell of the present one, windows, verdicts."""
