"""Answers of S3 servers: refusals name their hint, silence may pass, in the words of either client."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, SSLError

from mcvrp.storage.store.s3_errors import code, refusal
from mcvrp.storage.store.store import StoreError, StoreUnavailable


def answer(word: str, status: int) -> ClientError:
    """Return what boto3 raises for an answer."""
    return ClientError(
        {"Error": {"Code": word, "Message": "so {it} is"}, "ResponseMetadata": {"HTTPStatusCode": status}},
        "Get",
    )


def arrow(word: str) -> OSError:
    """Return what pyarrow raises."""
    return OSError(f"When reading 'k' in bucket 'b': AWS Error {word} during HeadObject operation: No body.")


def unparsed(word: str, status: int) -> OSError:
    """Return what pyarrow raises for a word that its client does not know."""
    said = f"UNKNOWN (HTTP status {status}) during ListObjectsV2 operation: Unable to parse ExceptionName:"
    return OSError(
        f"When listing objects under key 'x/' in bucket 'b': AWS Error {said} {word} Message: Wait"
    )


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (answer("NoSuchBucket", 404), StoreError, "there is no bucket b): create it"),
        (answer("SignatureDoesNotMatch", 403), StoreError, "AWS_SECRET_ACCESS_KEY"),
        (answer("QuotaExceeded", 403), StoreError, "free space"),
        (answer("PermanentRedirect", 301), StoreError, "AWS_REGION"),
        (answer("InvalidArgument", 400), StoreError, "InvalidArgument: so {it} is): check the address"),
        (answer("InternalError", 500), StoreUnavailable, "check that it is running"),
        (answer("SlowDown", 503), StoreUnavailable, "check that it is running"),
        (answer("429", 429), StoreUnavailable, "check that it is running"),
        (answer("TooManyRequests", 429), StoreUnavailable, "check that it is running"),
        (answer("RequestLimitExceeded", 400), StoreUnavailable, "check that it is running"),
        (answer("ThrottlingException", 400), StoreUnavailable, "check that it is running"),
        (answer("RequestThrottled", 400), StoreUnavailable, "check that it is running"),
        (answer("ProvisionedThroughputExceeded", 400), StoreUnavailable, "check that it is running"),
        (answer("BandwidthLimitExceeded", 509), StoreUnavailable, "check that it is running"),
        (answer("OperationAborted", 409), StoreUnavailable, "check that it is running"),
        (answer("BucketNotEmpty", 409), StoreError, "BucketNotEmpty"),
        (answer("ConditionalRequestConflict", 409), StoreUnavailable, "check that it is running"),
        (arrow("ACCESS_DENIED"), StoreError, "(permission denied): request"),
        (arrow("UNKNOWN (HTTP status 503)"), StoreUnavailable, "(503: No body)"),
        (arrow("UNKNOWN (HTTP status 400)"), StoreError, "(400: No body)"),
        (arrow("UNKNOWN (HTTP status 429)"), StoreUnavailable, "(429: No body)"),
        (unparsed("RequestLimitExceeded", 400), StoreUnavailable, "(RequestLimitExceeded: Wait)"),
        (unparsed("OperationAborted", 409), StoreUnavailable, "(OperationAborted: Wait)"),
        (unparsed("InvalidArgument", 400), StoreError, "(InvalidArgument: Wait)"),
        (unparsed("ExpiredToken", 400), StoreError, "renew the credentials"),
        (arrow("THROTTLING"), StoreUnavailable, "check that it is running"),
        (arrow("NETWORK_CONNECTION"), StoreUnavailable, "check that it is running"),
        (arrow("SLOW_DOWN (HTTP status 429)"), StoreUnavailable, "check that it is running"),
        (OSError("something else"), StoreUnavailable, "something else"),
        (NoCredentialsError(), StoreError, "set AWS_ACCESS_KEY_ID"),
        (EndpointConnectionError(endpoint_url="u"), StoreUnavailable, "(no connection)"),
        (SSLError(endpoint_url="u", error="bad certificate"), StoreError, "bad certificate"),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, Exception) else "",
)
def test_an_answer_is_final_or_passes(error: Exception, kind: type, said: str) -> None:
    """The kind of the exception says if to try again, its sentence what to do."""
    refused = refusal("cannot read s3://b/k", error, "b", "http://e")
    assert type(refused) is kind
    assert said in str(refused)
    assert str(refused).startswith("cannot read s3://b/k")
    assert "\n" not in str(refused)


def test_both_clients_words_are_one() -> None:
    """So that one table serves both."""
    assert (
        code(arrow("NO_SUCH_BUCKET (HTTP status 404)")) == code(answer("NoSuchBucket", 404)) == "nosuchbucket"
    )
    assert code(arrow("NETWORK_CONNECTION")) == code(OSError("x")) == ""
