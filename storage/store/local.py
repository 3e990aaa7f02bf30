"""Store in a folder of this machine, or of a file system that several machines mount."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore

from mcvrp.model.errors import brief, without_logins
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.files import StoredFile


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


class Folder:
    """Files below the folder ``root``, written by obstore beside their name and then renamed.

    Listings are by the system, as obstore ends at the first name that is not UTF-8.
    """

    def __init__(self, root: str) -> None:
        self._root, self._client = os.path.abspath(root), LocalStore()

    def probe(self, *, writable: bool) -> None:
        """Raise OSError or StoreError if the store cannot be read, or written."""
        folder = Path(self._root)
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"the store {folder} is a file: give a folder or an s3:// address")
        if writable:
            # its first file creates it: a command that fails before leaves no empty folder
            above = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
            for name in folder.relative_to(above).parts:
                with contextlib.suppress(FileNotFoundError):
                    (above / name).lstat()  # raises OSError if the name is too long
            with tempfile.TemporaryFile(dir=above):
                pass
        elif not folder.exists():
            raise StoreError(
                f"there is no store {folder}: check --store, or create one with mcvrp city create"
            )
        else:
            os.listdir(folder)

    def put(self, path: str, data: bytes) -> None:
        """Write ``data`` to ``path``, replacing an existing file."""
        obstore.put(self._client, self._at(path), data, use_multipart=False)
        self._sync(path)

    def create(self, path: str, data: bytes) -> bool:
        """Write ``data`` to ``path`` and return True, or False if a file exists there."""
        try:
            obstore.put(self._client, self._at(path), data, mode="create")
        except AlreadyExistsError:
            if not os.path.isfile(self._at(path)):
                raise IsADirectoryError(errno.EISDIR, "there is a folder, a pipe or a broken link") from None
            return False
        self._sync(path)
        return True

    def get(self, path: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes of the file at ``path``, or a range of them; FileNotFoundError without one."""
        try:
            require_file(Path(self._at(path)))
        except NotADirectoryError:
            raise FileNotFoundError(path) from None
        if stop is None:
            return obstore.get(self._client, self._at(path)).bytes().to_bytes()
        return obstore.get_range(self._client, self._at(path), start=start, end=stop).to_bytes()

    def stat(self, path: str) -> StoredFile | None:
        """Return the entry of the file at ``path``, None if there is no file."""
        try:
            status = os.stat(self._at(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if stat.S_ISDIR(status.st_mode) else _entry(path, status)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder at ``path``."""
        return os.path.exists(self._at(path))

    def files(self, folder: str) -> Iterator[StoredFile]:
        """Yield the files below ``folder`` at any depth."""
        for entry in self._entries(folder):
            path = f"{folder}/{entry.name}".lstrip("/")
            if entry.is_dir():
                yield from self.files(path)
                continue
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile, or a link that leads nowhere
                yield _entry(path, entry.stat())

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in ``folder``."""
        return [entry.name for entry in self._entries(folder) if entry.is_dir()]

    def delete(self, path: str) -> None:
        """Remove the file or the whole folder at ``path``, if it exists."""
        target = self._at(path)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # another process was faster
            if os.path.isdir(target) and not os.path.islink(target):
                shutil.rmtree(target)
            else:
                os.unlink(target)

    def delete_files(self, paths: Sequence[str]) -> None:
        """Remove the files at ``paths``, if they exist."""
        for path in paths:
            self.delete(path)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/")

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._at(folder)) as entries:
                return list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _sync(self, path: str) -> None:
        """Sync the file at ``path`` and its name to the disk: obstore does not."""
        for name in (self._at(path), os.path.dirname(self._at(path))):
            with contextlib.suppress(FileNotFoundError):  # another process has removed it meanwhile
                descriptor = os.open(name, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)


def _entry(path: str, status: os.stat_result) -> StoredFile:
    return StoredFile(path, status.st_size, status.st_mtime_ns / 1e9)
