"""The Live page's peer: the same figures, chart and tables in another framework."""
