"""The store: named bytes below one folder or one object-store prefix, each written whole or not at all."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import fs

from mcvrp.model.errors import McvrpError, without_logins
from mcvrp.storage.store.errors import StoreError as StoreError, StoreUnavailable as StoreUnavailable
from mcvrp.storage.store.local import LocalFiles
from mcvrp.storage.store.parsing import parse_json

_HIDDEN = "."  # names that begin with it are files being written, or none of ours
_LONGEST = 1024  # bytes of a name, what S3 allows
_ABSENT = "check the name, mcvrp inspect shows what there is"


@dataclass(frozen=True)
class StoredFile:
    """A file as a listing shows it: its name, its bytes, when it was written in seconds since 1970."""

    path: str
    size: int
    modified: float


@dataclass(frozen=True)
class Store:
    """A place for files with relative posix names such as "labels/laptop/n=020/part-00000.parquet".

    Holds its address only, so it travels to other processes; use `Store.open` to make one. A name
    that could lead out of the store is refused by every method; an object store may hold such names,
    listings leave them out. Each method raises StoreError when the store refuses, and
    StoreUnavailable when it gives no answer and may do so later; what a write that got no answer has
    done is not known.
    """

    uri: str

    @classmethod
    def open(cls, uri: str | os.PathLike[str], *, writable: bool = True) -> Store:
        """Return the store at ``uri``, a local path or an ``s3://bucket/prefix`` address.

        Endpoint, region and credentials of an object store come from the standard environment and
        profiles (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, ...).

        Parameters
        ----------
        writable
            Whether the store is going to be written; it is then tried now.

        Raises
        ------
        StoreError
            If the path is a file, or nothing can be read or written there.
        """
        text = os.fspath(uri)
        if "://" in text and not text.startswith("file://"):
            if "@" in text:  # a secret may have a slash, so that where the @ stands says nothing
                raise StoreError(
                    f"{without_logins(text)} has an @, as after a key: leave that out of the address, it "
                    "belongs into the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or a profile; a "
                    "bucket or prefix with an @ in its name cannot be a store"
                )
            kind, place = text.split("://", 1)
            store = cls(f"{kind}://{place.rstrip('/')}")
        else:
            store = cls(str(Path(text.removeprefix("file://")).expanduser().absolute()))
        _connect.cache_clear()  # the environment may say something else today
        action = "cannot write to the store" if writable else "cannot read the store"
        with _translated(_files(store.uri, probing=True), f"{action} {store.uri}") as files:
            files.probe(writable=writable)
        return store

    def put(self, path: str, data: bytes) -> None:
        """Write ``data`` at ``path``: whole or not at all, over what was there."""
        with self._to("write", path) as files:
            files.write(path, data)

    def put_new(self, path: str, data: bytes) -> bool:
        """Write ``data`` at ``path``, whole, if there is nothing; return whether it was written.

        Of several who try at once, one succeeds.
        """
        with self._to("write", path) as files:
            return files.write_new(path, data)

    def get(self, path: str) -> bytes:
        """Return the bytes at ``path``.

        Raises
        ------
        McvrpError
            If there is no such file.
        """
        with self._to("read", path) as files:
            return files.read(path)

    def get_tagged(self, path: str) -> tuple[bytes, str]:
        """Return the bytes at ``path`` and a tag of them, for `swap`; McvrpError if there is no such file."""
        with self._to("read", path) as files:
            return files.read_tagged(path)

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        """Write ``data`` at ``path``, whole, if what is there has ``tag``; return whether it was written.

        Of several who try at once with one tag, one succeeds; who mixes this with `put` may lose
        an update in a local folder.
        """
        with self._to("write", path) as files:
            return files.swap(path, data, tag)

    def move(self, path: str, to: str) -> None:
        """Give the file at ``path`` the name ``to``, over what was there; McvrpError if there is none.

        An object store copies, whole, and then deletes: who is stopped between has both.
        """
        with self._to("move", to), self._to("move", path) as files:
            files.move(path, to)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open ``path`` for reading at any position; the caller closes it.

        Raises
        ------
        McvrpError
            If there is no such file.
        """
        action = f"cannot read {self.url(path)}"
        with self._to("read", path) as files:
            return pa.PythonFile(_Reader(files.open(path), files, action), mode="r")

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder at ``path``."""
        return self._info(path).type != fs.FileType.NotFound

    def size(self, path: str) -> int:
        """Return the number of bytes at ``path``; McvrpError if there is no such file."""
        info = self._info(path)
        if info.type != fs.FileType.File:
            raise McvrpError(f"there is no file {self.url(path)}: {_ABSENT}")
        return int(info.size)

    def stat(self, path: str) -> StoredFile | None:
        """Return the file at ``path`` as a listing shows it, None when there is none."""
        info = self._info(path)
        return _stored(info, path) if info.type == fs.FileType.File else None

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the folders directly below ``prefix``, sorted; [] when there are none."""
        _, infos = self._infos(prefix, recursive=False)
        names = (info.base_name for info in infos if info.type == fs.FileType.Directory)
        return sorted(name for name in names if _sound(name))

    def files(self, prefix: str, *, hidden: bool = False) -> Sequence[StoredFile]:
        """Return the files of `list` with size and age; ``hidden`` adds what is being written."""
        root, infos = self._infos(prefix, recursive=True)
        found = [
            _stored(info, info.path.removeprefix(f"{root}/"))
            for info in infos
            if info.type == fs.FileType.File
        ]
        kept = [file for file in found if _sound(file.path) and (hidden or not _is_hidden(file.path))]
        return sorted(kept, key=lambda file: file.path)

    def list(self, prefix: str) -> list[str]:
        """Return the files below the folder ``prefix`` at any depth, sorted; [] when there are none."""
        return [file.path for file in self.files(prefix)]

    def now(self) -> float:
        """Return what time it is in seconds since 1970, by the clock that dates the store's files."""
        with self._to("look at", "") as files:
            return files.now()

    def delete(self, path: str) -> None:
        """Remove the file or the whole folder at ``path``; nothing happens when there is none."""
        with self._to("delete", path) as files:
            files.delete(path)

    def put_json(self, path: str, value: object) -> None:
        """Write ``value`` as a JSON document for people and programs."""
        self.put(path, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode())

    def get_json(self, path: str) -> Any:
        """Return the JSON document at ``path``; McvrpError if it is absent or not JSON."""
        data = self.get(path)
        try:
            return parse_json(data)
        except ValueError as error:
            raise McvrpError(f"{self.url(path)} is not JSON ({error}): remove or repair it") from error

    def url(self, path: str = "") -> str:
        """Return the full address of ``path``, for people."""
        return f"{self.uri}/{path}" if path else self.uri

    def _to(self, verb: str, path: str) -> contextlib.AbstractContextManager[_Files]:
        if path and (fault := _fault(path)):
            raise McvrpError(f"{path[:80]!r} is no name in a store: {fault}")
        absent = f"there is no {self.url(path)}: {_ABSENT}" if verb in ("read", "move") else None
        return _translated(_connect(self.uri, os.getpid()), f"cannot {verb} {self.url(path)}", absent)

    def _info(self, path: str) -> fs.FileInfo:
        with self._to("look at", path) as files:
            return files.filesystem.get_file_info(f"{files.root}/{path}")

    def _infos(self, prefix: str, *, recursive: bool) -> tuple[str, Sequence[fs.FileInfo]]:
        folder = prefix.rstrip("/")
        with self._to("list", folder) as files:
            where = f"{files.root}/{folder}".rstrip("/")
            selector = fs.FileSelector(where, allow_not_found=True, recursive=recursive)
            return files.root, files.filesystem.get_file_info(selector)


