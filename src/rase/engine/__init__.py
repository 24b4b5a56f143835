"""A batch job over a table of readings: read, randomize, spill, and release round by round."""

__all__: list[str] = []
