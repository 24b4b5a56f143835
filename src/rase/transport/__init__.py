"""How messages travel: one interface, over HTTP, through a broker, or in memory with faults."""
