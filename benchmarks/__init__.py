"""Benchmarks: one file a question, each answered by ratios to a named peer or limit.

Run with ``make bench``, or ``python -m benchmarks [NAME ...] [--quick]`` where the peers of
requirements/bench.in are installed. The answers are kept in benchmarks/results and shown in
benchmarks/RESULTS.md.
"""
