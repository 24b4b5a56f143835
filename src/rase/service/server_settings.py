"""The settings that both servers have, declared once."""

from pathlib import Path

from pydantic import Field

from rase.service.settings import DatabaseSetting, PathSetting, Settings, load_settings
from rase.service.tracing import TraceSettings
from rase.wire.keys import Role

__all__ = ["ServerSettings"]


class ServerSettings(Settings):
    """Where a server listens, what it keeps, its keys, and how it opens envelopes.

    Args:
        host: The address to listen on.
        port: The port; 0 for any free one.
        database: Its state: a file, or postgresql://user@host/database.
        signing_key_file: Its private Ed25519 key.
        opening_key_files: Its private HPKE keys, also old ones whose reports may still come.
        rotate_keys_s: How long one opening key is used before this server makes the next by itself,
            such as 2592000 for 30 days; 0 for never.
        workers: How many processes open many envelopes; fewer than 2 for none, None for one a core.
        traces: The collector of spans; None for none.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    database: DatabaseSetting
    signing_key_file: PathSetting
    opening_key_files: list[PathSetting] = Field(min_length=1)
    rotate_keys_s: int = Field(default=0, ge=0)
    workers: int | None = Field(default=None, ge=0, le=256)
    traces: TraceSettings | None = None

    def current_opening_key_files(self, role: Role) -> list[Path]:
        """Return the private opening keys that the settings file names now.

        Raises:
            ConfigurationError: If the file cannot be used any more.
        """
        if self.source is None:
            return self.opening_key_files
        return load_settings(type(self), role, path=self.source).opening_key_files
