"""Settings: file, environment, flags, secrets in files, and every mistake at once."""

from pathlib import Path

import pytest

from rase.errors import ConfigurationError
from rase.service.settings import PathSetting, Settings, load_settings


class Below(Settings):
    """A table in the section."""

    size: int = 1


class Example(Settings):
    """A section for tests."""

    name: str = "nobody"
    port: int = 1
    key_file: PathSetting = Path("key")
    token: str = ""
    below: Below = Below()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A settings file."""
    found = tmp_path / "rase.toml"
    found.write_text(
        '[example]\nname = "file"\nport = 2\nkey_file = "keys/a"\n'
        "[example.below]\nsize = 2\n[other]\nx = 1\n"
    )
    return found


def test_later_sources_overrule(path: Path) -> None:
    """The environment overrules the file, flags overrule both; None is not a flag."""
    environment = {"RASE_EXAMPLE__PORT": "3", "RASE_EXAMPLE__BELOW__SIZE": "3", "OTHER": "x"}
    found = load_settings(
        Example,
        "example",
        path=path,
        environment=environment,
        flags={"port": 4, "name": None, "below.size": 5},
    )
    assert (found.name, found.port, found.below.size) == ("file", 4, 5)
    found = load_settings(Example, "example", path=path, environment=environment)
    assert (found.port, found.below.size) == (3, 3)
    assert load_settings(Example, "example", environment={}).name == "nobody"
    assert load_settings(Example, "missing", path=path, environment={}).port == 1


def test_the_process_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an environment of its own the loader takes that of the process."""
    monkeypatch.setenv("RASE_EXAMPLE__NAME", "set")
    assert load_settings(Example, "example").name == "set"


def test_paths_start_beside_the_file(path: Path) -> None:
    """A relative path is beside the settings; an absolute one stays."""
    found = load_settings(Example, "example", path=path, environment={})
    assert found.key_file == path.parent / "keys/a"
    found = load_settings(Example, "example", path=path, environment={}, flags={"key_file": "/k"})
    assert found.key_file == Path("/k")


def test_secrets_come_from_files(path: Path) -> None:
    """A name that ends in _file gives the file's text, unless the name itself is a setting."""
    (path.parent / "secret").write_text("s3cret\n")
    found = load_settings(
        Example, "example", path=path, environment={"RASE_EXAMPLE__TOKEN_FILE": "secret"}
    )
    assert found.token.startswith("s3c")
    assert len(found.token) == 6
    with pytest.raises(ConfigurationError, match=r"token_file must name a file.*No such file"):
        load_settings(Example, "example", path=path, environment={}, flags={"token_file": "no"})
    (path.parent / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not a text"):
        load_settings(Example, "example", path=path, environment={}, flags={"token_file": "binary"})


def test_all_mistakes_are_told_at_once() -> None:
    """Every wrong, missing and unknown setting is named in one refusal, without its value."""
    environment = {
        "RASE_EXAMPLE__PORT": "many",
        "RASE_EXAMPLE__COLOUR": "red",
        "RASE_EXAMPLE__BELOW__SIZE": "s3cret",
        "RASE_EXAMPLE__KEY_FILE__X": "1",
    }

    class Strict(Example):
        """A section with a setting that must be given."""

        must: int

    with pytest.raises(ConfigurationError) as caught:
        load_settings(Strict, "example", environment=environment)
    assert len(caught.value.mistakes) == 5
    assert caught.value.exit_code == 3
    told = str(caught.value)
    for part in (
        "example.port: input should be a valid integer",
        "example.colour is not a setting.",
        "example.must must be given.",
        "example.below.size",
        "example.key_file",
    ):
        assert part in told
    assert "s3cret" not in told


@pytest.mark.parametrize(
    ("text", "reason"), [("= x", "is not TOML"), ("example = 1", "must be a table")]
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, reason: str) -> None:
    """A file that is no TOML, or has a value for a section, is told, and not what it would hold."""
    path = tmp_path / "rase.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=reason) as told:
        load_settings(Example, "example", path=path, environment={})
    assert len(told.value.mistakes) == 1
    with pytest.raises(ConfigurationError, match="No such file") as told:
        load_settings(Example, "example", path=tmp_path / "missing", environment={})
    assert len(told.value.mistakes) == 1


def test_what_follows_from_a_missing_file_is_not_told(tmp_path: Path) -> None:
    """Where no settings could be read, one sentence says so, and not each that is missing."""

    class Strict(Settings):
        must: int
        also: int

    path = tmp_path / "rase.toml"
    for data, told in (
        (None, "No such file or directory."),
        (b"\xff\xfe", "is not TOML: it must be a text in UTF-8."),
        (b"[other]\nmust = 1\n", "has no settings in a section [example]."),
    ):
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(ConfigurationError) as caught:
            load_settings(Strict, "example", path=path, environment={})
        (mistake,) = caught.value.mistakes
        assert mistake.endswith(told)
    path.write_text("[example]\nmust = 1\n")
    with pytest.raises(ConfigurationError, match=r"example\.also must be given"):
        load_settings(Strict, "example", path=path, environment={})


def test_a_flag_below_a_value_replaces_it(path: Path) -> None:
    """Where a source put a value, a later one may put a table."""
    found = load_settings(
        Example,
        "example",
        environment={"RASE_EXAMPLE__BELOW": "x", "RASE_EXAMPLE__BELOW__SIZE": "7"},
    )
    assert found.below.size == 7
