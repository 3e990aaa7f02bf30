"""Connections to stores: one per `Store`, made when it is first used; streams, and the meaning of errors."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import fs

from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.local import LocalFiles
from mcvrp.storage.store.parallel import Parts


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
    def read(self, path: str, parts: Parts) -> bytes: ...
    def read_tagged(self, path: str) -> tuple[bytes, str]: ...
    def write(self, path: str, data: bytes, parts: Parts) -> None: ...
    def abandon(self, path: str, parts: Parts) -> None: ...
    def write_new(self, path: str, data: bytes) -> bool: ...
    def swap(self, path: str, data: bytes, tag: str) -> bool: ...
    def move(self, path: str, to: str) -> None: ...
    def delete(self, path: str) -> None: ...
    def delete_files(self, paths: Sequence[str]) -> None: ...
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


class Reader(io.RawIOBase):
    """Stream over a file of a store, read by `Store._ask`: a file is reopened after an outage of the store.

    Its errors distinguish an unreachable store from a corrupt file, also through pyarrow.
    """

    def __init__(self, ask: Callable[..., Any], path: str, url: str) -> None:
        self._ask, self._path, self._url = ask, path, url
        self._stream: pa.NativeFile = ask("read", path, lambda files: files.open(path), required=True)

    def read(self, size: int = -1) -> bytes:
        position, broken = self._stream.tell(), False

        def piece(files: Files) -> bytes:
            nonlocal broken
            if broken:
                self._reopen(files, position)
            broken = True  # a repeated request reopens the file: this stream may be at any position
            data: bytes = self._stream.read(None if size < 0 else size)
            return data

        return self._ask("read", self._path, piece)

    def _reopen(self, files: Files, position: int) -> None:
        stream = files.open(self._path)
        if stream.size() != self._stream.size():
            raise StoreError(f"{self._url} was replaced while it was read: run the same command again")
        self._stream.close()
        self._stream = stream
        self._stream.seek(position)

    def seek(self, position: int, whence: int = 0) -> int:
        return int(self._stream.seek(position, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._stream.close()
        super().close()
