"""The evaluation again: one function for each figure and table, and for what the paper hides."""
