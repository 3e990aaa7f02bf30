"""Errors of a store: what the library or the system says, and a remedy for those that users meet."""

from __future__ import annotations

import errno
import re

import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError

from mcvrp.model.errors import IncompleteError, McvrpError, brief, reason

# Errors of pyarrow for bytes that are not Parquet; ValueError if the name of a column is not UTF-8.
UNREADABLE = (pa.ArrowException, OSError, ValueError)
REFUSALS = (BaseError, OSError, ValueError)  # that obstore and the system raise

NO_BUCKET = "create the bucket, or check its name and AWS_ENDPOINT_URL"
NO_PERMISSION = "request permission, or check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE)"
NO_ENDPOINT = "check that it is running, and AWS_ENDPOINT_URL"
FULL = "free space there, or request a larger quota"
SILENT = "run the same command again once the store answers"
_OTHER = "check the path, the address and the variables AWS_... of the environment"

_NUMBERS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "request permission, or give another folder"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), FULL),
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.ETIMEDOUT), SILENT),
    **dict.fromkeys((errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN), SILENT),
}
_STATUS = {403: NO_PERMISSION, 401: NO_PERMISSION, 507: FULL, **dict.fromkeys((408, 409, 425, 429), SILENT)}
_BROKEN = {"Connect": "no connection", "Timeout": "no answer in time"}  # by obstore's kind of HTTP error
_MOST = 200  # characters of what a server says


class StoreError(McvrpError):
    """The store refuses (credentials, bucket, permission, no space): a retry would fail again."""


class StoreUnavailable(StoreError, IncompleteError):
    """The store does not answer, after all retries: the same command resumes the work."""


class LeaseLost(StoreError):
    """The lease of this process was taken over."""


def refusal(action: str, error: BaseException) -> StoreError:
    """Return the error of the store for ``error``, which ended ``action`` ("cannot read s3://bucket/a")."""
    text, _, source = str(error).partition("\n\nDebug source:")
    remedy, said = _OTHER, reason(error)
    number = getattr(error, "errno", None) or _number(r"\(os error (\d+)\)", text)
    if number:
        remedy, said = _NUMBERS.get(number, "check the path"), said.rpartition(": ")[2]
    elif isinstance(error, (BaseError, FileNotFoundError)):
        remedy, said = _answer(error, text, source)
    kind = StoreUnavailable if remedy in (SILENT, NO_ENDPOINT) else StoreError
    return kind(f"{action} ({brief(said, _MOST)}): {remedy}")


def _answer(error: BaseException, text: str, source: str) -> tuple[str, str]:
    """Return the remedy for an answer of an object store, or for none, and what the server says."""
    if broken := re.search(r"\bkind: (\w+)", source) if "HTTP error" in text else None:
        server = re.search(r"https?://[^/\s]+", text)
        said = f"{_BROKEN.get(broken[1], 'connection lost')} at {server[0] if server else 'the server'}"
        return NO_ENDPOINT if broken[1] == "Connect" else SILENT, said
    code, message = (re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("Code", "Message"))
    said = f"{code[1]}: {message[1]}" if code and message else (code or [text])[-1]
    said = said.rpartition(" - ")[2].strip(" :")  # without the number of retries
    status = _number(r"status code: (\d+)", text) or 0
    if "NoSuchBucket" in text or (status == 404 and "list request" in text):
        return NO_BUCKET, said
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        return NO_PERMISSION, said
    if "QuotaExceeded" in text or "StorageFull" in text:
        return FULL, said
    if isinstance(error, AlreadyExistsError):  # obstore's name for any conflict of two requests
        return SILENT, said
    return _STATUS.get(status, SILENT if status >= 500 and status not in (501, 505) else _OTHER), said


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None
