"""Studio: Explorer and attack lab as a local program, separate from every server."""
