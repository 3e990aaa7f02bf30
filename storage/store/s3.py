"""Store below a prefix of an S3 bucket, of Amazon or any compatible server.

Writes use boto3, so that an object is whole or absent: a single request, or a multipart upload of a large
object, which appears when it is completed. pyarrow would publish a partial object if a writer fails, and
leave folder markers behind. Listings and partial reads of large objects use pyarrow. Both read endpoint,
region and credentials from the standard environment and profiles.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import math
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import boto3
import pyarrow as pa
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
)
from pyarrow import fs
from urllib3.exceptions import ProtocolError

from mcvrp.model.errors import without_logins
from mcvrp.storage.store import contract, credentials, parallel, s3_errors as s3_answers
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.parallel import Parts

_BATCH = 1000  # keys per DELETE request


@dataclass(frozen=True)
class Timeouts:
    """Seconds to wait for a connection and for a response, and number of attempts."""

    connect: float
    read: float
    attempts: int


WORKING = Timeouts(5.0, 15.0, 5)
PROBING = Timeouts(3.0, 4.0, 2)  # before any work: a person waits at the terminal
_BUSY_ATTEMPTS = 4  # at least: a server that refuses answers at once


class S3Objects:
    """Objects below ``uri`` (s3://bucket/prefix), with keys like file paths."""

    errors: tuple[type[Exception], ...] = (OSError, pa.ArrowException, BotoCoreError, ClientError)

    def __init__(self, uri: str, timeouts: Timeouts = WORKING) -> None:
        parts = urlsplit(uri)
        self.bucket, self._prefix = parts.netloc, parts.path.strip("/")
        if not self.bucket or {"@", ":"} & set(self.bucket) or {"?", "#"} & set(uri):
            shown = f"s3://{self.bucket.rpartition('@')[2].partition(':')[0]}"  # no secret on the screen
            raise StoreError(
                f"{shown} is not the address of a bucket: write s3://bucket or s3://bucket/prefix"
            )
        self.root = f"{self.bucket}/{self._prefix}".rstrip("/")
        self._timeouts = timeouts
        session = boto3.session.Session()
        region = os.environ.get("AWS_REGION") or session.region_name
        self._client = session.client(
            "s3", region_name=region or "us-east-1", config=_client_config(timeouts)
        )
        self._client.meta.events.register("needs-retry.s3", self._wait_if_busy)
        self._client.meta.events.register("before-call.s3.DeleteObjects", _add_md5)
        credentials.use(session.get_credentials())  # the same object as the client's
        self.endpoint = str(self._client.meta.endpoint_url)
        if without_logins(self.endpoint) != self.endpoint:
            raise StoreError(
                f"AWS_ENDPOINT_URL={without_logins(self.endpoint)} contains credentials: leave them out, use "
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
            # Four attempts more than botocore: its waits are shorter, 13 s in total.
            retry_strategy=fs.AwsDefaultS3RetryStrategy(max_attempts=timeouts.attempts + 4),
        )

    def locate(self, path: str) -> str:
        """Return the address of ``path`` in `filesystem`."""
        return f"{self.root}/{path}".rstrip("/")

    def probe(self, *, writable: bool) -> None:
        """Raise one of ``errors`` if the bucket cannot be read, or written."""
        self._client.list_objects_v2(Bucket=self.bucket, Prefix=self._prefix, MaxKeys=1)
        self.filesystem.get_file_info(f"{self.root}/.probe")  # pyarrow's client needs credentials, too
        if writable:
            contract.race(self, f".probe-{secrets.token_hex(4)}.tmp", size=1)

    def make_bucket(self) -> None:
        """Create the bucket, unless it exists and is ours; one of ``errors`` if the server refuses."""
        try:
            self._client.head_bucket(Bucket=self.bucket)
        except ClientError as error:
            if s3_answers.code(error) not in s3_answers.ABSENT:
                raise
            self._client.create_bucket(Bucket=self.bucket)

    def open(self, path: str) -> pa.NativeFile:
        """Open the object at ``path`` for random access; FileNotFoundError if there is none."""
        return self.filesystem.open_input_file(f"{self.root}/{path}")

    def read(self, path: str, parts: Parts) -> bytes:
        """Return the bytes of the object at ``path``, a large one in `Parts`, or FileNotFoundError."""
        data, tag, size = self._get(path, most=parallel.LARGE)
        if size <= parallel.LARGE:
            return data
        if parts.name != tag:
            parts.name, parts.done = tag, {}

        def fetch(offset: int) -> bytes:
            span = f"bytes={offset}-{offset + parallel.PART - 1}"
            return self._get(path, Range=span, IfMatch=tag)[0]

        parts.transfer(size, fetch)
        whole = io.BytesIO()  # unlike a join, it does not need the memory twice
        for offset in sorted(parts.done):
            whole.write(parts.done.pop(offset))
        return whole.getvalue()

    def read_tagged(self, path: str) -> tuple[bytes, str]:
        """Return the bytes of the object at ``path``, and the tag of this content."""
        return self._get(path)[:2]

    def write(self, path: str, data: bytes, parts: Parts) -> None:
        """Write ``data`` to ``path``, replacing an existing object, a large one in `Parts`."""
        if len(data) <= parallel.LARGE:
            self._client.put_object(**self._at(path), Body=data, ContentMD5=_md5(data))
            return
        at, view = self._at(path), memoryview(data)
        if not parts.name:
            begun = self._client.create_multipart_upload(**at, Metadata={"put": parts.mark})
            parts.name = begun["UploadId"]
        upload = {**at, "UploadId": parts.name}

        def send(offset: int) -> dict[str, Any]:
            piece, number = bytes(view[offset : offset + parallel.PART]), offset // parallel.PART + 1
            answer = self._client.upload_part(**upload, PartNumber=number, Body=piece, ContentMD5=_md5(piece))
            return {"PartNumber": number, "ETag": answer["ETag"]}

        sent = parts.transfer(len(data), send)
        try:
            self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": sent})
        except ClientError as error:  # the response to an attempt that succeeded may have been lost
            if s3_answers.code(error) != "nosuchupload" or self._mark(path) != parts.mark:
                raise

    def abandon(self, path: str, parts: Parts) -> None:
        """Remove the parts of an unfinished write, if the server answers."""
        with contextlib.suppress(*self.errors):
            self._client.abort_multipart_upload(**self._at(path), UploadId=parts.name)

    def write_new(self, path: str, data: bytes) -> bool:
        """Write ``data`` to ``path`` and return True, or False if an object exists there."""
        return self._put_if(path, data, IfNoneMatch="*")

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        """Replace the object at ``path`` by ``data`` and return True, or False if its tag is not ``tag``."""
        return self._put_if(path, data, IfMatch=tag)

    def move(self, path: str, to: str) -> None:
        """Copy the object at ``path`` to ``to``, then delete it."""
        with _absence(path):
            self._client.copy_object(**self._at(to), CopySource=self._at(path))
        self._client.delete_object(**self._at(path))

    def delete(self, path: str) -> None:
        """Delete the object at ``path`` and all objects below it, if they exist."""
        self._client.delete_object(**self._at(path))
        for names in self._below(path):
            self._delete_batch(names)

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete the objects at ``paths``, if they exist, in requests of many."""
        for first in range(0, len(paths), _BATCH):
            self._delete_batch([self._at(path)["Key"] for path in paths[first : first + _BATCH]])

    def _delete_batch(self, names: Sequence[str]) -> None:
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
        """Return the error of the store for ``error``, which ended ``action``."""
        return s3_answers.refusal(action, error, self.bucket, self.endpoint)

    def _wait_if_busy(self, response: Any, attempts: int, **_: object) -> float | None:
        """Return the seconds until botocore retries; it does not know the error codes of all busy servers."""
        if response is None or attempts >= max(self._timeouts.attempts, _BUSY_ATTEMPTS):
            return None
        answer, parsed = response
        word = str(parsed.get("Error", {}).get("Code", "")).lower()
        return 2.0 ** (attempts - 1) if s3_answers.is_busy(word, answer.status_code) else None

    def _at(self, path: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": f"{self._prefix}/{path}".lstrip("/")}

    def _get(self, path: str, most: float = math.inf, **more: str) -> tuple[bytes, str, int]:
        """Return bytes, tag and size of an object or a range of it; no bytes if it has more than ``most``."""
        attempts = self._timeouts.attempts
        while True:
            with _absence(path):
                answer = self._client.get_object(**self._at(path), **more)
            tag, size = answer["ETag"].strip('"'), int(answer["ContentLength"])
            try:
                with contextlib.closing(answer["Body"]) as body:
                    return body.read() if size <= most else b"", tag, size
            except (HTTPClientError, IncompleteReadError):  # botocore does not retry the body
                attempts -= 1
                if not attempts:
                    raise
            time.sleep(1.0)

    def _put_if(self, path: str, data: bytes, **condition: str) -> bool:
        mark = secrets.token_hex(8)
        try:
            request = {**self._at(path), "Body": data, "ContentMD5": _md5(data), **condition}
            self._client.put_object(**request, Metadata={"put": mark})
        except ClientError as error:
            word = s3_answers.code(error)
            if not (
                word in s3_answers.CONDITION_FAILED or (word in s3_answers.ABSENT and "IfMatch" in condition)
            ):
                raise
            # The response to a first attempt that succeeded may have been lost: then the object is ours.
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
                yield [entry["Key"] for entry in page["Contents"]]


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _add_md5(params: dict[str, Any], **_: object) -> None:
    params["headers"]["Content-MD5"] = _md5(params["body"])  # botocore's CRC32 is not enough for some servers


def _client_config(timeouts: Timeouts) -> Config:
    return Config(
        connect_timeout=timeouts.connect,
        read_timeout=timeouts.read,
        max_pool_connections=32,
        # Waits up to 1, 2, 4, 8 s; mode "standard" gives a busy server up after 0.3 s.
        retries={"mode": "legacy", "total_max_attempts": timeouts.attempts},
        # Many servers other than Amazon's do not support the newer checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )


def connect(uri: str, timeouts: Timeouts) -> S3Objects:
    """Return the objects below ``uri`` without a request; StoreError if the settings are wrong."""
    try:
        return S3Objects(uri, timeouts)
    except (OSError, pa.ArrowException, BotoCoreError, ValueError) as error:  # ValueError: invalid endpoint
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
    except ProtocolError as error:  # botocore does not translate it if the body of an error message is cut
        raise ResponseStreamingError(error=error) from error
