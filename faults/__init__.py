"""Proof that the tests notice: faults planted one at a time into a copy, and the tests run on it.

`python -m faults` plants each fault of `faults.planted` and runs the tests that are to catch it.
The sources themselves are never changed.
"""
