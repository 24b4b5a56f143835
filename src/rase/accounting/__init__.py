"""What privacy costs: guarantees added up, budgets kept, plans made."""
