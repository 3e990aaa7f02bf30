"""Stream over a file of a store that reopens the file after an outage of the store."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from mcvrp.storage.store.connections import Files
from mcvrp.storage.store.errors import StoreError


class Ask(Protocol):
    """Request of a `Store`, with its retries and its errors."""

    def __call__(
        self, verb: str, path: str, work: Callable[[Files], Any], *, required: bool = False
    ) -> Any: ...


class Reader(io.RawIOBase):
    """Stream whose errors distinguish an unreachable store from a corrupt file, also through pyarrow."""

    def __init__(self, ask: Ask, path: str, url: str) -> None:
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
