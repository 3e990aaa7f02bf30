"""Files in a folder of this machine, or of a file system that several machines mount."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyarrow import fs

from mcvrp.model.errors import brief, reason, without_logins
from mcvrp.storage.store.errors import StoreError, StoreUnavailable

_SCRAP_SECONDS = 3600.0  # what has been written aside for so long has no writer any more
_HINTS = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there, or ask for more",
    errno.EROFS: "give a place that can be written",
    errno.EACCES: "ask for permission, or give another place",
    errno.EPERM: "ask for permission, or give another place",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENOLINK: "remove the link, put what it leads to there",  # ours, of `_place` and `_taken`
    errno.ENXIO: "remove it, or write what it gives to a file",
    errno.ENAMETOOLONG: "give a shorter one",
    errno.EFBIG: "split it",
    errno.ELOOP: "remove the link, which leads to itself",
    errno.EEXIST: "move the file away that stands where a folder belongs",
    errno.EISDIR: "move the folder away, a file belongs there",
    errno.ENOTDIR: "move the file away that stands where a folder belongs",
}
_NO_FILE = "it is no file but a pipe or a device"  # which may wait, or give, for ever
_PASSING = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN}


def require_file(path: Path, most: int | None = None) -> None:
    """Raise OSError if ``path`` is something else than a file or folder, or has more than ``most`` bytes."""
    found = path.stat()
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise OSError(errno.ENXIO, _NO_FILE)
    if most is not None and found.st_size > most:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, {most:,} are the most")


def folder_at(address: str) -> str:
    """Return the absolute path of the folder at ``address``: a path, file:///PATH or file://localhost/PATH.

    Raises
    ------
    StoreError
        If it is an address of something else, which as a path would be another folder.
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
            f"{brief(without_logins(address), 100)} is no address of a folder here: give its path alone, or "
            "s3://bucket/prefix for an object store"
        )
    return str(Path(path).expanduser().absolute())


@dataclass(frozen=True)
class LocalFiles:
    """The files below the folder ``root``; a file appears whole, under its name, or not at all.

    Links are followed within ``root`` only. They are looked at before the file is opened: who changes them
    meanwhile can write to the store anyway.
    """

    root: str

    errors: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    @property
    def filesystem(self) -> fs.FileSystem:
        """For listing."""
        return fs.LocalFileSystem()

    def locate(self, path: str) -> str:
        """Return the address of ``path`` in `filesystem`; OSError if a link there leads out of the store."""
        return str(self._place(path)).rstrip("/")

    def probe(self, *, writable: bool) -> None:
        """Raise OSError or StoreError if nothing can be read, or written, here."""
        folder = Path(self.root)
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"the store {folder} is a file: give a folder or an s3:// address")
        if writable:
            name = f".probe-{secrets.token_hex(4)}"
            self.write(name, b"")
            self.delete(name)
        elif not folder.exists():
            raise StoreError(f"there is no store {folder}: check --store, or make one with mcvrp city create")
        else:
            os.listdir(folder)

    def open(self, path: str) -> pa.NativeFile:
        """Open the file at ``path`` for reading at any position; FileNotFoundError if there is none."""
        place = self._place(path)
        if place.is_dir():
            raise FileNotFoundError(path)
        require_file(place)
        return self.filesystem.open_input_file(str(place))

    def read(self, path: str) -> bytes:
        """Return what the file at ``path`` holds; FileNotFoundError if there is none."""
        place = self._place(path)
        try:
            require_file(place)
            return place.read_bytes()
        except (IsADirectoryError, NotADirectoryError) as error:
            raise FileNotFoundError(path) from error

    def read_tagged(self, path: str) -> tuple[bytes, str]:
        """Return what `read` returns, and a tag of this very content."""
        data = self.read(path)
        return data, _tag(data)

    def write(self, path: str, data: bytes) -> None:
        """Put ``data`` at ``path``, over what was there."""
        target = self._place(path, end=False)
        with _aside(target, data) as aside:
            os.replace(aside, target)

    def write_new(self, path: str, data: bytes) -> bool:
        """Put ``data`` at ``path`` and return True, or False when a file is there."""
        target = self._place(path, end=False)
        if _taken(target):
            return False
        with _aside(target, data) as aside:
            try:
                os.link(aside, target)  # unlike a rename, it fails where there is something
            except FileExistsError:
                return False
        return True

    def swap(self, path: str, data: bytes, tag: str) -> bool:
        """Put ``data`` at ``path`` and return True, or False when what is there has not ``tag``."""
        target = self._place(path)
        with _aside(target, data) as aside, self._lock():
            try:
                if _tag(self.read(path)) != tag:
                    return False
            except FileNotFoundError:
                return False
            os.replace(aside, target)
        return True

    def move(self, path: str, to: str) -> None:
        """Give the file at ``path`` the name ``to``, over what was there."""
        source, target = self._place(path, end=False), self._place(to, end=False)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(source, target)
        _sync(target.parent)

    def delete(self, path: str) -> None:
        """Remove the file or the whole folder at ``path``, if there is one."""
        target = self._place(path, end=False)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # somebody else was faster
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink()

    def now(self) -> float:
        """Return the time of this machine in seconds since 1970."""
        return time.time()

    def refusal(self, action: str, error: BaseException) -> StoreError:
        """Return the sentence for ``error``, which stopped ``action``."""
        number = getattr(error, "errno", None)
        if number in _PASSING:
            return StoreUnavailable(f"{action} ({reason(error)}): check the disk or the mount")
        writes = action.startswith(("cannot write", "cannot move", "cannot delete"))
        other = "give a place that can be written" if number and writes else "check the disk"
        hint = _HINTS.get(number or 0, other)
        return StoreError(f"{action} ({reason(error)}): {hint}")

    def _place(self, path: str, *, end: bool = True) -> Path:
        """Return where ``path`` lies; OSError if a link on the way, or at its ``end``, leads elsewhere."""
        real = os.path.realpath(Path(self.root, path if end else os.path.dirname(path)))
        root = os.path.realpath(self.root)
        if os.path.commonpath([real, root]) != root:
            raise OSError(errno.ENOLINK, "a link that leads out of the store")
        return Path(self.root, path)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        # one file for the whole store, never removed: who waits for it waits for the right one
        descriptor = os.open(Path(self.root, ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _taken(target: Path) -> bool:
    """Return whether a file is at ``target``; OSError if something else is, so that none can be put there."""
    if not target.exists():
        if target.is_symlink():
            raise OSError(errno.ENOLINK, "a link that leads nowhere")
        return False
    if target.is_dir():
        raise OSError(errno.EISDIR, "it is a folder")
    require_file(target)
    return True


@contextlib.contextmanager
def _aside(target: Path, data: bytes) -> Iterator[Path]:
    """Yield a file beside ``target`` with ``data``, safe on the disk; what happens to it is made safe too."""
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
    _sync(target.parent)  # the new name must survive a power cut too


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@lru_cache(maxsize=1024)  # each process looks into each folder once, before it first writes there
def _sweep(folder: str, process: int) -> None:
    """Remove what writers that were killed have left in ``folder``."""
    old = time.time() - _SCRAP_SECONDS
    with os.scandir(folder) as entries:
        scraps = [entry for entry in entries if entry.name.startswith(".") and entry.name.endswith(".tmp")]
    for entry in scraps:
        with contextlib.suppress(FileNotFoundError):
            if entry.stat().st_mtime < old:
                os.unlink(entry.path)


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
