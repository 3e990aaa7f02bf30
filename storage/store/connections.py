"""Connections to stores: one per `Store`, made when it is first used, and the meaning of their errors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.local import LocalFiles


class Files(Protocol):
    """Operations of one kind of store, `LocalFiles` or `S3Objects`; they raise ``errors`` untranslated."""

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


class Connection:
    """Connection to the store at ``uri``, made at the first request.

    It can be pickled; the copies in another process share one connection per address there, as a worker
    receives a store with each task, and a client of object storage takes a third of a second to make.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._files: dict[tuple[int, bool], Files] = {}  # by process: sockets do not survive a fork

    def __reduce__(self) -> tuple[Callable[[str], Connection], tuple[str]]:
        return _received, (self._uri,)

    def files(self, *, probing: bool = False) -> Files:
        """Return the operations of the store, ``probing`` with short timeouts.

        Raises StoreError if the settings are wrong.
        """
        key = os.getpid(), probing
        if key not in self._files:
            self._files[key] = _files(self._uri, probing=probing)
        return self._files[key]


@cache
def _received(uri: str) -> Connection:
    return Connection(uri)


def _files(uri: str, *, probing: bool) -> Files:
    if "://" not in uri:
        return LocalFiles(uri)
    if not uri.startswith("s3://"):
        raise StoreError(f"{uri.partition('?')[0]} is not a store: give a folder or an s3:// address")
    from mcvrp.storage.store import s3 as s3_objects

    return s3_objects.connect(uri, s3_objects.PROBING if probing else s3_objects.WORKING)


@contextlib.contextmanager
def translated(files: Files, action: str, absent: str | None = None) -> Iterator[Files]:
    """Yield ``files``; its errors become StoreError, a missing file becomes McvrpError ``absent``."""
    try:
        yield files
    except files.errors as error:
        if absent and isinstance(error, FileNotFoundError):
            raise McvrpError(absent) from error
        raise files.refusal(action, error) from error
