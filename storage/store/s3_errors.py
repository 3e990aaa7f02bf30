"""Answers of an S3 server in words: which are final, which may pass, and a hint for each."""

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

# Codes as pyarrow spells them once its underscores are gone, in small letters.
ABSENT = {"404", "nosuchkey", "notfound"}
OUTDONE = {"412", "preconditionfailed"}
_KEYS = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile"
_PERMISSION = "ask its owner for permission to list, read, write and delete there, or give another place"
_REGION = "set AWS_REGION to the bucket's region"
_HINTS = {
    "invalidaccesskeyid": _KEYS,
    "signaturedoesnotmatch": _KEYS,
    "invalidtoken": _KEYS,
    "invalidclienttokenid": _KEYS,
    "expiredtoken": "renew the credentials",
    "requesttimetooskewed": "set this machine's clock",
    "accessdenied": _PERMISSION,
    "403": _PERMISSION,
    "allaccessdisabled": _PERMISSION,
    "nosuchbucket": "create it, or check its name and AWS_ENDPOINT_URL",
    "resourcenotfound": "create the bucket, or check its name and AWS_ENDPOINT_URL",
    "invalidbucketname": "check the bucket's name",
    "quotaexceeded": "make room there, or ask for more",
    "entitytoolarge": "use a local folder for this",
    "permanentredirect": _REGION,
    "authorizationheadermalformed": _REGION,
    "illegallocationconstraintexception": _REGION,
}
_SAYINGS = {
    "invalidaccesskeyid": "it does not know this access key",
    "signaturedoesnotmatch": "the secret key is wrong",
    "accessdenied": "permission denied",
    "403": "permission denied",
    "nosuchbucket": "there is no bucket {bucket}",
}
RACED = {"conditionalrequestconflict", "concurrentmodification"}
# What a server says that is asked too much at once, by botocore's list and by other servers.
_BUSY = {
    "bandwidthlimitexceeded",
    "limitexceededexception",
    "priorrequestnotcomplete",
    "provisionedthroughputexceeded",
    "provisionedthroughputexceededexception",
    "requestlimitexceeded",
    "requestthrottled",
    "requestthrottledexception",
    "slowdown",
    "slowdownread",
    "slowdownwrite",
    "throttledexception",
    "throttling",
    "throttlingexception",
    "toomanyrequests",
    "toomanyrequestsexception",
}
_PASSING = {*_BUSY, "requesttimeout", "internalerror", "serviceunavailable", "operationaborted", *RACED}
_PASSING_STATUS = {408, 425, 429}
_BROKEN: dict[type[Exception], str] = {
    ReadTimeoutError: "no answer in time",
    ConnectTimeoutError: "no connection in time",
    EndpointConnectionError: "no connection",
    ConnectionClosedError: "the connection broke",
    ResponseStreamingError: "the connection broke",
    IncompleteReadError: "the connection broke",
}
_SILENCE = "see whether it is up, and that AWS_ENDPOINT_URL is right"
_ARROW = re.compile(
    r"AWS Error (?P<kind>\w+)(?: \(HTTP status (?P<status>\d+)\))? .*?operation: (?:curlCode: \d+, )?"
    r"(?:Unable to parse ExceptionName: (?P<word>\w+) Message: )?(?P<text>[^;]*)"
)


def code(error: BaseException) -> str:
    """Return the server's word for ``error`` in small letters, its status if it has none, "" for silence."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "")).lower()
    match = _ARROW.search(str(error))
    if not match or match["kind"] == "NETWORK_CONNECTION":
        return ""
    if match["kind"] == "UNKNOWN":  # to Amazon's C++ client, which then quotes the server's word, if any
        return (match["word"] or match["status"] or "").lower()
    return match["kind"].replace("_", "").lower()


def tries(error: ClientError) -> int:
    """Return how many times the client has asked."""
    return 1 + int(error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0))


def refusal(action: str, error: BaseException, bucket: str, endpoint: str) -> StoreError:
    """Return the sentence for ``error``, which stopped ``action`` at ``endpoint``."""
    if isinstance(error, (NoCredentialsError, PartialCredentialsError, ProfileNotFound)):
        said = reason(error).rstrip(".")
        return StoreError(
            f"{action} ({said}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    word = code(error)
    said = _SAYINGS[word].format(bucket=bucket) if word in _SAYINGS else _said(error)
    if word not in _HINTS and _passes(error, word):
        return StoreUnavailable(f"{action} at {endpoint} ({said}): {_SILENCE}")
    hint = _HINTS.get(word, "check the address and what AWS_... says in the environment")
    return StoreError(f"{action} at {endpoint} ({said}): {hint}")


def _said(error: BaseException) -> str:
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
    """Return whether a server that answers so may answer otherwise later."""
    return word in _PASSING or status in _PASSING_STATUS or status >= 500


def _passes(error: BaseException, word: str) -> bool:
    if isinstance(error, ClientError):
        return is_busy(word, int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)))
    if isinstance(error, (BotoCoreError, ValueError)):
        broken = isinstance(error, (ConnectionError, HTTPClientError, IncompleteReadError))
        return broken and not isinstance(error, SSLError)
    match = _ARROW.search(str(error))
    status = int(match["status"] or 0) if match else 0
    return is_busy(word, status) or not 400 <= status < 500
