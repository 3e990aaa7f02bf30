"""The store: files below one folder or one prefix of an object store, each written whole or not at all."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

from mcvrp.model.errors import McvrpError, without_logins
from mcvrp.storage.store.errors import (
    REFUSALS,
    StoreError as StoreError,
    StoreUnavailable as StoreUnavailable,
    refusal,
)
from mcvrp.storage.store.files import Files, StoredFile as StoredFile
from mcvrp.storage.store.local import Folder, folder_at
from mcvrp.storage.store.parsing import parse_json

T = TypeVar("T")
_LONGEST = 1024  # bytes of a name: the limit of S3
_ABSENT = "check the name, mcvrp inspect lists the store"
# Unicode categories: control and unassigned characters, surrogates, ends of lines and of paragraphs.
_REFUSED = {"Cc", "Cn", "Cs", "Zl", "Zp"}
_HALF_WRITTEN = re.compile(r"#\d+$")  # name of a file that obstore is writing to a folder


@dataclass(frozen=True)
class Store:
    """Files with relative POSIX names such as "labels/laptop/labels.json".

    Use `Store.open` to make one. Five verbs: `put_new` (creates a file once), `put`, `get`, `list`, `delete`;
    the other methods are forms of these. A file that several processes may write is created once, under a
    number that says which counts: there is no exchange of one content for another.

    Each store has its own connection; pickled, it connects again in the other process. Every method refuses
    names that could lead out of the store; an object store may hold such names, a folder some that are not
    UTF-8: listings omit both, `omitted` returns them. Every method raises StoreError if the store refuses,
    and StoreUnavailable if it has not answered for three minutes; whether a write without an answer took
    effect is unknown.
    """

    uri: str  # absolute path of a folder, or s3://bucket/prefix

    def __reduce__(self) -> tuple[Callable[[str], Store], tuple[str]]:
        return _received, (self.uri,)

    @cached_property
    def _files(self) -> Files:
        return connected(self.uri)

    @classmethod
    def open(cls, uri: str | os.PathLike[str], *, writable: bool = True) -> Store:
        """Return the store at ``uri``, a local path, ``file:///PATH`` or ``s3://bucket/prefix``.

        Endpoint, region and credentials of an object store come from the standard environment and
        profiles (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, ...). A ``writable``
        one is going to be written, which is tried now. StoreError if the path is a file, or nothing can be
        read or written there.
        """
        store = cls.at(uri)
        with _translated(f"cannot {'write to' if writable else 'read'} the store {store.uri}"):
            connected(store.uri, probing=True).probe(writable=writable)
        return store

    @classmethod
    def at(cls, uri: str | os.PathLike[str]) -> Store:
        """Return the store at ``uri`` without a request; StoreError if it is not the address of a store."""
        text = os.fspath(uri)
        if "://" not in text or text.startswith("file://"):
            return cls(folder_at(text))
        if "@" in text:  # secret keys may contain a slash: the position of the @ does not tell a login
            raise StoreError(
                f"{without_logins(text)} contains an @, as after an access key: give keys in the environment "
                "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or in a profile; a bucket or prefix with an @ "
                "cannot be a store"
            )
        scheme, location = text.split("://", 1)
        return cls(f"{scheme}://{location.rstrip('/')}")

    def put_new(self, path: str, data: bytes) -> bool:
        """Write ``data`` at ``path``, whole, unless a file exists there; return whether it was written.

        Of several concurrent callers one succeeds, and knows it: also if the answer to it was lost.
        """
        with self._asked("write", path) as files:
            return files.create(path, data)

    def put(self, path: str, data: bytes) -> None:
        """Write ``data`` at ``path``, whole or not at all; replaces an existing file."""
        with self._asked("write", path) as files:
            files.put(path, data)

    def get(self, path: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes at ``path``, or those from ``start`` to ``stop`` (excluded).

        McvrpError if there is no such file.
        """
        with self._asked("read", path) as files:
            try:
                return files.get(path, start, stop)
            except FileNotFoundError as error:
                raise self._absent(path) from error

    def find(self, path: str) -> bytes | None:
        """Return the bytes at ``path``, None if there is no such file: one request instead of two."""
        with self._asked("read", path) as files, contextlib.suppress(FileNotFoundError):
            return files.get(path)
        return None

    def open_input(self, path: str) -> io.RawIOBase:
        """Open ``path`` for random access; McvrpError if there is no such file."""
        return _Reader(self, path, self.size(path))

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder at ``path``."""
        with self._asked("look at", path) as files:
            return files.exists(path)

    def size(self, path: str) -> int:
        """Return the number of bytes at ``path``; McvrpError if there is no such file."""
        if (file := self.stat(path)) is None:
            raise self._absent(path)
        return file.size

    def stat(self, path: str) -> StoredFile | None:
        """Return the entry of the file at ``path`` in a listing, None if there is no such file."""
        with self._asked("look at", path) as files:
            return files.stat(path)

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the folders directly below ``prefix``, sorted."""
        folder = prefix.rstrip("/")
        with self._asked("list", folder) as files:
            return sorted(name for name in files.folders(folder) if not _fault(name))

    def files(self, prefix: str, *, hidden: bool = False) -> Sequence[StoredFile]:
        """Return the files of `list` with size and time; ``hidden`` includes those that are being written.

        Names of leases, packs, and files that are not ours, begin with a dot.
        """
        valid = (file for file in self._listed(prefix) if not _fault(file.path))
        files = (file for file in valid if hidden or not _is_hidden(file.path))
        return sorted(files, key=lambda file: file.path)

    def list(self, prefix: str) -> list[str]:
        """Return the paths of the files below the folder ``prefix`` at any depth, sorted."""
        return [file.path for file in self.files(prefix)]

    def omitted(self, prefix: str) -> Sequence[str]:
        """Return the paths of the files that `list` omits because of their names, sorted.

        Bytes that are not UTF-8 are surrogates, as in `os.fsdecode`.
        """
        paths = (file.path for file in self._listed(prefix))
        return sorted(path for path in paths if _fault(path) and not _is_hidden(path))

    def delete(self, path: str) -> None:
        """Remove the file or the whole folder at ``path``, if it exists."""
        with self._asked("delete", path) as files:
            files.delete(path)

    def delete_files(self, paths: Sequence[str]) -> None:
        """Remove the files at ``paths``, if they exist, several at a time."""
        for path in paths:
            _require_sound(path)
        if paths:
            with self._asked("delete", paths[0]) as files:
                files.delete_files(paths)

    def put_json(self, path: str, value: object) -> None:
        """Write ``value`` as an indented JSON document."""
        self.put(path, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode())

    def get_json(self, path: str) -> Any:
        """Return the JSON document at ``path``; McvrpError if it is absent or not JSON."""
        data = self.get(path)
        try:
            return parse_json(data)
        except ValueError as error:
            raise McvrpError(f"{self.url(path)} is not JSON ({error}): remove or repair it") from error

    def url(self, path: str = "") -> str:
        """Return the full address of ``path``, for messages."""
        return f"{self.uri}/{path}" if path else self.uri

    def removal(self, path: str) -> str:
        """Return the shell command that removes the folder at ``path``, for messages."""
        command = "aws s3 rm --recursive" if "://" in self.uri else "rm -r"
        return f"{command} {shlex.quote(self.url(path))}"

    def _listed(self, prefix: str) -> Sequence[StoredFile]:
        folder = prefix.rstrip("/")
        with self._asked("list", folder) as files:
            return [*files.files(folder)]

    @contextlib.contextmanager
    def _asked(self, verb: str, path: str) -> Iterator[Files]:
        """Yield the files, for one request; its errors name ``verb`` and ``path``."""
        _require_sound(path)
        with _translated(f"cannot {verb} {self.url(path)}"):
            yield self._files

    def _absent(self, path: str) -> McvrpError:
        return McvrpError(f"there is no {self.url(path)}: {_ABSENT}")


