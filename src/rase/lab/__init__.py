"""Studies of RASE on data one already holds: synthetic fleets, figures, experiments."""

__all__: list[str] = []
