"""Connections of this process to stores, by address, and what their errors mean."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.local import LocalFiles


class Files(Protocol):
    """Operations of a kind of store: `LocalFiles` or `S3Objects`; it raises ``errors`` as they come."""

    @property
    def root(self) -> str: ...
    @property
    def filesystem(self) -> fs.FileSystem: ...
    @property
    def errors(self) -> tuple[type[Exception], ...]: ...
    def locate(self, path: str) -> str: ...
    def probe(self, *, writable: bool) -> None: ...
    def open(self, path: str) -> pa.NativeFile: ...
    def read(self, path: str) -> bytes: ...
    def read_tagged(self, path: str) -> tuple[bytes, str]: ...
    def write(self, path: str, data: bytes) -> None: ...
    def write_new(self, path: str, data: bytes) -> bool: ...
    def swap(self, path: str, data: bytes, tag: str) -> bool: ...
    def move(self, path: str, to: str) -> None: ...
    def delete(self, path: str) -> None: ...
    def now(self) -> float: ...
    def refusal(self, action: str, error: BaseException) -> StoreError: ...


# By process, as a connection does not survive a fork; those that probe have short timeouts.
_CONNECTIONS: dict[tuple[int, str, bool], Files] = {}


def connect(uri: str, *, probing: bool = False) -> Files:
    """Return the connection of this process to the store at ``uri``; StoreError if the settings are wrong."""
    key = os.getpid(), uri, probing
    files = _CONNECTIONS.get(key)
    if files is None:
        files = _CONNECTIONS[key] = _files(uri, probing=probing)
    return files


def disconnect(uri: str) -> None:
    """Forget the connections to ``uri``: the environment may lead elsewhere today."""
    for probing in (False, True):
        _CONNECTIONS.pop((os.getpid(), uri, probing), None)


def _files(uri: str, *, probing: bool) -> Files:
    if "://" not in uri:
        return LocalFiles(uri)
    if not uri.startswith("s3://"):
        raise StoreError(f"{uri.partition('?')[0]} is no store: give a folder or an s3:// address")
    from mcvrp.storage.store import s3 as s3_objects

    return s3_objects.connect(uri, s3_objects.PROBING if probing else s3_objects.WORKING)


@contextlib.contextmanager
def translated(files: Files, action: str, absent: str | None = None) -> Iterator[Files]:
    """Yield ``files``; its errors become StoreError, or McvrpError ``absent`` where there is no such file."""
    try:
        yield files
    except files.errors as error:
        if absent and isinstance(error, FileNotFoundError):
            raise McvrpError(absent) from error
        raise files.refusal(action, error) from error
