"""Cache of the labels of a dataset on local disk, read from the store once and mapped into memory.

A folder per fingerprint and format holds one file per size (`storage.labels.mapped`). All processes of the
machine share it: one builds the missing sizes, the others wait. Folders of an earlier state of the dataset,
of another format, or of a dataset that was removed, are removed unless a process has them open.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mcvrp.memory import free_space
from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import ROW_GROUP
from mcvrp.storage.labels.mapped import MAPPED_FORMAT, MappedLabels, expected_bytes, map_labels, write_mapped
from mcvrp.storage.layout import checked_name
from mcvrp.storage.store.store import Store

_USE = ".use"  # lock: shared while the cache is open, exclusive while it is removed
_BUILD = ".build"  # lock of the process that adds sizes
_POLL_SECONDS = 0.5
_SPARE = 2**26  # bytes to leave free on the disk

Listener = Callable[[int, int], None]  # called with the number of cached sizes and of all sizes


class LabelCache:
    """Mapped labels by size; their files are not removed before `close`. Use `open` to make one."""

    def __init__(self, tables: Mapping[int, MappedLabels], lock: int) -> None:
        self._tables, self._lock = dict(tables), lock

    @classmethod
    def open(
        cls,
        folder: Path,
        store: Store,
        dataset: str,
        fingerprint: str,
        counts: Mapping[int, int],
        listener: Listener | None = None,
    ) -> LabelCache:
        """Return the first ``counts[n]`` labels of each size n, read from ``store`` if they are not cached.

        ``folder`` has all caches of this machine, ``fingerprint`` is `Dataset.fingerprint` of ``dataset``.
        ``listener`` is called with the progress if anything has to be read. McvrpError if labels are
        missing, have changed since the fingerprint was computed, or do not fit on the disk.
        """
        parent = folder / f"{checked_name('dataset', dataset)}-{_mark(store)}"
        cache = parent / f"{fingerprint}-v{MAPPED_FORMAT}"
        with _refusals(folder):
            lock = _locked(cache / _USE, fcntl.LOCK_SH)
            try:
                tables = _mapped(cache, counts)
                if len(tables) < len(counts):
                    labels = Dataset.open(store, dataset)
                    tables = _completed(cache, labels, fingerprint, counts, listener)
                    _remove_abandoned(folder, store)
                for other in cache.parent.iterdir():  # earlier states and other formats
                    if other != cache and other.is_dir():
                        _remove(other)
            except BaseException:
                os.close(lock)
                raise
        return cls(tables, lock)

    def labels(self, n: int) -> MappedLabels:
        """Return the labels of size ``n``; KeyError if the cache was opened without that size."""
        return self._tables[n]

    def close(self) -> None:
        """Release the files; arrays that are still referenced stay mapped."""
        if self._lock >= 0:
            self._tables.clear()
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> LabelCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _remove_abandoned(folder: Path, store: Store) -> None:
    """Remove the caches of datasets that ``store`` no longer has."""
    datasets, mark = set(store.folders("labels")), _mark(store)
    for parent in folder.glob(f"[!.]*-{mark}"):
        if parent.name.removesuffix(f"-{mark}") not in datasets:
            for cache in [path for path in parent.iterdir() if path.is_dir()]:
                _remove(cache)
            with contextlib.suppress(OSError):  # one is open
                parent.rmdir()


def _mark(store: Store) -> str:
    return hashlib.sha256(store.uri.encode()).hexdigest()[:8]


def _completed(
    cache: Path, labels: Dataset, fingerprint: str, counts: Mapping[int, int], listener: Listener | None
) -> dict[int, MappedLabels]:
    """Return all sizes of ``counts`` after writing those that are missing."""
    building = _build_lock(cache, counts, listener)
    try:
        tables = _mapped(cache, counts)  # again: the previous holder of the lock may have built them
        missing = [n for n in counts if n not in tables]
        _check_room(cache, {n: counts[n] for n in missing})
        for n in missing:
            if listener:
                listener(len(tables), len(counts))
            write_mapped(_path(cache, n), _read(labels, n, counts[n]))
            tables |= _mapped(cache, {n: counts[n]})
        if missing:
            _check_unchanged(cache, labels, fingerprint, missing)
        if missing and listener:
            listener(len(tables), len(counts))
        return tables
    finally:
        os.close(building)


def _build_lock(cache: Path, counts: Mapping[int, int], listener: Listener | None) -> int:
    """Return the build lock once it is acquired; meanwhile, report the progress of its holder."""
    while True:
        try:
            return _locked(cache / _BUILD, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if listener:
                listener(len(_mapped(cache, counts)), len(counts))
            time.sleep(_POLL_SECONDS)


def _read(labels: Dataset, n: int, count: int) -> MappedLabels:
    parts = []
    for rows in labels.read_rows(n, count):
        for start in range(0, rows.num_rows, ROW_GROUP):  # the int64 arrays of a whole shard take a gigabyte
            parts.append(MappedLabels.of(LabelArrays.of(rows.slice(start, ROW_GROUP), n)))
    return MappedLabels.join(parts)


def _mapped(cache: Path, counts: Mapping[int, int]) -> dict[int, MappedLabels]:
    tables = {n: map_labels(_path(cache, n), n, rows) for n, rows in counts.items()}
    return {n: labels for n, labels in tables.items() if labels is not None}


def _path(cache: Path, n: int) -> Path:
    return cache / f"n={n:03d}.arrow"


def _check_room(cache: Path, counts: Mapping[int, int]) -> None:
    needed = sum(expected_bytes(n, rows) for n, rows in counts.items())
    free = free_space(cache)
    if counts and needed + _SPARE > free:
        raise McvrpError(
            f"the cache of labels in {cache} needs about {needed / 1e9:.1f} GB, the disk has "
            f"{free / 1e9:.1f} GB left: free space there, or set MCVRP_CACHE to another folder"
        )


def _check_unchanged(cache: Path, labels: Dataset, fingerprint: str, written: list[int]) -> None:
    if labels.fingerprint() != fingerprint:
        for n in written:
            _path(cache, n).unlink()
        raise McvrpError(
            f"the labels of dataset {labels.name!r} in {labels.store.url()} changed while they were read: "
            "run the same command again"
        )


def _remove(cache: Path) -> None:
    """Remove ``cache`` unless it is open."""
    with contextlib.suppress(OSError):  # it is open, being removed, or owned by another user
        lock = _locked(cache / _USE, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            # Renamed first: a process that opens this cache now must not find half of it.
            removed = cache.with_name(f".{cache.name}.{secrets.token_hex(4)}")
            cache.rename(removed)
            shutil.rmtree(removed)
        finally:
            os.close(lock)


def _locked(path: Path, how: int) -> int:
    """Return the descriptor of the locked file ``path``; BlockingIOError with LOCK_NB if the lock is held."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the folder has just been removed
            continue
        try:
            fcntl.flock(descriptor, how)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the file was removed during the wait: its lock protects nothing


@contextlib.contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise McvrpError(
            f"the cache of labels in {folder} cannot be written ({reason(error)}): free space there, "
            "or set MCVRP_CACHE to another folder"
        ) from error
