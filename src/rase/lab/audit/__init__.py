"""The audit: lower bounds on epsilon from samples, compared with the claims."""
