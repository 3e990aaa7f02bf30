"""The store: files below one folder or one prefix of an object store, each written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs

from mcvrp.model.errors import McvrpError, without_logins
from mcvrp.storage.store.connections import Connection, Files, Reader, translated
from mcvrp.storage.store.errors import StoreError as StoreError, StoreUnavailable as StoreUnavailable
from mcvrp.storage.store.local import folder_at
from mcvrp.storage.store.parallel import Parts
from mcvrp.storage.store.parsing import parse_json
from mcvrp.storage.store.retry import SILENCE, StoreRetry

T = TypeVar("T")
_LONGEST = 1024  # bytes of a name: the limit of S3
_ABSENT = "check the name, mcvrp inspect lists the store"
# Unicode categories: control and unassigned characters, surrogates, ends of lines and of paragraphs.
_REFUSED = {"Cc", "Cn", "Cs", "Zl", "Zp"}


@dataclass(frozen=True)
class StoredFile:
    """Entry of a listing: path, size in bytes, and time of the last write in seconds since 1970."""

    path: str
    size: int
    modified: float


@dataclass(frozen=True)
class Store:
    """Files with relative POSIX names such as "labels/laptop/labels.json".

    Use `Store.open` to make one. Each store has its own connection; pickled, it connects again in the
    other process. Every method refuses names that could lead out of the store; an object store may hold
    such names, a folder some that are not UTF-8: listings omit both, `omitted` returns them. Every method
    raises StoreError if the store refuses, and StoreUnavailable if it does not answer now; whether a write
    without an answer took effect is unknown. A store that is `outlasting` repeats the request instead, and
    raises StoreSilent in the end.
    """

    uri: str  # absolute path of a folder, or s3://bucket/prefix
    silence: float = field(default=0.0, compare=False)  # seconds without an answer that each method outlasts
    connection: InitVar[Connection | None] = None  # of another store of this address, to share
    _connection: Connection = field(init=False, repr=False, compare=False)

    def __post_init__(self, connection: Connection | None) -> None:
        object.__setattr__(self, "_connection", connection or Connection(self.uri))

    @classmethod
    def open(cls, uri: str | os.PathLike[str], *, writable: bool = True) -> Store:
        """Return the store at ``uri``, a local path, ``file:///PATH`` or ``s3://bucket/prefix``.

        Endpoint, region and credentials of an object store come from the standard environment and
        profiles (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, ...). A ``writable``
        one is going to be written, which is tried now. StoreError if the path is a file, or nothing can be
        read or written there.
        """
        store = cls.at(uri)
        action = "cannot write to the store" if writable else "cannot read the store"
        with translated(store._connection.files(probing=True), f"{action} {store.uri}") as files:
            files.probe(writable=writable)
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

    def outlasting(self, seconds: float = SILENCE) -> Store:
        """Return this store with methods that outlast ``seconds`` without an answer; 0 for none."""
        return replace(self, silence=seconds, connection=self._connection)

    def probe(self) -> None:
        """Raise StoreUnavailable if the store does not answer now."""
        with translated(self._connection.files(probing=True), f"cannot read the store {self.uri}") as files:
            files.probe(writable=False)

    def put(self, path: str, data: bytes) -> None:
        """Write ``data`` at ``path``, whole or not at all; replaces an existing file."""
        parts = Parts()
        try:
            self._ask("write", path, lambda files: files.write(path, data, parts))
        except BaseException:
            if parts.name:
                self._connection.files(probing=True).abandon(path, parts)
            raise

    def put_new(self, path: str, data: bytes) -> bool:
        """Write ``data`` at ``path``, whole, unless a file exists there; return whether it was written.

        Of several concurrent callers one succeeds. A call that had to be repeated because its first answer
        was lost returns True if it finds exactly ``data`` there.
        """
        return self._ask("write", path, _conditional(path, data, lambda files: files.write_new(path, data)))

    def get(self, path: str) -> bytes:
        """Return the bytes at ``path``; McvrpError if there is no such file."""
        parts = Parts()
        return self._ask("read", path, lambda files: files.read(path, parts), required=True)

    def find(self, path: str) -> bytes | None:
        """Return the bytes at ``path``, None if there is no such file: one request instead of two."""
        parts = Parts()
        return self._ask("read", path, lambda files: _if_present(lambda path: files.read(path, parts), path))

    def find_tagged(self, path: str) -> tuple[bytes, str] | None:
        """Return the bytes at ``path`` and their tag, for `swap`; None if there is no such file."""
        return self._ask("read", path, lambda files: _if_present(files.read_tagged, path))

    def get_tagged(self, path: str) -> tuple[bytes, str]:
        """Return the bytes at ``path`` and their tag, for `swap`; McvrpError if there is no such file."""
        return self._ask("read", path, lambda files: files.read_tagged(path), required=True)

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        """Replace the file at ``path`` by ``data``, whole, if it has ``tag``; return whether it was replaced.

        Of several concurrent callers with one tag one succeeds. Mixed with `put`, an update may be lost in
        a local folder. Lost answers are handled as in `put_new`.
        """
        return self._ask("write", path, _conditional(path, data, lambda files: files.swap(path, data, tag)))

    def move(self, path: str, to: str) -> None:
        """Rename the file at ``path`` to ``to``, replacing a file there; McvrpError if there is no such file.

        An object store copies and then deletes: a process killed between the two leaves both files.
        """
        tries = 0

        def moved(files: Files) -> None:
            nonlocal tries
            tries += 1
            try:
                files.move(path, to)
            except FileNotFoundError:
                info = files.filesystem.get_file_info(files.locate(to))
                if tries == 1 or info.type != fs.FileType.File:  # otherwise the unanswered first try moved it
                    raise

        _require_sound(to)
        self._ask("move", path, moved, required=True)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open ``path`` for random access; the caller closes it. McvrpError if there is no such file."""
        return pa.PythonFile(Reader(self._ask, path, self.url(path)), mode="r")

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder at ``path``."""
        return self._info(path).type != fs.FileType.NotFound

    def size(self, path: str) -> int:
        """Return the number of bytes at ``path``; McvrpError if there is no such file."""
        if (file := self.stat(path)) is None:
            raise McvrpError(f"there is no file {self.url(path)}: {_ABSENT}")
        return file.size

    def stat(self, path: str) -> StoredFile | None:
        """Return the entry of the file at ``path`` in a listing, None if there is no such file."""
        info = self._info(path)
        return _stored(info, path) if info.type == fs.FileType.File else None

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the folders directly below ``prefix``, sorted."""
        entries = self._entries(prefix, fs.FileType.Directory, recursive=False)
        names = (path.rpartition("/")[2] for path, _ in entries)
        return sorted(name for name in names if not _fault(name))

    def files(self, prefix: str, *, hidden: bool = False) -> Sequence[StoredFile]:
        """Return the files of `list` with size and time; ``hidden`` includes files that are being written.

        Names of these, and of files that are not ours, begin with a dot.
        """
        entries = self._entries(prefix, fs.FileType.File)
        valid = ((path, info) for path, info in entries if not _fault(path))
        files = (_stored(info, path) for path, info in valid if hidden or not _is_hidden(path))
        return sorted(files, key=lambda file: file.path)

    def list(self, prefix: str) -> list[str]:
        """Return the paths of the files below the folder ``prefix`` at any depth, sorted."""
        return [file.path for file in self.files(prefix)]

    def omitted(self, prefix: str) -> Sequence[str]:
        """Return the paths of the files that `list` omits because of their names, sorted.

        Bytes that are not UTF-8 are surrogates, as in `os.fsdecode`.
        """
        paths = (path for path, _ in self._entries(prefix, fs.FileType.File))
        return sorted(path for path in paths if _fault(path) and not _is_hidden(path))

    def now(self) -> float:
        """Return the current time in seconds since 1970, by the clock that dates the store's files."""
        return self._ask("look at", "", lambda files: files.now())

    def delete(self, path: str) -> None:
        """Remove the file or the whole folder at ``path``, if it exists."""
        self._ask("delete", path, lambda files: files.delete(path))

    def delete_files(self, paths: Sequence[str]) -> None:
        """Remove the files at ``paths``, if they exist: in an object store one request per 1,000."""
        for path in paths:
            _require_sound(path)
        self._ask("delete", paths[0] if paths else "", lambda files: files.delete_files(paths))

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

    def _ask(self, verb: str, path: str, work: Callable[[Files], T], *, required: bool = False) -> T:
        """Return the result of ``work``, repeated while the store does not answer and is outlasted.

        McvrpError if ``path`` is ``required`` and does not exist.
        """
        _require_sound(path)
        absent = f"there is no {self.url(path)}: {_ABSENT}" if required else None

        def once() -> T:
            with translated(self._connection.files(), f"cannot {verb} {self.url(path)}", absent) as files:
                return work(files)

        return StoreRetry(self, silence=self.silence).call(once) if self.silence else once()

    def _info(self, path: str) -> fs.FileInfo:
        return self._ask("look at", path, lambda files: files.filesystem.get_file_info(files.locate(path)))

    def _entries(
        self, prefix: str, kind: fs.FileType, *, recursive: bool = True
    ) -> Sequence[tuple[str, fs.FileInfo]]:
        """Return the entries of one ``kind`` below ``prefix`` with their paths, which may be invalid."""
        folder = prefix.rstrip("/")

        def listed(files: Files) -> Sequence[tuple[str, fs.FileInfo]]:
            selector = fs.FileSelector(files.locate(folder), allow_not_found=True, recursive=recursive)
            try:
                infos = files.filesystem.get_file_info(selector)
            except FileNotFoundError:  # Arrow raises it for a folder that is made while it is looked for
                infos = files.filesystem.get_file_info(selector)
            entries = [(_path(info).removeprefix(f"{files.root}/"), info) for info in infos]
            for path, info in entries:
                if info.type == fs.FileType.Directory:
                    files.locate(path)
            return [(path, info) for path, info in entries if info.type == kind]

        return self._ask("list", folder, listed)


