"""Cache of the labels of a dataset on local disk, read from the store once and mapped into memory.

A folder per fingerprint and format holds one file per size (`storage.labels.mapped`). All processes of the
machine share it under a lock: one builds the missing sizes, the others wait. Folders of an earlier state of
the dataset or of another format are removed; what is mapped stays readable.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from filelock import FileLock

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import ROW_GROUP
from mcvrp.storage.labels.mapped import MAPPED_FORMAT, MappedLabels, map_labels, write_mapped
from mcvrp.storage.layout import checked_name
from mcvrp.storage.store.store import Store

LabelCache = Mapping[int, MappedLabels]  # labels by size


def cached_labels(
    folder: Path, store: Store, dataset: str, fingerprint: str, counts: Mapping[int, int]
) -> LabelCache:
    """Return the first ``counts[n]`` labels of each size n, read from ``store`` if they are not cached.

    ``folder`` has all caches of this machine, ``fingerprint`` is `Dataset.fingerprint` of ``dataset``.
    McvrpError if labels are missing, have changed since the fingerprint was computed, or the disk refuses
    them.
    """
    mark = hashlib.sha256(store.uri.encode()).hexdigest()[:8]
    parent = folder / f"{checked_name('dataset', dataset)}-{mark}"
    cache = parent / f"{fingerprint}-v{MAPPED_FORMAT}"
    try:
        with _locked(cache):
            tables = _mapped(cache, counts)
            if len(tables) < len(counts):
                tables = _completed(cache, store, dataset, counts)
                if Dataset.listed(store, dataset).fingerprint() != fingerprint:
                    shutil.rmtree(cache)
                    raise McvrpError(
                        f"the labels of dataset {dataset!r} in {store.url()} changed while they were read: "
                        "run the same command again"
                    )
            for other in parent.iterdir():  # earlier states and other formats
                if other != cache and other.is_dir():
                    shutil.rmtree(other, ignore_errors=True)
    except OSError as error:
        raise McvrpError(
            f"the cache of labels in {folder} cannot be written ({reason(error)}): free space there, or set "
            "MCVRP_CACHE to another folder"
        ) from error
    return tables


@contextlib.contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Hold the lock of the caches of a dataset."""
    cache.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(cache.parent / ".lock"):
        cache.mkdir(exist_ok=True)
        yield


def _completed(cache: Path, store: Store, name: str, counts: Mapping[int, int]) -> dict[int, MappedLabels]:
    """Return all sizes of ``counts`` after writing those that are missing."""
    labels, tables = Dataset.listed(store, name), _mapped(cache, counts)
    for n in [n for n in counts if n not in tables]:
        write_mapped(_path(cache, n), _read(labels, n, counts[n]))
        tables |= _mapped(cache, {n: counts[n]})
    return tables


def _read(labels: Dataset, n: int, count: int) -> MappedLabels:
    parts = []
    for rows in labels.read_rows(n, count):
        for start in range(0, rows.num_rows, ROW_GROUP):  # the int64 arrays of a whole file take a gigabyte
            parts.append(MappedLabels.of(LabelArrays.of(rows.slice(start, ROW_GROUP), n)))
    return MappedLabels.join(parts)


def _mapped(cache: Path, counts: Mapping[int, int]) -> dict[int, MappedLabels]:
    tables = {n: map_labels(_path(cache, n), n, rows) for n, rows in counts.items()}
    return {n: labels for n, labels in tables.items() if labels is not None}


def _path(cache: Path, n: int) -> Path:
    return cache / f"n={n:03d}.arrow"
