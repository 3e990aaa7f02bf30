"""Errors of the library and the system: one sentence with a remedy, permanent or temporary."""

from __future__ import annotations

import errno
import os

import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, InvalidPathError, PermissionDeniedError

from mcvrp.storage.store.errors import StoreError, StoreUnavailable, refusal


def answer(kind: type[Exception], status: int, code: str, verb: str = "GET") -> Exception:
    document = f"<Error><Code>{code}</Code><Message>so {{it}} is</Message></Error>" if code else ""
    return kind(
        f"Generic S3 error: Error performing {verb} http://h:1/b/k in 1.2s, after 2 retries  - "
        f"Server returned non-2xx status code: {status} X: {document}\n\nDebug source:\nGeneric {{\n}}"
    )


def broken(kind: str) -> Exception:
    return GenericError(
        "Generic S3 error: Error performing GET http://h:1/b/k in 9s - HTTP error: error sending request"
        f"\n\nDebug source:\nHttpError {{\n kind: {kind},\n source: reqwest {{ kind: Request }} }}"
    )


PERMANENT: list[tuple[Exception, str]] = [
    (answer(FileNotFoundError, 404, "NoSuchBucket"), "NoSuchBucket: so {it} is): create the bucket"),
    (
        GenericError("Error performing list request: Error performing GET http://h:1/b - status code: 404 "),
        "status code: 404): create the bucket",
    ),
    (InvalidPathError('invalid path: Path "a - \n.csv"'), r'"a - \n.csv"): rename or remove that file'),
    (answer(PermissionDeniedError, 403, "AccessDenied"), "AccessDenied: so {it} is): request permission"),
    (answer(PermissionDeniedError, 403, ""), "request permission"),
    (answer(GenericError, 507, "XMinioStorageFull"), "free space"),
    (answer(GenericError, 403, "QuotaExceeded"), "free space"),
    (answer(GenericError, 400, "InvalidArgument"), "InvalidArgument: so {it} is): check the path"),
    (answer(GenericError, 501, "NotImplemented"), "check the path"),
    (
        GenericError("Generic LocalFileSystem error: Unable to copy: No space left (os error 28)"),
        "free space",
    ),
    (OSError(errno.EACCES, os.strerror(errno.EACCES)), "request permission, or give another folder"),
    (ValueError("Could not parse path"), "Could not parse path): check the path"),
]
TEMPORARY: list[tuple[Exception, str]] = [
    (answer(GenericError, 500, ""), "once the store answers"),
    (answer(GenericError, 503, "SlowDown"), "(SlowDown: so {it} is): run the same command again"),
    (answer(GenericError, 429, ""), "once the store answers"),
    (answer(AlreadyExistsError, 409, "OperationAborted"), "once the store answers"),
    (broken("Connect"), "(no connection at http://h:1): check that it is running, and AWS_ENDPOINT_URL"),
    (broken("Timeout"), "(no answer in time at http://h:1)"),
    (broken("Request"), "(connection lost at http://h:1)"),
    (OSError(errno.ESTALE, os.strerror(errno.ESTALE)), "once the store answers"),
]


@pytest.mark.parametrize("kind", [StoreError, StoreUnavailable])
def test_an_error_is_permanent_or_temporary(kind: type[StoreError]) -> None:
    for error, message in TEMPORARY if kind is StoreUnavailable else PERMANENT:
        refused = refusal("cannot read s3://b/k", error)
        assert type(refused) is kind, error
        assert str(refused).startswith("cannot read s3://b/k (")
        assert message in str(refused)
        assert "\n" not in str(refused)
        assert "retries" not in str(refused)
    assert (StoreError.exit_code, StoreUnavailable.exit_code) == (2, 1)
