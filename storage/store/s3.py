"""Connection to an S3 bucket, of Amazon or any compatible server.

Endpoint, region and credentials come from the standard environment and profiles, as botocore reads them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from obstore.store import S3Store

from mcvrp.model.errors import without_logins
from mcvrp.storage.store.errors import REFUSALS, StoreError, StoreUnavailable, refusal

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config

T = TypeVar("T")
_LONG = 90.0  # seconds, after which obstore itself has repeated a request
_RENEWAL = timedelta(minutes=9)  # botocore renews the credentials of a role ten minutes before they expire


class Patience:
    """Limits of the client's retries, in seconds: of all tries of a request, and of one without an answer."""

    def __init__(self, retries: float, silence: float) -> None:
        most = 1000 if retries else 0  # the time is the limit
        self.retry: RetryConfig = {"max_retries": most, "retry_timeout": timedelta(seconds=retries)}
        self.client: ClientConfig = {
            "connect_timeout": timedelta(seconds=min(silence, 5)),
            "read_timeout": timedelta(seconds=silence),
            "timeout": timedelta(hours=1),  # of a whole file: a large one takes its time
        }


WORKING = Patience(retries=180.0, silence=60.0)  # a signature is valid for 15 minutes
PROBING = Patience(retries=0.0, silence=4.0)  # before any work: a person waits at the terminal


def connect(uri: str, patience: Patience) -> S3Store:
    """Return the client of the bucket of ``uri``; StoreError if the settings are wrong."""
    import botocore.session  # slow, and not needed for a folder
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        session = botocore.session.Session()
        profile = session.get_scoped_config()
        region = os.environ.get("AWS_REGION") or session.get_config_variable("region")
        bundle = os.environ.get("AWS_CA_BUNDLE") or profile.get("ca_bundle")
        certificates = Path(bundle).read_bytes() if bundle else None
        known = session.get_credentials() is not None
    except (BotoCoreError, OSError) as error:
        raise StoreError(f"cannot reach {uri} ({error}): check AWS_PROFILE, AWS_CA_BUNDLE") from error
    endpoint, bucket = _endpoint(profile), urlsplit(uri).netloc
    if not known:
        raise StoreError(
            f"cannot reach {uri} (no credentials): set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    # Single deletions: in a request for many, some servers refuse the checksum that obstore adds.
    config: S3Config = {"region": region or "us-east-1", "disable_bulk_delete": True}
    style = (profile.get("s3") or {}).get("addressing_style")
    virtual = style == "virtual" or os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() == "true"
    config["virtual_hosted_style_request"] = virtual
    if endpoint:
        host = urlsplit(endpoint)
        place = f"{host.scheme}://{bucket}.{host.netloc}{host.path}" if virtual else endpoint
        config["endpoint"] = config["aws_endpoint_url_s3"] = place
    options: ClientConfig = {**patience.client, "allow_http": endpoint.startswith("http://")}
    if certificates:
        options["root_certificate"] = certificates
    return S3Store(
        bucket,
        config=config,
        client_options=options,
        retry_config=patience.retry,
        credential_provider=Boto3CredentialProvider(session, ttl=_RENEWAL),
    )


def answer(request: Callable[[], T]) -> T:
    """Return the answer to ``request``, which is made once more if the connection broke.

    obstore repeats most requests for as long as `Patience` says, but no creation and no deletion whose answer
    was lost, and no listing that was cut off. Ctrl-C interrupts it: obstore would not hear it.
    """
    began = time.monotonic()
    try:
        return _interruptible(request)
    except REFUSALS as error:
        if not isinstance(refusal("", error), StoreUnavailable) or time.monotonic() - began > _LONG:
            raise
    return _interruptible(request)


def _interruptible(request: Callable[[], T]) -> T:
    if threading.current_thread() is not threading.main_thread():
        return request()
    future = Future[T]()

    def run() -> None:
        try:
            future.set_result(request())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="request").start()
    return future.result()


def _endpoint(profile: dict[str, Any]) -> str:
    """Return the address of the server, "" for Amazon's; StoreError if it is none, or has a login."""
    variables = (os.environ.get("AWS_ENDPOINT_URL_S3"), os.environ.get("AWS_ENDPOINT_URL"))
    endpoint = next(filter(None, (*variables, profile.get("endpoint_url"))), "").rstrip("/")
    parts = urlsplit(endpoint)
    valid = parts.scheme in ("http", "https") and parts.hostname and not {"@", " "} & set(endpoint)
    if endpoint and not valid:
        raise StoreError(
            f"AWS_ENDPOINT_URL={without_logins(endpoint)!r} is no address: check it, as in http://host:8333; "
            "keys belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return endpoint
