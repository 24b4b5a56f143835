"""The audit: lower bounds on epsilon from samples alone, against what is claimed."""
