"""The store: files below one folder or one prefix of an object store, each written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore

from mcvrp.model.errors import McvrpError, shown
from mcvrp.storage.parsing import parse_json
from mcvrp.storage.store import local_disk, s3
from mcvrp.storage.store.errors import (
    REFUSALS,
    NoSuchFile,
    StoreError as StoreError,
    StoreUnavailable as StoreUnavailable,
    refusal,
)

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import S3Store

T = TypeVar("T")
_BUCKET = re.compile(r"s3://[^/@:?#]+(/[^@?#]*)?")
_NUMBER = re.compile(r"(\d{6,})(\.[a-z]+)?")


@dataclass(frozen=True)
class StoredFile:
    """Entry of a listing: path, size in bytes, and time of the last write in seconds since 1970."""

    path: str
    size: int
    modified: float


@dataclass(frozen=True)
class Store:
    """Files with relative POSIX names such as "labels/laptop/spec.json", in a folder or a bucket.

    Use `Store.open` to make one. Five verbs: `put_new` (creates a file once), `put`, `get`, `list`, `delete`;
    the other methods are forms of these. A file that several processes may write is created once, under a
    number that says which counts: there is no exchange of one content for another.

    Each store has its own connection; pickled, it connects again in the other process. Every method refuses
    names that could lead out of the store, and raises StoreError if the store refuses, and StoreUnavailable
    if it has not answered for three minutes; whether a write without an answer took effect is unknown.
    """

    uri: str  # absolute path of a folder, or s3://bucket/prefix

    def __reduce__(self) -> tuple[Callable[[str], Store], tuple[str]]:
        return _received, (self.uri,)

    @classmethod
    def open(cls, uri: str | os.PathLike[str], *, writable: bool = True) -> Store:
        """Return the store at ``uri``, a local path or ``s3://bucket/prefix``.

        Endpoint, region and credentials of an object store come from the environment (AWS_...) and profiles.
        StoreError if it does not answer at once, is a file, or cannot be written; with ``writable`` False,
        which refuses no later write, if it is absent instead.
        """
        store = cls.at(uri)
        if not store._local:
            store._probe(writable)
        elif os.path.exists(store.uri) and not os.path.isdir(store.uri):
            raise StoreError(f"{store.uri} is not a folder: name one")
        elif not writable and not os.path.exists(store.uri):
            raise StoreError(
                f"there is no store {store.uri}: name a folder, or make one with mcvrp city import or create"
            )
        elif writable:
            store._request("write", "", lambda key: local_disk.require_writable(f"/{key}"))
        return store

    @classmethod
    def at(cls, uri: str | os.PathLike[str]) -> Store:
        """Return the store at ``uri`` without a request; StoreError if it is not the address of a store."""
        text = os.fspath(uri)
        if _BUCKET.fullmatch(text):
            return cls(text.rstrip("/"))
        if "://" in text or text.startswith(("file:", "s3:")):  # as a path, it would be another folder
            raise StoreError(
                f"{text.partition(':')[0]}:… is not the address of a store: give the path of a folder or "
                "s3://bucket/prefix, the only scheme, and keys as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        return cls(os.path.abspath(os.path.expanduser(text)))

    def put_new(self, path: str, data: bytes) -> bool:
        """Write ``data`` at ``path``, whole, unless a file exists there; return whether that one is ``data``.

        Of several concurrent callers with different bytes one succeeds, and knows it: if the answer to it was
        lost, or obstore's second try found the file of the first, the bytes are read back and compared.
        """

        def create(key: str) -> bool:
            try:
                obstore.put(self._client, key, data, mode="create")
            except REFUSALS as error:
                unknown = isinstance(refusal("", error), StoreUnavailable)
                if not unknown and not isinstance(error, AlreadyExistsError):
                    raise
                try:
                    return obstore.get(self._client, key).bytes().to_bytes() == data
                except FileNotFoundError:
                    raise error from None
            if self._local:
                local_disk.sync(f"/{key}")  # obstore does not
            return True

        return self._request("write", path, create)

    def put(self, path: str, data: bytes) -> None:
        """Write ``data`` at ``path``, whole or not at all; replaces an existing file."""

        def write(key: str) -> None:
            obstore.put(self._client, key, data)
            if self._local:
                local_disk.sync(f"/{key}")

        self._request("write", path, write)

    def get(self, path: str) -> bytes:
        """Return the bytes at ``path``; NoSuchFile if there is no such file."""
        return self._request("read", path, lambda key: obstore.get(self._client, key).bytes().to_bytes())

    def get_end(self, path: str, size: int) -> bytes:
        """Return the last ``size`` bytes at ``path``, all of a shorter file; NoSuchFile without one."""
        last: GetOptions = {"range": {"suffix": size}}
        return self._request(
            "read", path, lambda key: obstore.get(self._client, key, options=last).bytes().to_bytes()
        )

    def find(self, path: str) -> bytes | None:
        """Return the bytes at ``path``, None if there is no such file: one request instead of two."""
        with contextlib.suppress(NoSuchFile):
            return self.get(path)
        return None

    def exists(self, path: str) -> bool:
        """Return whether there is a file at ``path``."""
        return self.stat(path) is not None

    def size(self, path: str) -> int:
        """Return the number of bytes at ``path``; NoSuchFile if there is none."""
        return self._request("look at", path, lambda key: obstore.head(self._client, key))["size"]

    def stat(self, path: str) -> StoredFile | None:
        """Return the entry of the file at ``path`` in a listing, None if there is no such file."""
        with contextlib.suppress(NoSuchFile):
            return self._entry(self._request("look at", path, lambda key: obstore.head(self._client, key)))
        return None

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the folders directly below ``prefix``, sorted."""
        folder = prefix.rstrip("/")
        found = self._request("list", folder, lambda k: obstore.list_with_delimiter(self._client, k or None))
        return sorted(path.rpartition("/")[2] for path in found["common_prefixes"])

    def files(self, prefix: str, *, hidden: bool = False) -> Sequence[StoredFile]:
        """Return the files of `list` with size and time; ``hidden`` includes leases and the like.

        Their names, and those of files that are not ours, begin with a dot.
        """
        folder = prefix.rstrip("/")
        chunks = self._request(
            "list", folder, lambda key: [*obstore.list(self._client, key or None, chunk_size=1000)]
        )
        files = (self._entry(meta) for chunk in chunks for meta in chunk)
        return sorted((f for f in files if hidden or "/." not in f"/{f.path}"), key=lambda f: f.path)

    def list(self, prefix: str) -> list[str]:
        """Return the paths of the files below the folder ``prefix`` at any depth, sorted."""
        return [file.path for file in self.files(prefix)]

    def numbered(self, folder: str) -> dict[int, StoredFile]:
        """Return the files 000018, 000018.json and so on in ``folder`` by their numbers, in ascending order.

        Several processes write one thing so: who creates a number has it, the highest counts.
        """
        names = ((file.path.rpartition("/")[2], file) for file in self.files(folder, hidden=True))
        return {int(match[1]): file for name, file in names if (match := _NUMBER.fullmatch(name))}

    def delete(self, path: str) -> None:
        """Remove the file or the whole folder at ``path``, if it exists."""
        if self._local:
            self._request("delete", path, lambda key: local_disk.remove(f"/{key}"))
        else:
            self.delete_files([path, *(file.path for file in self.files(path, hidden=True))])

    def delete_files(self, paths: Sequence[str]) -> None:
        """Remove the files at ``paths``, if they exist, several at a time."""
        if self._local:
            for path in paths:
                self.delete(path)
        elif keys := [*map(self._key, paths)]:
            self._request("delete", paths[0], lambda _: obstore.delete(self._client, keys))

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

    def _probe(self, writable: bool) -> None:
        """Make the first request, with short timeouts; create a file twice in a store that is to be begun."""
        probe = Store(self.uri)
        probe.__dict__["_client"] = s3.connect(self.uri, s3.PROBING)
        if set(probe.folders("")) - {"incoming"} or not writable:  # that one is written by others, too
            return
        path = f".probe-{secrets.token_hex(4)}"
        first, second = probe.put_new(path, b"1"), probe.put_new(path, b"2")
        probe.delete_files([path])
        if not first or second:
            raise StoreError(
                f"the server of {self.uri} overwrites an object that was to be created (it ignores "
                "If-None-Match), so that writers would lose each other's work: use another server"
            )

    def _request(self, verb: str, path: str, request: Callable[[str], T]) -> T:
        """Return the answer to ``request``, given the key of ``path``; errors name ``verb`` and ``path``."""
        key = self._key(path)
        try:
            if self._local:
                return request(key)
            return s3.answer(lambda: request(key))
        except REFUSALS as error:
            if isinstance(error, FileNotFoundError) and verb != "write" and "NoSuchBucket" not in str(error):
                raise NoSuchFile(f"there is no {self.url(path)}: check its name (mcvrp inspect)") from error
            raise refusal(f"cannot {verb} {self.url(path)}", error) from error

    def _key(self, path: str) -> str:
        """Return obstore's name of ``path``; McvrpError if it could lead out of the store."""
        if path and any(part in ("", ".", "..") for part in path.split("/")):
            raise McvrpError(f"{shown(path, 80)} leads out of the store: name one below it, without // or ..")
        return f"{self._root}/{path}".strip("/")

    def _entry(self, meta: ObjectMeta) -> StoredFile:
        path = meta["path"].removeprefix(self._root).lstrip("/")
        return StoredFile(path, meta["size"], meta["last_modified"].timestamp())

    @cached_property
    def _client(self) -> LocalStore | S3Store:
        return LocalStore() if self._local else s3.connect(self.uri, s3.WORKING)

    @cached_property
    def _local(self) -> bool:
        return "://" not in self.uri

    @cached_property
    def _root(self) -> str:
        """Key of the store itself: the whole path of a folder, or the prefix in its bucket."""
        path = self.uri if self._local else self.uri.removeprefix("s3://").partition("/")[2]
        return path.strip("/")


@cache
def _received(uri: str) -> Store:
    return Store(uri)  # one per address in another process: a worker receives a store with each task
