"""The owner's page: what the device measured and what it sent, on this machine and nowhere else.

Only `rase.device.program` loads it, and only when the owner switches it on. Standard library alone.
"""
