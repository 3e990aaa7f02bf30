"""Objects below a prefix of an S3 bucket: Amazon's, or any server that speaks its language.

Whoever writes uses boto3, one request with all bytes, so that an object is whole or absent;
pyarrow would publish what it has when a writer fails, and leave folder markers behind. Who
lists, or reads parts of large objects, uses pyarrow. Both follow the standard environment and
profiles for endpoint, region and credentials.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import boto3
import pyarrow as pa
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from pyarrow import fs

from mcvrp.model.errors import without_logins
from mcvrp.storage.store import contract, credentials, s3_errors as s3_answers
from mcvrp.storage.store.errors import StoreError

LARGEST = 5 * 2**30  # bytes of one PUT
_BATCH = 1000  # names of one request to delete


@dataclass(frozen=True)
class Timeouts:
    """Seconds to wait for a connection and for an answer, and how many times to ask."""

    connect: float
    read: float
    attempts: int


WORKING = Timeouts(5.0, 15.0, 5)
PROBING = Timeouts(3.0, 4.0, 2)  # nothing has begun: who waits sits at the terminal


class S3Objects:
    """The objects below ``uri`` (s3://bucket/prefix); whole ones, under names like those of files."""

    errors: tuple[type[Exception], ...] = (OSError, pa.ArrowException, BotoCoreError, ClientError)

    def __init__(self, uri: str, timeouts: Timeouts = WORKING) -> None:
        parts = urlsplit(uri)
        self.bucket, self._prefix = parts.netloc, parts.path.strip("/")
        if not self.bucket or {"@", ":"} & set(self.bucket) or {"?", "#"} & set(uri):
            shown = f"s3://{self.bucket.rpartition('@')[2].partition(':')[0]}"  # no secret on the screen
            raise StoreError(f"{shown} is no address of objects: write s3://bucket or s3://bucket/prefix")
        self.root = f"{self.bucket}/{self._prefix}".rstrip("/")
        self._timeouts = timeouts
        session = boto3.session.Session()
        region = os.environ.get("AWS_REGION") or session.region_name
        self._client = session.client(
            "s3",
            region_name=region or "us-east-1",
            config=Config(
                connect_timeout=timeouts.connect,
                read_timeout=timeouts.read,
                max_pool_connections=32,
                # waits up to 1, 2, 4, 8 s; the mode "standard" is through with a busy server in 0.3 s
                retries={"mode": "legacy", "total_max_attempts": timeouts.attempts},
                # of servers other than Amazon's, many do not know the newer checksums
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
        self._client.meta.events.register("needs-retry.s3", self._wait_if_busy)
        credentials.use(session.get_credentials())  # those of the client
        self.endpoint = str(self._client.meta.endpoint_url)
        if without_logins(self.endpoint) != self.endpoint:
            raise StoreError(
                f"AWS_ENDPOINT_URL={without_logins(self.endpoint)} names who asks: leave that out, use "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        amazon = urlsplit(self.endpoint).netloc.endswith((".amazonaws.com", ".amazonaws.com.cn"))
        if amazon and not region:
            raise StoreError(f"no region for {uri}: set AWS_REGION, or AWS_ENDPOINT_URL for another server")
        self.filesystem: fs.FileSystem = fs.S3FileSystem(
            region=self._client.meta.region_name,
            endpoint_override=None if amazon else self.endpoint,
            connect_timeout=timeouts.connect,
            request_timeout=timeouts.read,
            tls_ca_file_path=os.environ.get("AWS_CA_BUNDLE"),
            retry_strategy=fs.AwsDefaultS3RetryStrategy(max_attempts=timeouts.attempts + 4),  # 13 s of waits
        )

    def locate(self, path: str) -> str:
        """Return the address of ``path`` in `filesystem`."""
        return f"{self.root}/{path}".rstrip("/")

    def probe(self, *, writable: bool) -> None:
        """Raise one of ``errors`` if nothing can be read, or written, here."""
        self._client.list_objects_v2(Bucket=self.bucket, Prefix=self._prefix, MaxKeys=1)
        self.filesystem.get_file_info(f"{self.root}/.probe")  # the other client needs credentials too
        if writable:
            contract.race(self, f".probe-{secrets.token_hex(4)}", size=1)

    def make_bucket(self) -> None:
        """Make the bucket, unless there is one of ours; one of ``errors`` if the server refuses."""
        try:
            self._client.head_bucket(Bucket=self.bucket)
        except ClientError as error:
            if s3_answers.code(error) not in s3_answers.ABSENT:
                raise
            self._client.create_bucket(Bucket=self.bucket)

    def open(self, path: str) -> pa.NativeFile:
        """Open the object at ``path`` for reading at any position; FileNotFoundError if there is none."""
        return self.filesystem.open_input_file(f"{self.root}/{path}")

    def read(self, path: str) -> bytes:
        """Return what the object at ``path`` holds; FileNotFoundError if there is none."""
        return self.read_tagged(path)[0]

    def read_tagged(self, path: str) -> tuple[bytes, str]:
        """Return what `read` returns, and the tag of this very content."""
        attempts = self._timeouts.attempts
        while True:
            with _absence(path):
                answer = self._client.get_object(**self._at(path))
            try:
                return answer["Body"].read(), answer["ETag"].strip('"')
            except (HTTPClientError, IncompleteReadError):  # in the body the client does not try again
                attempts -= 1
                if not attempts:
                    raise
            time.sleep(1.0)

    def write(self, path: str, data: bytes) -> None:
        """Put ``data`` at ``path``, over what was there."""
        self._put(path, data)

    def write_new(self, path: str, data: bytes) -> bool:
        """Put ``data`` at ``path`` and return True, or False when something is there."""
        return self._put_if(path, data, IfNoneMatch="*")

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        """Put ``data`` at ``path`` and return True, or False when what is there has not ``tag``."""
        return self._put_if(path, data, IfMatch=tag)

    def move(self, path: str, to: str) -> None:
        """Copy the object at ``path`` to ``to``, whole, then remove it."""
        with _absence(path):
            self._client.copy_object(**self._at(to), CopySource=self._at(path))
        self._client.delete_object(**self._at(path))

    def delete(self, path: str) -> None:
        """Remove the object at ``path`` and all below it, if there are any."""
        self._client.delete_object(**self._at(path))
        for names in self._below(path):
            answer = self._client.delete_objects(
                Bucket=self.bucket, Delete={"Objects": [{"Key": name} for name in names], "Quiet": True}
            )
            for failed in answer.get("Errors", [])[:1]:
                raise ClientError({"Error": failed}, "DeleteObjects")

    def now(self) -> float:
        """Return the server's time in seconds since 1970."""
        answer = self._client.list_objects_v2(Bucket=self.bucket, Prefix=self._prefix, MaxKeys=1)
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        return parsedate_to_datetime(date).timestamp() if date else time.time()

    def refusal(self, action: str, error: BaseException) -> StoreError:
        """Return the sentence for ``error``, which stopped ``action``."""
        return s3_answers.refusal(action, error, self.bucket, self.endpoint)

    def _wait_if_busy(self, response: Any, attempts: int, **_: object) -> float | None:
        """Return the seconds until botocore asks again, which does not know all words of busy servers."""
        if response is None or attempts >= self._timeouts.attempts:
            return None
        answer, parsed = response
        word = str(parsed.get("Error", {}).get("Code", "")).lower()
        return 2.0 ** (attempts - 1) if s3_answers.is_busy(word, answer.status_code) else None

    def _at(self, path: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": f"{self._prefix}/{path}".lstrip("/")}

    def _put(self, path: str, data: bytes, **more: Any) -> None:
        if len(data) > LARGEST:
            raise StoreError(
                f"s3://{self.root}/{path} would have {len(data):,} bytes, an object store takes "
                f"{LARGEST:,} at once: use a local folder for this"
            )
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        self._client.put_object(**self._at(path), Body=data, ContentMD5=digest, **more)

    def _put_if(self, path: str, data: bytes, **condition: str) -> bool:
        mark = secrets.token_hex(8)
        try:
            self._put(path, data, Metadata={"put": mark}, **condition)
        except ClientError as error:
            word = s3_answers.code(error)
            if not (word in s3_answers.OUTDONE or (word in s3_answers.ABSENT and "IfMatch" in condition)):
                raise
            # a first try may have been heard though its answer was lost: then the object is ours
            return s3_answers.tries(error) > 1 and self._mark(path) == mark
        return True

    def _mark(self, path: str) -> str | None:
        with contextlib.suppress(FileNotFoundError), _absence(path):
            return str(self._client.head_object(**self._at(path))["Metadata"].get("put"))
        return None

    def _below(self, path: str) -> Iterator[list[str]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket,
            Prefix=self._at(path)["Key"].rstrip("/") + "/",
            PaginationConfig={"PageSize": _BATCH},
        )
        for page in pages:
            if "Contents" in page:
                yield [found["Key"] for found in page["Contents"]]


def connect(uri: str, timeouts: Timeouts) -> S3Objects:
    """Return the objects below ``uri``; StoreError if the settings are wrong. Nothing is asked yet."""
    try:
        return S3Objects(uri, timeouts)
    except (OSError, pa.ArrowException, BotoCoreError, ValueError) as error:  # ValueError: no address
        endpoint = without_logins(os.environ.get("AWS_ENDPOINT_URL", "Amazon"))
        raise s3_answers.refusal(f"cannot reach the store {uri}", error, "", endpoint) from error


@contextlib.contextmanager
def _absence(path: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if s3_answers.code(error) in s3_answers.ABSENT:
            raise FileNotFoundError(path) from error
        raise
