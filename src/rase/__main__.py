"""Run the command line as ``python -m rase``."""

import sys

from rase.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
