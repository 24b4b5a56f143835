"""Tables of readings: one reader, one run, mapped by threads or by Spark."""
