"""From counts of reports to estimates: every aggregate of a round, with its error."""
