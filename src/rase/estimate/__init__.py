"""Estimators: what a fusion centre learns from the shuffled reports, each with its error."""
