"""How many devices one owner may have: what keeps one person from being a crowd.

Robustness and k_min count devices. An operator who says whose tokens are whose bounds what one
owner can be; the word for an owner is kept as a hash only, never beside what a device sent.
"""

from hashlib import sha256
from typing import Final

from rase.storage.face import Transaction

__all__ = ["check_room", "keep_owner", "owner_id"]

_LONGEST: Final = 200


def owner_id(name: str) -> bytes | None:
    """Return what is stored for an owner; None if no name was given.

    Whoever can guess the name can find it, so a customer number is better than a name.

    Args:
        name: The operator's word for the owner.

    Raises:
        ValueError: If the name is too long.
    """
    if len(name) > _LONGEST:
        raise ValueError(f"owner must have at most {_LONGEST} characters, got {len(name)}.")
    return sha256(b"rase owner\0" + name.encode()).digest() if name else None


def keep_owner(transaction: Transaction, owner: bytes) -> None:
    """Make a row for an owner, unless there is one."""
    transaction.execute("INSERT INTO owner (id) VALUES (?) ON CONFLICT DO NOTHING", (owner,))


def check_room(transaction: Transaction, owner: bytes, *, count: int, most: int) -> None:
    """Refuse devices beyond what an owner may have; until the transaction's end nobody adds one.

    Args:
        transaction: That in which the devices are added.
        owner: As returned by `owner_id`.
        count: How many are to be added.
        most: How many the owner may have.

    Raises:
        ValueError: If there would be too many.
    """
    # The row is held, so that two at once do not both find the last place free.
    transaction.execute("SELECT id FROM owner WHERE id = ? FOR UPDATE", (owner,))
    ((found,),) = transaction.execute("SELECT count(*) FROM device WHERE owner = ?", (owner,))
    if found + count > most:
        raise ValueError(
            f"an owner must have at most {most} devices, got {found + count}; revoke one that is "
            "no longer used, or raise shuffler.limits.devices_per_owner."
        )
