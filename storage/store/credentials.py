"""Keys of object stores that this process uses, wherever they come from: no text may have them."""

from __future__ import annotations

from typing import Any

_IN_USE: list[Any] = []
_SECRET = ("access_key", "secret_key", "token")


def use(credentials: Any) -> None:
    """Take note of ``credentials`` of botocore, None where there are none."""
    if credentials is not None and all(credentials is not known for known in _IN_USE):
        _IN_USE.append(credentials)


def keys_in_use() -> set[str]:
    """Return keys and session tokens as they are now.

    Read where they are kept, not asked for: those of a role would be renewed over the network.
    """
    kept = (item for credentials in _IN_USE for item in vars(credentials).items())
    return {value for name, value in kept if name.lstrip("_") in _SECRET and isinstance(value, str)}
