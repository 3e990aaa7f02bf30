"""What reaches a person of an error: one line, without anything secret."""

from __future__ import annotations

from flows import settings
from model.errors import sentence, without_logins


def one_line(error: BaseException) -> str:
    """Return the message of ``error`` on a single line; Ray's wrapping around ours is taken off."""
    return unsecret(sentence(error))


def unsecret(text: str) -> str:
    """Return ``text`` without passwords in addresses, and without any secret of the environment."""
    for secret in settings.secrets():
        text = text.replace(secret, "…")
    return without_logins(text)
