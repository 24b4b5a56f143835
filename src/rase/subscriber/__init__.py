"""The subscriber: asks a fusion centre for estimates, once or as they come."""
