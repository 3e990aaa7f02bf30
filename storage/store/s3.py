"""Store below a prefix of an S3 bucket, of Amazon or any compatible server.

Endpoint, region and credentials come from the standard environment and profiles, as botocore reads them.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import botocore.session
import obstore
from botocore.exceptions import BotoCoreError
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.store import S3Store

from mcvrp.model.errors import reason, without_logins
from mcvrp.storage.store import credentials
from mcvrp.storage.store.errors import REFUSALS, StoreError, StoreUnavailable, refusal
from mcvrp.storage.store.files import StoredFile

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, RetryConfig, S3Config

T = TypeVar("T")
PART = 2**24  # bytes of a part of a large file, of which `_PARTS` are sent at a time
_PARTS = 8
_TRIES = 4  # of requests that the client does not repeat
_LONG = 90.0  # seconds, after which they are not repeated, as the client has waited
_RENEWAL = timedelta(minutes=9)  # botocore renews the credentials of a role ten minutes before they expire


class Patience:
    """Limits of the client's retries, in seconds: of all tries of a request, and of one without an answer."""

    def __init__(self, retries: float, silence: float, connect: float = 5.0) -> None:
        self.retry: RetryConfig = {
            "max_retries": 1000 if retries else 1,  # the time is the limit
            "retry_timeout": timedelta(seconds=retries or 2 * silence),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=15),
                "base": 2,
            },
        }
        self.client: ClientConfig = {
            "connect_timeout": timedelta(seconds=connect),
            "read_timeout": timedelta(seconds=silence),
            "timeout": timedelta(hours=1),  # of a whole file: a large one takes its time
        }


WORKING = Patience(retries=180.0, silence=60.0)  # a signature is valid for 15 minutes
PROBING = Patience(retries=0.0, silence=4.0, connect=3.0)  # before any work: a person waits at the terminal


