"""Permutations, groups and the shufflers that draw them: the paper's RS and its baselines."""
