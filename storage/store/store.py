"""The store: named bytes below one folder or one object-store prefix, each written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs

from mcvrp.model.errors import McvrpError, without_logins
from mcvrp.storage.store.connections import Files, connect, disconnect, translated
from mcvrp.storage.store.errors import StoreError as StoreError, StoreUnavailable as StoreUnavailable
from mcvrp.storage.store.local import folder_at
from mcvrp.storage.store.parsing import parse_json
from mcvrp.storage.store.reader import Reader
from mcvrp.storage.store.retry import SILENCE, StoreRetry

T = TypeVar("T")
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

    Holds no connection, so it travels to other processes; use `Store.open` to make one. A name
    that could lead out of the store is refused by every method; an object store may hold such names,
    listings leave them out. Each method raises StoreError when the store refuses, and
    StoreUnavailable when it gives no answer and may do so later; what a write that got no answer has
    done is not known. A store that is `outlasting` asks again instead, and raises StoreSilent in the end.

    Parameters
    ----------
    silence
        Seconds without an answer that each method outlasts.
    """

    uri: str
    silence: float = field(default=0.0, compare=False)

    @classmethod
    def open(cls, uri: str | os.PathLike[str], *, writable: bool = True) -> Store:
        """Return the store at ``uri``, a local path, ``file:///PATH`` or ``s3://bucket/prefix``.

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
        store = cls.at(uri)
        disconnect(store.uri)
        action = "cannot write to the store" if writable else "cannot read the store"
        with translated(connect(store.uri, probing=True), f"{action} {store.uri}") as files:
            files.probe(writable=writable)
        return store

    @classmethod
    def at(cls, uri: str | os.PathLike[str]) -> Store:
        """Return the store at ``uri`` without a look at it; StoreError if that is no address of a store."""
        text = os.fspath(uri)
        if "://" in text and not text.startswith("file://"):
            if "@" in text:  # a secret may have a slash, so that where the @ stands says nothing
                raise StoreError(
                    f"{without_logins(text)} has an @, as after a key: leave that out of the address, it "
                    "belongs into the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or a profile; a "
                    "bucket or prefix with an @ in its name cannot be a store"
                )
            kind, place = text.split("://", 1)
            return cls(f"{kind}://{place.rstrip('/')}")
        return cls(folder_at(text))

    def outlasting(self, seconds: float = SILENCE) -> Store:
        """Return this store as one whose methods outlast ``seconds`` without an answer; 0 for none."""
        return replace(self, silence=seconds)

    def probe(self) -> None:
        """Raise StoreUnavailable if the store gives no answer now."""
        with translated(connect(self.uri, probing=True), f"cannot read the store {self.uri}") as files:
            files.probe(writable=False)

    def put(self, path: str, data: bytes) -> None:
        """Write ``data`` at ``path``: whole or not at all, over what was there."""
        self._ask("write", path, lambda files: files.write(path, data))

    def put_new(self, path: str, data: bytes) -> bool:
        """Write ``data`` at ``path``, whole, if there is nothing; return whether it was written.

        Of several who try at once, one succeeds. Who has to ask again, as the first answer was lost, and
        finds these very bytes there, takes them for its own.
        """
        return self._ask("write", path, _once_written(path, data, lambda f: f.write_new(path, data)))

    def get(self, path: str) -> bytes:
        """Return the bytes at ``path``.

        Raises
        ------
        McvrpError
            If there is no such file.
        """
        return self._ask("read", path, lambda files: files.read(path), required=True)

    def get_tagged(self, path: str) -> tuple[bytes, str]:
        """Return the bytes at ``path`` and a tag of them, for `swap`; McvrpError if there is no such file."""
        return self._ask("read", path, lambda files: files.read_tagged(path), required=True)

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        """Write ``data`` at ``path``, whole, if what is there has ``tag``; return whether it was written.

        Of several who try at once with one tag, one succeeds; who mixes this with `put` may lose
        an update in a local folder. Lost answers are as in `put_new`.
        """
        return self._ask("write", path, _once_written(path, data, lambda f: f.swap(path, data, tag)))

    def move(self, path: str, to: str) -> None:
        """Give the file at ``path`` the name ``to``, over what was there; McvrpError if there is none.

        An object store copies, whole, and then deletes: who is stopped between has both.
        """
        tries = 0

        def moved(files: Files) -> None:
            nonlocal tries
            tries += 1
            try:
                files.move(path, to)
            except FileNotFoundError:
                if tries == 1 or not _has_file(files, to):  # else the first try has moved it
                    raise

        _require_sound(to)
        self._ask("move", path, moved, required=True)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open ``path`` for reading at any position; the caller closes it.

        Raises
        ------
        McvrpError
            If there is no such file.
        """
        return pa.PythonFile(Reader(self._ask, path, self.url(path)), mode="r")

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
        return self._ask("look at", "", lambda files: files.now())

    def delete(self, path: str) -> None:
        """Remove the file or the whole folder at ``path``; nothing happens when there is none."""
        self._ask("delete", path, lambda files: files.delete(path))

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

    def _ask(self, verb: str, path: str, work: Callable[[Files], T], *, required: bool = False) -> T:
        """Return what ``work`` returns, which is done again while the store is silent and outlasted.

        McvrpError if ``path`` is ``required`` and not there.
        """
        _require_sound(path)
        absent = f"there is no {self.url(path)}: {_ABSENT}" if required else None

        def once() -> T:
            with translated(connect(self.uri), f"cannot {verb} {self.url(path)}", absent) as files:
                return work(files)

        return StoreRetry(self, silence=self.silence).call(once) if self.silence else once()

    def _info(self, path: str) -> fs.FileInfo:
        return self._ask("look at", path, lambda files: files.filesystem.get_file_info(files.locate(path)))

    def _infos(self, prefix: str, *, recursive: bool) -> tuple[str, Sequence[fs.FileInfo]]:
        folder = prefix.rstrip("/")

        def listed(files: Files) -> tuple[str, Sequence[fs.FileInfo]]:
            selector = fs.FileSelector(files.locate(folder), allow_not_found=True, recursive=recursive)
            infos = files.filesystem.get_file_info(selector)
            for info in infos:
                if info.type == fs.FileType.Directory:
                    files.locate(info.path.removeprefix(f"{files.root}/"))
            return files.root, infos

        return self._ask("list", folder, listed)


def _require_sound(path: str) -> None:
    if path and (fault := _fault(path)):
        raise McvrpError(f"{path[:80]!r} is no name in a store: {fault}")


def _once_written(path: str, data: bytes, write: Callable[[Files], bool]) -> Callable[[Files], bool]:
    """Return ``write``, which, called again after an answer that was lost, sees whether it was written."""
    tries = 0

    def written(files: Files) -> bool:
        nonlocal tries
        tries += 1
        if write(files):
            return True
        with contextlib.suppress(FileNotFoundError):
            return tries > 1 and files.read(path) == data
        return False

    return written


def _has_file(files: Files, path: str) -> bool:
    return bool(files.filesystem.get_file_info(files.locate(path)).type == fs.FileType.File)


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
