"""Studies of RASE on existing data: synthetic fleets, figures, experiments."""

__all__: list[str] = []