class Bucket:
    """Objects below ``uri`` (s3://bucket/prefix), with keys like file paths."""

    def __init__(self, uri: str, patience: Patience = WORKING) -> None:
        self._prefix = urlsplit(uri).path.strip("/")
        bucket = _bucket_of(uri)
        try:
            session = botocore.session.Session()
            profile = session.get_scoped_config()
            endpoint = _endpoint(profile)
            found = session.get_credentials()
        except BotoCoreError as error:
            raise StoreError(f"cannot reach the store {uri} ({reason(error)}): check AWS_PROFILE") from error
        if found is None:
            raise StoreError(
                f"cannot reach the store {uri} (no credentials): set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            )
        credentials.use(found)
        region = os.environ.get("AWS_REGION") or session.get_config_variable("region")
        if not endpoint and not region:
            raise StoreError(f"no region for {uri}: set AWS_REGION, or AWS_ENDPOINT_URL for another server")
        # Single deletions: in a request for many, some servers refuse the checksum that obstore adds.
        config: S3Config = {"region": region or "us-east-1", "disable_bulk_delete": True}
        config["virtual_hosted_style_request"] = virtual = _wants_virtual_hosts(profile)
        if endpoint:
            host = urlsplit(endpoint)
            place = f"{host.scheme}://{bucket}.{host.netloc}{host.path}" if virtual else endpoint
            config["endpoint"] = config["aws_endpoint_url_s3"] = place
        options: ClientConfig = {**patience.client, "allow_http": endpoint.startswith("http://")}
        if certificates := os.environ.get("AWS_CA_BUNDLE") or profile.get("ca_bundle"):
            options["root_certificate"] = _content(str(certificates))
        self._client = S3Store(
            bucket,
            prefix=self._prefix or None,
            config=config,
            client_options=options,
            retry_config=patience.retry,
            credential_provider=Boto3CredentialProvider(session, ttl=_RENEWAL),
        )

    def probe(self, *, writable: bool) -> None:
        """Raise one of `REFUSALS` if the bucket cannot be read, or written.

        StoreError if its server overwrites an object that is created twice.
        """
        obstore.list_with_delimiter(self._client)
        if not writable:
            return
        path = f".probe-{secrets.token_hex(4)}"
        first, second = self.create(path, b"1"), self.create(path, b"2")
        self.delete_files([path])
        if not first or second:
            raise StoreError(
                "the server overwrites an object that was to be created (it ignores If-None-Match), so that "
                "writers would lose each other's work: use another server"
            )

    def put(self, path: str, data: bytes) -> None:
        """Write ``data`` to ``path``, replacing an existing object; a large one in parts."""
        _repeated(lambda: obstore.put(self._client, path, data, chunk_size=PART, max_concurrency=_PARTS))

    def create(self, path: str, data: bytes) -> bool:
        """Write ``data`` to ``path`` and return True, or False if another object exists there.

        If the answer is lost, or a retry finds the object of the first try, its mark tells whose it is.
        """
        mark = secrets.token_hex(8)

        def created() -> bool:
            try:
                obstore.put(self._client, path, data, mode="create", attributes={"put": mark})
            except REFUSALS as error:
                if not isinstance(refusal("", error), StoreUnavailable):  # as a conflict is
                    raise
                if (written := self._mark(path)) is None:
                    raise
                return written == mark
            return True

        return _repeated(created)

    def get(self, path: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes of the object at ``path``, or a range of them; FileNotFoundError without one."""
        if stop is None:
            return _repeated(lambda: obstore.get(self._client, path).bytes().to_bytes())
        return _repeated(lambda: obstore.get_range(self._client, path, start=start, end=stop).to_bytes())

    def stat(self, path: str) -> StoredFile | None:
        """Return the entry of the object at ``path``, None without one."""
        try:
            return self._entry(_repeated(lambda: obstore.head(self._client, path)))
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        """Return whether there is an object at or below ``path``."""
        if path and self.stat(path) is not None:
            return True
        listed = _repeated(lambda: next(iter(obstore.list(self._client, path or None, chunk_size=1)), None))
        return bool(listed)

    def files(self, folder: str) -> Iterator[StoredFile]:
        """Return the objects below ``folder`` at any depth."""
        chunks = _repeated(lambda: [*obstore.list(self._client, folder or None, chunk_size=1000)])
        return (self._entry(meta) for chunk in chunks for meta in chunk)

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in ``folder``."""
        found = _repeated(lambda: obstore.list_with_delimiter(self._client, folder or None))
        return [path.rpartition("/")[2] for path in found["common_prefixes"]]

    def delete(self, path: str) -> None:
        """Delete the object at ``path`` and all objects below it, if they exist."""
        self.delete_files([path, *(file.path for file in self.files(path))])

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete the objects at ``paths``, if they exist."""
        _repeated(lambda: obstore.delete(self._client, list(paths)))

    def _mark(self, path: str) -> str | None:
        """Return the mark of the object at ``path``: "" without one, None without an object."""
        try:
            attributes: Any = obstore.get(self._client, path, options={"head": True}).attributes
        except FileNotFoundError:
            return None
        return str(attributes.get("put", ""))

    def _entry(self, meta: ObjectMeta) -> StoredFile:
        return StoredFile(meta["path"], meta["size"], meta["last_modified"].timestamp())


def _repeated(request: Callable[[], T]) -> T:
    """Return the result of ``request``, which is repeated if the connection is lost.

    The client repeats most requests itself, but no create and no deletion, and none whose answer is a listing
    or an error that is cut off.
    """
    began = time.monotonic()
    for _ in range(_TRIES - 1):
        try:
            return _heard(request)
        except REFUSALS as error:
            if not isinstance(refusal("", error), StoreUnavailable) or time.monotonic() - began > _LONG:
                raise
    return _heard(request)


def _heard(request: Callable[[], T]) -> T:
    """Return the result of ``request``, which Ctrl-C interrupts: the client does not hear it."""
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


def _bucket_of(uri: str) -> str:
    bucket = urlsplit(uri).netloc
    if not bucket or {"@", ":"} & set(bucket) or {"?", "#"} & set(uri):
        shown = f"s3://{bucket.rpartition('@')[2].partition(':')[0]}"  # no secret on the screen
        raise StoreError(f"{shown} is not the address of a bucket: write s3://bucket or s3://bucket/prefix")
    return bucket


def _endpoint(profile: dict[str, Any]) -> str:
    """Return the address of the server, "" for Amazon's; StoreError if it is none, or has a login."""
    variables = (os.environ.get("AWS_ENDPOINT_URL_S3"), os.environ.get("AWS_ENDPOINT_URL"))
    endpoint = next(filter(None, (*variables, profile.get("endpoint_url"))), "").rstrip("/")
    if without_logins(endpoint) != endpoint:
        raise StoreError(
            f"AWS_ENDPOINT_URL={without_logins(endpoint)} contains credentials: leave them out, use "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    parts = urlsplit(endpoint)
    if endpoint and (parts.scheme not in ("http", "https") or not parts.hostname or " " in endpoint):
        raise StoreError(f"AWS_ENDPOINT_URL={endpoint!r} is no address: check it, as in http://host:8333")
    return endpoint


def _wants_virtual_hosts(profile: dict[str, Any]) -> bool:
    style = (profile.get("s3") or {}).get("addressing_style")
    return os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() == "true" or style == "virtual"


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise StoreError(f"AWS_CA_BUNDLE={path} cannot be read ({reason(error)}): check it") from error
