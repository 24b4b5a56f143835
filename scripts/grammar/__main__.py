"""Check the grammar of what people read; print each mistake with its place.

Usage: python -m scripts.grammar

Needs Node.js 20 and `npm ci --prefix scripts/grammar`. The rules, and texts that are right although
a rule objects, are in rules.toml.
"""

import shutil
import sys
import tomllib
from pathlib import Path

from scripts.grammar.check import find_mistakes, rules_of
from scripts.grammar.texts import passages_of

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Print what is wrong in the project's texts; return 1 if anything is."""
    node = shutil.which("node")
    if node is None:
        print("node is not installed: apt-get install nodejs", file=sys.stderr)
        return 2
    rules = rules_of(tomllib.loads((Path(__file__).parent / "rules.toml").read_text("utf-8")))
    mistakes = find_mistakes(list(passages_of(ROOT, generated=rules.generated)), rules, node=node)
    print("\n".join(map(str, mistakes)) or "no mistake found.")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
