"""How messages travel: one face, over HTTP, through a broker, or in memory with faults."""
