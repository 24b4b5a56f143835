"""Which rooms of the package the programs of a real installation come from."""

from typing import Final

__all__ = ["INSTALLATION", "INTAKE"]

# Commands are imported by name when they are called, so each that is called is named here.
INSTALLATION: Final = (
    "cli/campaign.py",
    "cli/device.py",
    "cli/fusion.py",
    "cli/init.py",
    "cli/keys.py",
    "cli/registrar.py",
    "cli/shuffler.py",
    "device",
    "fusion",
    "registrar",
    "shuffler",
    "subscriber",
)
INTAKE: Final = ("cli/shuffler.py", "shuffler")
