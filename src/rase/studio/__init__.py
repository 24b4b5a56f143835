"""Studio: Explorer and attack lab as a program on one's own machine, apart from every server."""
