"""How messages travel: one face, over HTTP or in memory with faults."""
