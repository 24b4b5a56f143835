"""Random words and the integer kernels that use them: the lowest room of the mathematics."""
