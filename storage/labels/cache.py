"""Labels of a dataset on this machine's disk, read from the store once and mapped into memory.

A folder for each fingerprint and format holds a file a size (`storage.labels.mapped`). Every process
of the machine shares it: one builds what is missing, the others wait. What nobody has open and the
dataset no longer is, goes, and so do files of another format.
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
from types import TracebackType

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import ROW_GROUP
from mcvrp.storage.labels.mapped import MAPPED_FORMAT, MappedLabels, expected_bytes, map_labels, write_mapped
from mcvrp.storage.layout import checked_name, label_dir
from mcvrp.storage.store.store import Store, StoredFile

_USE = ".use"  # locked by who has the cache open (shared) or removes it (exclusive)
_BUILD = ".build"  # locked by who adds sizes
_POLL_SECONDS = 0.5
_SPARE = 2**26  # bytes that are left free on the disk

Told = Callable[[int, int], None]  # sizes that are done, sizes in all


class LabelCache:
    """Mapped labels by size; nobody removes their files before `close`. Use `open` to make one."""

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
        told: Told | None = None,
    ) -> LabelCache:
        """Return the first ``counts[n]`` labels of each size n, read from ``store`` where they are not here.

        Parameters
        ----------
        folder
            Of the caches of this machine.
        fingerprint
            Of what ``dataset`` holds, by `storage.labels.dataset.Dataset.fingerprint`.
        told
            Hears of the progress, if there is something to read.

        Raises
        ------
        McvrpError
            If labels are missing, have changed since the fingerprint was taken, or the disk has
            no room for them.
        """
        home = folder / f"{checked_name('dataset', dataset)}-{_mark(store)}"
        place = home / f"{fingerprint}-v{MAPPED_FORMAT}"
        with _refusals(folder):
            lock = _locked(place / _USE, fcntl.LOCK_SH)
        try:
            tables = _mapped(place, counts)
            if len(tables) < len(counts):
                with _refusals(folder):
                    labels = Dataset.open(store, dataset)
                    tables = _completed(place, labels, fingerprint, counts, told)
            _remove_others(place)
        except BaseException:
            os.close(lock)
            raise
        return cls(tables, lock)

    def labels(self, n: int) -> MappedLabels:
        """Return the labels of size ``n``; KeyError if it was opened without that size."""
        return self._tables[n]

    def close(self) -> None:
        """Let go of the files; arrays that somebody still uses stay mapped."""
        if self._lock >= 0:
            self._tables.clear()
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> LabelCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def abandoned_caches(folder: Path, store: Store) -> Iterator[tuple[Path, list[StoredFile]]]:
    """Yield the caches in ``folder`` of datasets that ``store`` has no longer, with their files."""
    mark = _mark(store)
    for place in sorted(folder.glob(f"*-{mark}")):
        dataset = place.name.removesuffix(f"-{mark}")
        if place.is_dir() and not place.name.startswith(".") and not store.list(label_dir(dataset)):
            found = [path for path in sorted(place.rglob("*")) if path.is_file()]
            yield place, [StoredFile(str(p), p.stat().st_size, p.stat().st_mtime) for p in found]


def remove_cache(place: Path) -> bool:
    """Remove the caches of a dataset at ``place`` that nobody has open; return whether all are gone."""
    for cache in [path for path in place.iterdir() if path.is_dir()]:
        _remove(cache)
    with contextlib.suppress(OSError):  # somebody has one open
        place.rmdir()
    return not place.exists()


def _mark(store: Store) -> str:
    return hashlib.sha256(store.uri.encode()).hexdigest()[:8]


def _completed(
    place: Path, labels: Dataset, fingerprint: str, counts: Mapping[int, int], told: Told | None
) -> dict[int, MappedLabels]:
    """Return all sizes of ``counts``, having written those that are missing."""
    building = _turn(place, counts, told)
    try:
        tables = _mapped(place, counts)  # whoever had the lock before has built them
        missing = [n for n in counts if n not in tables]
        _check_room(place, {n: counts[n] for n in missing})
        for n in missing:
            if told:
                told(len(tables), len(counts))
            write_mapped(_path(place, n), _read(labels, n, counts[n]))
            tables |= _mapped(place, {n: counts[n]})
        if missing:
            _check_unchanged(place, labels, fingerprint, missing)
        if missing and told:
            told(len(tables), len(counts))
        return tables
    finally:
        os.close(building)


def _turn(place: Path, counts: Mapping[int, int], told: Told | None) -> int:
    """Return the lock of who builds, once we have it; meanwhile, tell how far another has come."""
    while True:
        try:
            return _locked(place / _BUILD, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if told:
                told(len(_mapped(place, counts)), len(counts))
            time.sleep(_POLL_SECONDS)


def _read(labels: Dataset, n: int, count: int) -> MappedLabels:
    parts = []
    for rows in labels.read_rows(n, count):
        for start in range(0, rows.num_rows, ROW_GROUP):  # a shard's int64 arrays would take a gigabyte
            parts.append(MappedLabels.of(LabelArrays.of(rows.slice(start, ROW_GROUP), n)))
    return MappedLabels.join(parts)


def _mapped(place: Path, counts: Mapping[int, int]) -> dict[int, MappedLabels]:
    tables = {n: map_labels(_path(place, n), n, rows) for n, rows in counts.items()}
    return {n: labels for n, labels in tables.items() if labels is not None}


def _path(place: Path, n: int) -> Path:
    return place / f"n={n:03d}.arrow"


def _check_room(place: Path, counts: Mapping[int, int]) -> None:
    needed = sum(expected_bytes(n, rows) for n, rows in counts.items())
    free = shutil.disk_usage(place).free
    if counts and needed + _SPARE > free:
        raise McvrpError(
            f"the cache of labels in {place} needs about {needed / 1e9:.1f} GB, the disk has "
            f"{free / 1e9:.1f} GB left: make room there, or name another folder by MCVRP_CACHE"
        )


def _check_unchanged(place: Path, labels: Dataset, fingerprint: str, written: list[int]) -> None:
    if labels.fingerprint() != fingerprint:
        for n in written:
            _path(place, n).unlink()
        raise McvrpError(
            f"the labels of dataset {labels.name!r} in {labels.store.url()} changed while they were read: "
            "run again"
        )


def _remove_others(place: Path) -> None:
    """Remove what the dataset was before, and what is of another format, unless somebody has it open."""
    for other in place.parent.iterdir():
        if other != place and other.is_dir():
            _remove(other)


def _remove(cache: Path) -> None:
    with contextlib.suppress(OSError):  # somebody has it open or removes it, or it is not ours
        lock = _locked(cache / _USE, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            # Under another name first: who opens this cache now shall not find half of it.
            gone = cache.with_name(f".{cache.name}.{secrets.token_hex(4)}")
            cache.rename(gone)
            shutil.rmtree(gone)
        finally:
            os.close(lock)


def _locked(path: Path, how: int) -> int:
    """Return the descriptor of the file at ``path``, locked; BlockingIOError if it may not wait for that."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the folder has been removed just now
            continue
        try:
            fcntl.flock(descriptor, how)
            if _is(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was removed while we waited: that lock protects nothing


def _is(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


@contextlib.contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise McvrpError(
            f"the cache of labels in {folder} cannot be written ({reason(error)}): make room there, "
            "or name another folder by MCVRP_CACHE"
        ) from error
