"""What the search with atheris is given and keeps; the search itself is `make fuzz`."""

import json
from pathlib import Path

from fuzz.__main__ import add_results, words_of
from fuzz.targets import corpus_of


def test_the_dictionary_has_the_words_of_the_inputs() -> None:
    """Names of settings are there once each, in libFuzzer's form; ciphertexts give none."""
    assert words_of([b"[device]\nround_s = 2", b"[device]"]) == '"device"\n"round_s"\n'
    assert words_of([b"\xff\x00\x80"]) == ""
    assert '"shuffler"\n' in words_of(corpus_of("device_toml"))


def test_results_add_up_and_name_their_seeds(tmp_path: Path) -> None:
    """A second run adds to the first; nothing that the file says besides is lost."""
    path = tmp_path / "fuzz.json"
    add_results(path, {"cbor": 5}, seed=2)
    path.write_text(json.dumps({**json.loads(path.read_text()), "tool": "atheris"}))
    add_results(path, {"cbor": 6, "batch": 1}, seed=1)
    assert json.loads(path.read_text()) == {
        "executions": {"cbor": 11, "batch": 1},
        "total": 12,
        "seeds": [1, 2],
        "tool": "atheris",
    }
