"""Errors of S3 servers, as raised by boto3 (`answer`) and pyarrow (`arrow`, `unparsed`: an unknown code)."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, SSLError

from mcvrp.storage.store.s3_errors import code, refusal
from mcvrp.storage.store.store import StoreError, StoreUnavailable


def answer(word: str, status: int) -> ClientError:
    return ClientError(
        {"Error": {"Code": word, "Message": "so {it} is"}, "ResponseMetadata": {"HTTPStatusCode": status}},
        "Get",
    )


def arrow(word: str) -> OSError:
    return OSError(f"When reading 'k' in bucket 'b': AWS Error {word} during HeadObject operation: No body.")


def unparsed(word: str, status: int) -> OSError:
    text = f"UNKNOWN (HTTP status {status}) during ListObjectsV2 operation: Unable to parse ExceptionName:"
    return OSError(f"When listing objects under key 'x/': AWS Error {text} {word} Message: Wait")


def elsewhere(status: int) -> OSError:
    text = "No body. Looks like the configured region is 'us-east-1' while the bucket is located in 'x'."
    return OSError(f"AWS Error UNKNOWN (HTTP status {status}) during HeadObject operation: {text}")


RUNS = "check that it is running"
PERMANENT: dict[Exception, str] = {
    answer("NoSuchBucket", 404): "there is no bucket b): create it",
    answer("SignatureDoesNotMatch", 403): "AWS_SECRET_ACCESS_KEY",
    answer("QuotaExceeded", 403): "free space",
    answer("PermanentRedirect", 301): "AWS_REGION",
    arrow("UNKNOWN (HTTP status 301)"): "(301: No body): set AWS_REGION",
    elsewhere(301): "set AWS_REGION to the bucket's region",
    elsewhere(400): "set AWS_REGION to the bucket's region",
    answer("InvalidArgument", 400): "InvalidArgument: so {it} is): check the address",
    answer("BucketNotEmpty", 409): "BucketNotEmpty",
    answer("NotImplemented", 501): "use a server with conditional writes",
    answer("505", 505): "(505: so {it} is): check the address",
    answer("XMinioStorageFull", 507): "free space there",
    arrow("UNKNOWN (HTTP status 501)"): "use a server with conditional writes",
    arrow("UNKNOWN (HTTP status 507)"): "free space there",
    arrow("ACCESS_DENIED"): "(permission denied): request",
    arrow("UNKNOWN (HTTP status 400)"): "(400: No body)",
    unparsed("InvalidArgument", 400): "(InvalidArgument: Wait)",
    unparsed("ExpiredToken", 400): "renew the credentials",
    NoCredentialsError(): "set AWS_ACCESS_KEY_ID",
    SSLError(endpoint_url="u", error="bad certificate"): "bad certificate",
}
TEMPORARY: dict[Exception, str] = {
    answer("InternalError", 500): RUNS,
    answer("SlowDown", 503): RUNS,
    answer("429", 429): RUNS,
    answer("TooManyRequests", 400): RUNS,
    answer("RequestLimitExceeded", 400): RUNS,
    answer("ThrottlingException", 400): RUNS,
    answer("ProvisionedThroughputExceeded", 400): RUNS,
    answer("PriorRequestNotComplete", 400): RUNS,
    answer("BandwidthLimitExceeded", 509): RUNS,
    answer("OperationAborted", 409): RUNS,
    answer("ConditionalRequestConflict", 409): RUNS,
    arrow("UNKNOWN (HTTP status 503)"): "(503: No body)",
    arrow("UNKNOWN (HTTP status 429)"): "(429: No body)",
    unparsed("RequestLimitExceeded", 400): "(RequestLimitExceeded: Wait)",
    unparsed("OperationAborted", 409): "(OperationAborted: Wait)",
    arrow("THROTTLING"): RUNS,
    arrow("NETWORK_CONNECTION"): RUNS,
    arrow("SLOW_DOWN (HTTP status 429)"): RUNS,
    OSError("something else"): "something else",
    EndpointConnectionError(endpoint_url="u"): "(no connection)",
}


@pytest.mark.parametrize("kind", [StoreError, StoreUnavailable])
def test_an_answer_is_permanent_or_temporary(kind: type) -> None:
    for error, message in (TEMPORARY if kind is StoreUnavailable else PERMANENT).items():
        refused = refusal("cannot read s3://b/k", error, "b", "http://e")
        assert type(refused) is kind, error
        assert str(refused).startswith("cannot read s3://b/k")
        assert message in str(refused)
        assert "\n" not in str(refused)


def test_both_clients_have_the_same_codes() -> None:
    assert (
        code(arrow("NO_SUCH_BUCKET (HTTP status 404)")) == code(answer("NoSuchBucket", 404)) == "nosuchbucket"
    )
    assert code(arrow("NETWORK_CONNECTION")) == code(OSError("x")) == ""
