"""The paper's evaluation: one function for each figure and table, and for what it hides."""
