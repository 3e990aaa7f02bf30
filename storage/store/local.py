"""Store in a folder of this machine, or of a file system that several machines mount."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyarrow import fs

from mcvrp.model.errors import brief, reason, without_logins
from mcvrp.storage.store.errors import StoreError, StoreUnavailable
from mcvrp.storage.store.parallel import Parts

_STALE_SECONDS = 3600.0  # age from which a temporary file no longer has a writer
_HINTS = {
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "free space there, or request a larger quota",
    errno.EROFS: "give a writable folder",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "request permission, or give another folder"),
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENOLINK: "replace the link by its target",  # raised by `_resolve`
    errno.ENXIO: "remove it, or write its content to a file",
    errno.ENAMETOOLONG: "give a shorter one",
    errno.ELOOP: "remove the link, which leads to itself",
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "move the file away, a folder is expected there"),
    errno.EISDIR: "move the folder away, a file is expected there",
}
_PASSING = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN}


def require_file(path: Path, most: int | None = None) -> None:
    """Raise OSError if ``path`` is neither file nor folder, or has more than ``most`` bytes."""
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise OSError(errno.ENXIO, "it is a pipe or a device, not a file")  # reading it may never end
    if most is not None and status.st_size > most:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, the limit is {most:,}")


def folder_at(address: str) -> str:
    """Return the absolute path of the folder at ``address``: a path, file:///PATH or file://localhost/PATH.

    Raises StoreError if it is another kind of address: as a path, it would be another folder.
    """
    path = address
    if address.startswith("file://"):
        host, slash, path = address.removeprefix("file://").partition("/")
        path = slash + path
        sound = host in ("", "localhost") and slash and not {"%", "?", "#"} & set(path)
    else:
        sound = not address.startswith(("file:", "s3:"))
    if not sound:
        raise StoreError(
            f"{brief(without_logins(address), 100)} is not the address of a local folder: give its path "
            "alone, or s3://bucket/prefix for an object store"
        )
    return str(Path(path).expanduser().absolute())


@dataclass(frozen=True)
class LocalFiles:
    """Files below the folder ``root``; a file appears whole or not at all.

    Links are followed only within ``root``. They are checked before the file is opened: whoever can change
    them in between can write to the store anyway.
    """

    root: str

    errors: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    @property
    def filesystem(self) -> fs.FileSystem:
        """File system for listings."""
        return fs.LocalFileSystem()

    def locate(self, path: str) -> str:
        """Return the address of ``path`` in `filesystem`; OSError if a link leads out of the store."""
        return str(self._resolve(path)).rstrip("/")

    def probe(self, *, writable: bool) -> None:
        """Raise OSError or StoreError if the store cannot be read, or written."""
        folder = Path(self.root)
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"the store {folder} is a file: give a folder or an s3:// address")
        if writable and not os.path.lexists(folder):
            # its first file creates it: a command that fails before leaves no empty folder
            above = next(parent for parent in folder.parents if os.path.lexists(parent))
            for name in folder.relative_to(above).parts:
                with contextlib.suppress(FileNotFoundError):
                    (above / name).lstat()  # raises OSError if the name is too long
            with tempfile.TemporaryFile(dir=above):
                pass
        elif writable:
            name = f".probe-{secrets.token_hex(4)}"
            self.write(name, b"")
            self.delete(name)
        elif not folder.exists():
            raise StoreError(
                f"there is no store {folder}: check --store, or create one with mcvrp city create"
            )
        else:
            os.listdir(folder)

    def open(self, path: str) -> pa.NativeFile:
        """Open the file at ``path`` for random access; FileNotFoundError if there is none."""
        file = self._resolve(path)
        if file.is_dir():
            raise FileNotFoundError(path)
        require_file(file)
        return self.filesystem.open_input_file(str(file))

    def read(self, path: str, parts: Parts | None = None) -> bytes:
        """Return the bytes of the file at ``path``; FileNotFoundError if there is none."""
        file = self._resolve(path)
        try:
            require_file(file)
            return file.read_bytes()
        except (IsADirectoryError, NotADirectoryError) as error:
            raise FileNotFoundError(path) from error

    def read_tagged(self, path: str) -> tuple[bytes, str]:
        """Return the bytes of the file at ``path``, and a tag of this content."""
        data = self.read(path)
        return data, _tag(data)

    def write(self, path: str, data: bytes, parts: Parts | None = None) -> None:
        """Write ``data`` to ``path``, replacing an existing file."""
        target = self._resolve(path, end=False)
        with _aside(target, data) as aside:
            os.replace(aside, target)

    def abandon(self, path: str, parts: Parts) -> None:
        """Do nothing: a file is written at once."""

    def write_new(self, path: str, data: bytes) -> bool:
        """Write ``data`` to ``path`` and return True, or False if a file exists there."""
        target = self._resolve(path, end=False)
        if _exists(target):
            return False
        with _aside(target, data) as aside:
            try:
                os.link(aside, target)  # unlike a rename, it fails if the target exists
            except FileExistsError:
                return False
        return True

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        """Replace the file at ``path`` by ``data`` and return True, or False if it does not have ``tag``."""
        target = self._resolve(path)
        with _aside(target, data) as aside, self._lock():
            try:
                if _tag(self.read(path)) != tag:
                    return False
            except FileNotFoundError:
                return False
            os.replace(aside, target)
        return True

    def move(self, path: str, to: str) -> None:
        """Rename the file at ``path`` to ``to``, replacing an existing file."""
        source, target = self._resolve(path, end=False), self._resolve(to, end=False)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(source, target)
        _sync(target.parent)

    def delete(self, path: str) -> None:
        """Remove the file or the whole folder at ``path``, if it exists."""
        target = self._resolve(path, end=False)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # another process was faster
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink()

    def delete_files(self, paths: Sequence[str]) -> None:
        """Remove the files at ``paths``, if they exist."""
        for path in paths:
            self.delete(path)

    def now(self) -> float:
        """Return the time of this machine in seconds since 1970."""
        return time.time()

    def refusal(self, action: str, error: BaseException) -> StoreError:
        """Return the error of the store for ``error``, which ended ``action``."""
        number = getattr(error, "errno", None)
        if number in _PASSING:
            return StoreUnavailable(f"{action} ({reason(error)}): check the disk or the mount")
        writes = action.startswith(("cannot write", "cannot move", "cannot delete"))
        other = "give a writable folder" if number and writes else "check the disk"
        hint = _HINTS.get(number or 0, other)
        return StoreError(f"{action} ({reason(error)}): {hint}")

    def _resolve(self, path: str, *, end: bool = True) -> Path:
        """Return the file's path; OSError if a link on the way, or at its ``end``, leads out of the store."""
        real = os.path.realpath(Path(self.root, path if end else os.path.dirname(path)))
        root = os.path.realpath(self.root)
        if os.path.commonpath([real, root]) != root:
            raise OSError(errno.ENOLINK, "a link that leads out of the store")
        return Path(self.root, path)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        # One file for the whole store, never removed: a lock on a file that is removed would protect nothing.
        descriptor = os.open(Path(self.root, ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _exists(target: Path) -> bool:
    """Return whether ``target`` is a file; OSError if anything else is in its place."""
    if not os.path.lexists(target):
        return False
    if not target.is_file():
        raise OSError(errno.ENXIO, "it is a folder, a pipe or a link that leads nowhere, not a file")
    return True


@contextlib.contextmanager
def _aside(target: Path, data: bytes) -> Iterator[Path]:
    """Yield a temporary file beside ``target`` with ``data``, synced to disk; syncs its renaming, too."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(str(target.parent), os.getpid())
    aside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with aside.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        yield aside
    finally:
        aside.unlink(missing_ok=True)
    _sync(target.parent)  # the new name must survive a power failure, too


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@lru_cache(maxsize=1024)  # once per process and folder, before the first write there
def _sweep(folder: str, process: int) -> None:
    """Remove temporary files that killed writers have left in ``folder``."""
    old = time.time() - _STALE_SECONDS
    with os.scandir(folder) as entries:
        leftovers = [entry for entry in entries if entry.name.startswith(".") and entry.name.endswith(".tmp")]
    for entry in leftovers:
        with contextlib.suppress(OSError):  # removed by another process, a folder, or another user's file
            if entry.stat().st_mtime < old:
                os.unlink(entry.path)


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
