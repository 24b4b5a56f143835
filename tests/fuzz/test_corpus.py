"""Every parser of foreign bytes against its kept corpus and seeded mutations of it."""

import pytest
from fuzz.mutate import mutations
from fuzz.targets import TARGETS, corpus_of

# Parsers that go through a file or a cipher take far longer for each input.
MANY, FEW = 2500, 300
SLOW = {"refit", "table", "wide", "edges", "csv_source", "device_toml", "server_toml"}
SLOW |= {"campaign_toml", "device_state", "sealed_content", "outer", "inner", "key_text"}


def test_kept_inputs() -> None:
    """Whatever was kept, seeds and what was found once, gives a value or a named refusal."""
    for name, target in TARGETS.items():
        kept = list(corpus_of(name))
        assert kept, name
        for data in kept:
            try:
                target(data)
            except Exception as error:
                error.add_note(f"the target {name}, given {data!r}")
                raise


@pytest.mark.parametrize("name", TARGETS)
def test_mutations(name: str) -> None:
    """So do mutations of it."""
    for data in mutations(list(corpus_of(name)), FEW if name in SLOW else MANY, seed=2026):
        TARGETS[name](data)