class _Files(Protocol):
    """Operations of a kind of store: `LocalFiles` or `S3Objects`; it raises ``errors`` as they come."""

    @property
    def root(self) -> str: ...
    @property
    def filesystem(self) -> fs.FileSystem: ...
    @property
    def errors(self) -> tuple[type[Exception], ...]: ...
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


def _sound(path: str) -> bool:
    """Return whether ``path`` names something within the store, on every kind of store."""
    return _fault(path) is None


def _fault(path: str) -> str | None:
    """Return what is wrong with ``path`` as a name in the store, and what to do; None if nothing is."""
    if (count := len(path.encode(errors="replace"))) > _LONGEST:
        return f"it has {count:,} bytes, give one of {_LONGEST:,} at most"
    if not path.isprintable() or "\\" in path:
        return "it has a control character or a backslash, leave these out"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "it would lead elsewhere, name what is below the store"
    return None


def _stored(info: fs.FileInfo, path: str) -> StoredFile:
    return StoredFile(path, int(info.size), (info.mtime_ns or 0) / 1e9)


def _is_hidden(path: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in path.split("/"))


class _Reader(io.RawIOBase):
    """A stream that tells an unreachable store from a corrupt file, to whoever reads through pyarrow."""

    def __init__(self, stream: pa.NativeFile, files: _Files, action: str) -> None:
        self._stream, self._files, self._action = stream, files, action

    def read(self, size: int = -1) -> bytes:
        with _translated(self._files, self._action):
            return self._stream.read(None if size < 0 else size)

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


@lru_cache(maxsize=8)
def _connect(uri: str, process: int) -> _Files:  # a connection does not survive a fork
    return _files(uri)


def _files(uri: str, *, probing: bool = False) -> _Files:
    if "://" not in uri:
        return LocalFiles(uri)
    if not uri.startswith("s3://"):
        raise StoreError(f"{uri.partition('?')[0]} is no store: give a folder or an s3:// address")
    from mcvrp.storage.store import s3 as s3_objects

    return s3_objects.connect(uri, s3_objects.PROBING if probing else s3_objects.WORKING)


@contextlib.contextmanager
def _translated(files: _Files, action: str, absent: str | None = None) -> Iterator[_Files]:
    try:
        yield files
    except files.errors as error:
        if absent and isinstance(error, FileNotFoundError):
            raise McvrpError(absent) from error
        raise files.refusal(action, error) from error
