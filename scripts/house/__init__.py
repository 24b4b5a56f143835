"""What scripts/measure_house.py measures: the size, the shape and the ideas of the source."""
