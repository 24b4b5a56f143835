"""What the benchmarks of the servers share: a fleet's keys and reports, a load, and its echo."""