@cache
def _received(uri: str) -> Store:
    return Store(uri)  # one per address in another process: a worker receives a store with each task


def connected(uri: str, *, probing: bool = False) -> Files:
    """Return the files at ``uri``, ``probing`` with short timeouts; StoreError if the settings are wrong."""
    if "://" not in uri:
        return Folder(uri)
    if not uri.startswith("s3://"):
        raise StoreError(f"{uri.partition('?')[0]} is not a store: give a folder or an s3:// address")
    from mcvrp.storage.store import s3

    return s3.Bucket(uri, s3.PROBING if probing else s3.WORKING)


@contextlib.contextmanager
def _translated(action: str) -> Iterator[None]:
    try:
        yield
    except REFUSALS as error:
        raise refusal(action, error) from error


class _Reader(io.RawIOBase):
    """File of a store that is read in ranges, for readers of Parquet."""

    def __init__(self, store: Store, path: str, size: int) -> None:
        self._store, self._path, self._size, self._position = store, path, size, 0

    def read(self, size: int = -1) -> bytes:
        start, stop = self._position, self._size
        if size >= 0:
            stop = min(start + size, stop)
        self._position = max(start, stop)
        return self._store.get(self._path, start, stop) if stop > start else b""

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        self._position = position + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _require_sound(path: str) -> None:
    if path and (fault := _fault(path)):
        raise McvrpError(f"{path[:80]!r} is not a valid name in a store: {fault}")


def _fault(path: str) -> str | None:
    """Return what is wrong with ``path`` as a name in the store, with the remedy; None if it is valid."""
    if (count := len(path.encode(errors="replace"))) > _LONGEST:
        return f"it has {count:,} bytes, use at most {_LONGEST:,}"
    special = "" if path.isprintable() else path  # other spaces than " ", and joiners, are not "printable"
    if "\\" in path or any(unicodedata.category(letter) in _REFUSED for letter in special):
        return "it contains a control character or a backslash, remove it"
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "it leads out of the store, give a path below it"
    return None


def _is_hidden(path: str) -> bool:
    return "/." in f"/{path}" or _HALF_WRITTEN.search(path) is not None