def _if_present(read: Callable[[str], T], path: str) -> T | None:
    with contextlib.suppress(FileNotFoundError):
        return read(path)
    return None


def _require_sound(path: str) -> None:
    if path and (fault := _fault(path)):
        raise McvrpError(f"{path[:80]!r} is not a valid name in a store: {fault}")


def _conditional(path: str, data: bytes, write: Callable[[Files], bool]) -> Callable[[Files], bool]:
    """Return ``write`` as a request that can be repeated.

    `put_new` and `swap` are not idempotent: a first try whose answer was lost makes the second one fail. So
    a repeated request that fails looks whether the first one has written ``data``.
    """
    tries = 0

    def written(files: Files) -> bool:
        nonlocal tries
        tries += 1
        if write(files):
            return True
        with contextlib.suppress(FileNotFoundError):
            return tries > 1 and files.read_tagged(path)[0] == data
        return False

    return written


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


def _path(info: fs.FileInfo) -> str:
    try:
        return str(info.path)
    except UnicodeDecodeError as error:
        return os.fsdecode(error.object)


def _is_hidden(path: str) -> bool:
    return "/." in f"/{path}"


def _stored(info: fs.FileInfo, path: str) -> StoredFile:
    return StoredFile(path, int(info.size), (info.mtime_ns or 0) / 1e9)
