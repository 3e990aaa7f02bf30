"""Credentials of object stores in use by this process, to be redacted from every text."""

from __future__ import annotations

from typing import Any

_IN_USE: list[Any] = []
_SECRET = ("access_key", "secret_key", "token")


def use(credentials: Any) -> None:
    """Register ``credentials`` of botocore; None is ignored."""
    if credentials is not None and all(credentials is not other for other in _IN_USE):
        _IN_USE.append(credentials)


def keys_in_use() -> set[str]:
    """Return the current keys and session tokens.

    Attributes are read directly: the public accessors would renew the credentials of a role over the network.
    """
    attributes = (item for credentials in _IN_USE for item in vars(credentials).items())
    return {value for name, value in attributes if name.lstrip("_") in _SECRET and isinstance(value, str)}
