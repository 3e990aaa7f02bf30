"""Errors of a store: what obstore or the system says, and a remedy for those that users meet."""

from __future__ import annotations

import errno
import re

from obstore.exceptions import BaseError

from mcvrp.model.errors import IncompleteError, McvrpError, brief, without_logins

REFUSALS = (BaseError, OSError, ValueError)  # that obstore and the system raise

_NO_ENDPOINT = "check that it is running, and AWS_ENDPOINT_URL"
_FULL = "free space there, or request a larger quota"
_SILENT = "run the same command again once the store answers"


def _system(*numbers: int) -> str:
    return rf"\(os error ({'|'.join(map(str, numbers))})\)"


_REMEDIES = (  # by what an error says: the first that matches
    ("kind: Connect,", _NO_ENDPOINT),
    ("HTTP error", _SILENT),
    (_system(errno.EACCES, errno.EPERM, errno.EROFS), "request permission, or give another folder"),
    (_system(errno.ENOSPC, errno.EDQUOT), _FULL),
    (_system(errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH), _SILENT),
    (r"\(os error \d+\)", "check the path"),
    (r"NoSuchBucket|list request(?s:.*?)code: 404", "create the bucket, or check its name and the server"),
    (r"QuotaExceeded|StorageFull|code: 507\b", _FULL),
    (r"code: 40[13]\b", "request permission, or check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE)"),
    (r"code: (408|409|425|429|50[^15])\b|already exists", _SILENT),
    ("invalid path", "rename or remove that file"),
    ("", "check the path, the address and the variables AWS_... of the environment"),
)
_BROKEN = {"Connect": "no connection", "Timeout": "no answer in time"}  # by obstore's kind of HTTP error


class StoreError(McvrpError):
    """The store refuses (credentials, bucket, permission, no space): a retry would fail again."""


class StoreUnavailable(StoreError, IncompleteError):
    """The store does not answer, after all retries: the same command resumes the work."""


class NoSuchFile(McvrpError):
    """There is no file at a path."""


class LeaseLost(StoreError):
    """The lease of this process was taken over."""


def refusal(action: str, error: BaseException) -> StoreError:
    """Return the error of the store for ``error``, which ended ``action`` ("cannot read s3://bucket/a")."""
    text = str(error)
    if number := getattr(error, "errno", None):
        text = f"{getattr(error, 'strerror', '')} (os error {number})"
    remedy = next(remedy for pattern, remedy in _REMEDIES if re.search(pattern, text))
    kind = StoreUnavailable if remedy in (_SILENT, _NO_ENDPOINT) else StoreError
    return kind(f"{action} ({brief(_said(text), 200)}): {remedy}")


def _said(text: str) -> str:
    """Return what the server or the system says, without the words of obstore around it."""
    text, _, source = text.partition("\n\nDebug source:")
    if "HTTP error" in text:
        kind, server = re.search(r"\bkind: (\w+)", source), re.search(r"https?://[^/\s]+", text)
        broken = _BROKEN.get(kind[1] if kind else "", "connection lost")
        return f"{broken} at {without_logins(server[0]) if server else 'the server'}"
    if text.endswith(")") and "(os error" in text:
        return text.rpartition(" (os error")[0].rpartition(": ")[2]
    fields = [re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("Code", "Message")]
    if "Error performing" in text:  # without the request and the number of retries
        text = text.rpartition(" - ")[2].strip(" :")
    return ": ".join(field[1] for field in fields if field and field[1]) or text
