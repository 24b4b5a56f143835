"""The version, for programs that show it and files that carry it."""

__all__ = ["__version__"]

__version__ = "0.2.0"
