"""Randomizers: what a device does to a reading before anything leaves it."""
