"""Errors of an S3 server: messages, remedies, and which of them are temporary."""

from __future__ import annotations

import re

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectionError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
    ResponseStreamingError,
    SSLError,
)

from mcvrp.model.errors import reason
from mcvrp.storage.store.errors import StoreError, StoreUnavailable

# Error codes in lower case, as in messages of pyarrow without the underscores.
ABSENT = {"404", "nosuchkey", "notfound"}
CONDITION_FAILED = {"412", "preconditionfailed"}
_KEYS = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile"
_PERMISSION = "request permission to list, read, write and delete there, or give another bucket"
_SPACE = "free space there, or request a larger quota"
_REGION = "set AWS_REGION to the bucket's region"
_HINTS = {
    **dict.fromkeys(("invalidaccesskeyid", "signaturedoesnotmatch"), _KEYS),
    **dict.fromkeys(("invalidtoken", "invalidclienttokenid"), _KEYS),
    "expiredtoken": "renew the credentials",
    "requesttimetooskewed": "set this machine's clock",
    **dict.fromkeys(("accessdenied", "403", "allaccessdisabled"), _PERMISSION),
    "nosuchbucket": "create it, or check its name and AWS_ENDPOINT_URL",
    "resourcenotfound": "create the bucket, or check its name and AWS_ENDPOINT_URL",
    "invalidbucketname": "check the bucket's name",
    **dict.fromkeys(("quotaexceeded", "xminiostoragefull", "507"), _SPACE),
    **dict.fromkeys(("notimplemented", "501"), "use a server with conditional writes (docs/cluster.md)"),
    "entitytoolarge": "use a local folder for this",
    "preconditionfailed": "run the same command again",
    **dict.fromkeys(("permanentredirect", "301", "307", "308", "authorizationheadermalformed"), _REGION),
    "illegallocationconstraintexception": _REGION,
}
_MESSAGES = {
    "invalidaccesskeyid": "unknown access key",
    "signaturedoesnotmatch": "wrong secret key",
    "accessdenied": "permission denied",
    "403": "permission denied",
    "nosuchbucket": "there is no bucket {bucket}",
    "preconditionfailed": "it was replaced while it was read",
}
RACED = {"conditionalrequestconflict", "concurrentmodification"}
# In the error codes of a server that gets too many requests, Amazon's or another.
_BUSY = re.compile("slowdown|throttl|toomany|limitexceeded|throughputexceeded|priorrequestnotcomplete")
_TEMPORARY = {"requesttimeout", "internalerror", "serviceunavailable", "operationaborted", *RACED}
_TEMPORARY_STATUS = {408, 425, 429}
_PERMANENT_STATUS = {501, 505, 507}  # not implemented, HTTP version, no space
_ELSEWHERE = "Looks like the configured region"  # of pyarrow, if the answer names the bucket's region
_BROKEN: dict[type[Exception], str] = {
    ReadTimeoutError: "no response in time",
    ConnectTimeoutError: "no connection in time",
    EndpointConnectionError: "no connection",
    ConnectionClosedError: "connection lost",
    ResponseStreamingError: "connection lost",
    IncompleteReadError: "connection lost",
}
_SILENCE = "check that it is running, and AWS_ENDPOINT_URL"
_ARROW = re.compile(
    r"AWS Error (?P<kind>\w+)(?: \(HTTP status (?P<status>\d+)\))? .*?operation: (?:curlCode: \d+, )?"
    r"(?:Unable to parse ExceptionName: (?P<word>\w+) Message: )?(?P<text>[^;]*)"
)


def code(error: BaseException) -> str:
    """Return the error code of ``error`` in lower case, otherwise its HTTP status; "" without a response."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "")).lower()
    match = _ARROW.search(str(error))
    if not match or match["kind"] == "NETWORK_CONNECTION":
        return ""
    if match["kind"] == "UNKNOWN":  # to the AWS SDK for C++, which then quotes the code of the server, if any
        return (match["word"] or match["status"] or "").lower()
    return match["kind"].replace("_", "").lower()


def tries(error: ClientError) -> int:
    return 1 + int(error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0))


def refusal(action: str, error: BaseException, bucket: str, endpoint: str) -> StoreError:
    """Return the error of the store for ``error``, which ended ``action`` at ``endpoint``."""
    if isinstance(error, (NoCredentialsError, PartialCredentialsError, ProfileNotFound)):
        text = reason(error).rstrip(".")
        return StoreError(
            f"{action} ({text}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    word = code(error)
    text = _MESSAGES[word].format(bucket=bucket) if word in _MESSAGES else _message(error)
    hint = _REGION if _ELSEWHERE in str(error) else _HINTS.get(word)
    if not hint and _is_temporary(error, word):
        return StoreUnavailable(f"{action} at {endpoint} ({text}): {_SILENCE}")
    hint = hint or "check the address and the variables AWS_... of the environment"
    return StoreError(f"{action} at {endpoint} ({text}): {hint}")


def _message(error: BaseException) -> str:
    if isinstance(error, ClientError):
        answer = error.response.get("Error", {})
        return f"{answer.get('Code', 'error')}: {answer.get('Message', 'no reason given')}"
    for kind, words in _BROKEN.items():
        if isinstance(error, kind):
            return words
    match = _ARROW.search(str(error))
    if match and match["kind"] == "NETWORK_CONNECTION":
        return match["text"]
    text = reason(error)
    if match:
        text = f"{match['word'] or match['status'] or match['kind']}: {match['text']}"
    return text.rstrip(".")


def is_busy(word: str, status: int) -> bool:
    """Return whether a request with this error code or status may succeed later."""
    temporary = word in _TEMPORARY or _BUSY.search(word) is not None
    failed = status >= 500 and status not in _PERMANENT_STATUS
    return temporary or status in _TEMPORARY_STATUS or failed


def _is_temporary(error: BaseException, word: str) -> bool:
    if isinstance(error, ClientError):
        return is_busy(word, int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)))
    if isinstance(error, (BotoCoreError, ValueError)):
        broken = isinstance(error, (ConnectionError, HTTPClientError, IncompleteReadError))
        return broken and not isinstance(error, SSLError)
    match = _ARROW.search(str(error))
    status = int(match["status"] or 0) if match else 0
    return is_busy(word, status) or not 400 <= status < 600
