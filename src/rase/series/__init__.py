"""Estimates over time: what earlier rounds say about the present one, windows, verdicts."""
