"""Faults and loads against the real programs: what is told to a device must be kept, whatever."""
