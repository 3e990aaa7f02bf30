"""Cache of the labels of a dataset on local disk, read from the store once and mapped into memory.

A folder per fingerprint and format holds one Arrow (IPC) file per size with one uncompressed record batch, so
that its columns are the arrays. All processes of the machine share it under a lock: one builds the missing
sizes, the others wait. Folders of an earlier state of the dataset or of another format are removed; what is
mapped stays readable.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from filelock import FileLock
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import ROW_GROUP
from mcvrp.storage.layout import checked_name
from mcvrp.storage.store.store import Store

MAPPED_FORMAT = 3  # of the files


@dataclass(frozen=True, eq=False)
class MappedLabels:
    """N labels of ``n`` customers in read-only arrays.

    A row is a sequence 0, route, 0, ..., 0 of positions in the instance: 0 is the depot, k the k-th of
    ``ids``. Row r is ``positions[offsets[r]:offsets[r + 1]]``.
    """

    n: int
    ids: NDArray[np.unsignedinteger]  # (N, n), node numbers, ascending, uint16 or uint32
    demands: NDArray[np.unsignedinteger]  # (N, n), uint8 or uint16
    capacities: NDArray[np.uint32]  # (N,)
    positions: NDArray[np.unsignedinteger]  # of all rows, concatenated, uint8 or uint16
    offsets: NDArray[np.int64]  # (N + 1,)

    @classmethod
    def of(cls, labels: LabelArrays) -> MappedLabels:
        """Return ``labels`` in the smallest types that hold them."""
        return cls(
            n=labels.ids.shape[1],
            ids=_narrow(labels.ids, np.uint16, np.uint32),
            demands=_narrow(labels.demands, np.uint8, np.uint16),
            capacities=labels.capacities,
            positions=_positions(labels.ids, labels.paths, labels.offsets),
            offsets=labels.offsets,
        )

    @classmethod
    def join(cls, parts: Sequence[MappedLabels]) -> MappedLabels:
        """Return the rows of all ``parts``, which are of one size, in order."""
        starts = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("ids", "demands", "capacities", "positions")
        }
        return cls(n=parts[0].n, **arrays, offsets=np.concatenate([np.zeros(1, np.int64), *offsets]))

    def __len__(self) -> int:
        return len(self.ids)


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
        _write_mapped(_path(cache, n), _read(labels, n, counts[n]))
        tables |= _mapped(cache, {n: counts[n]})
    return tables


def _read(labels: Dataset, n: int, count: int) -> MappedLabels:
    parts = []
    for rows in labels.read_rows(n, count):
        for start in range(0, rows.num_rows, ROW_GROUP):  # the int64 arrays of a whole file take a gigabyte
            parts.append(MappedLabels.of(LabelArrays.of(rows.slice(start, ROW_GROUP), n)))
    return MappedLabels.join(parts)


def _mapped(cache: Path, counts: Mapping[int, int]) -> dict[int, MappedLabels]:
    tables = {n: _map_labels(_path(cache, n), n, rows) for n, rows in counts.items()}
    return {n: labels for n, labels in tables.items() if labels is not None}


def _path(cache: Path, n: int) -> Path:
    return cache / f"n={n:03d}.arrow"


def _write_mapped(path: Path, labels: MappedLabels) -> None:
    """Write ``labels`` to ``path``, whole or not at all; OSError if the disk refuses."""
    columns = {
        "ids": pa.FixedSizeListArray.from_arrays(labels.ids.reshape(-1), labels.n),
        "demands": pa.FixedSizeListArray.from_arrays(labels.demands.reshape(-1), labels.n),
        "capacity": pa.array(labels.capacities),
        "path": pa.LargeListArray.from_arrays(labels.offsets, labels.positions),
    }
    batch = pa.record_batch(columns)
    aside = path.with_name(f".{path.name}.tmp")
    try:
        with aside.open("wb") as stream:
            with pa.ipc.new_file(stream, batch.schema) as file:
                file.write_batch(batch)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _map_labels(path: Path, n: int, rows: int) -> MappedLabels | None:
    """Return the ``rows`` labels of size ``n`` in the file ``path``, mapped; None if it is another."""
    try:
        with pa.memory_map(str(path)) as file:  # hundreds of sizes must not take a file descriptor each
            data = file.read_buffer()
        batch = pa.ipc.open_file(data).get_batch(0)
        if batch.num_rows != rows:
            return None
        ids, demands, capacities, positions = batch.columns
        return MappedLabels(
            n=n,
            ids=ids.values.to_numpy().reshape(rows, n),
            demands=demands.values.to_numpy().reshape(rows, n),
            capacities=capacities.to_numpy(),
            positions=positions.values.to_numpy(),
            offsets=positions.offsets.to_numpy(),
        )
    except (OSError, LookupError, TypeError, ValueError, pa.ArrowException):  # absent, truncated or foreign
        return None


def _narrow(
    array: NDArray[np.unsignedinteger], small: type[np.unsignedinteger], large: type[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    return array.astype(small if array.max(initial=0) <= np.iinfo(small).max else large)


def _positions(
    ids: NDArray[np.unsignedinteger], nodes: NDArray[np.unsignedinteger], offsets: NDArray[np.int64]
) -> NDArray[np.unsignedinteger]:
    """Return the position of each of ``nodes`` in its row of ``ids``, counted from 1; the depot is 0."""
    rows, n = ids.shape
    known = np.concatenate([np.zeros((rows, 1), ids.dtype), ids], axis=1)  # ascending
    keys = (np.arange(rows)[:, None] << 32) + known  # ascending over all rows
    row = np.repeat(np.arange(rows), np.diff(offsets))
    positions = np.searchsorted(keys.ravel(), (row << 32) + nodes) - row * (n + 1)
    return positions.astype(np.uint8 if n < 2**8 else np.uint16)
