"""The store: named bytes below one folder or one object-store prefix, each written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from model.errors import McvrpError

_HIDDEN = "."  # names that begin with it are files being written, or none of ours


@dataclass(frozen=True)
class Store:
    """A place for files with relative posix names such as "labels/laptop/n=020/part-00000.parquet".

    Holds its address only, so it travels to other processes; use `Store.open` to make one.
    """

    uri: str

    @classmethod
    def open(cls, uri: str | os.PathLike[str]) -> Store:
        """Return the store at ``uri``, a local path or an ``s3://bucket/prefix`` address.

        Raises
        ------
        McvrpError
            If the path is a file, or nothing can be written there.
        """
        text = os.fspath(uri)
        if "://" in text and not text.startswith("file://"):
            store = cls(text.rstrip("/"))
        else:
            folder = Path(text.removeprefix("file://")).expanduser().absolute()
            if folder.exists() and not folder.is_dir():
                raise McvrpError(f"the store {folder} is a file: give a folder or an s3:// address")
            store = cls(str(folder))
        probe = f"{_HIDDEN}probe-{secrets.token_hex(4)}"
        try:
            store.put(probe, b"")
            store.delete(probe)
        except (OSError, pa.ArrowException) as error:
            raise McvrpError(
                f"cannot write to the store {store.uri} ({_reason(error)}): give a place that can be written"
            ) from error
        return store

    def put(self, path: str, data: bytes) -> None:
        """Write ``data`` at ``path``: whole or not at all, over what was there."""
        filesystem, root = _connect(self.uri)
        if isinstance(filesystem, fs.LocalFileSystem):
            _put_local(Path(root, path), data)
        else:  # complete bytes, so that what appears is what was meant
            with filesystem.open_output_stream(f"{root}/{path}") as stream:
                stream.write(data)

    def get(self, path: str) -> bytes:
        """Return the bytes at ``path``.

        Raises
        ------
        McvrpError
            If there is no such file.
        """
        with self.open_input(path) as stream:
            return stream.read()

    def open_input(self, path: str) -> pa.NativeFile:
        """Open ``path`` for reading at any position; the caller closes it.

        Raises
        ------
        McvrpError
            If there is no such file.
        """
        filesystem, root = _connect(self.uri)
        try:
            return filesystem.open_input_file(f"{root}/{path}")
        except FileNotFoundError as error:
            raise McvrpError(f"there is no {self.url(path)}") from error

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder at ``path``."""
        filesystem, root = _connect(self.uri)
        return filesystem.get_file_info(f"{root}/{path}").type != fs.FileType.NotFound

    def size(self, path: str) -> int:
        """Return the number of bytes at ``path``; McvrpError if there is no such file."""
        filesystem, root = _connect(self.uri)
        info = filesystem.get_file_info(f"{root}/{path}")
        if info.type != fs.FileType.File:
            raise McvrpError(f"there is no file {self.url(path)}")
        return int(info.size)

    def list(self, prefix: str) -> list[str]:
        """Return the files below the folder ``prefix`` at any depth, sorted; [] when there are none."""
        filesystem, root = _connect(self.uri)
        selector = fs.FileSelector(f"{root}/{prefix}".rstrip("/"), allow_not_found=True, recursive=True)
        infos = filesystem.get_file_info(selector)
        paths = [info.path.removeprefix(f"{root}/") for info in infos if info.type == fs.FileType.File]
        return sorted(p for p in paths if not any(part.startswith(_HIDDEN) for part in p.split("/")))

    def delete(self, path: str) -> None:
        """Remove the file or the whole folder at ``path``; nothing happens when there is none."""
        filesystem, root = _connect(self.uri)
        kind = filesystem.get_file_info(f"{root}/{path}").type
        with contextlib.suppress(FileNotFoundError):  # somebody else was faster
            if kind == fs.FileType.Directory:
                filesystem.delete_dir(f"{root}/{path}")
            elif kind != fs.FileType.NotFound:
                filesystem.delete_file(f"{root}/{path}")

    def put_json(self, path: str, value: object) -> None:
        """Write ``value`` as a JSON document for people and programs."""
        self.put(path, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode())

    def get_json(self, path: str) -> Any:
        """Return the JSON document at ``path``; McvrpError if it is absent or not JSON."""
        data = self.get(path)
        try:
            return json.loads(data)
        except ValueError as error:
            raise McvrpError(f"{self.url(path)} is not JSON ({error}): remove or mend it") from error

    def url(self, path: str = "") -> str:
        """Return the full address of ``path``, for people."""
        return f"{self.uri}/{path}" if path else self.uri


@lru_cache(maxsize=8)
def _connect(uri: str) -> tuple[fs.FileSystem, str]:
    if "://" not in uri:
        return fs.LocalFileSystem(), uri
    try:
        filesystem, root = fs.FileSystem.from_uri(uri)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise McvrpError(f"cannot reach the store {uri} ({_reason(error)})") from error
    return filesystem, root.rstrip("/")


def _put_local(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f"{_HIDDEN}{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with aside.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)  # the new name must survive a power cut too
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error).splitlines()[0]
