"""Random words and the integer kernels fed by them: the lowest room of the mathematics."""
