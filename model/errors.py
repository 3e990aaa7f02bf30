"""The exceptions that a user can act on; the command prints their message as one sentence."""

import re

_LOGIN = re.compile(r"(\w+://)[^\s]*@")  # user, password and all that stands before the last @


class McvrpError(Exception):
    """Bad input or environment: the message names the file, row or field, and the hint."""

    exit_code = 2


class IncompleteError(McvrpError):
    """The work was done in part; the message says what is missing."""

    exit_code = 1


def reason(error: BaseException) -> str:
    """Return the first line of what ``error`` says; its kind, where it says nothing."""
    text = str(getattr(error, "strerror", None) or error).strip()
    return (text.splitlines() or [type(error).__name__])[0]


def without_logins(text: str) -> str:
    """Return ``text`` with what stands between :// and @ taken out of its addresses: it may be a password."""
    return _LOGIN.sub(r"\1…@", text)


def sentence(error: BaseException) -> str:
    """Return the message of ``error`` on a single line; Ray's wrapping around ours is taken off."""
    cause = getattr(error, "cause", None)
    return " ".join(str(cause if isinstance(cause, McvrpError) else error).split())
